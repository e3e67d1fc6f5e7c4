#include "common/device_busy_cuda.h"

#include <stdlib.h>

#include "common/device_cuda.h"

namespace {
enum { SPANS = 128 };
}

struct device_busy {
    cudaEvent_t begin[SPANS], end[SPANS];
    int count; /* spans that are not added up yet */
    double seconds;
};

static enum status open_all(struct device_busy *b, struct err *err) {
    for (int i = 0; i < SPANS; i++) {
        CUDA_TRY(cudaEventCreate(&b->begin[i]), err, "making an event");
        CUDA_TRY(cudaEventCreate(&b->end[i]), err, "making an event");
    }
    return STATUS_OK;
}

extern "C" enum status device_busy_create(struct device_busy **ret_busy, struct err *err) {
    struct device_busy *b = (struct device_busy *)calloc(1, sizeof *b);
    FAIL_IF(b == NULL, err, STATUS_NO_MEMORY, "no memory for a device's times");
    enum status status = open_all(b, err);
    if (status != STATUS_OK) {
        device_busy_destroy(&b);
        return status;
    }
    *ret_busy = b;
    return STATUS_OK;
}

extern "C" void device_busy_destroy(struct device_busy **busy) {
    struct device_busy *b = *busy;
    if (b == NULL) return;
    for (int i = 0; i < SPANS; i++) {
        if (b->begin[i]) (void)cudaEventDestroy(b->begin[i]);
        if (b->end[i]) (void)cudaEventDestroy(b->end[i]);
    }
    free(b);
    *busy = NULL;
}

static enum status add_up(struct device_busy *b, struct err *err) {
    for (int i = 0; i < b->count; i++) {
        float ms = 0;
        CUDA_TRY(cudaEventSynchronize(b->end[i]), err, "waiting for its work");
        CUDA_TRY(cudaEventElapsedTime(&ms, b->begin[i], b->end[i]), err, "timing its work");
        b->seconds += 1e-3 * ms;
    }
    b->count = 0;
    return STATUS_OK;
}

extern "C" enum status device_busy_begin(struct device_busy *b, void *stream, struct err *err) {
    if (b->count == SPANS) TRY(add_up(b, err));
    CUDA_TRY(cudaEventRecord(b->begin[b->count], (cudaStream_t)stream), err, "marking a stream");
    return STATUS_OK;
}

extern "C" enum status device_busy_end(struct device_busy *b, void *stream, struct err *err) {
    CUDA_TRY(cudaEventRecord(b->end[b->count], (cudaStream_t)stream), err, "marking a stream");
    b->count++;
    return STATUS_OK;
}

extern "C" enum status device_busy_seconds(struct device_busy *b, double *ret_seconds, struct err *err) {
    TRY(add_up(b, err));
    *ret_seconds = b->seconds;
    return STATUS_OK;
}
