/* Fourier shell correlation of two maps, and the soft sphere.
 * FSC(i) = Re Σ F1 conj F2 / √(Σ|F1|² Σ|F2|²), shell ROUND(|k|), i = 0..box/2. */
#ifndef ICESTREAM_KERNELS_FSC_FSC_H
#define ICESTREAM_KERNELS_FSC_FSC_H

#include "common/status.h"
#include "kernels/fourier/workspace.h"

/* ret_fsc: box/2+1 values. Denominator 0 gives 0. */
enum status fsc_maps(int box, const float *a, const float *b, float *ret_fsc, struct err *err);
/* The same on the workspace's device, but for rounding; workspace_fits_volumes says whether it has room. Maps and curve
 * are the host's. */
enum status fsc_maps_on(struct workspace *workspace, int box, const float *a, const float *b, float *ret_fsc,
                        struct err *err);
/* The same from half transforms, [box][box][box/2+1] complex, no factor, phase origins alike. */
enum status fsc_spectra(int box, const float *a, const float *b, float *ret_fsc, struct err *err);
/* Å at the last shell before the curve first falls below the threshold (999 when that is shell 0). */
double fsc_resolution(const float *fsc, int box, double pixel_size, double threshold);

/* Soft sphere, radius and edge in px: outside becomes 0 (zero) or the mean of the outside. dimensions 2 or 3. */
void mask_sphere(int dimensions, int box, float *map, double radius, double edge, int fill_with_mean);

#endif
