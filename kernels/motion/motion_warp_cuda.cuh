/* Weighted sums of the frames along the motion, in real space, on a CUDA device. */
#ifndef ICESTREAM_KERNELS_MOTION_MOTION_WARP_CUDA_CUH
#define ICESTREAM_KERNELS_MOTION_MOTION_WARP_CUDA_CUH

#include "kernels/motion/motion_cuda.cuh"
#include "kernels/motion/motion_weights.h"

/* The shift of one frame: (x, y) = Σ c · (1, X, X², Y, Y², XY), with X and Y from −0.5 to 0.5 over the frame. */
struct warp_shift {
    float c[2][MOTION_SURFACE];
};

struct warp_job {
    struct device_frames frames;
    const struct warp_shift *shifts; /* [frames] */
    const float *taps;               /* [MOTION_PHASES + 1][MOTION_TAPS] */
    const float *coefficients;       /* [frames][MOTION_TERMS]; 0 beyond `terms` */
    int terms;
    int first, step; /* frames first, first + step, … */
    float *sums;     /* [terms][ny][2 · (nx/2 + 1)] */
};

enum status motion_warp_cuda(const struct warp_job *job, cudaStream_t stream, struct err *err);

#endif
