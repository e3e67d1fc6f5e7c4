#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "pipelines/launcher/alarms/exposures.h"
#include "pipelines/launcher/metrics/metrics_private.h"
#include "pipelines/launcher/numbers.h"
#include "pipelines/launcher/view/view.h"

enum { RULES = 20, RULE_TEXT = 100 };

/* Quantities in the units that their names say. */
static const struct {
    enum alarm_quantity quantity;
    const char *name, *help;
    double factor;
} QUALITY[] = {
    {QUANTITY_RESOLUTION, "icestream_ctf_resolution_angstroms", "CTF resolution of the last 25 exposures.", 1},
    {QUANTITY_DEFOCUS, "icestream_defocus_meters", "Defocus of the last 25 exposures.", 1e-6},
    {QUANTITY_ASTIGMATISM, "icestream_astigmatism_meters", "Astigmatism of the last 25 exposures.", 1e-10},
    {QUANTITY_MOTION, "icestream_motion_angstroms", "Total motion of the last 25 exposures.", 1},
    {QUANTITY_ICE, "icestream_ice_ring_density", "Ice ring density of the last 25 exposures.", 1},
    {QUANTITY_PICKS, "icestream_picks_per_micrograph", "Particles on each of the last 25 exposures.", 1},
    {QUANTITY_GAIN, "icestream_gain_residual_ratio", "Standard deviation that the gain reference leaves.", 1},
};

static void write_recent(const struct metrics_source *source, struct metrics_text *text) {
    for (size_t i = 0; i < sizeof QUALITY / sizeof QUALITY[0]; i++) {
        double values[ALARM_RECENT];
        const struct exposures_column column = exposures_column(source->view, QUALITY[i].quantity);
        const size_t count = exposures_recent(source->view, column, ALARM_RECENT, values);
        metrics_family(text, QUALITY[i].name, "gauge", QUALITY[i].help);
        if (count == 0) continue;
        numbers_sort(values, count);
        metrics_sample(text, QUALITY[i].factor * numbers_quantile(values, count, 0.5), "q", ".5", NULL);
        metrics_sample(text, QUALITY[i].factor * numbers_quantile(values, count, 0.9), "q", ".9", NULL);
    }
}

struct rule {
    char text[RULE_TEXT];
    int stage;
    long long count;
};

static int more_often(const void *a, const void *b) {
    const struct rule *x = a, *y = b;
    return (y->count > x->count) - (y->count < x->count);
}

/* Counts rejected exposures by stage and reason. The rows of a rule that no longer fits are counted as "other". */
static enum status write_rejected(const struct metrics_source *source, struct metrics_text *text, struct err *err) {
    enum { MOST = 400 };
    _cleanup_(mem_free) struct rule *rules = NULL;
    size_t count = 0;
    long long others = 0;
    TRY(mem_new(MOST, sizeof *rules, "reasons", &rules, err));
    for (size_t row = 0; row < view_row_count(source->view); row++) {
        const struct view_row *one = view_row(source->view, row);
        char rule[RULE_TEXT];
        if (one->state != LEDGER_REJECTED) continue;
        exposures_reason(one->reason, rule, sizeof rule);
        size_t i = 0;
        while (i < count && (rules[i].stage != one->stage || strcmp(rules[i].text, rule) != 0))
            i++;
        if (i == MOST) {
            others++;
            continue;
        }
        if (i == count) {
            rules[count].stage = one->stage;
            memcpy(rules[count++].text, rule, sizeof rule);
        }
        rules[i].count++;
    }
    qsort(rules, count, sizeof *rules, more_often);
    metrics_family(text, "icestream_rejected_reason_items", "gauge", "Rejected exposures by stage and rule.");
    for (size_t i = 0; i < count && i < RULES; i++)
        metrics_sample(text, (double)rules[i].count, "stage", view_stage_name(source->view, (size_t)rules[i].stage),
                       "rule", rules[i].text, NULL);
    for (size_t i = RULES; i < count; i++)
        others += rules[i].count;
    if (others > 0) metrics_sample(text, (double)others, "stage", "", "rule", "other", NULL);
    return STATUS_OK;
}

/* Returns a number of the newest line of a stage's history that has it; NaN: none. */
static double newest(struct view *view, const char *stage, const char *key) {
    const json_t *history = view_history(view, stage);
    for (size_t i = json_array_size(history); i-- > 0;) {
        const json_t *value = json_object_get(json_array_get(history, i), key);
        if (json_is_number(value)) return json_number_value(value);
    }
    return NAN;
}

static void write_results(const struct metrics_source *source, struct metrics_text *text) {
    static const struct {
        const char *name, *key, *kind, *help;
    } rows[] = {
        {"icestream_particles", "particles", NULL, "Particles in the newest result of a stage."},
        {"icestream_classes", "classes", "classifier", "Classes of the newest classification."},
        {"icestream_classes_kept", "kept_classes", "classifier", "Classes that go on."},
        {"icestream_map_resolution_angstroms", "resolution", "refiner", "Resolution of the newest map."},
        {"icestream_map_iteration", "iteration", "refiner", "Iteration of the newest map."},
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        size_t i;
        json_t *stage;
        metrics_family(text, rows[r].name, "gauge", rows[r].help);
        json_array_foreach(json_object_get(view_plan(source->view), "stages"), i, stage) {
            const char *name = json_string_value(json_object_get(stage, "name"));
            const char *kind = json_string_value(json_object_get(stage, "kind"));
            if (rows[r].kind != NULL && (kind == NULL || strcmp(kind, rows[r].kind) != 0)) continue;
            metrics_sample(text, newest(source->view, name, rows[r].key), "stage", name, NULL);
        }
    }
}

enum status metrics_quality(const struct metrics_source *source, struct metrics_text *text, struct err *err) {
    write_recent(source, text);
    TRY(write_rejected(source, text, err));
    write_results(source, text);
    return STATUS_OK;
}
