/* /api/session, /api/history and /api/log: what the session is, what its stages put out, and what they say. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/harness/rules.h"
#include "common/memory.h"
#include "pipelines/launcher/api/api_private.h"

enum { LOG_MAX = 64 << 10 };

static const char *const operators[] = {[RULE_LESS] = "<",           [RULE_LESS_EQUAL] = "<=", [RULE_GREATER] = ">",
                                        [RULE_GREATER_EQUAL] = ">=", [RULE_EQUAL] = "==",      [RULE_UNEQUAL] = "!="};

static void add_rules(const char *stage, const char *text, json_t *rules) {
    struct rules parsed = {0};
    if (text == NULL || rules_parse(text, &parsed, NULL) != STATUS_OK) return;
    for (int i = 0; i < parsed.count; i++)
        json_array_append_new(rules, json_pack("{s:s, s:s, s:s, s:s, s:f}", "stage", stage, "text", text, "column",
                                               parsed.rules[i].column, "op", operators[parsed.rules[i].operation],
                                               "value", parsed.rules[i].value));
}

static json_t *rules_json(struct serve *serve) {
    json_t *rules = json_array(), *stages = json_object_get(view_graph(serve->view), "stages");
    const char *name;
    const json_t *stage, *text;
    size_t i;
    json_object_foreach(stages, name, stage) {
        const json_t *value = json_object_get(stage, "reject_if");
        add_rules(name, json_string_value(value), rules);
        json_array_foreach(value, i, text) add_rules(name, json_string_value(text), rules);
    }
    return rules;
}

static json_t *stages_json(struct serve *serve) {
    json_t *list = json_array();
    const json_t *stage, *graph = json_object_get(view_graph(serve->view), "stages");
    size_t i;
    json_array_foreach(json_object_get(view_plan(serve->view), "stages"), i, stage) {
        const char *name = json_string_value(json_object_get(stage, "name"));
        const json_t *keys = json_object_get(graph, name != NULL ? name : "");
        const json_t *kind = json_object_get(stage, "kind"), *gpu = json_object_get(keys, "gpu");
        json_array_append_new(
            list, json_pack("{s:s, s:O?, s:I, s:O, s:O?, s:O?, s:O?, s:O?}", "name", name != NULL ? name : "",
                            "program", kind != NULL ? kind : json_object_get(stage, "name"), "replicas",
                            (json_int_t)json_array_size(json_object_get(stage, "instances")), "gpu",
                            gpu != NULL ? gpu : json_null(), "from", json_object_get(stage, "from"), "cumulative",
                            json_object_get(stage, "cumulative"), "left_out", json_object_get(stage, "left_out"),
                            "instances", json_object_get(stage, "instances")));
    }
    return list;
}

/* Lists the controls that this request's token allows: none for one that may only look, or where nothing can be written. */
static json_t *may_json(struct serve *serve, const struct http_request *request) {
    json_t *may = json_array();
    if (!request->may_control || serve->read_only) return may;
    json_array_append_new(may, json_string("retry"));
    json_array_append_new(may, json_string("redo"));
    if (view_is_running(serve->view)) {
        json_array_append_new(may, json_string("drain"));
        json_array_append_new(may, json_string("stop"));
    }
    json_array_append_new(may, json_string("silence"));
    json_array_append_new(may, json_string("mark"));
    json_array_append_new(may, json_string("rules"));
    json_array_append_new(may, json_string("classes"));
    return may;
}

enum status api_session(struct serve *serve, const struct http_request *request, struct http_answer *answer,
                        struct err *err) {
    const struct session *session = view_session(serve->view);
    const double started = view_started(serve->view);
    json_t *json = json_pack(
        "{s:i, s:I, s:o, s:o, s:o, s:s, s:i, s:s, s:s, s:o, s:O, s:o, s:o, s:o, s:o}", "v", 1, "epoch",
        (json_int_t)api_epoch(serve), "session", json_value_text(path_name(serve->folder)), "name",
        json_value_text(path_name(serve->folder)), "folder", json_value_text(serve->folder), "id", session->id, "run",
        view_run(serve->view), "state", view_state_name(view_state(serve->view)), "version", ICESTREAM_VERSION,
        "started", json_value_number(started), "graph", view_graph(serve->view), "stages", stages_json(serve),
        "columns", api_columns_json(serve), "rules", rules_json(serve), "may", may_json(serve, request));
    return http_answer_json(answer, json, err);
}

