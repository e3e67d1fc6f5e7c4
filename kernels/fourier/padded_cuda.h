/* Transforms between a map (box² or box³) and the low frequencies of its twofold padded grid, on a CUDA device: one axis
 * after the other, and of each axis only the lines that are not zero before or not cut away after. A tenth of the memory
 * of the whole padded transform in double, a third of the work. Single precision. For kernels/projector and
 * kernels/reconstruct. */
#ifndef ICESTREAM_KERNELS_FOURIER_PADDED_CUDA_H
#define ICESTREAM_KERNELS_FOURIER_PADDED_CUDA_H

#include <stddef.h>

#include "common/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct padded_cuda; /* plans and a table, for one box: kept from iteration to iteration */

/* dimensions 2 or 3, of the current device. */
enum status padded_cuda_create(int dimensions, int box, struct padded_cuda **ret_padded, struct err *err);
void padded_cuda_destroy(struct padded_cuda **padded);
/* Bytes of scratch for frequencies up to size/2 of the map. */
size_t padded_cuda_scratch(const struct padded_cuda *padded, int size);

#ifdef __cplusplus
}
#endif
#endif
