#include <math.h>

#include "pipelines/launcher/metrics/metrics_private.h"
#include "pipelines/launcher/view/view.h"

/* One number of a heartbeat: a family whose samples have the labels stage and instance. */
struct row {
    const char *name, *type, *help;
    const char *key, *below;     /* heartbeat[key], or heartbeat[key][below] */
    const char *label, *meaning; /* a further label; NULL: none */
};

/* Samples of one family stand together, as the format wants. */
static const struct row ROWS[] = {
    {"icestream_heartbeat_timestamp_seconds", "gauge", "When an instance last gave a sign of life.", "time", NULL, NULL,
     NULL},
    {"icestream_instance_resident_bytes", "gauge", "Memory of an instance.", "resident", NULL, NULL, NULL},
    {"icestream_items_finished_total", "counter", "Items that a process has finished, by outcome.", "outcomes", "done",
     "outcome", "done"},
    {"icestream_items_finished_total", "counter", "", "outcomes", "rejected", "outcome", "rejected"},
    {"icestream_items_finished_total", "counter", "", "outcomes", "failed", "outcome", "failed"},
    {"icestream_messages_dropped_total", "counter", "Frames that were no message, or about nothing on its way.",
     "dropped", NULL, NULL, NULL},
    {"icestream_part_busy_seconds_total", "counter", "Time that a part of an instance worked, per thread.", "load",
     "busy", "part", "load"},
    {"icestream_part_busy_seconds_total", "counter", "", "process", "busy", "part", "process"},
    {"icestream_part_busy_seconds_total", "counter", "", "store", "busy", "part", "store"},
    {"icestream_part_busy_seconds_total", "counter", "", "ledger", "busy", "part", "ledger"},
};
enum { ROW_COUNT = sizeof ROWS / sizeof ROWS[0] };

static double value_of(const json_t *beat, const struct row *row) {
    const json_t *value = json_object_get(beat, row->key);
    if (value == NULL && row->below != NULL) value = json_object_get(json_object_get(beat, "parts"), row->key);
    if (row->below != NULL) value = json_object_get(value, row->below);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static void write_row(const struct metrics_source *source, struct metrics_text *text, const struct row *row) {
    size_t i, k;
    json_t *stage, *name;
    json_array_foreach(json_object_get(view_plan(source->view), "stages"), i, stage) {
        const char *of = json_string_value(json_object_get(stage, "name"));
        json_array_foreach(json_object_get(stage, "instances"), k, name) {
            const char *instance = json_string_value(name);
            const double value = value_of(view_heartbeat(source->view, instance), row);
            if (row->label != NULL)
                metrics_sample(text, value, "stage", of, "instance", instance, row->label, row->meaning, NULL);
            else
                metrics_sample(text, value, "stage", of, "instance", instance, NULL);
        }
    }
}

/* An instance is up while the session runs and it is not silent. */
static void write_up(const struct metrics_source *source, struct metrics_text *text) {
    size_t i, k;
    json_t *stage, *name;
    const bool running = view_is_running(source->view);
    metrics_family(text, "icestream_instance_up", "gauge", "1 while an instance answers.");
    json_array_foreach(json_object_get(view_plan(source->view), "stages"), i, stage) {
        json_array_foreach(json_object_get(stage, "instances"), k, name) {
            const char *instance = json_string_value(name);
            const bool beats = view_heartbeat(source->view, instance) != NULL;
            const bool up = running && beats && view_silence(source->view, instance, source->now) == 0;
            metrics_sample(text, up, "stage", json_string_value(json_object_get(stage, "name")), "instance", instance,
                           NULL);
        }
    }
}

static void write_restarts(const struct metrics_source *source, struct metrics_text *text) {
    size_t i, k;
    json_t *stage, *name;
    metrics_family(text, "icestream_instance_restarts_total", "counter",
                   "How often an instance was started again since the server began.");
    json_array_foreach(json_object_get(view_plan(source->view), "stages"), i, stage) {
        json_array_foreach(json_object_get(stage, "instances"), k, name) {
            const json_t *count = json_object_get(source->restarts, json_string_value(name));
            if (count == NULL) continue;
            metrics_sample(text, json_number_value(count), "stage", json_string_value(json_object_get(stage, "name")),
                           "instance", json_string_value(name), NULL);
        }
    }
}

void metrics_instances(const struct metrics_source *source, struct metrics_text *text) {
    write_up(source, text);
    if (source->restarts != NULL) write_restarts(source, text);
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (ROWS[i].help[0] != '\0') metrics_family(text, ROWS[i].name, ROWS[i].type, ROWS[i].help);
        write_row(source, text, &ROWS[i]);
    }
}
