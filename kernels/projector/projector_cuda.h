/* References prepared on a CUDA device: what projector_set_map and projector_power do (kernels/projector/projector.h).
 * Pointers are the device's; work is queued on `stream` (a cudaStream_t) and not waited for. Results repeat bit for
 * bit. */
#ifndef ICESTREAM_KERNELS_PROJECTOR_PROJECTOR_CUDA_H
#define ICESTREAM_KERNELS_PROJECTOR_PROJECTOR_CUDA_H

#include "kernels/expectation/expectation_cuda.h"
#include "kernels/fourier/padded_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The grid of a map for frequencies up to size/2, without its values, and the bytes that these take. */
struct grid_cuda projector_cuda_grid(int dimensions, int size);
size_t projector_cuda_bytes(const struct grid_cuda *grid);
/* map[box² or box³] into `values` of the grid, which are the caller's; scratch: padded_cuda_scratch for the size. */
enum status projector_cuda_set_map(struct padded_cuda *padded, const float *map, int size, const struct grid_cuda *grid,
                                   float *values, void *scratch, void *stream, struct err *err);

/* Points of a grid that is no larger, within a radius of the padded grid, take the place of those in `values`. */
enum status projector_cuda_copy_inner(const struct grid_cuda *inner, const float *inner_values, int radius,
                                      const struct grid_cuda *grid, float *values, void *stream, struct err *err);

/* As projector_power. ret_power[box/2 + 1]. */
size_t projector_cuda_power_scratch(const struct grid_cuda *grid);
enum status projector_cuda_power(const struct grid_cuda *grid, const float *values, int box, void *scratch,
                                 float *ret_power, void *stream, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
