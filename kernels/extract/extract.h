/* Cuts particles out of a micrograph: window, Fourier cropping, background ramp, normalisation, inversion, in this
 * order.
 *
 * Window: the pixel (trunc x, trunc y) of the micrograph becomes index box/2; pixels outside the micrograph get the
 * value of the nearest edge pixel. Cropping keeps logical frequencies up to size/2 and the mean of the grey values.
 * Background: the pixels of the final box farther than background_radius from its centre. A plane fitted to them by
 * least squares is subtracted from every pixel; then their mean becomes 0 and their standard deviation 1. */
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

/* Creates the plans and scratch of one thread. */
enum status extract_create(const struct extract_options *options, struct extract **ret_extract, struct err *err);
void extract_destroy(struct extract **extract);

/* Returns whether the pixel (trunc x, trunc y) lies in the micrograph. */
bool extract_inside(int nx, int ny, double x, double y);

/* Cuts out the window only. (x, y) must be inside. out: box². */
void extract_window(const float *micrograph, int nx, int ny, double x, double y, int box, float *out);

/* Cuts out one particle; (x, y) must be inside. out: size² floats. Returns false if the background has no variance: the
 * particle is then not normalised, only its ramp is removed. */
bool extract_particle(struct extract *extract, const float *micrograph, int nx, int ny, double x, double y, float *out);

#endif
