/* Declarations shared by the .cu files of kernels/superpose: the ensemble on the device. */
#ifndef ICESTREAM_KERNELS_SUPERPOSE_SUPERPOSE_ENSEMBLE_CUH
#define ICESTREAM_KERNELS_SUPERPOSE_SUPERPOSE_ENSEMBLE_CUH

#include <cuda_runtime.h>

#include "common/device_cuda.h"
#include "kernels/superpose/superpose_cuda.h"
#include "kernels/superpose/superpose_tile.cuh"

struct superpose_slot {
    float *results;
    int32_t *counts;      /* of each row */
    int32_t *host_counts; /* page-locked */
    cudaEvent_t done;
};

struct superpose_device {
    struct superpose_device_options options;
    int stride, capacity; /* capacity: structures, whole tiles; the reference lies behind them */
    cudaStream_t compute;
    cudaStream_t fetch; /* of higher priority: what the host waits for runs between the tiles of the next range */
    float *roots;       /* [atoms] √w */
    float *rows;
    double *norms;
    float *row;       /* [capacity] a row's RMSDs */
    float *raw;       /* structures as they come */
    int raw_capacity; /* structures */
    unsigned long long *bad;
    struct superpose_slot slots[SUPERPOSE_SLOTS];
    size_t slot_floats, entries;
    int slot_rows;
    int64_t *starts, *host_starts; /* of the rows that are picked */
    int32_t *index;
    float *rmsd;
};

static inline size_t superpose_row_floats(const struct superpose_device *d) {
    return (size_t)3 * (size_t)d->stride;
}
static inline int superpose_spot(const struct superpose_device *d, int place) {
    return place == SUPERPOSE_REFERENCE ? d->capacity : place;
}

/* Sum over the threads of a warp, the same in all. */
static __device__ __forceinline__ double warp_sum(double x) {
    for (int half = 16; half > 0; half /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, half);
    return x;
}

/* Queues the RMSDs of a range into a slot. bare: the product alone, for benchmarks. */
enum status superpose_enqueue(struct superpose_device *device, int slot, const struct superpose_range *range,
                              bool packed, bool bare, struct err *err);
/* Frees what the slots hold. */
void superpose_slots_free(struct superpose_device *device);

#endif
