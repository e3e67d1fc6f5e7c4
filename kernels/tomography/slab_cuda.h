/* A slab of rows y on a CUDA device, its exchange with neighbouring slabs, and the steps of an iteration. One thread
 * queues every step for all slabs before it queues the next step.
 *
 * A slab has two streams (paper 002, Figure 3): `edge` computes the chunks of rows that touch another slab, and hands
 * rows on by copies; meanwhile `inside` computes the rest. One row is handed on: Q1 after the projection, r after the
 * residual. Without overlap there is one stream, and all slabs wait for every exchange. */
#ifndef ICESTREAM_KERNELS_TOMOGRAPHY_SLAB_CUDA_H
#define ICESTREAM_KERNELS_TOMOGRAPHY_SLAB_CUDA_H

#include <cuda_runtime.h>

#include "common/arena.h"
#include "kernels/tomography/tomography_cuda.h"

/* Data that all slabs of a device share. */
struct tomography_place {
    struct device device;
    struct arena *arena;
    struct tomography_matrix_cuda matrix;
    float *rays, *voxels; /* reciprocal sums */
    float *factors;       /* WBP's filter */
    unsigned long long *bad;
    size_t allowed; /* bytes */
};
/* Returns the bytes of a place without its slabs. */
size_t tomography_place_bytes(const struct tomography_setup *setup, enum tomography_matrix matrix);
/* bytes: for the place and its slabs. */
enum status tomography_place_make(const struct tomography_setup *setup, enum tomography_matrix matrix, size_t bytes,
                                  struct tomography_place *place, struct err *err);
void tomography_place_clear(struct tomography_place *place);

enum { SLAB_BELOW, SLAB_ABOVE, SLAB_SIDES };

struct tomography_slab {
    const struct tomography_setup *setup;
    struct tomography_place *place;
    int capacity;            /* rows that the memory holds, whole chunks */
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

/* Returns the bytes of a slab of so many rows (whole chunks). */
size_t tomography_slab_bytes(const struct tomography_setup *setup, int rows);
enum status tomography_slab_make(const struct tomography_setup *setup, struct tomography_place *place, int rows,
                                 struct tomography_slab *slab, struct err *err);
void tomography_slab_clear(struct tomography_slab *slab);

struct tomography_slabs {
    const struct tomography_setup *setup;
    struct tomography_slab *slabs;
    int count;
};

/* Deals rows [first, first + rows) of the volume out to the slabs for one pass. */
void tomography_slabs_deal(struct tomography_slabs *slabs, int first, int rows);
/* Uploads images and mask, filtered for WBP; sets c = 0. */
enum status tomography_slabs_load(struct tomography_slabs *slabs, const float *projections, struct err *err);
/* Computes c of iteration 0; for WBP the volume. */
enum status tomography_slabs_start(struct tomography_slabs *slabs, struct err *err);
enum status tomography_slabs_iterate(struct tomography_slabs *slabs, int iteration, struct err *err);
/* Waits for the slabs, and fills ret_sums[rows of the pass]: Σ R (p − W c)² of each row in iteration k from 1, Σ R p²
 * for 0. */
enum status tomography_slabs_sums(struct tomography_slabs *slabs, int k, double *ret_sums, struct err *err);
/* Copies rows [first, first + rows) of the volume to the host; waits. */
enum status tomography_slabs_store(struct tomography_slabs *slabs, int first, int rows, float *ret_volume,
                                   struct err *err);
enum status tomography_slabs_wait(struct tomography_slabs *slabs, struct err *err);

#endif
