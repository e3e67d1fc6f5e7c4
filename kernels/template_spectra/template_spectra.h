/* Provides Fourier transforms of masked templates in any in-plane rotation, at the work size of a micrograph.
 *
 * A template is masked by a circle, placed with its centre (index box/2) at the origin of a padded square, and
 * transformed once. Its rotation by psi is bilinear interpolation at (c·kx − s·ky, s·kx + c·ky), c = cos psi, s = sin
 * psi, which the division by sinc² in real space beforehand makes flat over the template. Frequencies beyond the band
 * are zero. Values are Σ A(x) exp(−2πi k·x/size), no factor. Rotation r of n is psi = r·360°/n. When n is even, the
 * second half of the turn is the conjugate of the first.
 *
 * Rotated transforms are kept if they fit into the memory limit; otherwise each call computes them. */
#ifndef ICESTREAM_KERNELS_TEMPLATE_SPECTRA_TEMPLATE_SPECTRA_H
#define ICESTREAM_KERNELS_TEMPLATE_SPECTRA_TEMPLATE_SPECTRA_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

#ifdef __cplusplus
extern "C" {
#endif

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

/* Returns the transform of a rotated template, work × (work/2+1) complex: a kept one, or one computed into `scratch`
 * (of that size). *ret_conjugate: the caller must take its conjugate. Several threads may call this, each with its own
 * scratch. */
const float *template_spectra_get(const struct template_spectra *spectra, int item, int rotation, float *scratch,
                                  bool *ret_conjugate);

/* Computes the transform for any angle (degrees). */
void template_spectra_rotate(const struct template_spectra *spectra, int item, double psi, float *out);

/* The padded transforms, for devices that interpolate rotations themselves: [count][2·reach+1][reach+2] complex, ky
 * from −reach, kx from 0, at the frequencies of a square of `padded` px. They live as long as the spectra. */
struct template_grid {
    int padded, reach;
    int band;
    const float *values;
};
struct template_grid template_spectra_grid(const struct template_spectra *spectra);

/* Resizes each of `count` images from box² to new_box² px in Fourier space; the centre stays at index box/2, grey
 * values are kept. new_box: even. */
enum status template_resize(const float *in, int box, int count, int new_box, float *out, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
