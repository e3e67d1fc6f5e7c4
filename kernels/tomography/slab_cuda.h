/* A slab of rows y on a CUDA device, what it exchanges with its neighbours, and the steps of an iteration. Every step
 * is queued for all slabs before the next one is, by one thread.
 *
 * Two streams (paper 002, Figure 3): `edge` has the chunks of rows that touch another slab, the rows that are handed
 * on, and the copies; `inside` has the rest meanwhile. What is handed on is one row: Q1 after the projection, r after
 * the residual. Without overlap all is one stream, and everybody waits for every exchange. */
#ifndef ICESTREAM_KERNELS_TOMOGRAPHY_SLAB_CUDA_H
#define ICESTREAM_KERNELS_TOMOGRAPHY_SLAB_CUDA_H

#include <cuda_runtime.h>

#include "common/arena.h"
#include "kernels/tomography/tomography_cuda.h"

/* What slabs of a device share. */
struct tomography_place {
    struct device device;
    struct arena *arena;
    struct tomography_matrix_cuda matrix;
    float *rays, *voxels; /* reciprocal sums */
    float *factors;       /* WBP's filter */
    unsigned long long *bad;
    size_t allowed; /* bytes */
};
/* Bytes beside the slabs'. */
size_t tomography_place_bytes(const struct tomography_setup *setup, enum tomography_matrix matrix);
/* Of `bytes`, some of which are for slabs. */
enum status tomography_place_make(const struct tomography_setup *setup, enum tomography_matrix matrix, size_t bytes,
                                  struct tomography_place *place, struct err *err);
void tomography_place_clear(struct tomography_place *place);

enum { SLAB_BELOW, SLAB_ABOVE, SLAB_SIDES };

struct tomography_slab {
    const struct tomography_setup *setup;
    struct tomography_place *place;
    int capacity;            /* rows that there is memory for, whole chunks */
    int first, rows, pitch;  /* of this pass */
    bool is_end[SLAB_SIDES]; /* no row of the volume lies there */
    struct tomography_slab *beside[SLAB_SIDES];
    struct tomography_chunks edge_chunks, inside_chunks;

    float *volume, *projections;
    float *q0, *q1; /* then r and r1 */
    unsigned char *mask;
    float *halo_q[SLAB_SIDES], *halo_r[SLAB_SIDES], *sent_q[SLAB_SIDES], *sent_r[SLAB_SIDES];
    double *sums, *row_sums; /* row_sums [1 + iterations][capacity] */
    struct tomography_filter_cuda *filter;

    cudaStream_t edge, inside;
    cudaEvent_t projected_edge, projected_inside, handed, differed_edge, differed_inside, added_edge, added_inside,
        changed_edge;
};

/* Bytes of a slab of so many rows (whole chunks). */
size_t tomography_slab_bytes(const struct tomography_setup *setup, int rows);
enum status tomography_slab_make(const struct tomography_setup *setup, struct tomography_place *place, int rows,
                                 struct tomography_slab *slab, struct err *err);
void tomography_slab_clear(struct tomography_slab *slab);

struct tomography_slabs {
    const struct tomography_setup *setup;
    struct tomography_slab *slabs;
    int count;
};

/* Rows [first, first + rows) of the volume as a pass over all slabs: who has which. */
void tomography_slabs_deal(struct tomography_slabs *slabs, int first, int rows);
/* Images (and mask) to the devices, filtered for WBP; c = 0. */
enum status tomography_slabs_load(struct tomography_slabs *slabs, const float *projections, struct err *err);
/* c of iteration 0, of WBP: the volume. */
enum status tomography_slabs_start(struct tomography_slabs *slabs, struct err *err);
enum status tomography_slabs_iterate(struct tomography_slabs *slabs, int iteration, struct err *err);
/* Waits. ret_sums[rows of the pass]: Σ R (p − W c)² of each row in iteration k from 1, Σ R p² for 0. */
enum status tomography_slabs_sums(struct tomography_slabs *slabs, int k, double *ret_sums, struct err *err);
/* Rows [first, first + rows) of the volume to the host; waits. */
enum status tomography_slabs_store(struct tomography_slabs *slabs, int first, int rows, float *ret_volume,
                                   struct err *err);
enum status tomography_slabs_wait(struct tomography_slabs *slabs, struct err *err);

#endif
