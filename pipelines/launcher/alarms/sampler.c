#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/files.h"
#include "common/memory.h"
#include "common/text.h"
#include "pipelines/launcher/alarms/exposures.h"
#include "pipelines/launcher/alarms/places.h"
#include "pipelines/launcher/alarms/sampler_private.h"

static const double WARNINGS_EVERY = 5; /* s */

enum status sampler_new(struct view *view, const struct sampler_sources *sources, struct sampler **ret_sampler,
                        struct err *err) {
    struct sampler *sampler = NULL;
    TRY(mem_new(1, sizeof *sampler, "the samples of the alarms", &sampler, err));
    *sampler = (struct sampler){.view = view,
                                .sources = *sources,
                                .pids = json_object(),
                                .restarts = json_object(),
                                .visible = json_object(),
                                .warned = NAN,
                                .begun = NAN};
    if (sampler->pids == NULL || sampler->restarts == NULL || sampler->visible == NULL) {
        sampler_free(&sampler);
        FAIL(err, STATUS_NO_MEMORY, "no memory for the samples of the alarms");
    }
    *ret_sampler = sampler;
    return STATUS_OK;
}

void sampler_free(struct sampler **sampler) {
    if (*sampler == NULL) return;
    json_decref((*sampler)->pids);
    json_decref((*sampler)->restarts);
    json_decref((*sampler)->visible);
    json_decref((*sampler)->warnings);
    free((*sampler)->values);
    free(*sampler);
    *sampler = NULL;
}

const json_t *sampler_restarts(const struct sampler *sampler) {
    return sampler->restarts;
}

/* Counts a process of another id than before as a restart, unless a change of parameters renewed it. */
static void follow(struct sampler *sampler, const char *instance, const json_t *beat) {
    const json_int_t pid = json_integer_value(json_object_get(beat, "pid"));
    const json_int_t change = json_integer_value(json_object_get(beat, "change"));
    const json_t *known = json_object_get(sampler->pids, instance);
    const json_int_t before = json_integer_value(json_object_get(known, "pid"));
    if (pid <= 0 || pid == before) return;
    sampler_see_gpus(sampler, instance, pid);
    const bool renewed = change != json_integer_value(json_object_get(known, "change"));
    const bool same_run = json_integer_value(json_object_get(known, "run")) == view_run(sampler->view);
    json_int_t count = json_integer_value(json_object_get(sampler->restarts, instance));
    if (before > 0 && !renewed && same_run) count++;
    json_object_set_new(sampler->restarts, instance, json_integer(count));
    json_object_set_new(sampler->pids, instance,
                        json_pack("{s:I, s:I, s:i}", "pid", pid, "change", change, "run", view_run(sampler->view)));
}

static void take_instance(struct sampler *sampler, const char *instance, double now, struct alarm_stage *stage,
                          struct alarm_sample *sample) {
    const json_t *beat = view_heartbeat(sampler->view, instance);
    const char *note = json_string_value(json_object_get(beat, "note"));
    const double silent = view_silence(sampler->view, instance, now);
    follow(sampler, instance, beat);
    stage->restarts += json_integer_value(json_object_get(sampler->restarts, instance));
    const bool waits = note != NULL && strncmp(note, "waits: ", 7) == 0;
    if (note != NULL && strncmp(note, "paused: ", 8) == 0) {
        snprintf(sample->paused, sizeof sample->paused, "%s", note + 8);
        text_trim(sample->paused);
    }
    if (waits && silent == 0) {
        snprintf(stage->trouble, sizeof stage->trouble, "%s", note);
        text_trim(stage->trouble);
    }
    if (silent > stage->silent || (waits && stage->silent == 0)) {
        stage->silent = fmax(stage->silent, silent);
        snprintf(stage->instance, sizeof stage->instance, "%s", instance);
    }
}

