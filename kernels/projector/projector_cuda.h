/* Prepares references on a CUDA device, like projector_set_map and projector_power (kernels/projector/projector.h).
 * Pointers are device pointers; work is queued on `stream` (a cudaStream_t), without waiting. Results repeat bit for
 * bit. */
#ifndef ICESTREAM_KERNELS_PROJECTOR_PROJECTOR_CUDA_H
#define ICESTREAM_KERNELS_PROJECTOR_PROJECTOR_CUDA_H

#include "kernels/expectation/expectation_cuda.h"
#include "kernels/fourier/padded_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Return the grid of a map for frequencies up to size/2, without values, and the bytes of its values. */
struct grid_cuda projector_cuda_grid(int dimensions, int size);
size_t projector_cuda_bytes(const struct grid_cuda *grid);
/* Transforms map[box² or box³] into the caller's `values`. scratch: padded_cuda_scratch for the size. */
enum status projector_cuda_set_map(struct padded_cuda *padded, const float *map, int size, const struct grid_cuda *grid,
                                   float *values, void *scratch, void *stream, struct err *err);

/* Replaces the points within a radius of the padded grid by those of a grid that is not larger. */
enum status projector_cuda_copy_inner(const struct grid_cuda *inner, const float *inner_values, int radius,
                                      const struct grid_cuda *grid, float *values, void *stream, struct err *err);

/* Like projector_power. ret_power[box/2 + 1]. */
size_t projector_cuda_power_scratch(const struct grid_cuda *grid);
enum status projector_cuda_power(const struct grid_cuda *grid, const float *values, int box, void *scratch,
                                 float *ret_power, void *stream, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
