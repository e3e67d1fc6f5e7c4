#include "pipelines/launcher/plan_hosts.h"

#include <string.h>

#include "pipelines/launcher/session.h"

const struct graph_value *plan_named_hosts(const struct graph *graph) {
    const struct graph_entry *entry = graph_entry(&graph->session, "hosts");
    return entry != NULL ? &entry->value : NULL;
}

/* Sources look into folders, which are at hand where the launcher runs; programs of others keep their ledgers in files of
 * SQLite, which only one host can share. */
struct placement_wish plan_wish(const struct plan *plan, const struct plan_instance *instance) {
    const struct graph_stage *stage = &plan->graph->stages[instance->stage];
    bool gpu = stage->gpu_auto || stage->gpu_count > 0 ||
               (stage->device != NULL && strncmp(stage->device, "cuda", strlen("cuda")) == 0);
    return (struct placement_wish){
        .on = stage->on, .bound = plan_is_source(stage) || !session_is_ours(stage->program), .gpu = gpu};
}

const char *plan_host_of(const struct plan *plan, const struct plan_instance *instance) {
    struct placement_wish wish = plan_wish(plan, instance);
    if (wish.on != NULL && !placement_is_kind(wish.on)) return placement_is_own(wish.on) ? "launcher" : wish.on;
    if (wish.bound) return "launcher";
    if (wish.on != NULL) return strcmp(wish.on, "gpu") == 0 ? "any with a GPU" : "any without a GPU";
    return wish.gpu ? "any with a GPU" : "any";
}
