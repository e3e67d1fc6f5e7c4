#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "pipelines/session.h"

/* What the launcher alone needs to know. */
static bool for_launcher_only(const char *key) {
    static const char *const keys[] = {"from", "replicas", "program", "gpu", "threads", "device"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return false;
}

static json_t *section_json(const struct graph_section *section, bool all) {
    json_t *object = json_object();
    for (size_t i = 0; i < section->count; i++)
        if (all || !for_launcher_only(section->entries[i].key))
            json_object_set_new(object, section->entries[i].key, graph_value_json(&section->entries[i].value));
    return object;
}

static json_t *edges_json(const struct plan *plan, size_t instance, bool inputs) {
    json_t *list = json_array();
    for (size_t i = 0; i < plan->edge_count; i++) {
        const struct plan_edge *edge = &plan->edges[i];
        if (inputs ? edge->to != plan->instances[instance].stage : edge->instance != instance)
            continue;
        json_t *object = json_pack("{s:s, s:s, s:s}", "edge", edge->name, "data", edge->data, "ack", edge->ack);
        if (!inputs)
            json_object_set_new(object, "window", json_integer(edge->window));
        json_array_append_new(list, object);
    }
    return list;
}

static json_t *instance_json(const struct session *session, const struct plan *plan, size_t index,
                             const struct instance_orders *orders, struct err *err) {
    const struct plan_instance *instance = &plan->instances[index];
    const struct graph_stage *stage = &plan->graph->stages[instance->stage];
    static const char *const endings[] = {".log", ".heartbeat.json", ".current"};
    char paths[3][PATH_SIZE], ledger[PATH_SIZE];
    for (int i = 0; i < 3; i++)
        if (session_file(session, "log", instance->name, endings[i], paths[i], err) != STATUS_OK)
            return NULL;
    if (session_file(session, "ledger", stage->section.name, ".sqlite", ledger, err) != STATUS_OK)
        return NULL;
    json_t *session_params = section_json(&plan->graph->session, true);
    json_object_del(session_params, "transport");
    return json_pack("{s:i, s:s, s:i, s:i, s:i, s:s, s:o, s:o, s:o, s:o, s:o, s:s, s:i, s:i, s:o, s:s, s:s, s:I, s:s, s:s}", //
                     "v", 1, "name", stage->section.name, "instance", instance->replica, "replicas", stage->replicas,
                     "run", session->run, "session", session->path, "session_params", session_params, "params",
                     section_json(&stage->section, false), "inputs", edges_json(plan, index, true), "outputs",
                     edges_json(plan, index, false), "until_idle",
                     orders->until_idle >= 0 ? json_real(orders->until_idle) : json_null(), "device", instance->device,
                     "threads", instance->threads, "flush_threads", instance->flush_threads, "curve",
                     orders->curve_public ? json_pack("{s:s, s:s}", "public", orders->curve_public, "secret",
                                                      orders->curve_secret)
                                          : json_null(),
                     "ledger", ledger, "log", paths[0], "log_size", (json_int_t)orders->log_size, "heartbeat", paths[1], "current", paths[2]);
}

enum status instance_write(const struct session *session, const struct plan *plan, size_t index,
                           const struct instance_orders *orders, struct err *err) {
    char path[PATH_SIZE];
    TRY(session_file(session, "log", plan->instances[index].name, ".instance.json", path, err));
    struct err inner = {0};
    json_t *object = instance_json(session, plan, index, orders, &inner);
    FAIL_IF(object == NULL, err, STATUS_NO_MEMORY, "%s: %s", path, inner.message[0] ? inner.message : "no memory");
    char *text = json_dumps(object, JSON_INDENT(1) | JSON_REAL_PRECISION(15));
    json_decref(object);
    FAIL_IF(text == NULL, err, STATUS_NO_MEMORY, "%s: no memory", path);
    /* The orders of an encrypted session hold its secret. */
    mode_t mask = orders->curve_secret ? umask(077) : 0;
    enum status status = file_write_whole(path, text, strlen(text), err);
    if (orders->curve_secret)
        umask(mask);
    free(text);
    return status;
}
