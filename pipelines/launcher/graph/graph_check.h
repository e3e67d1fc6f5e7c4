/* Fills the members of a graph that follow from its text, and adds everything that is wrong to problems. Finds the
 * programs and asks them to describe themselves. Checks keys and values against these descriptions, and edges against
 * what items contain there. Starts no stage. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_GRAPH_GRAPH_CHECK_H
#define ICESTREAM_PIPELINES_LAUNCHER_GRAPH_GRAPH_CHECK_H

#include "pipelines/launcher/graph/graph.h"
#include "pipelines/launcher/machine.h"

/* Checks a graph that has been parsed. */
enum status graph_check(struct graph *graph, const struct machine *machine, struct problems *problems, struct err *err);

/* Returns whether any stage may have this key, besides its own ("from", "replicas", …). */
bool graph_is_common_key(const char *key);

/* Derives diameters and a box that the graph leaves open from a diameter that it gives elsewhere (graph_derive.c). */
enum status graph_derive(struct graph *graph, struct problems *problems, struct err *err);
/* Call this once the edges are known: when all stages after a watcher count in pixels, its images need no pixel
 * size. */
enum status graph_derive_scaled(struct graph *graph, struct err *err);

/* Call this once the edges are known: a watcher before a stage that takes movies watches movies. Reports a watcher that
 * feeds stages of both kinds, or whose own `movies` does not fit. */
enum status graph_derive_movies(struct graph *graph, struct problems *problems, struct err *err);

/* Call this once the edges are known: where a stage behind a watcher estimates the CTF, a micrograph without a row in the
 * watcher's table goes on to that stage (`ctf_missing: without`), unless the graph says otherwise. */
enum status graph_derive_ctf(struct graph *graph, struct err *err);

/* Call this once the edges are known, for a graph without errors: states `memory` of classifiers and refiners that leave
 * it out, or auto, and share a GPU with other instances (graph_memory.c). Warns of what asks for more than a GPU has. */
enum status graph_derive_memory(struct graph *graph, const struct machine *machine, struct problems *problems,
                                struct err *err);
/* Writes what a stage may take of a GPU, as users read it: "24 GiB", "auto"; "" for a stage that cannot tell. */
void graph_memory_text(const struct graph_stage *stage, char *text, size_t size);

/* Checks the edges (graph_edges.c): which stage feeds which, cycles, and whether each stage finds in its items what it
 * needs. */
enum status graph_check_edges(struct graph *graph, struct problems *problems, struct err *err);

#endif