/* The launcher names the instance first: "refiner.0 ended with exit code 1; … gives up". */
static bool gave_up(const struct sampler *sampler, const json_t *instances) {
    size_t i, k;
    json_t *warning, *name;
    json_array_foreach(sampler->warnings, i, warning) {
        const char *id = json_string_value(json_object_get(warning, "id"));
        const char *message = json_string_value(json_object_get(warning, "message"));
        if (id == NULL || message == NULL || strcmp(id, "gave-up") != 0) continue;
        if (json_number_value(json_object_get(warning, "last")) < sampler->begun) continue;
        json_array_foreach(instances, k, name) {
            const size_t length = strlen(json_string_value(name));
            if (strncmp(message, json_string_value(name), length) == 0 && message[length] == ' ') return true;
        }
    }
    return false;
}

static void take_stages(struct sampler *sampler, double now, struct alarm_sample *sample) {
    size_t i, k;
    json_t *planned, *name;
    json_array_foreach(json_object_get(view_plan(sampler->view), "stages"), i, planned) {
        const json_t *instances = json_object_get(planned, "instances");
        const char *own = json_string_value(json_object_get(planned, "name"));
        const int index = own != NULL ? view_stage_find(sampler->view, own) : -1;
        if (i >= ALARM_STAGES || index < 0) break;
        struct alarm_stage *stage = &sample->stages[sample->stage_count++];
        snprintf(stage->name, sizeof stage->name, "%s", own);
        snprintf(stage->instance, sizeof stage->instance, "%s", own);
        json_array_foreach(instances, k, name) take_instance(sampler, json_string_value(name), now, stage, sample);
        stage->queue = view_queue(sampler->view, (size_t)index);
        stage->oldest = view_oldest(sampler->view, (size_t)index, now);
        if (isnan(stage->oldest)) stage->oldest = 0;
        stage->gave_up = gave_up(sampler, instances);
    }
}

/* The launcher writes the plan when a run begins. */
static void find_begin(struct sampler *sampler) {
    char path[PATH_SIZE];
    struct stat info;
    if (sampler->run == view_run(sampler->view)) return;
    sampler->run = view_run(sampler->view);
    sampler->begun = NAN;
    if (session_file(view_session(sampler->view), "log", "plan", ".json", path, NULL) == STATUS_OK &&
        stat(path, &info) == 0)
        sampler->begun = (double)file_mtime_ns(&info) * 1e-9;
}

/* Reads what stages and launcher warned of, which opens each ledger. One that cannot be read for a moment is read for the
 * next sample. */
static void read_warnings(struct sampler *sampler, double now) {
    json_t *warnings = NULL;
    if (fabs(now - sampler->warned) < WARNINGS_EVERY) return;
    if (view_warnings(sampler->view, &warnings, NULL) != STATUS_OK) return;
    json_decref(sampler->warnings);
    sampler->warnings = warnings;
    sampler->warned = now;
}

void sampler_renew(struct sampler *sampler) {
    sampler->warned = NAN;
}

enum status sampler_take(struct sampler *sampler, double now, const struct alarm_settings *settings,
                         struct alarm_sample *ret_sample, struct err *err) {
    struct view *view = sampler->view;
    find_begin(sampler);
    read_warnings(sampler, now);
    *ret_sample = (struct alarm_sample){.time = now,
                                        .running = view_is_running(view),
                                        .draining = view_state(view) == VIEW_DRAINING,
                                        .gone = view_launcher_gone(view),
                                        .adds_up = view_adds_up(view, NULL),
                                        .begun = sampler->begun,
                                        .last_exposure = exposures_last(view),
                                        .interval = exposures_interval(view),
                                        .beam_tilt = NAN,
                                        .efficiency = NAN,
                                        .particles = NAN,
                                        .resolution = NAN,
                                        .resolution_at_half = NAN};
    take_stages(sampler, now, ret_sample);
    sampler_gpus(sampler, ret_sample);
    ret_sample->place_count = places_read(view, ret_sample->places);
    return sampler_quality(sampler, settings, ret_sample, err);
}
