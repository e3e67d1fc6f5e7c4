#include "kernels/alignment/cuda/stream.h"

#include <stdlib.h>

#include "common/device_busy_cuda.h"
#include "common/device_cuda.h"

struct stream_cuda {
    cudaStream_t kernels, images;
    cudaEvent_t brought[STREAM_SLOTS], released[STREAM_SLOTS], sent[STREAM_STAGES];
    struct device_busy *busy;
    int device;
};

static enum status open_all(struct stream_cuda *s, struct err *err) {
    CUDA_TRY(cudaStreamCreateWithFlags(&s->kernels, cudaStreamNonBlocking), err, "making a stream");
    CUDA_TRY(cudaStreamCreateWithFlags(&s->images, cudaStreamNonBlocking), err, "making a stream");
    for (int slot = 0; slot < STREAM_SLOTS; slot++) {
        CUDA_TRY(cudaEventCreateWithFlags(&s->brought[slot], cudaEventDisableTiming), err, "making an event");
        CUDA_TRY(cudaEventCreateWithFlags(&s->released[slot], cudaEventDisableTiming), err, "making an event");
    }
    for (int stage = 0; stage < STREAM_STAGES; stage++)
        CUDA_TRY(cudaEventCreateWithFlags(&s->sent[stage], cudaEventDisableTiming), err, "making an event");
    return device_busy_create(&s->busy, err);
}

extern "C" enum status stream_cuda_create(int device, struct stream_cuda **ret_stream, struct err *err) {
    CUDA_TRY(cudaSetDevice(device), err, "choosing it");
    struct stream_cuda *s = (struct stream_cuda *)calloc(1, sizeof *s);
    FAIL_IF(s == NULL, err, STATUS_NO_MEMORY, "no memory for a device's streams");
    s->device = device;
    enum status status = open_all(s, err);
    if (status != STATUS_OK) {
        stream_cuda_destroy(&s);
        return status;
    }
    *ret_stream = s;
    return STATUS_OK;
}

extern "C" void stream_cuda_destroy(struct stream_cuda **stream) {
    struct stream_cuda *s = *stream;
    if (s == NULL) return;
    for (int slot = 0; slot < STREAM_SLOTS; slot++) {
        if (s->brought[slot]) (void)cudaEventDestroy(s->brought[slot]);
        if (s->released[slot]) (void)cudaEventDestroy(s->released[slot]);
    }
    for (int stage = 0; stage < STREAM_STAGES; stage++)
        if (s->sent[stage]) (void)cudaEventDestroy(s->sent[stage]);
    device_busy_destroy(&s->busy);
    if (s->kernels) (void)cudaStreamDestroy(s->kernels);
    if (s->images) (void)cudaStreamDestroy(s->images);
    free(s);
    *stream = NULL;
}

extern "C" void *stream_cuda_kernels(const struct stream_cuda *stream) {
    return stream->kernels;
}

extern "C" struct device_busy *stream_cuda_busy(const struct stream_cuda *stream) {
    return stream->busy;
}

extern "C" enum status stream_cuda_zero(struct stream_cuda *s, void *to, size_t bytes, struct err *err) {
    CUDA_TRY(cudaMemsetAsync(to, 0, bytes, s->kernels), err, "clearing memory");
    return STATUS_OK;
}

extern "C" enum status stream_cuda_put(struct stream_cuda *s, void *to, const void *host, size_t bytes,
                                       struct err *err) {
    CUDA_TRY(cudaMemcpyAsync(to, host, bytes, cudaMemcpyHostToDevice, s->kernels), err, "copying to it");
    return STATUS_OK;
}

extern "C" enum status stream_cuda_copy(struct stream_cuda *s, void *to, const void *from, size_t bytes,
                                        struct err *err) {
    CUDA_TRY(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, s->kernels), err, "copying on it");
    return STATUS_OK;
}

extern "C" enum status stream_cuda_get(struct stream_cuda *s, void *host, const void *from, size_t bytes,
                                       struct err *err) {
    CUDA_TRY(cudaMemcpyAsync(host, from, bytes, cudaMemcpyDeviceToHost, s->kernels), err, "copying from it");
    return STATUS_OK;
}

extern "C" enum status stream_cuda_begin(struct stream_cuda *s, struct err *err) {
    return device_busy_begin(s->busy, s->kernels, err);
}

extern "C" enum status stream_cuda_end(struct stream_cuda *s, struct err *err) {
    return device_busy_end(s->busy, s->kernels, err);
}

extern "C" enum status stream_cuda_seconds(struct stream_cuda *s, double *ret_seconds, struct err *err) {
    return device_busy_seconds(s->busy, ret_seconds, err);
}

extern "C" enum status stream_cuda_adopt(const struct stream_cuda *s, struct err *err) {
    CUDA_TRY(cudaSetDevice(s->device), err, "choosing it");
    return STATUS_OK;
}

extern "C" enum status stream_cuda_wait(struct stream_cuda *s, struct err *err) {
    CUDA_TRY(cudaStreamSynchronize(s->kernels), err, "aligning particles");
    return STATUS_OK;
}

extern "C" enum status stream_cuda_bring(struct stream_cuda *s, int slot, void *to, const void *host, size_t bytes,
                                         struct err *err) {
    CUDA_TRY(cudaStreamWaitEvent(s->images, s->released[slot], 0), err, "waiting for a stream");
    CUDA_TRY(cudaMemcpyAsync(to, host, bytes, cudaMemcpyHostToDevice, s->images), err, "copying images to it");
    CUDA_TRY(cudaEventRecord(s->brought[slot], s->images), err, "marking a stream");
    return STATUS_OK;
}

extern "C" enum status stream_cuda_stage_sent(struct stream_cuda *s, int stage, struct err *err) {
    CUDA_TRY(cudaEventRecord(s->sent[stage], s->images), err, "marking a stream");
    return STATUS_OK;
}

extern "C" enum status stream_cuda_stage_free(struct stream_cuda *s, int stage, struct err *err) {
    CUDA_TRY(cudaEventSynchronize(s->sent[stage]), err, "bringing images to it");
    return STATUS_OK;
}

extern "C" enum status stream_cuda_await(struct stream_cuda *s, int slot, struct err *err) {
    CUDA_TRY(cudaStreamWaitEvent(s->kernels, s->brought[slot], 0), err, "waiting for a stream");
    return STATUS_OK;
}

extern "C" enum status stream_cuda_release(struct stream_cuda *s, int slot, struct err *err) {
    CUDA_TRY(cudaEventRecord(s->released[slot], s->kernels), err, "marking a stream");
    return STATUS_OK;
}

extern "C" enum status stream_cuda_released(struct stream_cuda *s, int slot, struct err *err) {
    CUDA_TRY(cudaEventSynchronize(s->released[slot]), err, "aligning particles");
    return STATUS_OK;
}

extern "C" enum status stream_cuda_brought(struct stream_cuda *s, int slot, struct err *err) {
    CUDA_TRY(cudaEventSynchronize(s->brought[slot]), err, "bringing images to it");
    return STATUS_OK;
}
