#include "tests/benchmarks/superpose_times.h"

#include <math.h>

#include "kernels/superpose/superpose_ensemble.cuh"
#include "kernels/superpose/superpose_private.h"

/* Results of a slot, at most. */
static const size_t SLOT_FLOATS = (size_t)64 << 20;

static enum status time_all(struct superpose_ensemble *d, int n, bool bare, cudaEvent_t *events, float *ret_ms,
                            struct err *err) {
    CUDA_TRY(cudaEventRecord(events[0], d->compute), err, "timing");
    for (int begin = 0; begin < n;) {
        /* Fills one slot: this is the number of rows that it holds. */
        int end = begin;
        size_t floats = 0;
        while (end < n && floats + (size_t)(n - 1 - end) <= d->slot_floats)
            floats += (size_t)(n - 1 - end++);
        if (end < n) end -= (end - begin) % SUPERPOSE_TILE;
        FAIL_IF(end == begin, err, STATUS_BAD_STATE, "a slot of %zu RMSDs holds no rows of %d structures",
                d->slot_floats, n);
        struct superpose_range range = {n, begin, end};
        TRY(superpose_enqueue(d, 0, &range, true, bare, err));
        begin = end;
    }
    CUDA_TRY(cudaEventRecord(events[1], d->compute), err, "timing");
    CUDA_TRY(cudaEventSynchronize(events[1]), err, "timing");
    CUDA_TRY(cudaEventElapsedTime(ret_ms, events[0], events[1]), err, "timing");
    return STATUS_OK;
}

static enum status time_both(struct superpose_ensemble *d, int n, int repeats, float ret_ms[2], struct err *err) {
    cudaEvent_t events[2] = {NULL, NULL};
    CUDA_TRY(cudaSetDevice(d->options.index), err, "choosing it");
    CUDA_TRY(cudaEventCreate(&events[0]), err, "making an event");
    enum status status = cudaEventCreate(&events[1]) == cudaSuccess ? STATUS_OK : STATUS_DEVICE;
    float best[2] = {INFINITY, INFINITY}, ms = 0;
    for (int k = 0; k < 2 * repeats && status == STATUS_OK; k++) {
        status = time_all(d, n, k % 2, events, &ms, err);
        best[k % 2] = fminf(best[k % 2], ms);
    }
    (void)cudaEventDestroy(events[0]);
    if (events[1]) (void)cudaEventDestroy(events[1]);
    TRY(status);
    ret_ms[0] = best[0];
    ret_ms[1] = best[1];
    return STATUS_OK;
}

enum status superpose_times(struct superpose *superpose, int repeats, float ret_ms[2], struct err *err) {
    superpose_ensemble *ensemble = superpose_cuda_ensemble(superpose_state(superpose));
    int n = superpose_count(superpose);
    size_t unused = 0, floats = superpose_pairs(n), least = (size_t)SUPERPOSE_TILE * n;
    TRY(superpose_cuda_unused(ensemble->options.index, &unused, err));
    if (floats > SLOT_FLOATS) floats = SLOT_FLOATS;
    if (floats > unused / 6 / sizeof(float)) floats = unused / 6 / sizeof(float);
    TRY(superpose_ensemble_slots(ensemble, floats > least ? floats : least, 0, 0, err));
    return time_both(ensemble, n, repeats, ret_ms, err);
}
