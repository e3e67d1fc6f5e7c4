/* Fills in values that a graph leaves open and that follow from another of its values: one diameter serves every
 * stage. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipelines/launcher/graph/graph_check.h"

/* A mask leaves a little room around the particle, and a box leaves more. */
static const double MASK_OVER_PARTICLE = 1.1, BOX_OVER_PARTICLE = 1.5;
enum { BOX_DEFAULT = 128, BOX_MAX = 8192 };

static bool is_kind(const struct graph_stage *stage, const char *kind) {
    return stage->describe != NULL && !stage->left_out && strcmp(stage->kind, kind) == 0;
}

static bool has_mask(const struct graph_stage *stage) {
    return is_kind(stage, "classifier") || is_kind(stage, "refiner");
}

/* Returns NaN when the key is missing or its value is not a number above 0. */
static double number_of(const struct graph_section *section, const char *key) {
    const struct graph_entry *entry = graph_entry(section, key);
    if (entry == NULL || entry->value.count != 1) return NAN;
    char *end;
    double number = strtod(entry->value.texts[0], &end);
    return end != entry->value.texts[0] && *end == '\0' && isfinite(number) && number > 0 ? number : NAN;
}

/* Finds the particle's diameter and the stage that gives it: the picker first, whose diameter is that of the particle
 * itself. */
static double find_particle(const struct graph *graph, const struct graph_stage **ret_from) {
    for (int masks = 0; masks < 2; masks++)
        for (size_t i = 0; i < graph->stage_count; i++) {
            const struct graph_stage *stage = &graph->stages[i];
            double diameter = number_of(&stage->section, "diameter");
            if (isnan(diameter) || !(masks ? has_mask(stage) : is_kind(stage, "lowpass-picker"))) continue;
            *ret_from = stage;
            return masks ? diameter / MASK_OVER_PARTICLE : diameter;
        }
    return NAN;
}

static enum status put_number(struct graph_stage *stage, const char *key, double number, const char *unit,
                              const struct graph_stage *from, struct problems *problems, struct err *err) {
    char text[32];
    snprintf(text, sizeof text, "%.0f", number);
    TRY(graph_put(&stage->section, key, text, true, err));
    problems_add(problems, PROBLEM_NOTE, stage->section.line, "%s: no `%s`, so %s %s, after the diameter of %s",
                 stage->section.name, key, text, unit, from->section.name);
    return STATUS_OK;
}

/* Returns an even size that is a product of 2, 3 and 5, for the Fourier transforms. */
static int box_of(double least) {
    for (int box = 2 * (int)ceil(least / 2); box <= BOX_MAX; box += 2) {
        int rest = box;
        for (int prime = 2; prime <= 5; prime++)
            while (rest % prime == 0)
                rest /= prime;
        if (rest == 1) return box;
    }
    return BOX_DEFAULT;
}

/* Returns whether all stages after the watcher count in pixels. A watcher that feeds no stage counts as one of
 * micrographs. */
static bool feeds_unscaled_only(const struct graph *graph, size_t watcher) {
    bool feeds = false;
    for (size_t i = 0; i < graph->stage_count; i++)
        for (size_t k = 0; k < graph->stages[i].from_count; k++) {
            if (graph->stages[i].from[k] != watcher) continue;
            if (!json_is_true(json_object_get(graph->stages[i].describe, "unscaled"))) return false;
            feeds = true;
        }
    return feeds;
}

enum status graph_derive_scaled(struct graph *graph, struct err *err) {
    for (size_t i = 0; i < graph->stage_count; i++) {
        struct graph_stage *stage = &graph->stages[i];
        if (is_kind(stage, "watcher") && graph_entry(&stage->section, "scaled") == NULL &&
            feeds_unscaled_only(graph, i))
            TRY(graph_put(&stage->section, "scaled", "false", true, err));
    }
    return STATUS_OK;
}

enum status graph_derive(struct graph *graph, struct problems *problems, struct err *err) {
    const struct graph_stage *from = NULL;
    double particle = find_particle(graph, &from), pixel_size = number_of(&graph->session, "pixel_size");
    if (isnan(particle)) return STATUS_OK;
    for (size_t i = 0; i < graph->stage_count; i++) {
        struct graph_stage *stage = &graph->stages[i];
        bool open = graph_entry(&stage->section, "diameter") == NULL;
        if (has_mask(stage) && open)
            TRY(put_number(stage, "diameter", round(MASK_OVER_PARTICLE * particle), "Å", from, problems, err));
        else if (is_kind(stage, "lowpass-picker") && open && graph_entry(&stage->section, "templates") == NULL &&
                 graph_entry(&stage->section, "log_diameter") == NULL)
            TRY(put_number(stage, "diameter", round(particle), "Å", from, problems, err));
        double box = BOX_OVER_PARTICLE * particle / pixel_size;
        if (is_kind(stage, "extractor") && graph_entry(&stage->section, "box") == NULL && box > BOX_DEFAULT &&
            box < BOX_MAX)
            TRY(put_number(stage, "box", box_of(box), "px", from, problems, err));
    }
    return STATUS_OK;
}
