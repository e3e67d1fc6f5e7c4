/* Keeps the frames of a movie on a CUDA device, for alignment and sums. */
#include "kernels/motion/motion_cuda.cuh"

#include <stdlib.h>

#include "common/memory.h"
#include "kernels/motion/motion_weights.h"

static void destroy(void *state) {
    struct motion_cuda *m = (struct motion_cuda *)state;
    (void)cudaSetDevice(m->task.device.index);
    if (m->stream) (void)cudaStreamSynchronize(m->stream);
    motion_align_cuda_destroy(m->align);
    motion_sum_cuda_destroy(m->sum);
    (void)cudaFree(m->pixels);
    (void)cudaFree(m->gain);
    if (m->stream) (void)cudaStreamDestroy(m->stream);
    free(m);
}

static enum status build(struct motion_cuda *m, struct err *err) {
    const struct motion_task *task = &m->task;
    size_t frame = (size_t)task->nx * task->ny * motion_pixel_size(task->pixels);
    CUDA_TRY(cudaSetDevice(task->device.index), err, "choosing it");
    CUDA_TRY(cudaStreamCreateWithFlags(&m->stream, cudaStreamNonBlocking), err, "making a stream");
    CUDA_TRY(cudaMalloc(&m->pixels, frame * task->frames), err, "making room for the frames of a movie");
    TRY(motion_sum_cuda_create(m, &m->sum, err));
    return motion_align_cuda_create(m, &m->align, err);
}

static enum status create(const struct motion_task *task, void **ret_state, struct err *err) {
    struct motion_cuda *m = (struct motion_cuda *)calloc(1, sizeof *m);
    FAIL_IF(m == NULL, err, STATUS_NO_MEMORY, "no memory for the correction of motion");
    m->task = *task;
    enum status status = build(m, err);
    if (status == STATUS_OK)
        *ret_state = m;
    else
        destroy(m);
    return status;
}

/* Queues the copies; the frames stay where they are until the next call. */
static enum status take(void *state, const struct motion_frames *frames, struct err *err) {
    struct motion_cuda *m = (struct motion_cuda *)state;
    size_t pixels = (size_t)frames->nx * frames->ny, frame = pixels * motion_pixel_size(frames->pixels);
    CUDA_TRY(cudaSetDevice(m->task.device.index), err, "choosing it");
    m->frames.count = 0;
    if (frames->gain != NULL) {
        if (m->gain == NULL) CUDA_TRY(cudaMalloc(&m->gain, pixels * sizeof(float)), err, "making room for a gain");
        CUDA_TRY(cudaMemcpyAsync(m->gain, frames->gain, pixels * sizeof(float), cudaMemcpyDefault, m->stream), err,
                 "taking a gain there");
    }
    for (int i = 0; i < frames->count; i++)
        CUDA_TRY(cudaMemcpyAsync((char *)m->pixels + i * frame, frames->frame[i], frame, cudaMemcpyDefault, m->stream),
                 err, "taking the frames of a movie there");
    m->frames.nx = frames->nx, m->frames.ny = frames->ny, m->frames.count = frames->count;
    m->frames.type = frames->pixels, m->frames.pixels = m->pixels;
    m->frames.gain = frames->gain != NULL ? m->gain : NULL;
    return STATUS_OK;
}

static enum status align(void *state, struct motion_model *model, struct motion_report *report, struct err *err) {
    struct motion_cuda *m = (struct motion_cuda *)state;
    CUDA_TRY(cudaSetDevice(m->task.device.index), err, "choosing it");
    return motion_align_cuda_run(m, model, report, err);
}

static enum status sum(void *state, const struct motion_model *model, const struct motion_sum_options *options,
                       const struct motion_sums *sums, struct err *err) {
    struct motion_cuda *m = (struct motion_cuda *)state;
    CUDA_TRY(cudaSetDevice(m->task.device.index), err, "choosing it");
    return motion_sum_cuda_run(m, model, options, sums, err);
}

/* Returns the bytes on the device, with the frames. */
static size_t bytes(const struct motion_task *task, const struct motion_sum_options *options) {
    size_t pixels = (size_t)task->nx * task->ny, complex = (size_t)task->ny * (task->nx / 2 + 1) * sizeof(float2);
    size_t frames = mem_bytes(pixels * motion_pixel_size(task->pixels), (size_t)task->frames);
    /* Sums in real space, outputs of three kinds as spectra and one as an image, and cuFFT's own memory. */
    size_t sums = mem_bytes(complex, (options != NULL && options->dose != NULL ? MOTION_TERMS : 1) + 5);
    return mem_sum(mem_sum(frames, pixels * sizeof(float)), mem_sum(sums, motion_align_cuda_bytes(task)));
}

const struct motion_work motion_cuda_work = {create, destroy, take, align, sum, bytes};
