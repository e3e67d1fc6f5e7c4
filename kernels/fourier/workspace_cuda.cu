#include "common/device_busy_cuda.h"
#include "common/device_cuda.h"
#include "kernels/fourier/padded.cuh"
#include "kernels/fourier/workspace_cuda.h"

extern "C" enum status workspace_cuda_adopt(const struct workspace *w, struct err *err) {
    CUDA_TRY(cudaSetDevice(w->device.index), err, "choosing it");
    return STATUS_OK;
}

extern "C" enum status workspace_cuda_plan(struct workspace *w, int dimensions, int box,
                                           struct padded_cuda **ret_padded, struct err *err) {
    CUDA_TRY(cudaSetDevice(w->device.index), err, "choosing it");
    if (w->padded != NULL && (w->padded->dimensions != dimensions || w->padded->box != box))
        padded_cuda_destroy(&w->padded);
    if (w->padded == NULL) TRY(padded_cuda_create(dimensions, box, &w->padded, err));
    *ret_padded = w->padded;
    return STATUS_OK;
}

extern "C" enum status workspace_cuda_volume(struct workspace *w, int box, struct volume_cuda **ret_volume,
                                             struct err *err) {
    CUDA_TRY(cudaSetDevice(w->device.index), err, "choosing it");
    if (w->volume != NULL && volume_cuda_box(w->volume) != box) volume_cuda_destroy(&w->volume);
    if (w->volume == NULL) TRY(volume_cuda_create(box, &w->volume, err));
    *ret_volume = w->volume;
    return STATUS_OK;
}

extern "C" enum status workspace_cuda_begin(struct workspace *w, struct workspace **open, struct err *err) {
    CUDA_TRY(cudaSetDevice(w->device.index), err, "choosing it");
    TRY(arena_open(w->arena, ARENA_ITERATION, err));
    *open = w;
    w->timed = false; /* what a failure has left unfinished does not count */
    return workspace_cuda_count(w, err);
}

extern "C" enum status workspace_cuda_count(struct workspace *w, struct err *err) {
    if (w->busy == NULL || w->timed) return STATUS_OK;
    TRY(device_busy_begin(w->busy, w->stream, err));
    w->timed = true;
    return STATUS_OK;
}

extern "C" void workspace_cuda_end(struct workspace **open) {
    if (*open != NULL) arena_close((*open)->arena, ARENA_ITERATION);
}

extern "C" enum status workspace_cuda_zero(struct workspace *w, void *to, size_t bytes, struct err *err) {
    CUDA_TRY(cudaMemsetAsync(to, 0, bytes, (cudaStream_t)w->stream), err, "clearing memory");
    return STATUS_OK;
}

extern "C" enum status workspace_cuda_put(struct workspace *w, void *to, const void *host, size_t bytes,
                                          struct err *err) {
    CUDA_TRY(cudaMemcpyAsync(to, host, bytes, cudaMemcpyDefault, (cudaStream_t)w->stream), err, "copying to it");
    return STATUS_OK;
}

extern "C" enum status workspace_cuda_get(struct workspace *w, void *host, const void *from, size_t bytes,
                                          struct err *err) {
    CUDA_TRY(cudaMemcpyAsync(host, from, bytes, cudaMemcpyDefault, (cudaStream_t)w->stream), err, "copying from it");
    return STATUS_OK;
}

extern "C" enum status workspace_cuda_wait(struct workspace *w, struct err *err) {
    if (w->timed) TRY(device_busy_end(w->busy, w->stream, err));
    w->timed = false;
    CUDA_TRY(cudaStreamSynchronize((cudaStream_t)w->stream), err, "its work on grids of maps");
    return STATUS_OK;
}
