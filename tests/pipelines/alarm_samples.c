#include "tests/pipelines/alarm_samples.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/common/scratch.h"

static const char *const QUANTITY_NAMES[QUANTITIES] = {"defocus", "astigmatism", "resolution",  "motion",      "ice",
                                                       "picks",   "gain",        "gain_spread", "gain_maximum"};

void sample_clear(struct alarm_sample *sample) {
    *sample = (struct alarm_sample){.adds_up = true,
                                    .begun = NAN,
                                    .last_exposure = NAN,
                                    .interval = NAN,
                                    .beam_tilt = NAN,
                                    .efficiency = NAN,
                                    .particles = NAN,
                                    .resolution = NAN,
                                    .resolution_at_half = NAN};
    for (int i = 0; i < QUANTITIES; i++)
        sample->quality[i] = (struct alarm_quality){.recent = NAN, .session = NAN, .outside = NAN};
}

static double number(const json_t *value) {
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static double at(const json_t *array, size_t index) {
    return number(json_array_get(array, index));
}

static void copy(char *out, size_t size, const json_t *value) {
    snprintf(out, size, "%s", json_string_value(value));
}

static size_t find(const char *names, size_t stride, size_t count, const char *name) {
    size_t i = 0;
    while (i < count && strcmp(names + i * stride, name) != 0)
        i++;
    return i;
}

static void read_quality(struct alarm_sample *sample, json_t *object) {
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        int q = 0;
        while (q < QUANTITIES && strcmp(QUANTITY_NAMES[q], key) != 0)
            q++;
        if (q == QUANTITIES) fail_msg("'%s' is no quantity", key);
        sample->quality[q] = (struct alarm_quality){(size_t)at(value, 0), at(value, 1), at(value, 2), at(value, 3)};
    }
}

static void read_stages(struct alarm_sample *sample, json_t *object) {
    const char *name, *key;
    json_t *stage, *value;
    json_object_foreach(object, name, stage) {
        size_t i = find(sample->stages[0].name, sizeof sample->stages[0], sample->stage_count, name);
        struct alarm_stage *s = &sample->stages[i];
        assert_true(i < ALARM_STAGES);
        if (i == sample->stage_count) {
            sample->stage_count++;
            snprintf(s->name, sizeof s->name, "%s", name);
            snprintf(s->instance, sizeof s->instance, "%.60s.0", name);
        }
        json_object_foreach(stage, key, value) {
            if (strcmp(key, "instance") == 0)
                copy(s->instance, sizeof s->instance, value);
            else if (strcmp(key, "trouble") == 0)
                copy(s->trouble, sizeof s->trouble, value);
            else if (strcmp(key, "silent") == 0)
                s->silent = number(value);
            else if (strcmp(key, "oldest") == 0)
                s->oldest = number(value);
            else if (strcmp(key, "queue") == 0)
                s->queue = json_integer_value(value);
            else if (strcmp(key, "restarts") == 0)
                s->restarts = json_integer_value(value);
            else if (strcmp(key, "gave_up") == 0)
                s->gave_up = json_is_true(value);
            else
                fail_msg("'%s' is nothing of a stage", key);
        }
    }
}

static void read_gpus(struct alarm_sample *sample, json_t *object) {
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value) {
        size_t i = find(sample->gpus[0].name, sizeof sample->gpus[0], sample->gpu_count, name);
        assert_true(i < ALARM_GPUS);
        if (i == sample->gpu_count) sample->gpu_count++;
        struct alarm_gpu gpu = {.utilization = at(value, 0),
                                .celsius = at(value, 1),
                                .queue = json_integer_value(json_array_get(value, 2)),
                                .lost = json_is_true(json_array_get(value, 3)),
                                .xid = (unsigned long long)json_integer_value(json_array_get(value, 4)),
                                .xid_age = at(value, 5)};
        snprintf(gpu.name, sizeof gpu.name, "%s", name);
        sample->gpus[i] = gpu;
    }
}

static void read_places(struct alarm_sample *sample, json_t *object) {
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value) {
        size_t i = find(sample->places[0].name, sizeof sample->places[0], sample->place_count, name);
        assert_true(i < ALARM_PLACES);
        if (i == sample->place_count) sample->place_count++;
        struct alarm_place place = {.free = at(value, 0), .size = at(value, 1)};
        snprintf(place.name, sizeof place.name, "%s", name);
        sample->places[i] = place;
    }
}

/* Reads the keys of one plain value. Returns false when the key is none of them. */
static bool read_plain(struct alarm_sample *sample, const char *key, const json_t *value) {
    const struct {
        const char *key;
        double *place, shift;
    } numbers[] = {{"t", &sample->time, SAMPLES_BEGIN},
                   {"begun", &sample->begun, SAMPLES_BEGIN},
                   {"last_exposure", &sample->last_exposure, SAMPLES_BEGIN},
                   {"interval", &sample->interval, 0},
                   {"beam_tilt", &sample->beam_tilt, 0},
                   {"efficiency", &sample->efficiency, 0}};
    const struct {
        const char *key;
        bool *place;
    } flags[] = {{"running", &sample->running},
                 {"draining", &sample->draining},
                 {"gone", &sample->gone},
                 {"adds_up", &sample->adds_up}};
    const struct {
        const char *key;
        char *place;
    } texts[] = {{"failure", sample->failure}, {"rejection", sample->rejection}, {"paused", sample->paused}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (strcmp(key, numbers[i].key) == 0) return *numbers[i].place = number(value) + numbers[i].shift, true;
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (strcmp(key, flags[i].key) == 0) return *flags[i].place = json_is_true(value), true;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (strcmp(key, texts[i].key) == 0) return copy(texts[i].place, sizeof sample->failure, value), true;
    return false;
}

void sample_read(struct alarm_sample *sample, const json_t *line) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)line, key, value) {
        if (read_plain(sample, key, value)) continue;
        if (strcmp(key, "quality") == 0) {
            read_quality(sample, value);
        } else if (strcmp(key, "stages") == 0) {
            read_stages(sample, value);
        } else if (strcmp(key, "gpus") == 0) {
            read_gpus(sample, value);
        } else if (strcmp(key, "places") == 0) {
            read_places(sample, value);
        } else if (strcmp(key, "recent") == 0) {
            sample->recent_count = (int)at(value, 0), sample->recent_failed = (int)at(value, 1);
        } else if (strcmp(key, "hundred") == 0) {
            sample->hundred_count = (int)at(value, 0), sample->hundred_rejected = (int)at(value, 1);
        } else if (strcmp(key, "map") == 0) {
            sample->particles = at(value, 0), sample->resolution = at(value, 1);
            sample->resolution_at_half = at(value, 2);
        } else if (strcmp(key, "failures_in_row") == 0) {
            sample->failures_in_row = (int)json_integer_value(value);
        } else {
            fail_msg("'%s' is nothing of a sample", key);
        }
    }
}
