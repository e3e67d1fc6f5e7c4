/* Tools for .cu files with cuFFT: CUFFT_TRY checks every call, as CUDA_TRY of common/device_cuda.h does; sizes of parts
 * of scratch memory; integer square roots; sums over a warp or a block. */
#ifndef ICESTREAM_KERNELS_FOURIER_CUFFT_CUH
#define ICESTREAM_KERNELS_FOURIER_CUFFT_CUH

#include <cufft.h>
#include <stddef.h>

#include "common/arena.h"
#include "common/device_cuda.h"
#include "kernels/fourier/launch.cuh"

/* Returns STATUS_DEVICE from the calling function if cuFFT fails, STATUS_NO_MEMORY if cuFFT could not allocate. cuFFT
 * may leave an error in the CUDA runtime: the message names that error, and the macro clears it, so that no later call
 * reports it as its own. */
#define CUFFT_TRY(call, err, what)                                                                                     \
    do {                                                                                                               \
        cufftResult cufft_result_ = (call);                                                                            \
        cudaError_t cufft_cuda_ = cufft_result_ != CUFFT_SUCCESS ? cudaGetLastError() : cudaSuccess;                   \
        FAIL_IF(cufft_result_ != CUFFT_SUCCESS, err,                                                                   \
                cufft_result_ == CUFFT_ALLOC_FAILED ? STATUS_NO_MEMORY : STATUS_DEVICE,                                \
                "the CUDA device failed at %s: cuFFT error %d (%s)", what, (int)cufft_result_,                         \
                cudaGetErrorString(cufft_cuda_));                                                                      \
    } while (0)

static inline size_t aligned(size_t bytes) {
    return (bytes + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
}

/* Returns the largest integer whose square is at most v, 0 ≤ v < 2²⁴. In this range the root is never rounded up to an
 * integer. */
static __device__ inline int root_below(int v) {
    return (int)sqrtf((float)v);
}

/* Returns the smallest integer ≥ 0 whose square is at least v < 2²⁴. */
static __device__ inline int root_above(int v) {
    return v > 0 ? root_below(v - 1) + 1 : 0;
}

/* Returns the sum over the warp, identical in every lane. */
static __device__ inline double warp_sum(double value) {
    for (int step = 16; step > 0; step /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, step);
    return value;
}

/* Returns the sum over a block of at most 1,024 threads to thread 0, always in the same order. All threads must call
 * it. */
static __device__ inline double block_sum(double value) {
    __shared__ double sums[32];
    value = warp_sum(value);
    __syncthreads();
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x == 0)
        for (unsigned i = 1; i < (blockDim.x + 31) / 32; i++)
            value += sums[i];
    return value;
}

#endif
