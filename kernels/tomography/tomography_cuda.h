/* Declares the kernels of tomography on a CUDA device. tomography_cuda.c and slab_cuda.c call these functions, and the
 * .cu files implement them.
 *
 * A slab is a range of rows y of the volume and of the images. On the device y is the fastest axis: volumes are
 * [z][x][pitch], images are [tilt][x][pitch], pitch = rows rounded up to TOMOGRAPHY_CHUNK; pixels beyond the rows are
 * zero. The lanes of a warp are rows, and share one position u, one set of weights and one path through the code.
 *
 * Rows y ± 1 contribute as follows. Projection: p[y] = Q0[y] + Q1[y − 1] + Q1[y + 1] with Q0 = Σ q0 c, Q1 = Σ q1 c.
 * Back-projection: (Wᵀ r)[y] = Σ q0 r[y] + Σ q1 r1[y] with r1[y] = r[y − 1] + r[y + 1].
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

/* Rows that a warp works on: 32 lanes of 4 rows. */
enum { TOMOGRAPHY_CHUNK = 128 };

struct tomography_matrix_cuda {
    enum tomography_matrix kind; /* never auto */
    bool coupled;                /* q1 is not 0 */
    int tilts, nx, nz;
    const double *cosines, *sines, *offsets; /* [tilts] */
    const float *weights;                    /* [STEPS + 1][8] */
    const int *order; /* [tilts] indices by angle: rays of neighbours meet almost the same voxels */
    /* ELLR, N = nx nz: weight k = 0 .. 3 of voxel n = z nx + x at tilt t stands at (4 t + k) N + n. a0: q0; a1: q1, if
     * coupled. rays: the first ray, at 4 t N + n. */
    const float *a0, *a1;
    const int32_t *rays;
    /* Blob-ELLR, half = ⌈N/2⌉: floor and fraction of u − offset of voxel n < half for pair p stand at p half + n. */
    const int32_t *floors;
    const float *fractions;
    const int32_t *pair;         /* [tilts] */
    const unsigned char *mirror; /* [tilts] */
};

/* Fills the stored arrays of matrix->kind: a0, a1 and rays, or floors and fractions. pair_tilt[pairs]: tilt of each
 * pair. */
enum status tomography_cuda_fill(const struct tomography_matrix_cuda *matrix, const int32_t *pair_tilt, int pairs,
                                 void *stream, struct err *err);
/* Computes R and C: ret_rays[3][tilts][nx], ret_voxels[3][nz][nx]. The first index is the number of rows y ± 1 that
 * exist (0 .. 2). */
enum status tomography_cuda_reciprocals(const struct tomography_matrix_cuda *matrix, float *ret_rays, float *ret_voxels,
                                        void *stream, struct err *err);

/* Selects `count` chunks of TOMOGRAPHY_CHUNK rows: first, first + step, first + 2 step, … */
struct tomography_chunks {
    int first, step, count;
};

/* Projects volume[nz][nx][pitch] to the sums Q0 and Q1: ret_q0 and, if coupled, ret_q1 [tilts][nx][pitch]. */
enum status tomography_cuda_project(const struct tomography_matrix_cuda *matrix, struct tomography_chunks chunks,
                                    int pitch, const float *volume, float *ret_q0, float *ret_q1, void *stream,
                                    struct err *err);

/* The change that a back-projection b = Wᵀ r makes to c: c ← kept·c + scale·C·b, then c ← 0 where the mask is 0 and, if
 * non_negative, where c < 0. */
struct tomography_update {
    float kept, scale;
    const float *voxels; /* C [3][nz][nx], or NULL: 1 */
    bool non_negative;
    const unsigned char *mask;      /* [nz][nx][pitch], or NULL */
    int rows;                       /* of the slab; c beyond the rows does not change */
    bool first_is_end, last_is_end; /* whether the slab's first and last row lack a neighbour */
};
/* Back-projects r and, if coupled, r1 [tilts][nx][pitch], and updates volume[nz][nx][pitch]. */
enum status tomography_cuda_back_project(const struct tomography_matrix_cuda *matrix, struct tomography_chunks chunks,
                                         int pitch, const float *r, const float *r1,
                                         const struct tomography_update *update, float *volume, void *stream,
                                         struct err *err);

