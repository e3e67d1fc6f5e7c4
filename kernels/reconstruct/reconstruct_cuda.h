/* The M-step on a CUDA device: the part of kernels/reconstruct/reconstruct.h that starts from finished sums. Pointers
 * are device pointers unless stated otherwise; work is queued on `stream` (a cudaStream_t), without waiting. The caller
 * provides scratch. Results repeat bit for bit.
 *
 * In double: the sums themselves, their sums over symmetry operators, correlations and means of shells, and the Wiener
 * filter with its floor and its division. Weights there span ten orders of magnitude, and single precision loses
 * shells. (The paper met this in RELION's iterative gridding, which is not needed with weights from the sums.)
 *
 * In single, as on the CPU: the values that operators read, and the transform of the filtered grid, whose values are
 * all on one scale. */
#ifndef ICESTREAM_KERNELS_RECONSTRUCT_RECONSTRUCT_CUDA_H
#define ICESTREAM_KERNELS_RECONSTRUCT_RECONSTRUCT_CUDA_H

#include "kernels/fourier/padded_cuda.h"
#include "kernels/reconstruct/reconstruct.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sums: [count][nz][ny][nx] of four doubles, re im weight 0, as in kernels/reconstruct/accumulator_private.h. count:
 * number of references, one after the other; functions that take more than one say so. */
struct accumulator_cuda {
    double *voxels;
    int dimensions, box, r_max, reach, nx, ny, nz, count;
};
/* Returns the shape of the sums of one reference for frequencies up to size/2, without voxels. */
struct accumulator_cuda accumulator_cuda_shape(int dimensions, int box, int size);
/* Returns the bytes of the voxels. */
size_t accumulator_cuda_bytes(const struct accumulator_cuda *accumulator);
/* Copies sums of the same size from the host, and waits. */
enum status accumulator_cuda_put(const struct accumulator_cuda *to, const struct accumulator *from, void *stream,
                                 struct err *err);
/* Copies sums of the same size to the host, and waits. */
enum status accumulator_cuda_get(const struct accumulator_cuda *from, struct accumulator *to, void *stream,
                                 struct err *err);

/* Returns the bytes of scratch of accumulator_cuda_finish: 12 per voxel with operators, 0 without. */
size_t accumulator_cuda_finish_scratch(const struct accumulator_cuda *accumulator,
                                       const struct symmetry *symmetry_or_null);
/* Does accumulator_finish; any count if there are no operators. */
enum status accumulator_cuda_finish(const struct accumulator_cuda *accumulator, const struct symmetry *symmetry_or_null,
                                    void *scratch, void *stream, struct err *err);
/* Computes a += b. */
enum status accumulator_cuda_merge(const struct accumulator_cuda *a, const struct accumulator_cuda *b, void *stream,
                                   struct err *err);
/* Gives a and b the mean of both in shells 0 .. shells, as accumulator_join_shells. */
enum status accumulator_cuda_join_shells(const struct accumulator_cuda *a, const struct accumulator_cuda *b, int shells,
                                         void *stream, struct err *err);
/* Returns the bytes of scratch of accumulator_cuda_fsc. */
size_t accumulator_cuda_fsc_scratch(const struct accumulator_cuda *a, const struct accumulator_cuda *b);
/* Computes ret_fsc[count][box/2 + 1], one curve per reference. */
enum status accumulator_cuda_fsc(const struct accumulator_cuda *a, const struct accumulator_cuda *b, void *scratch,
                                 float *ret_fsc, void *stream, struct err *err);
/* Returns the bytes of scratch of accumulator_cuda_sigma2. */
size_t reconstruct_cuda_shells_scratch(const struct accumulator_cuda *accumulator);
/* Computes ret_sigma2[box/2 + 1], as accumulator_sigma2. */
enum status accumulator_cuda_sigma2(const struct accumulator_cuda *accumulator, void *scratch, float *ret_sigma2,
                                    void *stream, struct err *err);

struct reconstruct_cuda_options {
    const float *tau2; /* [box/2 + 1]; NULL: no prior */
    double tau_fudge;
    int minres_shell;
    int last_shell;
};
/* Returns the bytes of scratch of reconstruct_cuda_map. */
size_t reconstruct_cuda_scratch(const struct padded_cuda *padded, const struct accumulator_cuda *accumulator);
/* Makes a map as reconstruct_map: map[box² or box³]; ret_data_vs_prior and ret_completeness [box/2 + 1], or NULL. Does
 * not change the accumulator. */
enum status reconstruct_cuda_map(struct padded_cuda *padded, const struct accumulator_cuda *accumulator,
                                 const struct reconstruct_cuda_options *options, void *scratch, float *map,
                                 float *ret_data_vs_prior, float *ret_completeness, void *stream, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