enum status api_history(struct serve *serve, const struct http_request *request, struct http_answer *answer,
                        struct err *err) {
    FAIL_IF(view_stage_find(serve->view, request->words[0]) < 0, err, STATUS_NOT_FOUND, "there is no stage '%.80s'",
            request->words[0]);
    return http_answer_json(answer, json_deep_copy(view_history(serve->view, request->words[0])), err);
}

/* ---- Logs ---- */

static json_t *instances_json(struct serve *serve) {
    json_t *names = json_pack("[s]", "icestream");
    size_t i, k;
    json_t *stage, *instance;
    json_array_foreach(json_object_get(view_plan(serve->view), "stages"), i, stage) {
        json_array_foreach(json_object_get(stage, "instances"), k, instance) json_array_append(names, instance);
    }
    return names;
}

static bool has(const json_t *names, const char *name) {
    size_t i;
    const json_t *text;
    json_array_foreach(names, i, text) {
        if (strcmp(json_string_value(text), name) == 0) return true;
    }
    return false;
}

/* Splits whole lines off a piece of a log. A line that is not whole comes with the next request. */
static json_t *lines_json(const char *bytes, size_t length, bool begins_whole, int64_t *used) {
    json_t *lines = json_array();
    size_t at = 0;
    if (!begins_whole) {
        const char *first = memchr(bytes, '\n', length);
        at = first != NULL ? (size_t)(first - bytes) + 1 : length;
    }
    for (const char *stop; at < length && (stop = memchr(bytes + at, '\n', length - at)) != NULL;
         at = (size_t)(stop - bytes) + 1) {
        _cleanup_(mem_free) char *clean = api_text_clean(bytes + at, (size_t)(stop - bytes) - at);
        if (clean != NULL) json_array_append_new(lines, json_string(clean));
    }
    *used = (int64_t)at;
    return lines;
}

enum status api_log(struct serve *serve, const struct http_request *request, struct http_answer *answer,
                    struct err *err) {
    const char *instance = http_query(request, "instance");
    char path[PATH_SIZE];
    int64_t after, used = 0;
    _cleanup_(api_close) struct api_file file = {.descriptor = -1};
    json_t *instances = instances_json(serve);
    if (instance == NULL) instance = "icestream";
    bool known = has(instances, instance);
    enum status status = http_query_number(request, "after", 0, INT64_MAX, -1, &after, err);
    if (status == STATUS_OK && !known)
        status = err_set(err, STATUS_NOT_FOUND, __FILE__, __LINE__, "there is no instance '%.80s'", instance);
    snprintf(path, sizeof path, "log/%.200s.log", instance);
    if (status == STATUS_OK && api_open(serve, path, &file, NULL) != STATUS_OK) file.size = 0;
    _cleanup_(mem_free) char *bytes = malloc(LOG_MAX);
    if (status == STATUS_OK && bytes == NULL)
        status = err_set(err, STATUS_NO_MEMORY, __FILE__, __LINE__, "no memory for a log");
    if (status != STATUS_OK) {
        json_decref(instances);
        return status;
    }
    /* A log that has become shorter was begun anew. */
    bool goes_on = after >= 0 && after <= file.size && file.size - after <= LOG_MAX;
    int64_t from = goes_on ? after : file.size > LOG_MAX ? file.size - LOG_MAX : 0;
    ssize_t got = file.descriptor >= 0 ? pread(file.descriptor, bytes, LOG_MAX, from) : 0;
    json_t *lines = lines_json(bytes, got > 0 ? (size_t)got : 0, goes_on || from == 0, &used);
    json_t *json =
        json_pack("{s:i, s:s, s:o, s:I, s:I, s:b, s:o}", "v", 1, "instance", instance, "instances", instances, "from",
                  (json_int_t)from, "next", (json_int_t)(from + used), "goes_on", goes_on, "lines", lines);
    return http_answer_json(answer, json, err);
}
