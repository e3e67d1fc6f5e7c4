/* Finds which conditions hold at one sample. conditions.c looks at the run and the machine, conditions_quality.c at
 * what the microscope delivers. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_ALARMS_CONDITIONS_H
#define ICESTREAM_PIPELINES_LAUNCHER_ALARMS_CONDITIONS_H

#include "pipelines/launcher/alarms/judge.h"

struct condition {
    enum alarm_kind kind;
    enum alarm_severity severity;
    const char *subject, *text; /* valid during the call */
    double value;
};

struct conditions {
    const struct alarm_sample *samples; /* the present one is samples[at]; those before it serve for comparison */
    size_t at;
    const struct alarm_settings *settings;
    void (*found)(void *context, const struct condition *condition);
    void *context;
};

/* Calls `found` for each condition that holds at the present sample. */
void conditions_find(const struct conditions *c);
/* conditions_quality.c: the part of it about exposures and maps. */
void conditions_find_quality(const struct conditions *c);

/* Passes on a condition of a kind, with the severity of its rule. */
void condition_found(const struct conditions *c, enum alarm_kind kind, const char *subject, double value,
                     const char *format, ...) __attribute__((format(printf, 5, 6)));
/* Writes a span of time for people: "45 s", "14 min", "3.5 h". */
void condition_span(double seconds, char *text, size_t size);

#endif
