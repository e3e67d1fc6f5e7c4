/* The parameters of icestream-simulate; --help explains them. */
#ifndef ICESTREAM_EXAMPLES_SIMULATE_PARAMETERS_H
#define ICESTREAM_EXAMPLES_SIMULATE_PARAMETERS_H

#include <stdbool.h>

#include "common/harness/params.h"

struct simulate_options {
    char *folder;
    int micrographs, size, particles, seed, format, mode, box, map_box, templates, drifted;
    double pixel_size, snr, diameter, dose, interval, map_pixel_size, min_distance, voltage, spherical_aberration;
    double amplitude_contrast, defocus_min, defocus_max, astigmatism, b_factor, ice_noise, contamination, carbon,
        lowpass;
    bool grow;
};

enum { SIMULATE_PARAMETERS = 30 };
extern const struct param simulate_parameters[SIMULATE_PARAMETERS];

#endif
