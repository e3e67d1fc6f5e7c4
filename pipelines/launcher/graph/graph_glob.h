/* Parameters of type `glob`: paths with wildcards, such as picks_?.box. They need not fit any file yet. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_GRAPH_GRAPH_GLOB_H
#define ICESTREAM_PIPELINES_LAUNCHER_GRAPH_GRAPH_GLOB_H

#include "pipelines/launcher/graph/graph.h"

/* Makes a glob absolute: beside the graph if its folder is there, else in the working directory. Reports a value that
 * is a list. */
enum status graph_glob_check(const struct graph *graph, struct graph_stage *stage, struct graph_entry *entry,
                             struct problems *problems, struct err *err);
/* Writes the folder above the first part with a wildcard: "/data/a*b.star" → "/data". folder: PATH_SIZE. */
enum status graph_glob_folder(const char *glob, char *folder, struct err *err);

#endif
