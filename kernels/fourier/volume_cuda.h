/* Transforms whole maps, box³ to [box][box][box/2 + 1] complex and back, on a CUDA device. Single precision, unscaled.
 * Pointers are device pointers; work is queued on `stream` (a cudaStream_t), without waiting. */
#ifndef ICESTREAM_KERNELS_FOURIER_VOLUME_CUDA_H
#define ICESTREAM_KERNELS_FOURIER_VOLUME_CUDA_H

#include <stddef.h>

#include "common/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct volume_cuda; /* plans for one box, kept from iteration to iteration */

/* Creates plans on the current device. */
enum status volume_cuda_create(int box, struct volume_cuda **ret_volume, struct err *err);
void volume_cuda_destroy(struct volume_cuda **volume);
/* Returns the box that the plans are for, px. */
int volume_cuda_box(const struct volume_cuda *volume);
/* Returns the bytes of scratch. */
size_t volume_cuda_scratch(const struct volume_cuda *volume);
/* Returns the bytes of a transform of box³. */
size_t volume_cuda_bytes(int box);
/* Transforms map[box³] to spectrum[box][box][box/2 + 1]. */
enum status volume_cuda_forward(const struct volume_cuda *volume, void *scratch, const float *map, float *spectrum,
                                void *stream, struct err *err);
/* Transforms back; overwrites the spectrum. */
enum status volume_cuda_inverse(const struct volume_cuda *volume, void *scratch, float *spectrum, float *map,
                                void *stream, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
