/* Correlates two half maps by direction: the FSC of fsc.h over the voxels of a shell that lie in a cone about an axis, or
 * about its opposite (their conjugates). Views that are missing leave a part of Fourier space without signal: the curves
 * of the cones there fall early, and the FSC over whole shells does not show it (Naydenova & Russo 2017; the cones of
 * Tan et al. 2017, Nat. Methods 14:793). */
#ifndef ICESTREAM_KERNELS_FSC_DIRECTIONAL_H
#define ICESTREAM_KERNELS_FSC_DIRECTIONAL_H

#include "common/status.h"

struct fsc_cones {
    int box;                 /* px, even, 4 to 2048 */
    double half_angle;       /* °, more than 0, at most 90 */
    const double (*axes)[3]; /* [count]: unit vectors x, y, z */
    int count;
};

/* Fills ret_curves[count][box/2 + 1] from two maps of box³ in host memory, multiplied by mask (NULL: 1). Runs on the CPU;
 * the result does not depend on the number of threads. A shell of which a cone holds fewer than 16 voxels has the value of
 * the whole shell. */
enum status fsc_directional(const struct fsc_cones *cones, const float *a, const float *b, const float *mask_or_null,
                            float *ret_curves, struct err *err);
/* Fills ret_axes[count] with directions that lie evenly over half a sphere. */
void fsc_even_axes(int count, double (*ret_axes)[3]);
/* Returns the resolution (Å) of a cone: where the mean of three shells of its curve first falls below 0.143, since a cone
 * holds few voxels; 999: nowhere above. */
double fsc_cone_resolution(const float *curve, int box, double pixel_size);

#endif
