#include "pipelines/launcher/run/instance.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "pipelines/launcher/graph/graph_glob.h"
#include "pipelines/launcher/program.h"

static json_t *edges_json(const struct plan *plan, size_t instance, bool inputs) {
    json_t *list = json_array();
    for (size_t i = 0; i < plan->edge_count; i++) {
        const struct plan_edge *edge = &plan->edges[i];
        if (inputs ? edge->to != plan->instances[instance].stage : edge->instance != instance) continue;
        json_t *object = json_pack("{s:s, s:s, s:s}", "edge", edge->name, "data", edge->data, "ack", edge->ack);
        const json_t *describe = plan->graph->stages[edge->to].describe;
        if (!inputs) json_object_set_new(object, "window", json_integer(edge->window));
        if (!inputs && !json_is_true(json_object_get(describe, "revisions")))
            json_object_set_new(object, "revisions", json_false());
        json_array_append_new(list, object);
    }
    return list;
}

static void add_folder(json_t *list, const char *path) {
    json_array_append_new(list, json_string(path));
}

/* Adds the input folders of a stage. A source may read what its tables name, beside these tables; of the other files
 * that the graph names, only the files themselves. A path that is away may be a folder, too. */
static void add_inputs(json_t *list, const struct graph_stage *stage) {
    size_t i;
    const json_t *param;
    char folder[PATH_SIZE];
    json_array_foreach(program_params(stage->describe), i, param) {
        const char *name = json_string_value(json_object_get(param, "name"));
        const char *type = json_string_value(json_object_get(param, "type"));
        const struct graph_entry *entry = name != NULL ? graph_entry(&stage->section, name) : NULL;
        if (type == NULL || entry == NULL || entry->value.count != 1) continue;
        const char *path = entry->value.texts[0];
        if (strcmp(type, "glob") == 0 && graph_glob_folder(path, folder, NULL) == STATUS_OK) add_folder(list, folder);
        if (strcmp(type, "path") != 0) continue;
        bool is_file = json_is_true(json_object_get(param, "may_come")) || file_exists(path);
        bool beside = plan_is_source(stage) && is_file && !file_is_folder(path) &&
                      path_folder(path, folder, sizeof folder, NULL) == STATUS_OK;
        add_folder(list, beside ? folder : path);
    }
}

/* Lists where items may name files besides the session: input folders, and folders of stages that the user has put
 * elsewhere. */
static json_t *folders_json(const struct session *session, const struct plan *plan,
                            const struct instance_orders *orders) {
    json_t *list = json_array();
    for (size_t i = 0; i < plan->graph->stage_count; i++) {
        const struct graph_stage *stage = &plan->graph->stages[i];
        char path[PATH_SIZE];
        struct stat info;
        add_inputs(list, stage);
        if (path_join(session->path, stage->section.name, path, sizeof path, NULL) == STATUS_OK &&
            lstat(path, &info) == 0 && S_ISLNK(info.st_mode))
            add_folder(list, path);
    }
    const struct graph_entry *inputs = graph_entry(&plan->graph->session, "inputs");
    for (size_t i = 0; inputs != NULL && i < inputs->value.count; i++)
        add_folder(list, inputs->value.texts[i]);
    if (orders->recorded != NULL) add_folder(list, orders->recorded);
    return list;
}

