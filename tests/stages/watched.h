/* Makes a watched folder in the scratch folder of a test, and files in it that appear, grow and vanish. */
#ifndef ICESTREAM_TESTS_STAGES_WATCHED_H
#define ICESTREAM_TESTS_STAGES_WATCHED_H

#include "tests/common/scratch.h"

enum { WATCHED_WHOLE = -1 };

/* Writes an MRC of nx × ny bytes (mode 0), the first `bytes` of the file or WATCHED_WHOLE. `name` below the scratch
 * folder; folders on the way are made. */
void watched_put(const char *name, int nx, int ny, long bytes);
/* As watched_put, with a pixel size in the header. */
void watched_put_sized(const char *name, int nx, int ny, float pixel_size, long bytes);
/* Writes the smallest PNG: 1 × 1, grey. */
void watched_picture(const char *name);
void watched_put_text(const char *name, const char *text);
/* Sets the time of change, s since 1970. */
void watched_date(const char *name, long seconds);
void watched_remove(const char *name);
void watched_rename(const char *from, const char *to);
void watched_link(const char *target, const char *name);
void watched_folder(const char *name);

#endif
