#include <cuda_runtime.h>

#include "common/device.h"

enum status device_count(int *ret_count, struct err *err) {
    int count = 0;
    cudaError_t result = cudaGetDeviceCount(&count);
    /* A machine without a GPU, or without a driver, is a machine with none. */
    if (result == cudaErrorNoDevice || result == cudaErrorInsufficientDriver)
        count = 0;
    else
        FAIL_IF(result != cudaSuccess, err, STATUS_DEVICE, "CUDA devices cannot be counted: %s",
                cudaGetErrorString(result));
    *ret_count = count;
    return STATUS_OK;
}
