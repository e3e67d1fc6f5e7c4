/* Computes the differences from which accuracies follow (kernels/accuracy/accuracy.h) on a CUDA device, for all steps
 * of all particles at once. Pointers are device pointers. */
#ifndef ICESTREAM_KERNELS_ACCURACY_ACCURACY_CUDA_H
#define ICESTREAM_KERNELS_ACCURACY_ACCURACY_CUDA_H

#include "common/status.h"
#include "kernels/ctf/ctf.h"
#include "kernels/expectation/expectation_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ACCURACY_ANGLES = 48, ACCURACY_OFFSETS = 32 }; /* most steps of an angle and of a shift */

/* The moves of one particle. pose: rows 0 and 1 of the matrix of its pose, multiplied by GRID_PAD (see grid_sample);
 * turned: the same for each step of the angle. shifts: x, y of each step, px. */
struct accuracy_moves_cuda {
    float pose[6], turned[ACCURACY_ANGLES][6], shifts[ACCURACY_OFFSETS][2];
    int has_ctf, optics;   /* optics: row of sigma2 */
    double ctf[CTF_TERMS]; /* the members of struct ctf_terms in order, if has_ctf */
};

/* Computes Σ c² |P − P'|²/(2σ²) of each particle: ret_differences[count][angles + offsets], first for `angles` steps of
 * the angle, then for `offsets` steps of the shift. shell: of each pixel. step: 1/(box · pixel size), 1/Å.
 * sigma2[optics groups][shells]. Queues the work on `stream`. */
enum status accuracy_cuda_differences(const struct grid_cuda *grid, const struct pixels_cuda *pixels,
                                      const short *shell, const struct accuracy_moves_cuda *particles, int count,
                                      int angles, int offsets, double step, const float *sigma2, int shells,
                                      double *ret_differences, void *stream, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
