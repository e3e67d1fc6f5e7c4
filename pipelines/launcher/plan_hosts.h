/* Names the hosts on which a plan lets its instances run. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_PLAN_HOSTS_H
#define ICESTREAM_PIPELINES_LAUNCHER_PLAN_HOSTS_H

#include "pipelines/launcher/host/placement.h"
#include "pipelines/launcher/plan.h"

/* Returns what an instance needs of its host. The texts are those of the graph. */
struct placement_wish plan_wish(const struct plan *plan, const struct plan_instance *instance);
/* Returns the host of an instance for the user: the name of one, "launcher", "any", or "any with a GPU". */
const char *plan_host_of(const struct plan *plan, const struct plan_instance *instance);
/* Returns the hosts that the graph names, or NULL. */
const struct graph_value *plan_named_hosts(const struct graph *graph);

#endif
