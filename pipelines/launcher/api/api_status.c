/* /api/status: the numbers of `icestream status --json` without items and histories, and how fast all goes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pipelines/launcher/api/api_private.h"
#include "pipelines/launcher/numbers.h"
#include "pipelines/launcher/status_left_out.h"

static const double SLOW_AGE = 5;     /* s: files that change seldom are not read more often */
static const double RECENT = 30 * 60; /* s over which exposures per hour are counted */

/* Latencies at a stage of the last exposures that the stage has done; `whole`: since they were found. */
static json_t *latency_json(struct serve *serve, size_t stage, bool whole) {
    double seconds[API_DONE_MAX];
    size_t count = 0, looked = 0;
    for (size_t row = view_row_count(serve->view); row > 0 && count < API_DONE_MAX && looked < 4 * API_DONE_MAX;
         looked++) {
        struct view_visit visit = view_visit(serve->view, --row, stage);
        double begin = whole ? view_row(serve->view, row)->time_found : visit.time_seen;
        if (visit.known && visit.state == LEDGER_DONE && visit.time_changed >= begin)
            seconds[count++] = visit.time_changed - begin;
    }
    numbers_sort(seconds, count);
    return json_pack("{s:o, s:o, s:I}", "p50", json_value_number(count > 0 ? seconds[count / 2] : NAN), "p95",
                     json_value_number(count > 0 ? seconds[count * 95 / 100] : NAN), "n", (json_int_t)count);
}

/* From found to picked, and to classified. */
static json_t *pipeline_latency(struct serve *serve) {
    static const struct {
        const char *kind, *to;
    } ends[] = {{"lowpass-picker", "picked"}, {"classifier", "classified"}};
    json_t *latencies = json_object();
    size_t i;
    const json_t *planned;
    json_array_foreach(json_object_get(view_plan(serve->view), "stages"), i, planned) {
        const char *kind = json_string_value(json_object_get(planned, "kind"));
        for (size_t k = 0; kind != NULL && k < sizeof ends / sizeof *ends; k++)
            if (strcmp(kind, ends[k].kind) == 0 && json_object_get(latencies, ends[k].to) == NULL)
                json_object_set_new(latencies, ends[k].to, latency_json(serve, i, true));
    }
    return latencies;
}

static json_t *instances_json(struct serve *serve, const json_t *planned, const char **ret_note) {
    json_t *instances = json_array();
    size_t i;
    const json_t *name;
    json_array_foreach(json_object_get(planned, "instances"), i, name) {
        const char *instance = json_string_value(name);
        if (instance == NULL) continue;
        const json_t *known = view_heartbeat(serve->view, instance);
        json_t *beat = known != NULL ? json_copy((json_t *)(uintptr_t)known) : json_object();
        json_object_set_new(beat, "name", json_string(instance));
        json_object_set_new(beat, "restarts", json_integer(api_restarts(serve, instance, beat)));
        double silent = view_silence(serve->view, instance, serve->now);
        if (silent > 0) json_object_set_new(beat, "silent", json_real(silent));
        const char *note = json_string_value(json_object_get(beat, "note"));
        if (note != NULL && note[0] != '\0') *ret_note = note;
        json_array_append_new(instances, beat);
    }
    return instances;
}

/* Returns what the stage put out last, as {iteration, particles, resolution, noise, unresolved, time, final};
 * null: nothing. */
static json_t *newest_json(struct serve *serve, const char *stage) {
    const json_t *history = view_history(serve->view, stage);
    const json_t *line = json_array_get(history, json_array_size(history) - 1);
    if (line == NULL) return json_null();
    return json_pack("{s:O?, s:O?, s:O?, s:O?, s:O?, s:O?, s:O?}", "iteration", json_object_get(line, "iteration"),
                     "particles", json_object_get(line, "particles"), "resolution", json_object_get(line, "resolution"),
                     "noise", json_object_get(line, "noise"), "unresolved", json_object_get(line, "unresolved"), "time",
                     json_object_get(line, "time"), "final", json_object_get(line, "final"));
}

static json_t *stage_json(struct serve *serve, const json_t *planned, const struct tally_stage *tally, size_t place) {
    const char *note = "";
    json_t *instances = instances_json(serve, planned, &note);
    json_t *stage = json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:o, s:s, s:o, s:o, s:o, s:I, s:o, s:o}", "name", tally->name, "seen",
        (json_int_t)tally->seen, "done", (json_int_t)tally->done, "rejected", (json_int_t)tally->rejected, "failed",
        (json_int_t)tally->failed, "in_flight", (json_int_t)tally->in_flight, "note", note, "inputs",
        tally_inputs_json(tally), "products", tally->name, "instances", instances, "rate",
        json_value_number(api_rate(serve, place)), "latency", latency_json(serve, place, false), "queue",
        (json_int_t)view_queue(serve->view, place), "oldest",
        json_value_number(view_oldest(serve->view, place, serve->now)), "newest", newest_json(serve, tally->name));
    if (tally->left_out) json_object_set_new(stage, "left_out", json_true());
    return stage;
}

