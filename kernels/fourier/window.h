/* Half-plane transforms cut to, or filled up from, a smaller size: the Fourier window. Grey values stay what they are
 * when the transforms carry the factor 1/size². half[n][n/2+1], complex (re im), row ky = 0 .. n/2, −n/2+1 .. −1. */
#ifndef ICESTREAM_KERNELS_FOURIER_WINDOW_H
#define ICESTREAM_KERNELS_FOURIER_WINDOW_H

/* to ≤ from: keeps |kx|, |ky| ≤ to/2, each times factor. Both even. */
void fourier_window_crop(const float *in, int from, int to, float factor, float *out);
/* As crop, of a transform of which only the first `columns` ≥ to/2 + 1 are there: [from][columns]. */
void fourier_window_crop_columns(const float *in, int from, int columns, int to, float factor, float *out);
/* to ≥ from: zeros around it. Both even. */
void fourier_window_fill(const float *in, int from, int to, float factor, float *out);

#endif
