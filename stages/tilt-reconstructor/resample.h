/* Moves an image by a transform of IMOD, with cubic interpolation (Catmull-Rom, as in IMOD and most programs). */
#ifndef ICESTREAM_STAGES_TILT_RECONSTRUCTOR_RESAMPLE_H
#define ICESTREAM_STAGES_TILT_RECONSTRUCTOR_RESAMPLE_H

#include <stddef.h>

#include "common/formats/image.h"
#include "common/formats/tilts.h"

/* Fills out[ny][nx] by X' = A (X − C) + D + C'. C is the given centre in `in` (px, pixel 0 at 0), C' the middle of
 * `out`; shifts D are in px of `in`. Pixels of `out` outside the image get its mean. The result is the same to the last
 * bit for any number of threads. */
void resample_image(const struct image *in, double centre_x, double centre_y, const struct tilt_transform *transform,
                    int nx, int ny, float *out, int threads);

/* Returns the mean of many pixels: sums in double, with vector instructions. */
double resample_mean(const float *values, size_t count);

#endif
