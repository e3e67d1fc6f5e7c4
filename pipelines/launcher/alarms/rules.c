#include "pipelines/launcher/alarms/rules.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"

/* hold 0: one sample is enough, because the condition itself is one about a span of time. */
static const struct alarm_rule RULES[ALARM_KINDS] = {
    [ALARM_LAUNCHER_GONE] = {"launcher_gone", ALARM_CRITICAL, NAN, "", 5,
                             "The run has stopped without an end: its launcher was killed."},
    [ALARM_NO_EXPOSURE] = {"no_exposure", ALARM_WARNING, 600, "s", 0,
                           "No new exposure for the threshold, and for 5 times the usual interval; critical after 6 "
                           "times the threshold."},
    [ALARM_STAGE_SILENT] = {"stage_silent", ALARM_CRITICAL, 15, "s", 0,
                            "A process of a stage has given no sign of life for the threshold."},
    [ALARM_STAGE_GAVE_UP] = {"stage_gave_up", ALARM_CRITICAL, NAN, "", 0,
                             "A stage died again and again, and the launcher ended the run."},
    [ALARM_STAGE_RESTARTS] = {"stage_restarts", ALARM_WARNING, 3, "restarts", 0,
                              "Processes of a stage were started again so many times within 30 minutes."},
    [ALARM_DOES_NOT_ADD_UP] = {"does_not_add_up", ALARM_CRITICAL, NAN, "", 60, "The counts of the ledgers disagree."},
    [ALARM_FAILING] = {"failing", ALARM_CRITICAL, 10, "%", 0,
                       "5 exposures in a row have failed, or more than the threshold of the last 50."},
    [ALARM_REJECTING] = {"rejecting", ALARM_WARNING, 30, "%", 0,
                         "Rules have rejected more than the threshold of the last 100 exposures."},
    [ALARM_BACKLOG] = {"backlog", ALARM_WARNING, 1800, "s", 0,
                       "The oldest item that waits for a stage is older than the threshold, and has grown older for 15 "
                       "minutes."},
    [ALARM_TROUBLE] = {"trouble", ALARM_CRITICAL, NAN, "", 120,
                       "A stage waits for room on a disk, for memory or for another thing that the machine lacks."},
    [ALARM_DISK] = {"disk", ALARM_WARNING, 10, "%", 0, "Less than the threshold of a disk is free."},
    [ALARM_DISK_HOURS] = {"disk_hours", ALARM_WARNING, 12, "h", 300,
                          "At the rate of the last hour a disk is full in less than the threshold."},
    [ALARM_INTAKE_PAUSED] = {"intake_paused", ALARM_CRITICAL, NAN, "", 0,
                             "The watcher takes in nothing, because the disk is nearly full."},
    [ALARM_GPU_HOT] = {"gpu_hot", ALARM_WARNING, 87, "°C", 300, "A GPU is hotter than the threshold."},
    [ALARM_GPU_LOST] =
        {"gpu_lost", ALARM_CRITICAL, NAN, "", 0,
         "A GPU that was there no longer answers, or has reported an error (Xid) in the last 10 minutes."},
    [ALARM_GPU_IDLE] = {"gpu_idle", ALARM_WARNING, 5, "%", 600,
                        "A GPU works less than the threshold while items wait for a stage on it."},
    [ALARM_DEFOCUS] = {"defocus", ALARM_WARNING, 4, "µm", 60,
                       "The median defocus of the last 25 exposures is below 0.1 µm or above the threshold."},
    [ALARM_DEFOCUS_TARGET] = {"defocus_target", ALARM_WARNING, 50, "%", 60,
                              "More than the threshold of the last 25 exposures lie outside the session's target "
                              "`defocus`."},
    [ALARM_ASTIGMATISM] = {"astigmatism", ALARM_WARNING, 1000, "Å", 60,
                           "The median astigmatism of the last 25 exposures is above the threshold."},
    [ALARM_CTF_RESOLUTION] = {"ctf_resolution", ALARM_WARNING, 1.5, "times", 60,
                              "The median CTF resolution of the last 25 exposures is worse than the session's by the "
                              "threshold."},
    [ALARM_MOTION] = {"motion", ALARM_WARNING, 2, "times", 60,
                      "The median motion of the last 25 exposures is above the session's by the threshold."},
    [ALARM_ICE] = {"ice", ALARM_WARNING, 2, "times", 60,
                   "The median ice ring of the last 25 exposures is above the session's by the threshold."},
    [ALARM_PICKS] = {"picks", ALARM_WARNING, 20, "%", 60,
                     "The last 25 exposures have fewer particles (median) than the threshold of the session's median."},
    [ALARM_GAIN] = {"gain", ALARM_WARNING, 0.04, "", 60,
                    "The gain reference no longer fits: what it leaves varies by more than the threshold (standard "
                    "deviation), by 1.15 between percentiles 2.5 and 97.5, or its maximum is 4.5 times percentile "
                    "97.5."},
    [ALARM_BEAM_TILT] = {"beam_tilt", ALARM_WARNING, 0.5, "mrad", 60,
                         "The beam tilt that refinement estimates is above the threshold."},
    [ALARM_ORIENTATION] = {"orientation", ALARM_INFO, 0.65, "", 60,
                           "The efficiency of the orientations is below the threshold with more than 5,000 "
                           "particles."},
    [ALARM_SATURATED] = {"saturated", ALARM_INFO, 2, "%", 60,
                         "The last doubling of the particles improved the resolution of the map by less than the "
                         "threshold."},
};

