/* Makes the parameters of a stage and of the session for an instance file. */
#include <string.h>

#include "pipelines/launcher/graph/graph.h"

static bool is_among(const char *key, const char *const *keys, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(key, keys[i]) == 0) return true;
    return false;
}

static json_t *params_without(const struct graph_section *section, const char *const *keys, size_t count) {
    json_t *object = json_object();
    for (size_t i = 0; i < section->count; i++)
        if (!is_among(section->entries[i].key, keys, count))
            json_object_set_new(object, section->entries[i].key, graph_value_json(&section->entries[i].value));
    return object;
}

json_t *graph_stage_params(const struct graph_stage *stage) {
    static const char *const KEYS[] = {"from", "replicas", "program", "gpu", "threads", "device", "on"};
    return params_without(&stage->section, KEYS, sizeof KEYS / sizeof *KEYS);
}

json_t *graph_session_params(const struct graph *graph) {
    static const char *const KEYS[] = {"threads", "transport", "listen", "inputs", "web",    "hosts", "control_port",
                                       "notify",  "defocus",   "alarms", "ledger", "engine", "slurm"};
    return params_without(&graph->session, KEYS, sizeof KEYS / sizeof *KEYS);
}
