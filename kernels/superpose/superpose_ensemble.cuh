/* Declares the ensemble on the device for the .cu files of kernels/superpose. Pointers are device pointers unless a
 * comment says otherwise. */
#ifndef ICESTREAM_KERNELS_SUPERPOSE_SUPERPOSE_ENSEMBLE_CUH
#define ICESTREAM_KERNELS_SUPERPOSE_SUPERPOSE_ENSEMBLE_CUH

#include <cuda_runtime.h>

#include "common/device_cuda.h"
#include "kernels/superpose/superpose_cuda.h"
#include "kernels/superpose/superpose_tile.cuh"

struct superpose_slot {
    float *results;       /* [slot_floats] RMSDs, Å */
    int32_t *counts;      /* [slot_rows] entries below the cut-off in each row */
    int32_t *host_counts; /* [slot_rows] copy of counts in page-locked host memory */
    cudaEvent_t done;     /* results, or host_counts, are complete */
};

struct superpose_ensemble {
    struct superpose_ensemble_options options;
    /* stride: floats of a coordinate row. capacity: structures, a multiple of SUPERPOSE_TILE; the reference lies at
     * place `capacity`. */
    int stride, capacity;
    cudaStream_t compute;
    /* Has higher priority than `compute`, so that results for the host overtake the tiles of the next range. */
    cudaStream_t fetch;
    float *roots;            /* [atoms] √w */
    float *rows;             /* [capacity + SUPERPOSE_TILE][3][stride] */
    double *norms;           /* [capacity + SUPERPOSE_TILE] G */
    float *row;              /* [capacity] RMSDs of one structure, Å */
    float *raw;              /* [raw_capacity][atoms][3] uploaded structures before they are centred */
    int raw_capacity;        /* structures */
    unsigned long long *bad; /* lowest structure · atoms + atom in `raw` with a bad coordinate; all bits set: none */
    struct superpose_slot slots[SUPERPOSE_SLOTS];
    size_t slot_floats, entries; /* most RMSDs of a slot, most entries picked at a time */
    int slot_rows;               /* most rows of a slot */
    /* [slot_rows] place of each picked row's first entry in index and rmsd; host_starts: the same in page-locked host
     * memory. */
    int64_t *starts, *host_starts;
    int32_t *index; /* [entries] picked entries: column j */
    float *rmsd;    /* [entries] picked entries: RMSD, Å */
};

/* Returns the floats of one structure in rows. */
static inline size_t superpose_row_floats(const struct superpose_ensemble *d) {
    return (size_t)3 * (size_t)d->stride;
}
/* Returns the index of a place, or of SUPERPOSE_REFERENCE, in rows and norms. */
static inline int superpose_spot(const struct superpose_ensemble *d, int place) {
    return place == SUPERPOSE_REFERENCE ? d->capacity : place;
}

/* Returns the sum of x over the threads of a warp. All threads get the same bits. */
static __device__ __forceinline__ double warp_sum(double x) {
    for (int half = 16; half > 0; half /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, half);
    return x;
}

/* Queues the RMSDs of a range into a slot. packed: as superpose_ensemble_run. bare: computes the product without
 * eigenvalues, for benchmarks; the RMSDs are wrong. */
enum status superpose_enqueue(struct superpose_ensemble *ensemble, int slot, const struct superpose_range *range,
                              bool packed, bool bare, struct err *err);
/* Frees the memory of all slots and of picked entries. */
void superpose_slots_free(struct superpose_ensemble *ensemble);

#endif
