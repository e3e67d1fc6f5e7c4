/* Measures texture by definition, for tests: builds every matrix and sums every feature over it, in double. */
#ifndef ICESTREAM_KERNELS_TEXTURE_TEXTURE_REFERENCE_H
#define ICESTREAM_KERNELS_TEXTURE_TEXTURE_REFERENCE_H

#include "kernels/texture/texture.h"

/* Computes the features of a matrix p[levels][levels], which is symmetric and sums to 1. levels: any number. */
enum status texture_reference_features(const double *p, int levels, double ret_features[TEXTURE_FEATURES],
                                       struct err *err);
/* Counts the pairs of pixels at displacement (dx, dy) in a window of grey levels: each pair at (i, j) and at (j, i) of
 * ret_counts[levels][levels]. from: the window's first pixel; pitch: bytes between rows. Returns the sum of counts. */
int texture_reference_counts(const uint8_t *from, ptrdiff_t pitch, int window, int dx, int dy, int levels,
                             int *ret_counts);
/* Returns the level of value v between low and high. */
int texture_reference_level(double v, double low, double high, int levels);

/* Computes ret_values, shaped as in struct texture_features, and *ret_pixels, the number of evaluated pixels. Ignores
 * options->device and options->threads. */
enum status texture_reference_run(const struct texture_options *options, const struct texture_image *image,
                                  double (*ret_values)[TEXTURE_LENGTHS][TEXTURE_FEATURES][TEXTURE_AGGREGATES],
                                  int *ret_pixels, struct err *err);

#endif
