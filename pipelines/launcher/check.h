/* From a path to a checked graph and its plan, as check, run and replay need them. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_CHECK_H
#define ICESTREAM_PIPELINES_LAUNCHER_CHECK_H

#include "pipelines/launcher/graph/graph.h"
#include "pipelines/launcher/options.h"
#include "pipelines/launcher/plan.h"

/* A value put in before the check, besides --set: what replay feeds its watcher. */
struct preset {
    const char *kind; /* of the stages it is for: "watcher" */
    const char *key, *value;
};

/* Reads the graph, applies --set, checks, prints every problem to stderr. Returns the exit code: EXIT_OK, and graph and
 * plan are filled; or EXIT_USAGE or EXIT_ERROR, and they are empty. preset may be NULL. */
int check_graph(const char *path, const struct options *options, const struct preset *preset, struct graph **ret_graph,
                struct plan *ret_plan);

#endif
