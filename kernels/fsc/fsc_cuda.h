/* Does fsc_spectra on a CUDA device. Pointers are device pointers; work is queued on `stream` (a cudaStream_t), without
 * waiting. Products and sums are in double, in a fixed order. */
#ifndef ICESTREAM_KERNELS_FSC_FSC_CUDA_H
#define ICESTREAM_KERNELS_FSC_FSC_CUDA_H

#include <stddef.h>

#include "common/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the bytes of scratch for maps of box³. */
size_t fsc_cuda_scratch(int box);
/* Computes ret_fsc[box/2 + 1] of half transforms a and b, [box][box][box/2 + 1] complex. */
enum status fsc_cuda_spectra(int box, const float *a, const float *b, void *scratch, float *ret_fsc, void *stream,
                             struct err *err);
/* Computes a −= b, maps of box³. */
enum status fsc_cuda_subtract(int box, float *a, const float *b, void *stream, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
