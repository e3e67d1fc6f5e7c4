/* Prepares a particle image for comparison: integer pre-shift, norm, soft circular mask, FFT, gathered pixels.
 *
 * A mask mixes shells. If the references of independent halves share their low shells, an image is masked in two bands,
 * up to the last shared shell and beyond it, and whatever the mask carries from one band into the other is dropped.
 * Otherwise poses that are chosen by the shared shells would depend, alike in both halves, on the noise just beyond
 * them. Zeros brought in by a shift would mix shells in the same way: with two bands the image is shifted
 * cyclically. */
#ifndef ICESTREAM_KERNELS_PREPARE_PREPARE_H
#define ICESTREAM_KERNELS_PREPARE_PREPARE_H

#include "common/status.h"
#include "kernels/fourier/pixels.h"

struct prepare; /* plan and scratch, one per thread */

enum status prepare_create(int box, struct prepare **ret_prepare, struct err *err);
void prepare_destroy(struct prepare **prepare);

struct prepare_options {
    int shift_x, shift_y; /* px, applied to the image; zeros come in; with two bands the shift is cyclic */
    double scale;         /* multiplies the image (avg_norm / norm) */
    double mask_radius;   /* px; edge 5 px; outside becomes the weighted mean of the outside */
    int shared_shell;     /* last shell of the lower band; 0: one band */
};
/* image: box². ret_masked, ret_unmasked: 2·pixels->count floats each (either may be NULL); ret_power: per shell
 * 0..box/2 the mean |X|²/2 of the masked image over all half-plane pixels of the shell, or NULL. */
void prepare_image(struct prepare *prepare, const float *image, const struct prepare_options *options,
                   const struct fourier_pixels *pixels, float *ret_masked, float *ret_unmasked, float *ret_power);

#endif
