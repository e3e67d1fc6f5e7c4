/* Kernels of tomography on a CUDA device, called by tomography_cuda.c and slab_cuda.c, implemented in the .cu files.
 *
 * A slab is some rows y of the volume and of the images. On the device y is the fastest axis: of the volume
 * [z][x][pitch], of the images [tilt][x][pitch], pitch = rows rounded up to TOMOGRAPHY_CHUNK; pixels beyond the
 * rows are zero. So the lanes of a warp, which are rows, share one position u, one set of weights and one path through
 * the code.
 *
 * Rows y ± 1 enter by factors: p[y] = Q0[y] + Q1[y − 1] + Q1[y + 1] with Q0, Q1 the sums over q0 c and q1 c; and
 * Wᵀ r by r and r1[y] = r[y − 1] + r[y + 1].
 *
 * Pointers are device pointers. Functions queue work on `stream` (a cudaStream_t) of the calling thread's current
 * device and do not wait for it. */
#ifndef ICESTREAM_KERNELS_TOMOGRAPHY_TOMOGRAPHY_CUDA_H
#define ICESTREAM_KERNELS_TOMOGRAPHY_TOMOGRAPHY_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "kernels/tomography/tomography_private.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows that a warp works on: 32 lanes of four. */
enum { TOMOGRAPHY_CHUNK = 128 };

struct tomography_matrix_cuda {
    enum tomography_matrix kind; /* never auto */
    bool coupled;                /* q1 is not 0 */
    int tilts, nx, nz;
    const double *cosines, *sines, *offsets; /* [tilts] */
    const float *weights;                    /* [STEPS + 1][8] */
    const int *order;                        /* [tilts] by angle: neighbours in it see much the same voxels */
    /* ELLR, N = nx nz: entry k of voxel n = z nx + x at tilt t stands at (4 t + k) N + n. a1 where coupled. */
    const float *a0, *a1;
    const int32_t *rays;
    /* Blob-ELLR, half = ⌈N/2⌉: floor and fraction of u − offset of voxel n < half for pair p stand at p half + n. */
    const int32_t *floors;
    const float *fractions;
    const int32_t *pair;         /* [tilts] */
    const unsigned char *mirror; /* [tilts] */
};

/* Fills what kind needs of a0, a1, rays or floors, fractions (pair_tilt [pairs] on the device). */
enum status tomography_cuda_fill(const struct tomography_matrix_cuda *matrix, const int32_t *pair_tilt, int pairs,
                                 void *stream, struct err *err);
/* Reciprocal sums by the number of rows y ± 1 that exist: ret_rays [3][tilts][nx], ret_voxels [3][nz][nx]. */
enum status tomography_cuda_reciprocals(const struct tomography_matrix_cuda *matrix, float *ret_rays, float *ret_voxels,
                                        void *stream, struct err *err);

/* Chunks first, first + step, … : `count` of them. */
struct tomography_chunks {
    int first, step, count;
};

/* ret_q0, ret_q1 [tilts][nx][pitch]; q1 only where coupled. */
enum status tomography_cuda_project(const struct tomography_matrix_cuda *matrix, struct tomography_chunks chunks,
                                    int pitch, const float *volume, float *ret_q0, float *ret_q1, void *stream,
                                    struct err *err);

/* How back-projection b = Wᵀ r changes c: c becomes kept·c + scale·C·b, then 0 where the mask is 0, and, if
 * non_negative, where it is negative. */
struct tomography_update {
    float kept, scale;
    const float *voxels; /* C [3][nz][nx], or NULL: 1 */
    bool non_negative;
    const unsigned char *mask;      /* [nz][nx][pitch], or NULL */
    int rows;                       /* of the slab; what is beyond stays as it is */
    bool first_is_end, last_is_end; /* whether the slab's first and last row lack a neighbour */
};
enum status tomography_cuda_back_project(const struct tomography_matrix_cuda *matrix, struct tomography_chunks chunks,
                                         int pitch, const float *r, const float *r1,
                                         const struct tomography_update *update, float *volume, void *stream,
                                         struct err *err);

/* r = R d, d = p − (q0 + q1 of the rows beside), of some chunks, in place of q0 if wanted, and Σ R d² of each row by
 * groups of rays, sums [TOMOGRAPHY_RESIDUAL_GROUPS][pitch]. q0, q1 NULL: nothing to subtract. below, above [tilts][nx]:
 * q1 of the rows beside the slab, or NULL. plain: r = d; the sums stay as they are. */
enum { TOMOGRAPHY_RESIDUAL_GROUPS = 512 };
struct tomography_residual {
    int tilts, nx, rows, pitch;
    const float *projections, *q0, *q1, *below, *above;
    const float *rays; /* R [3][tilts][nx] */
    bool first_is_end, last_is_end, plain;
    float *r;
    double *sums;
};
enum status tomography_cuda_residual(const struct tomography_residual *residual, struct tomography_chunks chunks,
                                     void *stream, struct err *err);
/* ret_rows[rows] = Σ over groups. */
enum status tomography_cuda_row_sums(const double *sums, int rows, int pitch, double *ret_rows, void *stream,
                                     struct err *err);
/* ret_r1[y] = r[y − 1] + r[y + 1]; below, above: r of the rows beside the slab, or NULL. Of residual only sizes. */
enum status tomography_cuda_neighbours(const struct tomography_residual *residual, struct tomography_chunks chunks,
                                       const float *r, const float *below, const float *above, float *ret_r1,
                                       void *stream, struct err *err);
/* ret_row [lines] = a row of [lines][pitch]. */
enum status tomography_cuda_take_row(const float *from, size_t lines, int pitch, int row, float *ret_row, void *stream,
                                     struct err *err);

/* [planes][rows][from_pitch] to [planes][columns][pitch]. ret_bad (may be NULL): the least of what it was and `origin`
 * + plane · origin_plane + row · columns + column of what is no finite number. */
struct tomography_origin {
    unsigned long long first, plane;
};
enum status tomography_cuda_turn(const float *from, int planes, int rows, int columns, int from_pitch, int pitch,
                                 const struct tomography_origin *origin, float *ret_to, unsigned long long *ret_bad,
                                 void *stream, struct err *err);
enum status tomography_cuda_turn_mask(const unsigned char *from, int planes, int rows, int columns, int pitch,
                                      unsigned char *ret_to, void *stream, struct err *err);

/* Slices [first, first + planes) of the volume of c, as [planes][rows][nx]. below, above [nz][nx]: c of the rows beside
 * the slab, or NULL. plain: c itself. */
struct tomography_stencil {
    int nx, nz, rows, pitch;
    float weights[4];
    bool plain;
    const float *coefficients, *below, *above;
};
enum status tomography_cuda_stencil(const struct tomography_stencil *stencil, int first, int planes, float *ret_slices,
                                    void *stream, struct err *err);

/* WBP: rows [rows][nx] of a tilt filtered, to [rows][padded + 2] of which the first nx are meant; factors [padded/2 +
 * 1] on the device. */
struct tomography_filter_cuda;
enum status tomography_filter_create(int padded, int rows, void *stream, struct tomography_filter_cuda **ret_filter,
                                     struct err *err);
void tomography_filter_destroy(struct tomography_filter_cuda **filter);
enum status tomography_filter_run(struct tomography_filter_cuda *filter, const float *rows, int nx,
                                  const float *factors, float share, float *ret_rows, void *stream, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
