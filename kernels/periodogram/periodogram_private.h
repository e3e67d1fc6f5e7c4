/* Shared by the devices of the periodogram. */
#ifndef ICESTREAM_KERNELS_PERIODOGRAM_PERIODOGRAM_PRIVATE_H
#define ICESTREAM_KERNELS_PERIODOGRAM_PERIODOGRAM_PRIVATE_H

#include "kernels/periodogram/periodogram.h"

#ifdef __cplusplus
extern "C" {
#endif

struct periodogram_cuda;
enum status periodogram_cuda_create(const struct periodogram_task *task, const float *window, double window_power,
                                    struct periodogram_cuda **ret_cuda, struct err *err);
void periodogram_cuda_destroy(struct periodogram_cuda **cuda);
enum status periodogram_cuda_run(struct periodogram_cuda *cuda, const float *micrograph, const void *on_device,
                                 float *power, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
