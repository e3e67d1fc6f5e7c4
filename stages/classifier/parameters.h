/* What a user sets of the classifier. */
#ifndef ICESTREAM_STAGES_CLASSIFIER_PARAMETERS_H
#define ICESTREAM_STAGES_CLASSIFIER_PARAMETERS_H

#include "common/harness/stage.h"

struct classifier_params {
    int classes, particles_per_class, minimum_particles, final_passes, image_memory, seed;
    double diameter, tau_fudge, psi_step, offset_range, offset_step, resolution, visits, snapshot_interval, memory;
    char *keep;
    double off_centre;
};

enum { CLASSIFIER_PARAMS = 17 };
extern const struct param classifier_params[CLASSIFIER_PARAMS];

#endif
