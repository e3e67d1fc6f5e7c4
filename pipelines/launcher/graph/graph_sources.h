/* Sources: the stages at which items begin, and which an item names on its whole way. A stage without `from` is one,
 * and so is a cumulative stage for what it makes of many items. The check of the edges calls these functions. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_GRAPH_GRAPH_SOURCES_H
#define ICESTREAM_PIPELINES_LAUNCHER_GRAPH_GRAPH_SOURCES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "pipelines/launcher/graph/graph.h"

/* Returns whether items begin at this stage; what comes into a cumulative stage ends there. */
bool graph_is_source(const struct graph_stage *stage);
/* Marks the stages that items of `source` leave. order: all stages, each after those that feed it. leaves: one flag for
 * each stage. */
void graph_reach(const struct graph *graph, const size_t *order, size_t source, bool *leaves);

/* Adds a problem for each stage that gets the items of one source on two ways, and sets graph->separate. NO_MEMORY is
 * the only error. */
enum status graph_check_sources(struct graph *graph, const size_t *order, struct problems *problems, struct err *err);
/* Adds a problem for each stage in which a selection, which replaces all particles before it, would meet the items of
 * another stage. provided: the members of the items that leave each stage. */
void graph_check_selections(const struct graph *graph, json_t *const *provided, struct problems *problems);

#endif
