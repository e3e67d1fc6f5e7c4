/* What .cu files that use cuFFT share: every call is checked by CUFFT_TRY, as in CUDA_TRY of common/device_cuda.h; sizes
 * of launches and of pieces of scratch; whole roots; sums of a warp. */
#ifndef ICESTREAM_KERNELS_FOURIER_CUFFT_CUH
#define ICESTREAM_KERNELS_FOURIER_CUFFT_CUH

#include <cufft.h>
#include <stddef.h>

#include "common/arena.h"
#include "common/device_cuda.h"

#define CUFFT_TRY(call, err, what)                                                                                     \
    do {                                                                                                               \
        cufftResult cufft_result_ = (call);                                                                            \
        FAIL_IF(cufft_result_ != CUFFT_SUCCESS, err,                                                                   \
                cufft_result_ == CUFFT_ALLOC_FAILED ? STATUS_NO_MEMORY : STATUS_DEVICE,                                \
                "the CUDA device failed at %s: cuFFT error %d (%s)", what, (int)cufft_result_,                         \
                cudaGetErrorString(cudaGetLastError()));                                                               \
    } while (0)

static inline unsigned blocks_for(size_t count, unsigned each) {
    return (unsigned)((count + each - 1) / each);
}

static inline size_t aligned(size_t bytes) {
    return (bytes + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
}

/* The largest integer whose square is at most v, 0 ≤ v < 2²⁴: such a root is never rounded up to an integer. */
static __device__ inline int root_below(int v) {
    return (int)sqrtf((float)v);
}

/* The smallest integer ≥ 0 whose square is at least v < 2²⁴. */
static __device__ inline int root_above(int v) {
    return v > 0 ? root_below(v - 1) + 1 : 0;
}

/* The same in every lane. */
static __device__ inline double warp_sum(double value) {
    for (int step = 16; step > 0; step /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, step);
    return value;
}

/* Thread 0 gets the sum over a block of at most 1,024 threads, always in the same order; all threads call it. */
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
