/* An image moved by a transform of IMOD's, by cubic interpolation (Catmull-Rom, as IMOD and most programs have it). */
#ifndef ICESTREAM_STAGES_TILT_RECONSTRUCTOR_RESAMPLE_H
#define ICESTREAM_STAGES_TILT_RECONSTRUCTOR_RESAMPLE_H

#include <stddef.h>

#include "common/formats/image.h"
#include "common/formats/tilts.h"

/* out[ny][nx]: X' = A (X − C) + D + C', with C the centre in `in` (px, pixel 0 at 0), C' the middle of `out`, and
 * shifts in px of `in`. Pixels of `out` without an image get its mean. Any number of threads gives the same bits. */
void resample_image(const struct image *in, double centre_x, double centre_y, const struct tilt_transform *transform,
                    int nx, int ny, float *out, int threads);

/* The mean of many pixels, by vectors and in double. */
double resample_mean(const float *values, size_t count);

#endif
