/* Does the work of shells.h on transforms in a CUDA device's memory. Pointers are device pointers; work is queued on
 * `stream` (a cudaStream_t), without waiting. Sums are in double, in a fixed order. */
#ifndef ICESTREAM_KERNELS_DIFFERENCES_SHELLS_CUDA_H
#define ICESTREAM_KERNELS_DIFFERENCES_SHELLS_CUDA_H

#include <stddef.h>

#include "common/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Multiplies a half transform [box][box][box/2 + 1], complex, by gains[box/2 + 1] / box³. */
enum status shells_cuda_filter(int box, const float *gains, float *spectrum, void *stream, struct err *err);
/* Computes ret_power[box/2 + 1] of a half transform. scratch: box · (box/2 + 1) doubles. */
enum status shells_cuda_power(int box, const float *spectrum, void *scratch, double *ret_power, void *stream,
                              struct err *err);

#ifdef __cplusplus
}
#endif
#endif
