/* Texture by definition, for tests: every matrix is built and every feature summed over it, in double. */
#ifndef ICESTREAM_KERNELS_TEXTURE_TEXTURE_REFERENCE_H
#define ICESTREAM_KERNELS_TEXTURE_TEXTURE_REFERENCE_H

#include "kernels/texture/texture.h"

/* p[levels][levels], symmetric, sums to 1. levels: any. */
enum status texture_reference_features(const double *p, int levels, double ret_features[TEXTURE_FEATURES],
                                       struct err *err);
/* ret_counts[levels][levels]: pairs of pixels (dx, dy) apart in a window [window][window] of levels, whose rows stand
 * pitch apart, both ways round; returns their sum. */
int texture_reference_counts(const uint8_t *from, ptrdiff_t pitch, int window, int dx, int dy, int levels,
                             int *ret_counts);
/* The level of value v between low and high. */
int texture_reference_level(double v, double low, double high, int levels);

/* ret_values as in struct texture_features; ret_pixels: evaluated. options.device and threads do not matter. */
enum status texture_reference_run(const struct texture_options *options, const struct texture_image *image,
                                  double (*ret_values)[TEXTURE_LENGTHS][TEXTURE_FEATURES][TEXTURE_AGGREGATES],
                                  int *ret_pixels, struct err *err);

#endif
