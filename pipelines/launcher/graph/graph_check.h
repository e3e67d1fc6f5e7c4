/* What a graph means, and everything that is wrong with it: programs are found and asked to describe themselves, keys
 * and values are checked against that, edges against what items hold there. Nothing is started. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_GRAPH_GRAPH_CHECK_H
#define ICESTREAM_PIPELINES_LAUNCHER_GRAPH_GRAPH_CHECK_H

#include "pipelines/launcher/graph/graph.h"
#include "pipelines/launcher/machine.h"

enum status graph_check(struct graph *graph, const struct machine *machine, struct problems *problems, struct err *err);

/* Keys that any stage may have, besides its own ("from", "replicas", …). */
bool graph_is_common_key(const char *key);

/* Diameters and a box that the graph leaves open, from a diameter that it gives elsewhere (graph_derive.c). */
enum status graph_derive(struct graph *graph, struct problems *problems, struct err *err);
/* After the edges are known: images of a watcher whose followers all count in pixels need no pixel size. */
enum status graph_derive_scaled(struct graph *graph, struct err *err);

/* Edges (graph_edges.c): who feeds whom, cycles, and whether each stage finds in its items what it needs. */
enum status graph_check_edges(struct graph *graph, struct problems *problems, struct err *err);

#endif
