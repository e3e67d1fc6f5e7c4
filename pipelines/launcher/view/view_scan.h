/* Reads numbers out of an item's JSON without building objects: a session has many items, and most of an item is of no
 * interest to the table of exposures. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_VIEW_VIEW_SCAN_H
#define ICESTREAM_PIPELINES_LAUNCHER_VIEW_VIEW_SCAN_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

/* Takes one number. name: "rlnDefocusU" of the item's columns, or "picks.count"; not terminated. */
typedef enum status view_number(const char *name, size_t length, double value, void *context, struct err *err);
/* Visits each number of `columns` under its own name, and the counts and scores of its other members under names with a
 * dot. Any text is safe; what is no JSON object has no numbers. */
enum status view_scan(const char *text, view_number *visit, void *context, struct err *err);
/* Returns what an item names that can be shown: a mask of enum view_shows. */
unsigned view_scan_shows(const char *text);
/* Copies the text of a member of a member ("movie", "path"), as it is written: escapes stay. Returns false when there is
 * none, or when it does not fit. */
bool view_scan_text(const char *text, const char *object, const char *name, char *out, size_t size);

#endif
