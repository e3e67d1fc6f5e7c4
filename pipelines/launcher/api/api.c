/* The part of a server that keeps state for the endpoints, and tells listeners what has changed. */
#include "pipelines/launcher/api/api.h"

#include <stdlib.h>

#include "pipelines/launcher/api/api_private.h"

enum { EVENT_ROWS = 300 };
static const double STATUS_EVERY = 0.5, STATUS_ALWAYS = 5; /* s between events, when something has changed and anyhow */

enum status api_begin(struct serve *serve, struct err *err) {
    struct api *api = calloc(1, sizeof *api);
    FAIL_IF(api == NULL, err, STATUS_NO_MEMORY, "no memory for the server");
    if (gpus_open(NULL, &api->gpus, NULL) != STATUS_OK) api->gpus = NULL;
    if (choices_create(serve->folder, NULL, &api->choices, NULL) != STATUS_OK) api->choices = NULL;
    if (api->choices != NULL) choices_poll(api->choices, NULL, NULL);
    api->histories = json_object();
    serve->api = api;
    return STATUS_OK;
}

void api_end(struct serve *serve) {
    struct api *api = serve->api;
    if (api == NULL) return;
    gpus_close(&api->gpus);
    json_decref(api->left_out);
    json_decref(api->warnings);
    json_decref(api->changes);
    json_decref(api->starts);
    json_decref(api->histories);
    choices_destroy(&api->choices);
    for (size_t i = 0; i < API_MAPS; i++)
        api_kept_clear(&api->maps[i]);
    for (size_t i = 0; i < API_SPRITES; i++)
        api_kept_clear(&api->sprites[i]);
    api_kept_clear(&api->directions);
    free(api);
    serve->api = NULL;
}

uint64_t api_epoch(const struct serve *serve) {
    const struct api *api = serve->api;
    const bool marks = api != NULL && api->choices != NULL;
    return view_epoch(serve->view) + (marks ? (uint64_t)choices_number(api->choices) : 0);
}

/* Returns whether more rows have changed than one event should hold. */
static bool are_many(struct serve *serve) {
    int count = 0;
    for (int64_t row = 0; (row = view_rows_since(serve->view, serve->api->revision, (size_t)row)) >= 0; row++)
        if (++count > EVENT_ROWS) return true;
    return false;
}

/* Publishes the rows that have changed since the last time. Another epoch begins with all rows: listeners fetch them. */
static void publish_rows(struct serve *serve) {
    struct api *api = serve->api;
    const uint64_t epoch = api_epoch(serve), revision = view_revision(serve->view);
    if (api->begun && epoch == api->epoch && revision == api->revision) return;
    const bool heard = api->begun && serve_is_heard(serve); /* whoever comes later fetches all */
    if (heard && (epoch != api->epoch || are_many(serve))) {
        serve_publish(serve, "resync", json_pack("{s:i, s:I}", "v", 1, "epoch", (json_int_t)epoch));
    } else if (heard) {
        struct api_text text = {0};
        api_items_text(serve, false, api->revision, &text);
        serve_publish_text(serve, "rows", text.failed ? NULL : text.bytes);
        free(text.bytes);
    }
    api->begun = true;
    api->epoch = epoch;
    api->revision = revision;
}

/* Publishes each line that a history.jsonl has grown by. */
static void publish_products(struct serve *serve) {
    struct api *api = serve->api;
    for (size_t i = 0; i < view_stage_count(serve->view); i++) {
        const char *stage = view_stage_name(serve->view, i);
        const json_t *history = view_history(serve->view, stage), *known = json_object_get(api->histories, stage);
        size_t count = json_array_size(history);
        size_t published = known != NULL ? (size_t)json_integer_value(known) : 0;
        if (known != NULL && count == published) continue;
        json_object_set_new(api->histories, stage, json_integer((json_int_t)count));
        if (known == NULL || count == 0) continue; /* what was there at the beginning is no news */
        const json_t *line = json_array_get(history, count - 1);
        serve_publish(serve, "product",
                      json_pack("{s:i, s:s, s:O?, s:O?}", "v", 1, "stage", stage, "kind",
                                json_object_get(line, "event"), "iteration", json_object_get(line, "iteration")));
    }
}

void api_tick(struct serve *serve) {
    struct api *api = serve->api;
    if (api == NULL) return;
    api_rates_tick(serve);
    bool marked = false;
    /* A broken change is logged by those that obey it. */
    if (serve->changed & VIEW_CHANGES && api->choices != NULL) (void)choices_poll(api->choices, &marked, NULL);
    if (serve->changed & VIEW_ROWS || marked || !api->begun) publish_rows(serve);
    if (serve->changed & (VIEW_HISTORY | VIEW_STATE) || json_object_size(api->histories) == 0) publish_products(serve);
    const double age = serve->now_monotonic - api->status_sent;
    const bool news = serve->changed & (VIEW_COUNTS | VIEW_BEATS | VIEW_STATE | VIEW_HISTORY | VIEW_ROWS);
    api->status_due = api->status_due || news;
    if (age < STATUS_EVERY || (!api->status_due && age < STATUS_ALWAYS)) return;
    api->status_sent = serve->now_monotonic;
    api->status_due = false;
    if (serve_listeners(serve) > 0) serve_publish(serve, "status", api_status_json(serve));
}