static json_t *instance_json(const struct session *session, const struct plan *plan, size_t index,
                             const struct instance_orders *orders, struct err *err) {
    const struct plan_instance *instance = &plan->instances[index];
    const struct graph_stage *stage = &plan->graph->stages[instance->stage];
    static const char *const endings[] = {".log", ".heartbeat.json", ".current"};
    char paths[3][PATH_SIZE], ledger[PATH_SIZE];
    for (int i = 0; i < 3; i++)
        if (session_file(session, "log", instance->name, endings[i], paths[i], err) != STATUS_OK) return NULL;
    if (session_ledger_path(session, stage->section.name, false, ledger, err) != STATUS_OK) return NULL;
    return json_pack(
        "{s:i, s:s, s:s, s:i, s:i, s:i, s:s, s:o, s:o, s:o, s:o, s:o, s:s, s:i, s:i, s:o, s:i, s:i, s:o, s:s, s:s,"
        " s:I, s:s, s:s, s:b, s:i}",
        "v", 1, "session_id", session->id, "name", stage->section.name, "instance", instance->replica, "replicas",
        stage->replicas, "run", session->run, "session", session->path, "session_params",
        graph_session_params(plan->graph), "params", graph_stage_params(stage), "inputs", edges_json(plan, index, true),
        "outputs", edges_json(plan, index, false), "until_idle",
        orders->until_idle >= 0 ? json_real(orders->until_idle) : json_null(), "device", instance->device, "threads",
        instance->threads, "flush_threads", instance->flush_threads, "curve",
        orders->curve_public ? json_pack("{s:s, s:s}", "public", orders->curve_public, "secret", orders->curve_secret)
                             : json_null(),
        "one_by_one", instance->one_by_one, "deaths", instance->deaths, "folders", folders_json(session, plan, orders),
        "ledger", ledger, "log", paths[0], "log_size", (json_int_t)orders->log_size, "heartbeat", paths[1], "current",
        paths[2], "separate", session->separate, "change", instance->change);
}

/* Adds what only some sessions have: listening sockets, and other hosts. */
static enum status add_places(json_t *object, const struct instance_orders *orders, struct err *err) {
    if (orders->listeners != NULL) TRY(listeners_fill(orders->listeners, object, err));
    FAIL_IF(orders->shared && json_object_set_new(object, "shared", json_true()) != 0, err, STATUS_NO_MEMORY,
            "no memory for the orders");
    if (orders->endpoints == NULL) return STATUS_OK;
    FAIL_IF(json_object_set_new(object, "endpoints", json_string(orders->endpoints)) != 0 ||
                json_object_set_new(object, "endpoints_number", json_integer(orders->endpoints_number)) != 0,
            err, STATUS_NO_MEMORY, "no memory for the endpoints");
    return STATUS_OK;
}

/* The orders of an encrypted session hold its secret key; nobody else needs to read those of others either. */
enum status instance_write_private(const char *path, const char *text, struct err *err) {
    struct file_output *output = NULL;
    TRY(file_create(path, &output, err));
    FILE *stream = file_output_stream(output);
    if (fchmod(fileno(stream), 0600) != 0) {
        file_discard(&output);
        FAIL(err, STATUS_IO, "%s: cannot be kept from other users: %s", path, strerror(errno));
    }
    (void)!fputs(text, stream); /* file_commit checks the stream's error mark */
    return file_commit(&output, err);
}

enum status instance_write(const struct session *session, const struct plan *plan, size_t index,
                           const struct instance_orders *orders, struct err *err) {
    char path[PATH_SIZE];
    TRY(session_file(session, "log", plan->instances[index].name, ".instance.json", path, err));
    struct err own = {0};
    json_t *object = instance_json(session, plan, index, orders, &own);
    FAIL_IF(object == NULL, err, STATUS_NO_MEMORY, "%s: %s", path, own.message[0] ? own.message : "no memory");
    if (add_places(object, orders, err) != STATUS_OK) {
        json_decref(object);
        return err_context(err, err->status, "%s", path);
    }
    if (plan->instances[index].life > 0) json_object_set_new(object, "life", json_integer(plan->instances[index].life));
    char *text = json_dumps(object, JSON_INDENT(1) | JSON_REAL_PRECISION(15));
    json_decref(object);
    FAIL_IF(text == NULL, err, STATUS_NO_MEMORY, "%s: no memory", path);
    enum status status = instance_write_private(path, text, err);
    free(text);
    return status;
}
