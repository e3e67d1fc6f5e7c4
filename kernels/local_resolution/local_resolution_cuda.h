/* Kernels of local_resolution_workspace_cuda.c. Pointers are device pointers, except plain numbers; work is queued on
 * `stream` (a cudaStream_t), without waiting. Transforms are half transforms, [box][box][box/2 + 1] complex. */
#ifndef ICESTREAM_KERNELS_LOCAL_RESOLUTION_LOCAL_RESOLUTION_CUDA_H
#define ICESTREAM_KERNELS_LOCAL_RESOLUTION_LOCAL_RESOLUTION_CUDA_H

#include <stddef.h>

#include "common/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Weights of windows on the device: struct local_taps. */
struct local_cuda_taps {
    int points, length;
    const int *starts;
    const float *weights;
};

/* Returns the bytes of scratch of local_cuda_power. */
size_t local_cuda_scratch(int box);
/* Computes the mean power of two transforms by shell: ret_power[box/2 + 1]. */
enum status local_cuda_power(int box, const float *a, const float *b, void *scratch, double *ret_power, void *stream,
                             struct err *err);
/* Copies what the gains keep of a transform into the transform of a box of side `grid`. last: shell. */
enum status local_cuda_cut(int box, const float *from, const float *gains, double last, int grid, float *to,
                           void *stream, struct err *err);
/* Sums a·b, a² and b² in windows along x: ret_lines[3][grid²][points]. */
enum status local_cuda_products(int grid, const float *a, const float *b, const struct local_cuda_taps *taps,
                                float *ret_lines, void *stream, struct err *err);
/* Weighs lines of `line` values, `inner` apart: in[outer][line][inner] to out[outer][points][inner]. */
enum status local_cuda_weigh(size_t outer, int line, size_t inner, const float *in, const struct local_cuda_taps *taps,
                             float *out, void *stream, struct err *err);
/* field[0] becomes the correlation of field[3][count]. */
enum status local_cuda_divide(size_t count, float *field, void *stream, struct err *err);
/* Compares the correlation [points³] with the threshold at each voxel, between the bands at shells `from` and `to`. Adds
 * the number of voxels that have not fallen below it to *left. */
enum status local_cuda_cross(int box, int points, const float *field, float from, float to, float *before,
                             float *shells, unsigned long long *left, void *stream, struct err *err);
/* Gives the voxels that do not fall below the threshold before the last shell that shell. */
enum status local_cuda_close(int box, float last_shell, float *shells, void *stream, struct err *err);
/* a = (a + b)/2, `count` floats. */
enum status local_cuda_mean(size_t count, float *a, const float *b, void *stream, struct err *err);
/* Adds a low-pass, weighed by its share at each voxel. */
enum status local_cuda_blend(int box, float before, float at, float after, const float *shells, const float *map,
                             float *out, void *stream, struct err *err);
/* shells becomes `length` over shells. */
enum status local_cuda_resolution(int box, float length, float *shells, void *stream, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
