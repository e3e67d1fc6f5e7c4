/* Mean and standard deviation of a micrograph: a stand-in for whatever a stage of your own computes. */
#ifndef ICESTREAM_EXAMPLES_STAGE_C_BRIGHTNESS_H
#define ICESTREAM_EXAMPLES_STAGE_C_BRIGHTNESS_H

#include "common/formats/image.h"

struct brightness {
    double mean, deviation;
};

/* One pass over rows, in double precision; the same for any number of threads. row_sums: 2 × ny numbers of workspace.
 */
void brightness_measure(const struct image *image, double *row_sums, struct brightness *ret_brightness);

#endif
