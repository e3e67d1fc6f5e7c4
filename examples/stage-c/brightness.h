/* Measures mean and standard deviation of a micrograph: a stand-in for what a stage of your own computes. */
#ifndef ICESTREAM_EXAMPLES_STAGE_C_BRIGHTNESS_H
#define ICESTREAM_EXAMPLES_STAGE_C_BRIGHTNESS_H

#include "common/formats/image.h"

struct stage_descriptor;

/* The parameters that a user sets (parameters.c). */
struct brightness_options {
    double darkest; /* in the image's own units; NaN: not set */
};

struct brightness {
    double mean, deviation;
};

extern const struct stage_descriptor brightness_stage;

/* Measures one image in double precision, in one pass over its rows. The result is the same for any number of threads.
 * row_sums: workspace of the caller, 2 × ny numbers. */
void brightness_measure(const struct image *image, double *row_sums, struct brightness *ret_brightness);

#endif
