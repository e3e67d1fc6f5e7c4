/* Lists the incidents of the session: warnings, alarms, processes that were started again, and changes, in their order. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "pipelines/launcher/report/report_private.h"

enum { FILE_SIZE_MAX = 64 << 20 };

static json_t *time_text(double time) {
    char text[TIME_SIZE];
    report_time(time, text);
    return text[0] != '\0' ? json_string(text) : json_null();
}

static double number_of(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

struct incident {
    const char *kind, *stage, *text;
    double time, ended; /* ended: NaN where it has no end */
    json_int_t count;
};

static void add_incident(json_t *incidents, const struct incident *incident) {
    json_array_append_new(incidents, json_pack("{s:s, s:o, s:o, s:o, s:I, s:o, s:o}", "kind", incident->kind, "time",
                                               time_text(incident->time), "ended", time_text(incident->ended), "stage",
                                               json_value_text(incident->stage), "count", incident->count, "text",
                                               json_value_text(incident->text), "at",
                                               isfinite(incident->time) ? json_real(incident->time) : json_real(0)));
}

/* Reads a file of the session; NULL: there is none. The caller frees the text. */
static char *read_file(const struct report *report, const char *path) {
    char whole[PATH_SIZE], *text = NULL;
    if (path_join(view_session(report->view)->path, path, whole, sizeof whole, NULL) != STATUS_OK ||
        file_read_whole(whole, FILE_SIZE_MAX, &text, NULL, NULL) != STATUS_OK)
        return NULL;
    return text;
}

/* ---- warnings ---- */

static void add_warnings(struct report *report, json_t *incidents) {
    json_t *warnings = NULL, *warning;
    size_t i;
    if (view_warnings(report->view, &warnings, NULL) != STATUS_OK) return;
    json_array_foreach(warnings, i, warning) {
        const struct incident incident = {.kind = "warning",
                                          .stage = json_string_value(json_object_get(warning, "stage")),
                                          .text = json_string_value(json_object_get(warning, "message")),
                                          .time = number_of(warning, "first"),
                                          .ended = number_of(warning, "last"),
                                          .count = json_integer_value(json_object_get(warning, "count"))};
        add_incident(incidents, &incident);
    }
    json_decref(warnings);
}

/* ---- alarms ---- */

static const char *text_of(const json_t *line, const char *key) {
    const char *text = json_string_value(json_object_get(line, key));
    return text != NULL ? text : "";
}

/* Finds the alarm of a line among those that still fire. */
static json_t *find_firing(const json_t *alarms, const json_t *line) {
    size_t i;
    json_t *alarm;
    json_array_foreach(alarms, i, alarm) {
        if (json_object_get(alarm, "end") == NULL && strcmp(text_of(alarm, "alarm"), text_of(line, "alarm")) == 0 &&
            strcmp(text_of(alarm, "subject"), text_of(line, "subject")) == 0)
            return alarm;
    }
    return NULL;
}

/* Takes one line of alarms.jsonl: {"time", "event": "fires" | "worse" | "better" | "clears", "alarm", "subject", "text"};
 * other events tell who was told and what was silenced. */
static void take_line(json_t *alarms, json_t *line) {
    const char *event = text_of(line, "event");
    json_t *firing = find_firing(alarms, line);
    if (strcmp(event, "fires") == 0 && firing == NULL) json_array_append(alarms, line);
    if (strcmp(event, "clears") == 0 && firing != NULL) json_object_set(firing, "end", json_object_get(line, "time"));
    if (strcmp(event, "worse") == 0 && firing != NULL) {
        json_object_set(firing, "text", json_object_get(line, "text"));
        json_object_set(firing, "severity", json_object_get(line, "severity"));
    }
}

static void add_alarms(struct report *report, json_t *incidents) {
    char *text = read_file(report, "web/alarms.jsonl"), *state = NULL;
    json_t *alarms = json_array(), *alarm;
    size_t i;
    for (char *line = text != NULL ? strtok_r(text, "\n", &state) : NULL; line != NULL;
         line = strtok_r(NULL, "\n", &state)) {
        json_t *json = json_loads(line, 0, NULL);
        if (json_is_object(json)) take_line(alarms, json);
        json_decref(json);
    }
    json_array_foreach(alarms, i, alarm) {
        char name[256], said[1024];
        const char *subject = text_of(alarm, "subject");
        snprintf(name, sizeof name, "%s%s%s", text_of(alarm, "alarm"), subject[0] != '\0' ? " " : "", subject);
        snprintf(said, sizeof said, "%s (%s)", text_of(alarm, "text"), text_of(alarm, "severity"));
        const struct incident incident = {.kind = "alarm",
                                          .stage = name,
                                          .text = said,
                                          .time = number_of(alarm, "time"),
                                          .ended = number_of(alarm, "end"),
                                          .count = 1};
        add_incident(incidents, &incident);
    }
    json_decref(alarms);
    free(text);
}

