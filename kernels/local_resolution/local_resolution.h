/* Computes the local resolution of two independent half maps, and filters their mean by it.
 *
 * The half maps are cut into bands of shells. Inside a band all shells are given the same power, and the half maps are
 * correlated in a Gaussian window about each voxel: c = Σ w a b / √(Σ w a² · Σ w b²). The resolution of a voxel is where
 * c first falls below 0.143 from low frequency on, linearly interpolated between bands (Cardone, Heymann & Steven 2013,
 * J. Struct. Biol. 184:226, with a window that follows the band).
 *
 * A band about shell k is a raised cosine of k ± k/4 (at least ± 2 shells). The window's standard deviation is 1.5 d,
 * with d the band's period: all in all it is as large as a cube of 5.3 d. It holds about 480 independent numbers in each
 * band, so that noise alone gives c = 0 ± 0.046: the threshold 0.143 is three deviations of noise. A voxel of noise
 * passes one band with a probability of 0.001, and must pass every band up to a resolution to be given it.
 *
 * Noise beside the particle takes coarse values, and finer ones near the particle's surface, where the window reaches
 * into it. No value is coarser than the first band (about shell 4), unless last_shell is, or finer than two pixels.
 * Windows go on at the other end of the box. */
#ifndef ICESTREAM_KERNELS_LOCAL_RESOLUTION_LOCAL_RESOLUTION_H
#define ICESTREAM_KERNELS_LOCAL_RESOLUTION_LOCAL_RESOLUTION_H

#include <stdbool.h>

#include "common/status.h"
#include "kernels/fourier/workspace.h"

enum { LOCAL_RESOLUTION_LEAST_BOX = 16, LOCAL_RESOLUTION_MOST_BOX = 2048 };

struct local_resolution_options {
    int box;           /* px, even, LOCAL_RESOLUTION_LEAST_BOX to LOCAL_RESOLUTION_MOST_BOX */
    double pixel_size; /* Å */
    double bfactor;    /* Å²: the mean of the halves is multiplied by exp(−B/4 s²); 0: it is not sharpened */
    const float *mtf;  /* [box/2 + 1]: as in postprocess_options: the mean is divided by it; NULL: all 1 */
    int last_shell;    /* no value is finer than this shell, nor is the filter; 0: half the box */
};

/* Computes ret_resolution (Å) and ret_filtered from two unfiltered half maps, box³ each, in host memory. ret_filtered is
 * the mean of the halves, sharpened, low-passed at each voxel by its resolution: a blend of low-passes 25 % apart, whose
 * shares change smoothly. Runs on the workspace's device; NULL: on the CPU. Both agree except for rounding, and each
 * gives the same result with any number of threads. local_resolution_fits tells whether the workspace has room. */
enum status local_resolution_run(struct workspace *workspace_or_null, const struct local_resolution_options *options,
                                 const float *half1, const float *half2, float *ret_resolution, float *ret_filtered,
                                 struct err *err);
/* Returns whether the workspace now has room for maps of box³; NULL: false. */
enum status local_resolution_fits(struct workspace *workspace_or_null, int box, bool *ret_fits, struct err *err);

#endif
