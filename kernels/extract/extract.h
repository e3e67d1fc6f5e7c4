/* Particles cut out of a micrograph: window, Fourier cropping, background ramp, normalisation, inversion, in this
 * order.
 *
 * Window: the pixel (trunc x, trunc y) of the micrograph becomes index box/2; what lies outside the micrograph takes
 * the value of the nearest edge pixel. Cropping keeps logical frequencies up to size/2 and the grey values' mean.
 * Background: pixels of the final box farther than background_radius from its centre; a plane fitted to them by least
 * squares is taken from every pixel, then their mean becomes 0 and their standard deviation 1. */
#ifndef ICESTREAM_KERNELS_EXTRACT_EXTRACT_H
#define ICESTREAM_KERNELS_EXTRACT_EXTRACT_H

#include <stdbool.h>

#include "common/status.h"

struct extract_options {
    int box;               /* px of the micrograph, even */
    int size;              /* px after Fourier cropping, even, at most box */
    int background_radius; /* px of the final box, at most size/2; negative: int(0.375 size) */
    bool normalise, invert;
};

struct extract; /* plans and scratch, one per thread */

enum status extract_create(const struct extract_options *options, struct extract **ret_extract, struct err *err);
void extract_destroy(struct extract **extract);

/* Whether the pixel that (x, y) is truncated to lies in the micrograph. */
bool extract_inside(int nx, int ny, double x, double y);

/* The window alone. (x, y) must be inside. out: box². */
void extract_window(const float *micrograph, int nx, int ny, double x, double y, int box, float *out);

/* One particle; (x, y) must be inside. out: size² floats. False when the background has no variance: its values are
 * then left as the ramp's removal made them. */
bool extract_particle(struct extract *extract, const float *micrograph, int nx, int ny, double x, double y, float *out);

#endif
