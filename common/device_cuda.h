/* For .cu files: every call into CUDA is checked by CUDA_TRY, as in CUDA_TRY(cudaStreamCreate(&s), err, "a stream"). */
#ifndef ICESTREAM_COMMON_DEVICE_CUDA_H
#define ICESTREAM_COMMON_DEVICE_CUDA_H

#include <cuda_runtime.h>

#include "common/status.h"

/* A device without memory may still serve something smaller; after any other error it serves nothing. */
static inline enum status cuda_status(cudaError_t result) {
    return result == cudaErrorMemoryAllocation ? STATUS_NO_MEMORY : STATUS_DEVICE;
}

/* A copy that is complete when it returns. From memory that is not page-locked cudaMemcpy itself may return while the
 * last of it is still on its way, and streams that do not wait for the default one would read what was there before. */
static inline cudaError_t cuda_copy(void *to, const void *from, size_t bytes) {
    cudaError_t result = cudaMemcpy(to, from, bytes, cudaMemcpyDefault);
    return result == cudaSuccess ? cudaStreamSynchronize(0) : result;
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
