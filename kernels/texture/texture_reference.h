/* Measures texture by definition, for tests: builds every matrix and sums every feature over it, in double. */
#ifndef ICESTREAM_KERNELS_TEXTURE_TEXTURE_REFERENCE_H
#define ICESTREAM_KERNELS_TEXTURE_TEXTURE_REFERENCE_H

#include "kernels/texture/texture.h"

/* p[levels][levels], symmetric, sums to 1. levels: any. */
enum status texture_reference_features(const double *p, int levels, double ret_features[TEXTURE_FEATURES],
                                       struct err *err);
/* Counts pairs of pixels (dx, dy) apart in a window [window][window] of levels, whose rows stand pitch apart, both ways
 * round, into ret_counts[levels][levels]; returns their sum. */
int texture_reference_counts(const uint8_t *from, ptrdiff_t pitch, int window, int dx, int dy, int levels,
                             int *ret_counts);
/* Returns the level of value v between low and high. */
int texture_reference_level(double v, double low, double high, int levels);

/* ret_values as in struct texture_features; ret_pixels: number of evaluated pixels. Ignores options.device and
 * threads. */
enum status texture_reference_run(const struct texture_options *options, const struct texture_image *image,
                                  double (*ret_values)[TEXTURE_LENGTHS][TEXTURE_FEATURES][TEXTURE_AGGREGATES],
                                  int *ret_pixels, struct err *err);

#endif