void api_forget(struct serve *serve) {
    if (serve->api != NULL) serve->api->slow_read = -SLOW_AGE;
}

static void read_slow(struct serve *serve) {
    struct api *api = serve->api;
    if (api->left_out != NULL && serve->now_monotonic - api->slow_read < SLOW_AGE) return;
    json_decref(api->left_out);
    api->left_out = status_left_out(view_session(serve->view), view_plan(serve->view));
    if (api->left_out == NULL) api->left_out = json_array();
    json_t *read = NULL;
    if (view_warnings(serve->view, &read, NULL) == STATUS_OK) {
        json_decref(api->warnings);
        api->warnings = read;
    }
    read = NULL;
    if (view_changes(serve->view, &read, NULL) == STATUS_OK) {
        json_decref(api->changes);
        api->changes = read;
    }
    api->slow_read = serve->now_monotonic;
}

/* Exposures that were found in the last half hour, per hour. A session that is younger counts since its first one. */
static json_t *per_hour(struct serve *serve) {
    size_t rows = view_row_count(serve->view), count = 0;
    double first = NAN;
    while (count < rows) {
        double time = view_row(serve->view, rows - 1 - count)->time_found;
        if (time < serve->now - RECENT) break;
        first = time;
        count++;
    }
    double span = count == rows && count > 1 ? serve->now - first : RECENT;
    return json_real(span > 1 ? (double)count * 3600 / span : 0);
}

/* Returns how far the newest map lies behind the newest exposure, s. */
static json_t *lag(struct serve *serve) {
    double newest = NAN;
    for (size_t i = 0; i < view_stage_count(serve->view); i++) {
        const json_t *history = view_history(serve->view, view_stage_name(serve->view, i));
        const json_t *line = json_array_get(history, json_array_size(history) - 1);
        const char *event = json_string_value(json_object_get(line, "event"));
        if (event != NULL && strcmp(event, "map") == 0) newest = json_number_value(json_object_get(line, "time"));
    }
    return json_value_number(serve->now - newest);
}

static json_t *last_exposure(struct serve *serve) {
    size_t rows = view_row_count(serve->view);
    return rows > 0 ? json_real(view_row(serve->view, rows - 1)->time_found) : json_null();
}

json_t *api_status_json(struct serve *serve) {
    const struct tally *tally = view_tally(serve->view);
    const char *miscount = "";
    json_t *stages = json_object();
    bool adds_up = view_adds_up(serve->view, &miscount);
    read_slow(serve);
    for (size_t i = 0; i < tally->count; i++) {
        const json_t *planned = json_array_get(json_object_get(view_plan(serve->view), "stages"), i);
        json_object_set_new(stages, tally->stages[i].name, stage_json(serve, planned, &tally->stages[i], i));
    }
    enum view_state state = view_state(serve->view);
    json_t *json = json_pack("{s:i, s:o, s:i, s:b, s:s, s:b, s:o, s:o, s:O?, s:O?, s:O?}", "v", 1, "session",
                             json_value_text(serve->folder), "run", view_run(serve->view), "running",
                             view_is_running(serve->view), "state", view_state_name(state), "adds_up", adds_up,
                             "miscount", json_value_text(miscount), "stages", stages, "left_out", serve->api->left_out,
                             "warnings", serve->api->warnings, "changes", serve->api->changes);
    if (json == NULL) return NULL;
    json_t *more =
        json_pack("{s:f, s:I, s:I, s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:o}", "time", serve->now, "epoch",
                  (json_int_t)api_epoch(serve), "rev", (json_int_t)view_revision(serve->view), "last_exposure",
                  last_exposure(serve), "exposures_per_hour", per_hour(serve), "pipeline_latency",
                  pipeline_latency(serve), "map_lag", lag(serve), "exposures", (json_int_t)view_row_count(serve->view),
                  "disk", api_disk_json(serve), "gpus", api_gpus_json(serve), "host", api_host_json());
    json_object_update(json, more);
    json_decref(more);
    return json;
}

enum status api_status(struct serve *serve, const struct http_request *request, struct http_answer *answer,
                       struct err *err) {
    (void)request;
    return http_answer_json(answer, api_status_json(serve), err);
}
