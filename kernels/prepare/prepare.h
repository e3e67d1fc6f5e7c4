/* A particle image made ready for comparison: integer pre-shift, norm, soft circular mask, FFT, gathered pixels.
 *
 * A mask mixes shells. Where references of independent halves share their low shells, an image is masked in two bands, up
 * to that shell and beyond it, and nothing of a band that the mask carries into the other is kept: poses that are chosen
 * by what is shared would else be chosen, alike in both halves, by the noise just beyond it. Zeros that a shift brings in
 * would mix shells just so: such an image is shifted around. */
#ifndef ICESTREAM_KERNELS_PREPARE_PREPARE_H
#define ICESTREAM_KERNELS_PREPARE_PREPARE_H

#include "common/status.h"
#include "kernels/fourier/pixels.h"

struct prepare; /* plan and scratch, one per thread */

enum status prepare_create(int box, struct prepare **ret_prepare, struct err *err);
void prepare_destroy(struct prepare **prepare);

struct prepare_options {
    int shift_x, shift_y; /* px, applied to the image; zeros come in, but in two bands what leaves at the other edge */
    double scale;         /* multiplies the image (avg_norm / norm) */
    double mask_radius;   /* px; edge 5 px; outside becomes the weighted mean of the outside */
    int shared_shell;     /* the last of the lower band; 0: one band */
};
/* image: box². ret_masked, ret_unmasked: 2·pixels->count floats each (either may be NULL); ret_power: per shell
 * 0..box/2 the mean |X|²/2 of the masked image over all half-plane pixels of the shell, or NULL. */
void prepare_image(struct prepare *prepare, const float *image, const struct prepare_options *options,
                   const struct fourier_pixels *pixels, float *ret_masked, float *ret_unmasked, float *ret_power);

#endif
