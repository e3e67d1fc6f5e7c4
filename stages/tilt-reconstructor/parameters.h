/* The parameters of the stage, and what they come to. */
#ifndef ICESTREAM_STAGES_TILT_RECONSTRUCTOR_PARAMETERS_H
#define ICESTREAM_STAGES_TILT_RECONSTRUCTOR_PARAMETERS_H

#include "common/formats/mdoc.h"
#include "common/harness/params.h"
#include "common/harness/stage.h"
#include "stages/tilt-reconstructor/job.h"

struct settings_params {
    char *tilts, *transforms, *images, *exclude, *mask;
    int method, basis, matrix, start, iterations, thickness, bin, align, normalise, roll_off, precision;
    int preview_size, tilts_per_series, memory, devices;
    double relaxation, stop, cutoff, tilt_axis, quiet;
    bool non_negative, preview;
};

enum { SETTINGS_PARAM_COUNT = 27 };
extern const struct param settings_table[SETTINGS_PARAM_COUNT];

struct settings {
    struct job_settings job;
    bool excluded[TILTS_MAX + 1];
    struct device *devices; /* what job.tomography names */
    struct mdoc mdoc;       /* `tilts`, where that is one */
    char *mdoc_id;          /* the name of its series; NULL: no .mdoc was given */
};

enum status settings_create(struct stage *stage, struct settings **ret_settings, struct err *err);
void settings_destroy(struct settings **settings);

/* For previews of images binned by `shrink` in memory. */
struct job_settings settings_preview(const struct settings *settings, int shrink);

#endif
