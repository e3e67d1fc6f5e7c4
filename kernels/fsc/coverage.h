/* Says how much of a shell's signal a map holds when its particles are seen from few directions.
 *
 * The slice of a particle fills the Fourier voxels at right angles to its view. Halves of particles that are all seen
 * from the same side agree in the voxels that both fill; of the others their FSC says nothing. The FSC of the map of
 * all particles with the truth, F the FSC of the halves, is
 *     sqrt(2F/(1 + F))                        (Rosenthal & Henderson 2003)
 * where all voxels are filled alike, and in general, with a signal of the same power P everywhere,
 *     sqrt(mean of g),  g = 2 w y/(1 + 2 w y),
 * mean over the voxels of the shell; w: how many particles fill the voxel, over the mean; y: P over the noise of a half
 * at w = 1. The voxels that are filled give y: F/(1 − F) = y/mean(1/w). */
#ifndef ICESTREAM_KERNELS_FSC_COVERAGE_H
#define ICESTREAM_KERNELS_FSC_COVERAGE_H

#include <stddef.h>

#include "common/status.h"
#include "kernels/symmetry/symmetry.h"

/* Fills ret_held[0 .. last]: the FSC with the truth that one may expect, over what it were if all voxels were filled
 * alike; 0 to 1. Runs on the CPU; the result does not depend on the number of threads.
 * views[count][3]: unit vectors from which particles are seen, in the frame of the map; a large set is thinned out.
 * fsc[0 .. last]: of the halves. 0 particles hold nothing. */
enum status fsc_coverage(const double (*views)[3], size_t count, const struct symmetry *symmetry, const float *fsc,
                         int last, double *ret_held, struct err *err);
/* Returns the FSC of evenly seen halves whose map agrees with the truth as well as one of that FSC whose shell holds
 * `held`. */
double fsc_even(double fsc, double held);

#endif
