/* Steps of differences.h on voxels in a CUDA device's memory. Pointers are device pointers; work is queued on `stream` (a
 * cudaStream_t), without waiting. */
#ifndef ICESTREAM_KERNELS_DIFFERENCES_DIFFERENCES_CUDA_H
#define ICESTREAM_KERNELS_DIFFERENCES_DIFFERENCES_CUDA_H

#include <stddef.h>

#include "common/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Computes sum += share · map; −1 subtracts. */
enum status differences_cuda_add(size_t count, float share, const float *map, float *sum, void *stream,
                                 struct err *err);
/* Computes sum += share · map². */
enum status differences_cuda_add_square(size_t count, float share, const float *map, float *sum, void *stream,
                                        struct err *err);
/* Turns mean squares into weights. */
enum status differences_cuda_weigh(size_t count, double noise, float *square, void *stream, struct err *err);
/* Computes out = weight · difference. */
enum status differences_cuda_multiply(size_t count, const float *weight, const float *difference, float *out,
                                      void *stream, struct err *err);
/* Computes out = mean + part · weight · difference; weight NULL: 1. */
enum status differences_cuda_move(size_t count, const float *mean, float part, const float *weight_or_null,
                                  const float *difference, float *out, void *stream, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
