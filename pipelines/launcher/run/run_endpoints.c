/* Keeps the endpoints of a run's edges, and tells receivers when an edge listens elsewhere. */
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "pipelines/launcher/run/run_private.h"

enum { RECORD_VERSION = 1 };

/* Returns whether the program of a stage says that it can do something. */
static bool says(const struct graph_stage *stage, const char *what) {
    return json_is_true(json_object_get(stage->describe, what));
}

static enum status open_listeners(struct run *run, struct err *err) {
    TRY(listeners_create(plan_host(run->graph), &run->listeners, err));
    for (size_t i = 0; i < run->plan->edge_count; i++) {
        struct plan_edge *edge = &run->plan->edges[i];
        const struct listener *listener = NULL;
        bool handed = says(&run->graph->stages[edge->from], "descriptors");
        enum status status = listeners_open(run->listeners, edge->name, handed, &listener, err);
        if (status == STATUS_BAD_ARGUMENT) return err_context(err, status, "session.listen");
        TRY(status);
        snprintf(edge->data, sizeof edge->data, "%s", listener->data);
        snprintf(edge->ack, sizeof edge->ack, "%s", listener->ack);
    }
    run->orders.listeners = run->listeners;
    return STATUS_OK;
}

enum status run_endpoints_make(struct run *run, struct err *err) {
    if (run->graph->tcp) return open_listeners(run, err);
    TRY(run_sockets_make(run, err));
    return plan_endpoints(run->plan, run->sockets, err);
}

/* Names all edges, not only those that have moved: a receiver that is there already does nothing. */
static json_t *record_json(const struct plan *plan, int number) {
    json_t *edges = json_object();
    for (size_t i = 0; i < plan->edge_count; i++) {
        const struct plan_edge *edge = &plan->edges[i];
        json_object_set_new(edges, edge->name, json_pack("{s:s, s:s}", "data", edge->data, "ack", edge->ack));
    }
    return json_pack("{s:i, s:i, s:o}", "v", RECORD_VERSION, "number", number, "edges", edges);
}

static enum status write_record(const struct run *run, struct err *err) {
    json_t *record = record_json(run->plan, run->orders.endpoints_number);
    char *text = record != NULL ? json_dumps(record, JSON_COMPACT) : NULL;
    json_decref(record);
    FAIL_IF(text == NULL, err, STATUS_NO_MEMORY, "no memory for the record of endpoints");
    enum status status = file_write_whole(run->orders.endpoints, text, strlen(text), err);
    free(text);
    return status;
}

static bool receives(const struct plan *plan, size_t instance, size_t from) {
    for (size_t i = 0; i < plan->edge_count; i++)
        if (plan->edges[i].instance == from && plan->edges[i].to == plan->instances[instance].stage) return true;
    return false;
}

enum status run_endpoints_moved(struct run *run, struct supervisor *supervisor, size_t instance, struct err *err) {
    FAIL_IF(run->orders.endpoints == NULL, err, STATUS_BAD_STATE, "%s moves, and there is no record of endpoints",
            run->plan->instances[instance].name);
    run->orders.endpoints_number++;
    TRY(write_record(run, err));
    for (size_t i = 0; i < run->plan->instance_count; i++) {
        if (!receives(run->plan, i, instance)) continue;
        TRY(instance_write(&run->session, run->plan, i, &run->orders, err));
        const struct graph_stage *stage = &run->graph->stages[run->plan->instances[i].stage];
        if (!says(stage, "endpoints")) supervisor_renew(supervisor, i);
    }
    return STATUS_OK;
}
