/* Transforms between a map (box² or box³) and the low frequencies of its twofold padded grid on a CUDA device, for
 * kernels/projector and kernels/reconstruct.
 *
 * One axis is transformed after the other, in single precision. Lines that are zero before a step, or cut away after
 * it, are skipped. This takes a tenth of the memory of the whole padded transform in double, and a third of the
 * work. */
#ifndef ICESTREAM_KERNELS_FOURIER_PADDED_CUDA_H
#define ICESTREAM_KERNELS_FOURIER_PADDED_CUDA_H

#include <stddef.h>

#include "common/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct padded_cuda; /* plans and a table for one box, kept from iteration to iteration */

/* Creates plans on the current device. dimensions: 2 or 3. */
enum status padded_cuda_create(int dimensions, int box, struct padded_cuda **ret_padded, struct err *err);
void padded_cuda_destroy(struct padded_cuda **padded);
/* Returns the bytes of scratch for frequencies up to size/2 of the map. */
size_t padded_cuda_scratch(const struct padded_cuda *padded, int size);

#ifdef __cplusplus
}
#endif
#endif
