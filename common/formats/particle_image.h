/* Judges images of particles by their strength, the mean of their squared values. */
#ifndef ICESTREAM_COMMON_FORMATS_PARTICLE_IMAGE_H
#define ICESTREAM_COMMON_FORMATS_PARTICLE_IMAGE_H

#include <stddef.h>

/* Returns the mean of the squared values. */
double particle_image_strength(const float *values, size_t count);
/* Returns how strong an image may be: values a hundred times as large as those of the median image. Half of the images, at
 * least, must be good. Sorts the strengths; leave out images that are empty or hold NaN. 0: there are none. */
double particle_image_limit(double *strengths, size_t count);

#endif
