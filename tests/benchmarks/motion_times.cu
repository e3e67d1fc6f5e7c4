#include "tests/benchmarks/motion_times.h"

#include <math.h>

#include "common/device_cuda.h"

static const size_t BYTES = (size_t)1 << 30;

/* Times copies of BYTES; returns the least of five. */
static enum status time_copy(void *to, const void *from, cudaEvent_t *events, double *ret_seconds, struct err *err) {
    float best = INFINITY, ms = 0;
    for (int i = 0; i < 5; i++) {
        CUDA_TRY(cudaEventRecord(events[0]), err, "timing");
        CUDA_TRY(cudaMemcpyAsync(to, from, BYTES, cudaMemcpyDefault), err, "copying");
        CUDA_TRY(cudaEventRecord(events[1]), err, "timing");
        CUDA_TRY(cudaEventSynchronize(events[1]), err, "timing");
        CUDA_TRY(cudaEventElapsedTime(&ms, events[0], events[1]), err, "timing");
        best = ms < best ? ms : best;
    }
    *ret_seconds = 1e-3 * (double)best;
    return STATUS_OK;
}

static enum status measure(void **memory, cudaEvent_t *events, struct motion_rates *ret_rates, struct err *err) {
    double upload = 0, copy = 0;
    int processors = 0, khz = 0;
    CUDA_TRY(cudaMalloc(&memory[0], BYTES), err, "making room");
    CUDA_TRY(cudaMalloc(&memory[1], BYTES), err, "making room");
    CUDA_TRY(cudaMallocHost(&memory[2], BYTES), err, "making room");
    CUDA_TRY(cudaEventCreate(&events[0]), err, "making an event");
    CUDA_TRY(cudaEventCreate(&events[1]), err, "making an event");
    CUDA_TRY(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0), err, "asking for its size");
    CUDA_TRY(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, 0), err, "asking for its clock");
    TRY(time_copy(memory[0], memory[2], events, &upload, err));
    TRY(time_copy(memory[1], memory[0], events, &copy, err));
    *ret_rates = (struct motion_rates){(double)BYTES / upload, 2 * (double)BYTES / copy, 32.0 * processors * 1e3 * khz};
    return STATUS_OK;
}

enum status motion_rates_measure(struct motion_rates *ret_rates, struct err *err) {
    void *memory[3] = {NULL, NULL, NULL};
    cudaEvent_t events[2] = {NULL, NULL};
    enum status status = measure(memory, events, ret_rates, err);
    (void)cudaFree(memory[0]);
    (void)cudaFree(memory[1]);
    (void)cudaFreeHost(memory[2]);
    for (int i = 0; i < 2; i++)
        if (events[i]) (void)cudaEventDestroy(events[i]);
    return status;
}

enum status motion_rates_wait(struct err *err) {
    CUDA_TRY(cudaDeviceSynchronize(), err, "waiting for it");
    return STATUS_OK;
}
