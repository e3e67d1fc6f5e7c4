/* Crops half-plane transforms to a smaller size, or fills them up to a larger one: the Fourier window. Grey values stay
 * unchanged if the transforms carry the factor 1/size². half[n][n/2+1], complex (re im), rows ky = 0 .. n/2, −n/2+1 ..
 * −1. */
#ifndef ICESTREAM_KERNELS_FOURIER_WINDOW_H
#define ICESTREAM_KERNELS_FOURIER_WINDOW_H

/* Keeps |kx|, |ky| ≤ to/2 (to ≤ from), each multiplied by factor. Both sizes are even. */
void fourier_window_crop(const float *in, int from, int to, float factor, float *out);
/* Like crop, from a transform of which only the first `columns` ≥ to/2 + 1 exist: [from][columns]. */
void fourier_window_crop_columns(const float *in, int from, int columns, int to, float factor, float *out);
/* Surrounds the transform with zeros (to ≥ from). Both sizes are even. */
void fourier_window_fill(const float *in, int from, int to, float factor, float *out);

#endif
