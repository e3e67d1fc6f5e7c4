/* Fourier transforms of masked templates in any in-plane rotation, at the work size of a micrograph.
 *
 * A template is masked by a circle, put with its centre (index box/2) at the origin of a padded square, and transformed
 * once; the rotation by psi is bilinear interpolation at (c·kx − s·ky, s·kx + c·ky), c = cos psi, s = sin psi, which the
 * real-space division by sinc² beforehand makes flat over the template. Frequencies beyond the band are zero. Values are
 * Σ A(x) exp(−2πi k·x/size), no factor. Rotation r of n is psi = r·360°/n. When n is even, the second half of the turn
 * is the conjugate of the first.
 *
 * Rotated transforms are kept when they fit into the memory limit, and else worked out at each call. */
#ifndef ICESTREAM_KERNELS_TEMPLATE_SPECTRA_TEMPLATE_SPECTRA_H
#define ICESTREAM_KERNELS_TEMPLATE_SPECTRA_TEMPLATE_SPECTRA_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

struct template_spectra_options {
    int size;            /* the micrograph's square, px, even */
    int work;            /* work size, px, even */
    int band;            /* frequencies beyond it are zero, px of the transform; 0: work/2 */
    int box;             /* of the templates, in micrograph pixels, even */
    double radius;       /* px: i² + j² ≥ radius² is masked away */
    int count;           /* templates */
    int rotations;       /* of a full turn */
    bool invert;         /* templates times −1 */
    size_t memory_limit; /* bytes for rotated transforms */
    int threads;
};

struct template_spectra;

/* templates: [count][box][box]. */
enum status template_spectra_create(const struct template_spectra_options *options, const float *templates,
                                    struct template_spectra **ret_spectra, struct err *err);
void template_spectra_destroy(struct template_spectra **spectra);

/* The transform of a rotated template: work × (work/2+1) complex; either kept or worked out into `scratch` (of that
 * size). *ret_conjugate: its conjugate is meant. Safe to call from several threads, each with its own scratch. */
const float *template_spectra_get(const struct template_spectra *spectra, int template, int rotation, float *scratch,
                                  bool *ret_conjugate);

/* As above for any angle (degrees), always worked out. */
void template_spectra_rotate(const struct template_spectra *spectra, int template, double psi, float *out);

/* What rotations are interpolated in, for devices that do it themselves: [count][2·reach+1][reach+2] complex, ky from
 * −reach, kx from 0, at the frequencies of a square of `padded` px. It lives as long as the spectra. */
struct template_grid {
    int padded, reach;
    int band;
    const float *values;
};
struct template_grid template_spectra_grid(const struct template_spectra *spectra);

/* box² with centre at box/2, N×N in [count] stacks: Fourier resize of each image, grey values kept. New box even. */
enum status template_resize(const float *in, int box, int count, int new_box, float *out, struct err *err);

#endif
