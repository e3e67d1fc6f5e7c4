/* The rules of the alarms: names, severities, thresholds and how long a condition must hold. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_ALARMS_RULES_H
#define ICESTREAM_PIPELINES_LAUNCHER_ALARMS_RULES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

enum alarm_severity { ALARM_INFO, ALARM_WARNING, ALARM_CRITICAL };

/* The order is that of the table in rules.c, and of the handbook. */
enum alarm_kind {
    ALARM_LAUNCHER_GONE,
    ALARM_NO_EXPOSURE,
    ALARM_STAGE_SILENT,
    ALARM_STAGE_GAVE_UP,
    ALARM_STAGE_RESTARTS,
    ALARM_DOES_NOT_ADD_UP,
    ALARM_FAILING,
    ALARM_REJECTING,
    ALARM_BACKLOG,
    ALARM_TROUBLE,
    ALARM_DISK,
    ALARM_DISK_HOURS,
    ALARM_INTAKE_PAUSED,
    ALARM_GPU_HOT,
    ALARM_GPU_LOST,
    ALARM_GPU_IDLE,
    ALARM_DEFOCUS,
    ALARM_DEFOCUS_TARGET,
    ALARM_ASTIGMATISM,
    ALARM_CTF_RESOLUTION,
    ALARM_MOTION,
    ALARM_ICE,
    ALARM_PICKS,
    ALARM_GAIN,
    ALARM_BEAM_TILT,
    ALARM_ORIENTATION,
    ALARM_SATURATED,
    ALARM_KINDS
};

struct alarm_rule {
    const char *name;
    enum alarm_severity severity; /* no_exposure becomes critical after 6 times its threshold */
    double threshold;             /* in `unit`; NaN: the rule compares nothing */
    const char *unit;
    double hold;         /* s */
    const char *summary; /* one sentence: when it fires; "%s" stands nowhere */
};
/* Returns the rule of a kind. */
const struct alarm_rule *alarm_rule(enum alarm_kind kind);
/* Returns the kind of a rule's name, or ALARM_KINDS. */
enum alarm_kind alarm_kind_find(const char *name);
/* Returns "info", "warning" or "critical". */
const char *alarm_severity_name(enum alarm_severity severity);

/* The thresholds of a session. */
struct alarm_settings {
    struct {
        double threshold, hold;
        bool off;
    } rules[ALARM_KINDS];
    double defocus_least, defocus_most; /* the session's target, µm; NaN: none */
    double repeat;                      /* s after which an alarm that still fires is told again */
    size_t quality_least;               /* exposures that must have a value before the rules of quality apply */
};
/* Fills in the defaults. */
void alarm_settings_default(struct alarm_settings *ret_settings);
/* Takes over one text of `session.alarms`: "disk=5", "disk=off", "disk.for=60", or "repeat=SECONDS" and "least=N".
 * BAD_ARGUMENT: the message says what is wrong, and names the nearest rule. */
enum status alarm_settings_set(struct alarm_settings *settings, const char *text, struct err *err);
/* Returns the defaults with what the session of a graph sets: `alarms` and `defocus`, as lists or single values in JSON.
 * Ignores what `icestream check` refuses. */
void alarm_settings_read(const json_t *session, struct alarm_settings *ret_settings);

#endif
