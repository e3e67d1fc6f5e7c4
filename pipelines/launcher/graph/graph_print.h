/* Prints a graph as the graph.yaml of a session, and compares two graphs. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_GRAPH_GRAPH_PRINT_H
#define ICESTREAM_PIPELINES_LAUNCHER_GRAPH_GRAPH_PRINT_H

#include <stddef.h>

#include "common/status.h"
#include "pipelines/launcher/graph/graph.h"

/* Prints the resolved graph, with the versions of the programs; the caller frees the text. */
enum status graph_print(const struct graph *graph, char **ret_text, struct err *err);
/* A difference between two graphs that matters to results: a value, or a stage that is gone or new (key NULL). */
struct graph_difference {
    const char *section, *key;                /* "lowpass-picker", "diameter" */
    const struct graph_stage *stage;          /* in the new graph; NULL: session, or a stage that is gone */
    const struct graph_entry *before, *after; /* NULL: not set */
};
/* Visits the differences until `visit` returns true. */
typedef bool graph_difference_visit(const struct graph_difference *difference, void *context);
void graph_differences(const struct graph *old, const struct graph *new, graph_difference_visit *visit, void *context);
/* Writes "lowpass-picker.diameter was 100 and is 120". */
void graph_difference_text(const struct graph_difference *difference, char *text, size_t size);
/* Describes the first difference; "" when there is none. */
void graph_difference(const struct graph *old, const struct graph *new, char *text, size_t size);

#endif
