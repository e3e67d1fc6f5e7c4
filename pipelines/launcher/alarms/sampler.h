/* Takes samples of a session for the judge (judge.h). It remembers what a single look does not show: processes that
 * were started again, GPUs that were there before, medians of a long session. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_ALARMS_SAMPLER_H
#define ICESTREAM_PIPELINES_LAUNCHER_ALARMS_SAMPLER_H

#include <jansson.h>

#include "pipelines/launcher/alarms/judge.h"

struct gpu;
struct sampler;
struct view;

/* Sources of a sampler besides the view. A function may be NULL: its values are not known then. */
struct sampler_sources {
    void *context;
    /* Returns how many GPUs the machine has; *ret_list is borrowed until the next call. */
    size_t (*gpus)(void *context, const struct gpu **ret_list);
    /* Describe a refiner's newest map; NaN: not known. */
    double (*efficiency)(void *context, const char *stage);
    double (*beam_tilt)(void *context, const char *stage); /* mrad */
};

/* Makes a sampler for a view, which must outlive it. */
enum status sampler_new(struct view *view, const struct sampler_sources *sources, struct sampler **ret_sampler,
                        struct err *err);
/* Frees it; accepts NULL. */
void sampler_free(struct sampler **sampler);
/* The next sample is of everything as it is, warnings too, which are read every 5 s otherwise. */
void sampler_renew(struct sampler *sampler);
/* Takes a sample of the view as it was last polled. settings: for the session's target. */
enum status sampler_take(struct sampler *sampler, double now, const struct alarm_settings *settings,
                         struct alarm_sample *ret_sample, struct err *err);
/* Returns how often each instance was started again since the sampler was made: {"refiner.0": 1}; borrowed. */
const json_t *sampler_restarts(const struct sampler *sampler);

#endif
