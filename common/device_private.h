/* Declares the functions that device_cuda.cu has for device.c. */
#ifndef ICESTREAM_COMMON_DEVICE_PRIVATE_H
#define ICESTREAM_COMMON_DEVICE_PRIVATE_H

#include "common/device.h"

#ifdef __cplusplus
extern "C" {
#endif

enum status device_cuda_host_new(int index, size_t bytes, const char *what, void **ret_pointer, struct err *err);
void device_cuda_host_free(int index, void *pointer);
/* Allocates memory of the device, not zeroed. */
enum status device_cuda_memory_new(int index, size_t bytes, void **ret_pointer, struct err *err);
void device_cuda_memory_free(int index, void *pointer);
enum status device_cuda_copy(int index, void *to, const void *from, size_t bytes, struct err *err);
enum status device_cuda_upload(int index, const float *host, size_t count, struct device_copy **copy, struct err *err);
enum status device_cuda_upload_parts(int index, size_t bytes, device_source *source, void *context,
                                     struct device_copy **copy, struct err *err);
enum status device_cuda_memory_info(int index, size_t *ret_free, size_t *ret_total, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
