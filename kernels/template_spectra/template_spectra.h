/* Provides Fourier transforms of masked templates in any in-plane rotation, at the work size of a micrograph.
 *
 * A template is masked by a circle, placed with its centre (index box/2) at the origin of a padded square, and
 * transformed once. A rotation by psi reads the padded transform at (c·kx − s·ky, s·kx + c·ky), c = cos psi, s = sin
 * psi, by bilinear interpolation. Interpolation would darken the rim of the template; the template is divided by sinc²
 * in real space beforehand to cancel this.
 *
 * Values are Σ A(x) exp(−2πi k·x/size) without a factor, and zero beyond the band. Rotation r of n is psi = r·360°/n.
 * If n is even, the transform at psi + 180° is the conjugate of the transform at psi.
 *
 * Rotated transforms are kept if they fit into the memory limit; otherwise each call computes its own. */
#ifndef ICESTREAM_KERNELS_TEMPLATE_SPECTRA_TEMPLATE_SPECTRA_H
#define ICESTREAM_KERNELS_TEMPLATE_SPECTRA_TEMPLATE_SPECTRA_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct template_spectra_options {
    int size;      /* the micrograph's square, px, even */
    int work;      /* work size, px, even */
    int band;      /* frequencies |k| > band are zero, px of the transform; 0: work/2 */
    int box;       /* of the templates, in micrograph pixels, even */
    double radius; /* of the mask, px of the template: pixels with i² + j² ≥ radius² from the centre become 0 */
    int count;     /* templates */
    int rotations; /* of a full turn */
    bool invert;   /* multiply templates by −1 */
    size_t memory_limit; /* bytes for kept rotated transforms */
    int threads;
};

struct template_spectra;

/* Transforms templates[count][box][box]; the caller may free them after the call. */
enum status template_spectra_create(const struct template_spectra_options *options, const float *templates,
                                    struct template_spectra **ret_spectra, struct err *err);
void template_spectra_destroy(struct template_spectra **spectra);

/* Returns the transform of template `item` in rotation 0 .. rotations − 1, [work][work/2+1] complex: a kept transform,
 * or a transform computed into `scratch` of the same shape. *ret_conjugate: the caller must take the conjugate. Several
 * threads may call this function, each with its own scratch. */
const float *template_spectra_get(const struct template_spectra *spectra, int item, int rotation, float *scratch,
                                  bool *ret_conjugate);

/* Computes the transform of template `item` rotated by psi degrees. out: [work][work/2+1] complex. */
void template_spectra_rotate(const struct template_spectra *spectra, int item, double psi, float *out);

/* The padded transforms, for devices that interpolate rotations themselves. */
struct template_grid {
    int padded, reach;   /* px: side of the padded square; highest frequency of the grid, in steps of 1/padded */
    int band;            /* as in the options */
    const float *values; /* [count][2·reach+1][reach+2] complex: ky from −reach, kx from 0 */
};
/* Returns the padded transforms. Valid until template_spectra_destroy. */
struct template_grid template_spectra_grid(const struct template_spectra *spectra);

/* Resizes each of `count` images from box² to new_box² px in Fourier space. Keeps grey values, and moves the centre
 * from index box/2 to index new_box/2. STATUS_BAD_ARGUMENT: box or new_box is odd or less than 2. */
enum status template_resize(const float *in, int box, int count, int new_box, float *out, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
