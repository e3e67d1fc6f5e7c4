/* Makes a checked graph and its plan from a path, for check, run and replay. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_CHECK_H
#define ICESTREAM_PIPELINES_LAUNCHER_CHECK_H

#include "pipelines/launcher/graph/graph.h"
#include "pipelines/launcher/options.h"
#include "pipelines/launcher/plan.h"

/* A value to set before the check, besides those of --set: replay sets the directory of its watcher. */
struct preset {
    const char *kind; /* kind of the stages to set it for: "watcher" */
    const char *key, *value;
};

/* Reads the graph, applies --set, checks, and prints every problem to standard error. Returns the exit code: with
 * EXIT_OK, graph and plan are filled; with EXIT_USAGE or EXIT_ERROR, they are empty. preset may be NULL. */
int check_graph(const char *path, const struct options *options, const struct preset *preset, struct graph **ret_graph,
                struct plan *ret_plan);

#endif
