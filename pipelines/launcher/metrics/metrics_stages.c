#include <math.h>
#include <string.h>

#include "pipelines/launcher/metrics/metrics_private.h"
#include "pipelines/launcher/view/view.h"

enum { LIMITS = 11 };
static const double LIMIT[LIMITS] = {0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000}; /* s, as in heartbeats */

static void write_items(const struct metrics_source *source, struct metrics_text *text) {
    const struct tally *tally = view_tally(source->view);
    metrics_family(text, "icestream_items", "gauge", "Items of each stage by state, as icestream status counts them.");
    for (size_t i = 0; i < tally->count; i++) {
        const struct tally_stage *stage = &tally->stages[i];
        if (stage->left_out) continue;
        metrics_sample(text, (double)stage->in_flight, "stage", stage->name, "state", "in_flight", NULL);
        metrics_sample(text, (double)stage->done, "stage", stage->name, "state", "done", NULL);
        metrics_sample(text, (double)stage->rejected, "stage", stage->name, "state", "rejected", NULL);
        metrics_sample(text, (double)stage->failed, "stage", stage->name, "state", "failed", NULL);
    }
    metrics_family(text, "icestream_queue_items", "gauge", "Items that wait for a stage.");
    for (size_t i = 0; i < view_stage_count(source->view); i++)
        metrics_sample(text, (double)view_queue(source->view, i), "stage", view_stage_name(source->view, i), NULL);
    metrics_family(text, "icestream_queue_oldest_seconds", "gauge", "How long the oldest item waits for a stage.");
    for (size_t i = 0; i < view_stage_count(source->view); i++)
        metrics_sample(text, view_oldest(source->view, i, source->now), "stage", view_stage_name(source->view, i),
                       NULL);
}

/* Adds an instance's latencies to those of its stage. Returns false when a heartbeat has none. */
static bool add_latencies(const json_t *beat, double counts[LIMITS + 1], double *sum) {
    const json_t *latencies = json_object_get(beat, "latencies");
    const json_t *found = json_object_get(latencies, "counts");
    if (json_array_size(found) != LIMITS + 1) return false;
    for (size_t i = 0; i <= LIMITS; i++)
        counts[i] += json_number_value(json_array_get(found, i));
    *sum += json_number_value(json_object_get(latencies, "sum"));
    return true;
}

static void write_durations(const struct metrics_source *source, struct metrics_text *text) {
    size_t i, k;
    json_t *stage, *name;
    metrics_family(text, "icestream_item_duration_seconds", "histogram",
                   "Time from an item's arrival at a stage to its outcome.");
    json_array_foreach(json_object_get(view_plan(source->view), "stages"), i, stage) {
        double counts[LIMITS + 1] = {0}, sum = 0;
        bool known = false;
        json_array_foreach(json_object_get(stage, "instances"), k, name) known |=
            add_latencies(view_heartbeat(source->view, json_string_value(name)), counts, &sum);
        if (known)
            metrics_histogram(text, LIMIT, counts, LIMITS, sum, "stage",
                              json_string_value(json_object_get(stage, "name")));
    }
}

/* Returns the first stage that runs this program; −1: there is none. */
static int stage_of_kind(const struct metrics_source *source, const char *kind) {
    size_t i;
    json_t *stage;
    json_array_foreach(json_object_get(view_plan(source->view), "stages"), i, stage) {
        const char *own = json_string_value(json_object_get(stage, "kind"));
        if (own != NULL && strcmp(own, kind) == 0)
            return view_stage_find(source->view, json_string_value(json_object_get(stage, "name")));
    }
    return -1;
}

/* Times from the moment an exposure was found. A ledger keeps them, so these do not fall when a process restarts; a
 * retry moves an exposure to a later time. */
static void write_latency(const struct metrics_source *source, struct metrics_text *text, const char *to, int stage) {
    double counts[LIMITS + 1] = {0}, sum = 0;
    if (stage < 0) return;
    for (size_t row = 0; row < view_row_count(source->view); row++) {
        const struct view_visit visit = view_visit(source->view, row, (size_t)stage);
        if (!visit.known || visit.state != LEDGER_DONE) continue;
        const double seconds = fmax(0, visit.time_changed - view_row(source->view, row)->time_found);
        for (size_t i = 0; i < LIMITS; i++)
            counts[i] += seconds <= LIMIT[i];
        counts[LIMITS]++;
        sum += seconds;
    }
    metrics_histogram(text, LIMIT, counts, LIMITS, sum, "to", to);
}

void metrics_stages(const struct metrics_source *source, struct metrics_text *text) {
    write_items(source, text);
    write_durations(source, text);
    metrics_family(text, "icestream_pipeline_latency_seconds", "histogram",
                   "Time from finding an exposure to its picks and to its classes.");
    write_latency(source, text, "picked", stage_of_kind(source, "lowpass-picker"));
    write_latency(source, text, "classified", stage_of_kind(source, "classifier"));
}
