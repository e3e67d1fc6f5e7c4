#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"
#include "pipelines/launcher/alarms/exposures.h"
#include "pipelines/launcher/alarms/sampler_private.h"
#include "pipelines/launcher/numbers.h"

enum { FAILED_OF = 50, REJECTED_OF = 100, REASONS = 100, REASON_TEXT = 120, STALE_VALUES = 25 };

/* Takes the median of a whole session anew only when its values have grown by a hundredth: sorting 100,000 values takes
 * milliseconds. An exposure has its values long after its row. */
static enum status session_median(struct sampler *sampler, enum alarm_quantity quantity, struct exposures_column column,
                                  struct err *err) {
    const size_t rows = view_row_count(sampler->view), before = sampler->session[quantity].seen;
    const uint64_t revision = view_revision(sampler->view);
    if (revision == sampler->session[quantity].revision) return STATUS_OK;
    if (rows > sampler->capacity) {
        const size_t capacity = 2 * rows;
        double *values = realloc(sampler->values, capacity * sizeof *values);
        FAIL_IF(values == NULL, err, STATUS_NO_MEMORY, "no memory for the medians of %zu exposures", rows);
        sampler->values = values;
        sampler->capacity = capacity;
    }
    const size_t seen = exposures_recent(sampler->view, column, rows, sampler->values);
    sampler->session[quantity].revision = revision; /* read, whether or not the median is taken */
    if (seen >= before && seen < before + before / 100 + 1 && seen > STALE_VALUES) return STATUS_OK;
    numbers_sort(sampler->values, seen);
    sampler->session[quantity].median = numbers_quantile(sampler->values, seen, 0.5);
    sampler->session[quantity].seen = seen;
    return STATUS_OK;
}

static double share_outside(const double *values, size_t count, double least, double most) {
    size_t outside = 0;
    if (isnan(least) || isnan(most) || count == 0) return NAN;
    for (size_t i = 0; i < count; i++)
        outside += values[i] < least || values[i] > most;
    return (double)outside / (double)count;
}

static enum status take_medians(struct sampler *sampler, const struct alarm_settings *settings,
                                struct alarm_sample *sample, struct err *err) {
    if (view_epoch(sampler->view) != sampler->epoch) {
        memset(sampler->session, 0, sizeof sampler->session);
        sampler->epoch = view_epoch(sampler->view);
    }
    for (int i = 0; i < QUANTITIES; i++) {
        struct alarm_quality *quality = &sample->quality[i];
        const enum alarm_quantity quantity = (enum alarm_quantity)i;
        const struct exposures_column column = exposures_column(sampler->view, quantity);
        double recent[ALARM_RECENT];
        *quality = (struct alarm_quality){.recent = NAN, .session = NAN, .outside = NAN};
        if (column.first < 0) continue;
        const size_t count = exposures_recent(sampler->view, column, ALARM_RECENT, recent);
        TRY(session_median(sampler, quantity, column, err));
        quality->seen = sampler->session[i].seen > count ? sampler->session[i].seen : count;
        quality->session = sampler->session[i].median;
        if (quantity == QUANTITY_DEFOCUS)
            quality->outside = share_outside(recent, count, settings->defocus_least, settings->defocus_most);
        numbers_sort(recent, count);
        quality->recent = numbers_quantile(recent, count, 0.5);
    }
    return STATUS_OK;
}

struct reasons {
    struct {
        char text[REASON_TEXT];
        int count;
    } list[REASONS];
    size_t count;
};

static void count_reason(const struct view *view, const struct view_row *row, struct reasons *reasons) {
    char rule[80], text[REASON_TEXT];
    size_t i = 0;
    exposures_reason(row->reason, rule, sizeof rule);
    snprintf(text, sizeof text, "%.36s: %s", view_stage_name(view, (size_t)row->stage), rule);
    while (i < reasons->count && strcmp(reasons->list[i].text, text) != 0)
        i++;
    if (i == REASONS) return;
    if (i == reasons->count) memcpy(reasons->list[reasons->count++].text, text, sizeof text);
    reasons->list[i].count++;
}

static void name_reason(const struct reasons *reasons, char *text, size_t size) {
    size_t most = 0;
    for (size_t i = 1; i < reasons->count; i++)
        if (reasons->list[i].count > reasons->list[most].count) most = i;
    snprintf(text, size, "%s", reasons->count > 0 ? reasons->list[most].text : "");
    text_trim(text);
}

/* Looks back over the last 100 exposures that are finished. */
static void take_losses(const struct view *view, struct alarm_sample *sample) {
    struct reasons failed = {0}, rejected = {0};
    bool unbroken = true;
    for (size_t row = view_row_count(view); row-- > 0 && sample->hundred_count < REJECTED_OF;) {
        const struct view_row *one = view_row(view, row);
        const bool fails = one->state == LEDGER_FAILED, leaves = one->state == LEDGER_REJECTED;
        if (one->state == LEDGER_IN_FLIGHT) continue;
        unbroken &= fails;
        sample->failures_in_row += unbroken;
        sample->hundred_count++;
        sample->hundred_rejected += leaves;
        if (leaves) count_reason(view, one, &rejected);
        if (sample->recent_count == FAILED_OF) continue;
        sample->recent_count++;
        sample->recent_failed += fails;
        if (fails) count_reason(view, one, &failed);
    }
    name_reason(&failed, sample->failure, sizeof sample->failure);
    name_reason(&rejected, sample->rejection, sizeof sample->rejection);
}

static double number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* The newest map, and the last one of at most half its particles. */
static void take_map(const struct sampler *sampler, const char *stage, struct alarm_sample *sample) {
    const struct sampler_sources *sources = &sampler->sources;
    const json_t *history = view_history(sampler->view, stage);
    if (json_array_size(history) > 0 && sources->beam_tilt != NULL)
        sample->beam_tilt = sources->beam_tilt(sources->context, stage);
    for (size_t i = json_array_size(history); i-- > 0;) {
        const json_t *line = json_array_get(history, i);
        const double particles = number(line, "particles"), resolution = number(line, "resolution");
        if (isnan(particles) || isnan(resolution)) continue;
        if (isnan(sample->particles)) {
            sample->particles = particles;
            sample->resolution = resolution;
            /* It takes a while, and few particles need none. */
            if (particles > ALARM_PARTICLES && sources->efficiency != NULL)
                sample->efficiency = sources->efficiency(sources->context, stage);
        } else if (particles <= sample->particles / 2) {
            sample->resolution_at_half = resolution;
            return;
        }
    }
}

enum status sampler_quality(struct sampler *sampler, const struct alarm_settings *settings, struct alarm_sample *sample,
                            struct err *err) {
    size_t i;
    json_t *planned;
    take_losses(sampler->view, sample);
    json_array_foreach(json_object_get(view_plan(sampler->view), "stages"), i, planned) {
        const char *kind = json_string_value(json_object_get(planned, "kind"));
        if (kind == NULL || strcmp(kind, "refiner") != 0 || !isnan(sample->particles)) continue;
        take_map(sampler, json_string_value(json_object_get(planned, "name")), sample);
    }
    return take_medians(sampler, settings, sample, err);
}
