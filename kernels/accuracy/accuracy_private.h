/* Definitions shared by the CPU and CUDA files of this folder. */
#ifndef ICESTREAM_KERNELS_ACCURACY_ACCURACY_PRIVATE_H
#define ICESTREAM_KERNELS_ACCURACY_ACCURACY_PRIVATE_H

#include "kernels/accuracy/accuracy.h"
#include "kernels/accuracy/accuracy_cuda.h"

static const double ACCURACY_TELLABLE = 4.60517; /* −ln 0.01: images that differ more can be told apart */
static const double ACCURACY_ANGLE_MOST = 30, ACCURACY_OFFSET_MOST = 10; /* °, px */

/* Return the value after e (°, px) in the scan that looks for the accuracy. */
static inline double accuracy_next_angle(double e) {
    return e + (e < 0.2 ? 0.05 : e < 1 ? 0.1 : e < 2 ? 0.2 : e < 5 ? 0.5 : e < 10 ? 1 : e < 20 ? 2 : 5);
}
static inline double accuracy_next_offset(double e) {
    return e + (e < 1 ? 0.1 : e < 2 ? 0.2 : e < 5 ? 0.5 : 1);
}

/* Computes the matrix of the Euler angles rot, tilt and psi (°). */
void accuracy_matrix(const double angles[3], float ret_matrix[9]);

/* Does accuracy_estimate in the memory that holds the projector's transform. */
struct accuracy_work {
    enum status (*estimate)(const struct accuracy_input *input, struct workspace *workspace_or_null, double *ret_angles,
                            double *ret_offsets, struct err *err);
};
extern const struct accuracy_work accuracy_cpu_work;
/* Defined only in builds with CUDA. */
extern const struct accuracy_work accuracy_cuda_work;

#endif
