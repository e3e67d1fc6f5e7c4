#include "tests/benchmarks/search_times.h"

#include <math.h>

#include "kernels/search/search_plan.cuh"

/* Bare transforms are tried with so many at a time; the fastest counts. */
static const int BATCHES[] = {4, 8, 12, 24, 36, 72};

struct stopwatch {
    cudaEvent_t start, end;
};

static enum status begin(search_cuda *s, stopwatch *w, err *err) {
    CUDA_TRY(cudaEventRecord(w->start, s->stream), err, "timing");
    return STATUS_OK;
}

static enum status finish(search_cuda *s, stopwatch *w, int repeats, float *ret_milliseconds, err *err) {
    float elapsed = 0;
    CUDA_TRY(cudaEventRecord(w->end, s->stream), err, "timing");
    CUDA_TRY(cudaEventSynchronize(w->end), err, "timing");
    CUDA_TRY(cudaEventElapsedTime(&elapsed, w->start, w->end), err, "timing");
    *ret_milliseconds = elapsed / repeats;
    return STATUS_OK;
}

static enum status time_parts(search_cuda *s, stopwatch *w, int repeats, search_times *times, err *err) {
    ctf_terms ctf = {};
    ctf.xx = ctf.yy = 1e3;
    ctf.xy = 1e2;
    ctf.quartic = ctf.scale = 1;
    ctf.offset = 0.1;
    ctf.limit2 = HUGE_VAL;
    for (int round = 0; round < 2; round++) { /* the first warms up */
        TRY(begin(s, w, err));
        for (int i = 0; i < repeats; i++)
            TRY(search_prepare_run(s, s->micrograph, &ctf, 1, err));
        TRY(finish(s, w, repeats, &times->prepare, err));
        TRY(begin(s, w, err));
        for (int i = 0; i < repeats; i++)
            TRY(search_terms_run(s, s->ctf, s->terms, err));
        TRY(finish(s, w, repeats, &times->terms, err));
        TRY(begin(s, w, err));
        for (int i = 0; i < repeats; i++)
            for (int t = 0; t < s->o.count; t++)
                TRY(search_correlate_run(s, t, err));
        TRY(finish(s, w, repeats, &times->correlate, err));
        TRY(begin(s, w, err));
        for (int i = 0; i < repeats; i++)
            for (int t = 0; t < s->o.count; t++)
                TRY(search_score_run(s, t, err));
        TRY(finish(s, w, repeats, &times->score, err));
    }
    return STATUS_OK;
}

/* Milliseconds of one transform, `batch` at a time, on what is in memory. */
static enum status time_bare(search_cuda *s, stopwatch *w, int batch, int runs, float *ret_milliseconds, err *err) {
    int work = s->o.work, shape[] = {work, work};
    size_t needed = 0;
    float2 *from = NULL;
    cufftHandle plan = 0;
    CUFFT_TRY(cufftCreate(&plan), err, "making a Fourier plan");
    cufftResult made = cufftMakePlanMany(plan, 2, shape, NULL, 1, 0, NULL, 1, 0, CUFFT_C2R, batch, &needed);
    if (made == CUFFT_SUCCESS) made = cufftSetStream(plan, s->stream);
    size_t bytes = batch * (s->half * sizeof(float2) + s->pixels * sizeof(float));
    cudaError_t room = made == CUFFT_SUCCESS ? cudaMalloc(&from, bytes) : cudaSuccess;
    cudaError_t filled = cudaSuccess;
    for (int i = 0; made == CUFFT_SUCCESS && room == cudaSuccess && filled == cudaSuccess && i < batch; i++)
        filled =
            cudaMemcpyAsync(from + i * s->half, s->image, s->half * sizeof *from, cudaMemcpyDeviceToDevice, s->stream);
    enum status status = STATUS_OK;
    for (int i = 0; i <= runs && made == CUFFT_SUCCESS && room == cudaSuccess && status == STATUS_OK; i++) {
        if (i == 1) status = begin(s, w, err);
        made = cufftExecC2R(plan, from, (float *)(from + batch * s->half));
    }
    if (made == CUFFT_SUCCESS && room == cudaSuccess && status == STATUS_OK)
        status = finish(s, w, runs * batch, ret_milliseconds, err);
    (void)cudaFree(from);
    (void)cufftDestroy(plan);
    CUFFT_TRY(made, err, "bare transforms");
    CUDA_TRY(room, err, "bare transforms");
    CUDA_TRY(filled, err, "bare transforms");
    return status;
}

static enum status time_all(search_cuda *s, stopwatch *w, int repeats, search_times *times, err *err) {
    size_t transforms = (size_t)s->o.count * s->o.rotations;
    TRY(time_parts(s, w, repeats, times, err));
    times->transforms = INFINITY;
    for (size_t i = 0; i < sizeof BATCHES / sizeof *BATCHES; i++) {
        if (BATCHES[i] * s->pixels * sizeof(float) > (size_t)2 << 30) break;
        float each = 0;
        TRY(time_bare(s, w, BATCHES[i], 1 + (int)(transforms / BATCHES[i]), &each, err));
        if (each * transforms >= times->transforms) continue;
        times->transforms = each * transforms;
        times->batch = BATCHES[i];
    }
    return STATUS_OK;
}

enum status search_times_measure(search *search, int repeats, search_times *ret_times, err *err) {
    search_cuda *s = (search_cuda *)search_state(search);
    stopwatch w = {};
    search_times times = {};
    CUDA_TRY(cudaSetDevice(s->o.device.index), err, "choosing it");
    FAIL_IF(s->micrograph == NULL, err, STATUS_BAD_STATE, "a search is timed after a run with host memory");
    CUDA_TRY(cudaEventCreate(&w.start), err, "making an event");
    cudaError_t made = cudaEventCreate(&w.end);
    enum status status = made == cudaSuccess ? time_all(s, &w, repeats, &times, err) : STATUS_DEVICE;
    (void)cudaEventDestroy(w.start);
    if (w.end) (void)cudaEventDestroy(w.end);
    CUDA_TRY(made, err, "making an event");
    if (status == STATUS_OK) *ret_times = times;
    return status;
}
