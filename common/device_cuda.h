/* For code that calls CUDA: CUDA_TRY checks each call, as in CUDA_TRY(cudaStreamCreate(&s), err, "making a stream"). */
#ifndef ICESTREAM_COMMON_DEVICE_CUDA_H
#define ICESTREAM_COMMON_DEVICE_CUDA_H

#include <cuda_runtime.h>

#include "common/status.h"

/* A device without enough memory may still do smaller work; after any other error it does nothing more. */
static inline enum status cuda_status(cudaError_t result) {
    return result == cudaErrorMemoryAllocation ? STATUS_NO_MEMORY : STATUS_DEVICE;
}

/* Copies, and waits until the copy is complete. From memory that is not page-locked, cudaMemcpy may return before the
 * last bytes have arrived; streams that do not wait for the default stream would then read old data. */
static inline cudaError_t cuda_copy(void *to, const void *from, size_t bytes) {
    cudaError_t result = cudaMemcpy(to, from, bytes, cudaMemcpyDefault);
    return result == cudaSuccess ? cudaStreamSynchronize(0) : result;
}

/* Lets launches of a kernel take all shared memory that the current device has. The limit belongs to the kernel, not to
 * a launch: with a smaller one, launches of other sizes would fail, those of other threads too. */
static inline cudaError_t cuda_allow_shared(const void *kernel) {
    struct cudaFuncAttributes attributes;
    int device = 0, most = 0;
    cudaError_t result = cudaGetDevice(&device);
    if (result == cudaSuccess) result = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (result == cudaSuccess) result = cudaFuncGetAttributes(&attributes, kernel);
    if (result != cudaSuccess) return result;
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                most - (int)attributes.sharedSizeBytes);
}

#define CUDA_TRY(call, err, what)                                                                                      \
    do {                                                                                                               \
        cudaError_t cuda_result_ = (call);                                                                             \
        if (cuda_result_ != cudaSuccess) {                                                                             \
            (void)cudaGetLastError();                                                                                  \
            FAIL(err, cuda_status(cuda_result_), "the CUDA device failed at %s: %s", what,                             \
                 cudaGetErrorString(cuda_result_));                                                                    \
        }                                                                                                              \
    } while (0)

#endif
