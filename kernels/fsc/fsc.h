/* Computes the Fourier shell correlation of two maps, and soft spherical masks.
 *
 * FSC(i) = Re Σ F1 conj F2 / √(Σ|F1|² Σ|F2|²) over shell i = ROUND(|k|), i = 0 .. box/2. */
#ifndef ICESTREAM_KERNELS_FSC_FSC_H
#define ICESTREAM_KERNELS_FSC_FSC_H

#include "common/status.h"
#include "kernels/fourier/workspace.h"

/* Fills ret_fsc[box/2+1] from two maps of box³ in host memory, on the workspace's device; NULL: on the CPU. Both agree
 * except for rounding. A denominator of 0 gives 0. workspace_fits_volumes tells whether the workspace has room. */
enum status fsc_maps(struct workspace *workspace_or_null, int box, const float *a, const float *b, float *ret_fsc,
                     struct err *err);
/* Like fsc_maps, from half transforms [box][box][box/2+1], complex, unscaled, with the same phase origin. */
enum status fsc_spectra(int box, const float *a, const float *b, float *ret_fsc, struct err *err);
/* Returns the resolution (Å) at the last shell before the curve first falls below the threshold; 999 if that is shell
 * 0. */
double fsc_resolution(const float *fsc, int box, double pixel_size, double threshold);

/* Applies a soft sphere (radius and edge in px): values outside become 0, or the mean of the outside if fill_with_mean.
 * dimensions: 2 or 3. */
void mask_sphere(int dimensions, int box, float *map, double radius, double edge, int fill_with_mean);

#endif
