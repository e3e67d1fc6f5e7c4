/* Coarse alignment of a tilt series: finds the shifts of images by cross-correlation.
 *
 * Neighbours in tilt are correlated, from the least tilt outwards both ways. The image of higher tilt is first
 * stretched across the axis by the ratio of the cosines. Shifts are good to about a pixel of the given images, for use
 * where nothing better is known; errors add up outwards.
 *
 * A feature at distance X from the axis is seen at X cos θ. Image j is stretched by c = cos θ_i / cos θ_j onto its
 * neighbour i of lower tilt, whose shift is D_i. With the peak at t: D_j = (t_x + D_i) / c across the axis, t_y + D_i
 * along it. */
#ifndef ICESTREAM_STAGES_TILT_RECONSTRUCTOR_COARSE_H
#define ICESTREAM_STAGES_TILT_RECONSTRUCTOR_COARSE_H

#include "common/status.h"

struct coarse; /* plans and buffers for one size of images */

/* Makes the plans for images of nx × ny px. */
enum status coarse_create(int nx, int ny, int threads, struct coarse **ret_coarse, struct err *err);
void coarse_destroy(struct coarse **coarse);

/* Aligns images[tilt][y][x], sorted by angle (°), tilt axis upright. ret_dx, ret_dy [count]: px by which to move the
 * content of each image; ret_peaks [count]: the peak of the correlation over its standard deviation (0 for the image of
 * least tilt). */
enum status coarse_align(struct coarse *coarse, const float *images, const double *angles, int count, double *ret_dx,
                         double *ret_dy, double *ret_peaks, struct err *err);

#endif