/* ---- processes that were started again ---- */

/* Counts the starts of an instance in each run, from the lines "TIME INSTANCE INFO start run RUN, process PID" of its
 * log; the line after the first of a run is the one that tells of a death. */
static void add_restarts_of(struct report *report, const char *instance, json_t *incidents) {
    char path[256], *state = NULL;
    snprintf(path, sizeof path, "log/%.200s.log", instance);
    char *text = read_file(report, path);
    int run = 0, last = -1;
    for (char *line = text != NULL ? strtok_r(text, "\n", &state) : NULL; line != NULL;
         line = strtok_r(NULL, "\n", &state)) {
        const char *start = strstr(line, " INFO start run ");
        if (start == NULL || sscanf(start, " INFO start run %d, process", &run) != 1) continue;
        if (run == last) {
            char said[128];
            snprintf(said, sizeof said, "started again in run %d", run);
            const struct incident incident = {.kind = "restart",
                                              .stage = instance,
                                              .text = said,
                                              .time = report_parse_time(report, line),
                                              .ended = NAN,
                                              .count = 1};
            add_incident(incidents, &incident);
        }
        last = run;
    }
    free(text);
}

static void add_restarts(struct report *report, json_t *incidents) {
    size_t i, k;
    json_t *stage, *name;
    json_array_foreach(json_object_get(view_plan(report->view), "stages"), i, stage) {
        json_array_foreach(json_object_get(stage, "instances"), k, name) {
            if (json_is_string(name)) add_restarts_of(report, json_string_value(name), incidents);
        }
    }
}

/* ---- changes ---- */

static void add_changes(struct report *report, json_t *incidents) {
    json_t *changes = NULL, *change, *entry;
    size_t i, k;
    if (view_changes(report->view, &changes, NULL) != STATUS_OK) return;
    json_array_foreach(changes, i, change) {
        json_array_foreach(json_object_get(change, "changes"), k, entry) {
            char *value = json_dumps(json_object_get(entry, "new"), JSON_ENCODE_ANY), *text = NULL;
            size_t length = 0;
            FILE *out = open_memstream(&text, &length);
            if (out != NULL) {
                fprintf(out, "%s = %s", text_of(entry, "key"), value != NULL ? value : "?");
                fclose(out);
            }
            const struct incident incident = {.kind = "change",
                                              .stage = text_of(entry, "stage"),
                                              .text = text,
                                              .time = number_of(change, "time"),
                                              .ended = NAN,
                                              .count = 1};
            add_incident(incidents, &incident);
            free(text);
            free(value);
        }
    }
    json_decref(changes);
}

/* ---- all of them ---- */

struct ordered {
    json_t *incident;
    size_t order;
};

static int by_time(const void *a, const void *b) {
    const struct ordered *one = a, *other = b;
    double first = json_number_value(json_object_get(one->incident, "at"));
    double second = json_number_value(json_object_get(other->incident, "at"));
    if (first != second) return (first > second) - (first < second);
    return (one->order > other->order) - (one->order < other->order);
}

void report_add_incidents(struct report *report) {
    json_t *incidents = json_array(), *sorted = json_array();
    add_warnings(report, incidents);
    add_alarms(report, incidents);
    add_restarts(report, incidents);
    add_changes(report, incidents);
    size_t count = json_array_size(incidents);
    _cleanup_(mem_free) struct ordered *order = calloc(count + 1, sizeof *order);
    report->failed |= order == NULL;
    for (size_t i = 0; order != NULL && i < count; i++)
        order[i] = (struct ordered){json_array_get(incidents, i), i};
    if (order != NULL) qsort(order, count, sizeof *order, by_time);
    for (size_t i = 0; order != NULL && i < count; i++) {
        json_object_del(order[i].incident, "at");
        json_array_append(sorted, order[i].incident);
    }
    json_decref(incidents);
    json_object_set_new(report->data, "incidents", sorted);
}
