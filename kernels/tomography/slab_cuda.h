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
    float *rays, *voxels;    /* R and C (tomography_cuda_reciprocals) */
    float *factors;          /* WBP's filter */
    unsigned long long *bad; /* number of the first NaN or infinite pixel (tomography_cuda_turn) */
    size_t allowed;          /* bytes for the place and its slabs */
};
/* Returns the bytes of a place without its slabs. */
size_t tomography_place_bytes(const struct tomography_setup *setup, enum tomography_matrix matrix);
/* Makes a place on place->device. bytes: for the place and its slabs. */
enum status tomography_place_make(const struct tomography_setup *setup, enum tomography_matrix matrix, size_t bytes,
                                  struct tomography_place *place, struct err *err);
void tomography_place_clear(struct tomography_place *place);

enum { SLAB_BELOW, SLAB_ABOVE, SLAB_SIDES };

struct tomography_slab {
    const struct tomography_setup *setup;
    struct tomography_place *place;
    int capacity;                               /* rows that the memory holds, whole chunks */
    int first, rows, pitch;                     /* of this pass: first row of the volume, rows, floats between lines */
    bool is_end[SLAB_SIDES];                    /* the slab ends at the end of the volume on that side */
    struct tomography_slab *beside[SLAB_SIDES]; /* neighbours; NULL: none */
    struct tomography_chunks edge_chunks, inside_chunks;

    float *volume, *projections; /* c [nz][nx][pitch]; p [tilts][nx][pitch] */
    float *q0, *q1;              /* Q0 and Q1 after the projection, r and r1 after the residual */
    unsigned char *mask;
    /* Rows that neighbours handed to this slab, and rows that this slab hands on: q: Q1 or c; r: r. */
    float *halo_q[SLAB_SIDES], *halo_r[SLAB_SIDES], *sent_q[SLAB_SIDES], *sent_r[SLAB_SIDES];
    double *sums, *row_sums; /* row_sums [1 + iterations][capacity] */
    struct tomography_filter_cuda *filter;

    cudaStream_t edge, inside;
    /* Events: the step of that name is done on the stream edge or inside; handed: rows have been handed on. */
    cudaEvent_t projected_edge, projected_inside, handed, differed_edge, differed_inside, added_edge, added_inside,
        changed_edge;
};

/* Returns the bytes of a slab of `rows` rows, a multiple of TOMOGRAPHY_CHUNK. */
size_t tomography_slab_bytes(const struct tomography_setup *setup, int rows);
/* Takes the memory, streams, events and filter of a slab of at most `rows` rows, a multiple of TOMOGRAPHY_CHUNK. */
enum status tomography_slab_make(const struct tomography_setup *setup, struct tomography_place *place, int rows,
                                 struct tomography_slab *slab, struct err *err);
void tomography_slab_clear(struct tomography_slab *slab);

struct tomography_slabs {
    const struct tomography_setup *setup;
    struct tomography_slab *slabs;
    int count;
};

/* Distributes rows [first, first + rows) of the volume over the slabs for one pass. */
void tomography_slabs_deal(struct tomography_slabs *slabs, int first, int rows);
/* Uploads images and mask, and sets c = 0. For WBP also filters the images. STATUS_BAD_ARGUMENT: a pixel is NaN or
 * infinite. */
enum status tomography_slabs_load(struct tomography_slabs *slabs, const float *projections, struct err *err);
/* Computes the start, c before iteration 1; for WBP the volume. */
enum status tomography_slabs_start(struct tomography_slabs *slabs, struct err *err);
/* Queues one iteration of SIRT, counted from 1. */
enum status tomography_slabs_iterate(struct tomography_slabs *slabs, int iteration, struct err *err);
/* Waits for the slabs, and copies the sums of each row to ret_sums[rows of the pass]: Σ R (p − W c)² of iteration k ≥
 * 1, or Σ R p² for k = 0. */
enum status tomography_slabs_sums(struct tomography_slabs *slabs, int k, double *ret_sums, struct err *err);
/* Copies rows [first, first + rows) of the volume to the host, and waits for the copy. */
enum status tomography_slabs_store(struct tomography_slabs *slabs, int first, int rows, float *ret_volume,
                                   struct err *err);
/* Waits for all work of all slabs. */
enum status tomography_slabs_wait(struct tomography_slabs *slabs, struct err *err);

#endif
