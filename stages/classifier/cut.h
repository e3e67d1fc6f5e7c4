/* Cuts images to the detail that classes are compared with: kernels/regrid brings them to fewer and larger pixels of the
 * same extent, so that shells keep their numbers. White noise of standard deviation 1 keeps it; what images show becomes
 * stronger by the ratio of the boxes. Averages and spectra in files are those of the whole grid. */
#ifndef ICESTREAM_STAGES_CLASSIFIER_CUT_H
#define ICESTREAM_STAGES_CLASSIFIER_CUT_H

#include <stddef.h>

#include "common/status.h"
#include "kernels/regrid/regrid.h"

/* Returns the box (px) that holds all detail up to `resolution` (Å) of images of `box` px; `box` itself if a cut saves
 * less than a third of the pixels, or if resolution is 0. */
int cut_box(int box, double pixel_size, double resolution);

/* Makes what brings images of from_box px to to_box px, in either direction. Both are even. */
enum status cut_create(int from_box, int to_box, struct regrid **ret_cut, struct err *err);
/* Brings images[count] to another box: image i to to + i · stride. Copies them if boxes are equal. */
enum status cut_convert(int from_box, int to_box, const float *const *images, size_t count, float *to, size_t stride,
                        struct err *err);

#endif
