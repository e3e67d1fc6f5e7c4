/* The parameters of icestream-simulate; --help explains them. */
#ifndef ICESTREAM_EXAMPLES_SIMULATE_PARAMETERS_H
#define ICESTREAM_EXAMPLES_SIMULATE_PARAMETERS_H

#include <stdbool.h>

#include "common/harness/params.h"

struct simulate_options {
    char *folder, *device;
    int micrographs, size, height, particles, seed, format, mode, box, map_box, templates, drifted;
    int frames, gain_rotation, gain_flip, eer_group, threads;
    double pixel_size, snr, diameter, dose, interval, map_pixel_size, min_distance, voltage, spherical_aberration;
    double amplitude_contrast, defocus_min, defocus_max, astigmatism, b_factor, ice_noise, contamination, carbon,
        lowpass, drift, doming, jitter, defects;
    bool grow, movies, uneven, facetted;
};

enum { SIMULATE_PARAMETERS = 44 };
extern const struct param simulate_parameters[SIMULATE_PARAMETERS];

#endif
