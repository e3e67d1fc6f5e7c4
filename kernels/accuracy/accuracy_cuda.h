/* Estimates accuracies on a CUDA device: all steps of all particles at once. Pointers are device pointers. */
#ifndef ICESTREAM_KERNELS_ACCURACY_ACCURACY_CUDA_H
#define ICESTREAM_KERNELS_ACCURACY_ACCURACY_CUDA_H

#include "common/status.h"
#include "kernels/expectation/expectation_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ACCURACY_ANGLES = 48, ACCURACY_OFFSETS = 32 }; /* room for the steps of each */

/* One particle: rows 0 and 1 of the matrices of its pose and of its turned poses, multiplied by the padding as
 * grid_sample expects; shifts in px. */
struct accuracy_moves_cuda {
    float pose[6], turned[ACCURACY_ANGLES][6], shifts[ACCURACY_OFFSETS][2];
    int has_ctf, optics;
    double ctf[7]; /* as struct ctf_terms */
};

/* Computes Σ c² |P − P'|²/(2σ²) for `angles` turns, then `offsets` shifts, of each particle:
 * ret_differences[count][angles + offsets]. step: 1/(box · pixel size); sigma2[optics][shells]. */
enum status accuracy_cuda_differences(const struct grid_cuda *grid, const struct pixels_cuda *pixels,
                                      const short *shell, const struct accuracy_moves_cuda *particles, int count,
                                      int angles, int offsets, double step, const float *sigma2, int shells,
                                      double *ret_differences, void *stream, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
