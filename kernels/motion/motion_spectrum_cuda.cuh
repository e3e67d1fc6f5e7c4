/* The spectrum of a movie on a CUDA device: the mean power of tiles of sums of a few frames each. */
#ifndef ICESTREAM_KERNELS_MOTION_MOTION_SPECTRUM_CUDA_CUH
#define ICESTREAM_KERNELS_MOTION_MOTION_SPECTRUM_CUDA_CUH

#include "kernels/motion/motion_cuda.cuh"

struct motion_spectrum_cuda;

void motion_spectrum_cuda_destroy(struct motion_spectrum_cuda *spectrum);
/* Fills power, on the host. Makes *spectrum at the first call, and keeps it for others of the same box. */
enum status motion_spectrum_cuda_run(struct motion_cuda *m, struct motion_spectrum_cuda **spectrum,
                                     const struct motion_model *model, const struct motion_sum_options *options,
                                     float *power, struct err *err);

#endif
