/* Declarations that the files of the sampler share. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_ALARMS_SAMPLER_PRIVATE_H
#define ICESTREAM_PIPELINES_LAUNCHER_ALARMS_SAMPLER_PRIVATE_H

#include "pipelines/launcher/alarms/sampler.h"
#include "pipelines/launcher/view/view.h"

struct sampler {
    struct view *view;
    struct sampler_sources sources;
    json_t *pids;     /* {"refiner.0": {"pid", "change"}} as last seen */
    json_t *restarts; /* {"refiner.0": 1} */
    json_t *visible;  /* {"refiner.0": "0,1"}: the GPUs that an instance may use, as CUDA_VISIBLE_DEVICES names them */
    json_t *warnings; /* as last read; NULL: none */
    double warned;    /* when they were read; NaN: they are read for the next sample */
    struct {
        int count;   /* errors so far */
        double time; /* of the last one */
    } xids[ALARM_GPUS];
    struct {
        double median;
        size_t seen;       /* values that it was taken of */
        uint64_t revision; /* of the view when the values were last counted */
    } session[QUANTITIES];
    double *values; /* room for a column */
    size_t capacity;
    uint64_t epoch;
    int run;      /* that `begun` belongs to */
    double begun; /* s since 1970; NaN: not known */
};

/* sampler_gpus.c: notes which GPUs the process of an instance may use. */
void sampler_see_gpus(struct sampler *sampler, const char *instance, json_int_t pid);
/* sampler_gpus.c: fills in the GPUs. The stages of the sample must be there. */
void sampler_gpus(struct sampler *sampler, struct alarm_sample *sample);
/* sampler_quality.c: fills in the medians, what was lost, and the newest map. */
enum status sampler_quality(struct sampler *sampler, const struct alarm_settings *settings, struct alarm_sample *sample,
                            struct err *err);

#endif