/* Arguments of tomography_cuda_residual. projections, q0, q1 and r are [tilts][nx][pitch]; r may be q0. q0, q1 NULL: c
 * is 0. below, above: [tilts][nx], Q1 of the row on that side of the slab; NULL: there is no such row. sums:
 * [TOMOGRAPHY_RESIDUAL_GROUPS][pitch], Σ R d² of each row by groups of rays. plain: r = d, and sums do not change. */
enum { TOMOGRAPHY_RESIDUAL_GROUPS = 512 };
struct tomography_residual {
    int tilts, nx, rows, pitch;
    const float *projections, *q0, *q1, *below, *above;
    const float *rays; /* R [3][tilts][nx] */
    bool first_is_end, last_is_end, plain;
    float *r;
    double *sums;
};
/* Computes r = R d for some chunks, with d[y] = p[y] − (Q0[y] + Q1[y − 1] + Q1[y + 1]), and the sums. */
enum status tomography_cuda_residual(const struct tomography_residual *residual, struct tomography_chunks chunks,
                                     void *stream, struct err *err);
/* Sums over the groups: sums[TOMOGRAPHY_RESIDUAL_GROUPS][pitch] to ret_rows[rows]. */
enum status tomography_cuda_row_sums(const double *sums, int rows, int pitch, double *ret_rows, void *stream,
                                     struct err *err);
/* Computes ret_r1[y] = r[y − 1] + r[y + 1]. below, above: [tilts][nx], r of the row on that side of the slab, or NULL.
 * Reads only the sizes from residual. */
enum status tomography_cuda_neighbours(const struct tomography_residual *residual, struct tomography_chunks chunks,
                                       const float *r, const float *below, const float *above, float *ret_r1,
                                       void *stream, struct err *err);
/* Copies one row out of from[lines][pitch] to ret_row[lines]. */
enum status tomography_cuda_take_row(const float *from, size_t lines, int pitch, int row, float *ret_row, void *stream,
                                     struct err *err);

/* The number of a plane's first element in the caller's array: first + plane index · plane. */
struct tomography_origin {
    unsigned long long first, plane;
};
/* Transposes from[planes][rows][from_pitch] to ret_to[planes][columns][pitch]. Lowers *ret_bad (NULL: not wanted) to
 * the smallest number of a NaN or infinite element, counted as origin says + row · columns + column. */
enum status tomography_cuda_turn(const float *from, int planes, int rows, int columns, int from_pitch, int pitch,
                                 const struct tomography_origin *origin, float *ret_to, unsigned long long *ret_bad,
                                 void *stream, struct err *err);
/* Transposes from[planes][rows][columns] to ret_to[planes][columns][pitch]. */
enum status tomography_cuda_turn_mask(const unsigned char *from, int planes, int rows, int columns, int pitch,
                                      unsigned char *ret_to, void *stream, struct err *err);

/* Arguments of tomography_cuda_stencil. coefficients: c, [nz][nx][pitch]. below, above: [nz][nx], c of the row on that
 * side of the slab; NULL: there is no such row. plain: the volume is c itself. */
struct tomography_stencil {
    int nx, nz, rows, pitch;
    float weights[4];
    bool plain;
    const float *coefficients, *below, *above;
};
/* Makes slices [first, first + planes) of the volume from c: ret_slices[planes][rows][nx]. */
enum status tomography_cuda_stencil(const struct tomography_stencil *stencil, int first, int planes, float *ret_slices,
                                    void *stream, struct err *err);

/* Creates the filter's plans for `rows` rows, padded to `padded` values each. */
struct tomography_filter_cuda;
enum status tomography_filter_create(int padded, int rows, void *stream, struct tomography_filter_cuda **ret_filter,
                                     struct err *err);
void tomography_filter_destroy(struct tomography_filter_cuda **filter);
/* Filters rows of a tilt for WBP: rows[rows][nx] to ret_rows[rows][padded + 2]; the first nx values of each row are the
 * result. factors: [padded/2 + 1]. share: multiplies the result. */
enum status tomography_filter_run(struct tomography_filter_cuda *filter, const float *rows, int nx,
                                  const float *factors, float share, float *ret_rows, void *stream, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
