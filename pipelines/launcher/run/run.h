/* Runs a session from start to end: its folder, its processes, their instance files, and the final counts. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_RUN_RUN_H
#define ICESTREAM_PIPELINES_LAUNCHER_RUN_RUN_H

#include "pipelines/launcher/options.h"
#include "pipelines/launcher/plan.h"
#include "pipelines/launcher/replay.h"

/* Runs a checked graph; replay is NULL for a live run. Returns the exit code. */
int run_graph(const struct options *options, struct graph *graph, struct plan *plan, struct replay *replay);

#endif