const struct alarm_rule *alarm_rule(enum alarm_kind kind) {
    return &RULES[kind];
}

enum alarm_kind alarm_kind_find(const char *name) {
    int kind = 0;
    while (kind < ALARM_KINDS && strcmp(RULES[kind].name, name) != 0)
        kind++;
    return (enum alarm_kind)kind;
}

const char *alarm_severity_name(enum alarm_severity severity) {
    static const char *const names[] = {"info", "warning", "critical"};
    return names[severity];
}

void alarm_settings_default(struct alarm_settings *ret_settings) {
    struct alarm_settings settings = {
        .defocus_least = NAN, .defocus_most = NAN, .repeat = 4 * 3600.0, .quality_least = 50};
    for (int i = 0; i < ALARM_KINDS; i++) {
        settings.rules[i].threshold = RULES[i].threshold;
        settings.rules[i].hold = RULES[i].hold;
    }
    *ret_settings = settings;
}

static enum status unknown_rule(const char *name, struct err *err) {
    const char *names[ALARM_KINDS + 2];
    for (int i = 0; i < ALARM_KINDS; i++)
        names[i] = RULES[i].name;
    names[ALARM_KINDS] = "repeat";
    names[ALARM_KINDS + 1] = "least";
    const char *near = text_nearest(name, names, ALARM_KINDS + 2);
    FAIL(err, STATUS_BAD_ARGUMENT, "'%s' is no alarm%s%s%s (docs/handbook/alarms.md lists them)", name,
         near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

enum status alarm_settings_set(struct alarm_settings *settings, const char *text, struct err *err) {
    const char *equals = strchr(text, '=');
    char name[64], *end;
    FAIL_IF(equals == NULL || equals == text || (size_t)(equals - text) >= sizeof name, err, STATUS_BAD_ARGUMENT,
            "'%s' sets no alarm; write NAME=THRESHOLD, NAME=off or NAME.for=SECONDS, as in disk=5", text);
    snprintf(name, sizeof name, "%.*s", (int)(equals - text), text);
    const bool off = strcmp(equals + 1, "off") == 0;
    const double number = strtod(equals + 1, &end);
    const bool is_number = end != equals + 1 && *end == '\0' && isfinite(number) && number >= 0;
    char *dot = strchr(name, '.');
    const bool hold = dot != NULL && strcmp(dot, ".for") == 0;
    if (hold) *dot = '\0';
    const enum alarm_kind kind = alarm_kind_find(name);
    const bool general = !hold && (strcmp(name, "repeat") == 0 || strcmp(name, "least") == 0);
    if (kind == ALARM_KINDS && !general) return unknown_rule(name, err);
    FAIL_IF(!is_number && !(off && !hold && !general), err, STATUS_BAD_ARGUMENT,
            "'%s': '%s' is no number of 0 or more%s", text, equals + 1, hold || general ? "" : ", nor 'off'");
    FAIL_IF(!general && !hold && !off && isnan(RULES[kind].threshold), err, STATUS_BAD_ARGUMENT,
            "'%s': %s has no threshold; it can be %s=off, or %s.for=SECONDS", text, name, name, name);
    if (general && name[0] == 'r')
        settings->repeat = number;
    else if (general)
        settings->quality_least = (size_t)fmin(number, 1e9);
    else if (hold)
        settings->rules[kind].hold = number;
    else if (off)
        settings->rules[kind].off = true;
    else
        settings->rules[kind].threshold = number;
    return STATUS_OK;
}

/* Reads a number that JSON holds as a number or as text. */
static double number_of(const json_t *value) {
    if (json_is_string(value)) return strtod(json_string_value(value), NULL);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

void alarm_settings_read(const json_t *session, struct alarm_settings *ret_settings) {
    struct alarm_settings settings;
    alarm_settings_default(&settings);
    const json_t *alarms = json_object_get(session, "alarms"), *defocus = json_object_get(session, "defocus");
    if (json_is_string(alarms)) alarm_settings_set(&settings, json_string_value(alarms), NULL);
    for (size_t i = 0; i < json_array_size(alarms); i++) {
        const char *text = json_string_value(json_array_get(alarms, i));
        if (text != NULL) alarm_settings_set(&settings, text, NULL);
    }
    if (json_array_size(defocus) == 2) {
        settings.defocus_least = number_of(json_array_get(defocus, 0));
        settings.defocus_most = number_of(json_array_get(defocus, 1));
    }
    *ret_settings = settings;
}
