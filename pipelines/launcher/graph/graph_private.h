/* Declares the functions that the files that read a graph share. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_GRAPH_GRAPH_PRIVATE_H
#define ICESTREAM_PIPELINES_LAUNCHER_GRAPH_GRAPH_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"
#include "pipelines/launcher/graph/graph.h"

/* Checks whether the text may be read as a graph; if not, the reason is among the problems. Text that is not YAML
 * passes. */
enum status graph_check_shape(const char *text, size_t length, struct problems *problems, bool *ret_good,
                              struct err *err);

/* Adds an empty entry with that key at the end. */
enum status graph_entry_add(struct graph_section *section, const char *key, int line, struct graph_entry **ret_entry,
                            struct err *err);
/* Adds a text to the end of a value. */
enum status graph_value_append(struct graph_value *value, const char *text, size_t length, struct err *err);

#endif
