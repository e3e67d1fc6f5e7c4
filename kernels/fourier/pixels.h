/* List of the Fourier pixels that a comparison uses, in order of shell.
 *
 * Half plane of a box × box transform: kx ≥ 0; kx = 0 only with ky > 0 (the others are conjugates); no origin; shells
 * ROUND(|k|) = 1 .. size/2. The list is sorted by shell, so that the list of a smaller size is the beginning of this
 * one: an image stored for `current_size` also serves `coarse_size`.
 *
 * Images and slices are `count` complex floats, re and im interleaved, so that a dot product of 2·count floats is Σ
 * Re(a conj b). Phase origin at index box/2; FFT norm 1/box². */
#ifndef ICESTREAM_KERNELS_FOURIER_PIXELS_H
#define ICESTREAM_KERNELS_FOURIER_PIXELS_H

#include "common/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct fourier_pixels {
    int box, size;
    int count;
    short *kx, *ky, *shell; /* [count] each */
    int *shell_begin;       /* size/2 + 2 entries: pixels of shell s are shell_begin[s] .. shell_begin[s+1]-1 */
};

/* Largest size in 3D: 32 bits number the points of a map's transform, two per pixel along each axis. */
enum { FOURIER_SIZE_MOST_3D = 1022 };

/* Lists the pixels of a transform of box² px whose frequencies lie within size/2. */
enum status fourier_pixels_create(int box, int size, struct fourier_pixels *ret_pixels, struct err *err);
void fourier_pixels_destroy(struct fourier_pixels *pixels);
/* Returns how many of the first pixels lie within a smaller size. */
int fourier_pixels_within(const struct fourier_pixels *pixels, int size);

/* Gathers the list from a half-plane transform half[box][box/2+1] (complex, re im; 1/box² norm, phase origin at index
 * 0), and moves the phase origin to the centre. out: 2·count floats. */
void fourier_pixels_gather(const struct fourier_pixels *pixels, const float *half, float *out);

/* Shifts by (x, y) px: content moves by +x, +y. in, out: 2·count floats over the first `count` pixels. */
void fourier_pixels_shift(const struct fourier_pixels *pixels, int count, const float *in, double x, double y,
                          float *out);

#ifdef __cplusplus
}
#endif
#endif
