/* Coarse alignment: neighbours in tilt are cross-correlated, the one of higher tilt stretched across the axis by the
 * ratio of the cosines, from the least tilt outwards both ways. Good to a pixel or so of the images it is given, where
 * nothing better is known; residual errors add up outwards.
 *
 * A feature at distance X from the axis is seen at X cos θ. With image j stretched by c = cos θ_i / cos θ_j onto its
 * neighbour i of lower tilt (shift D_i), and the peak at t: D_j = (t_x + D_i) / c across the axis, t_y + D_i along it.
 */
#ifndef ICESTREAM_STAGES_TILT_RECONSTRUCTOR_COARSE_H
#define ICESTREAM_STAGES_TILT_RECONSTRUCTOR_COARSE_H

#include "common/status.h"

struct coarse; /* plans and buffers for one size of images */

enum status coarse_create(int nx, int ny, int threads, struct coarse **ret_coarse, struct err *err);
void coarse_destroy(struct coarse **coarse);

/* images[tilt][y][x], tilt axis upright, in order of angle (°). ret_dx, ret_dy [count]: px to move each image's content
 * by; ret_peaks [count]: the correlation's peak over its standard deviation (0 for the first). */
enum status coarse_align(struct coarse *coarse, const float *images, const double *angles, int count, double *ret_dx,
                         double *ret_dy, double *ret_peaks, struct err *err);

#endif
