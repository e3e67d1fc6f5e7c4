/* Prints a graph as the graph.yaml of a session, and compares two graphs. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_GRAPH_GRAPH_PRINT_H
#define ICESTREAM_PIPELINES_LAUNCHER_GRAPH_GRAPH_PRINT_H

#include <stddef.h>

#include "common/status.h"
#include "pipelines/launcher/graph/graph.h"

/* Prints the resolved graph, with the versions of the programs; the caller frees the text. */
enum status graph_print(const struct graph *graph, char **ret_text, struct err *err);
/* Describes the first difference that matters to results; "" when there is none. */
void graph_difference(const struct graph *old, const struct graph *new, char *text, size_t size);

#endif
