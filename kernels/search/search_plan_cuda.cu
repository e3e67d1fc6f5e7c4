/* The search on a CUDA device: memory, plans and the order of the steps. */
#include <stdlib.h>
#include <string.h>

#include "kernels/search/search_plan.cuh"

/* Products and maps of a batch: large ones keep the device busy to the end, which is worth more than the L2 cache. */
static const size_t BATCH_BYTES = (size_t)1280 << 20;
static const size_t TERM_BYTES = (size_t)128 << 20;

static int clamp(size_t value, int most) {
    return value < 1 ? 1 : value > (size_t)most ? most : (int)value;
}

static size_t largest(size_t a, size_t b) {
    return a > b ? a : b;
}

static enum status plan(int rows, int columns, int batch, cufftType type, cufftHandle *ret_plan, size_t *bytes,
                        err *err) {
    int shape[] = {rows, columns};
    size_t needed = 0;
    CUFFT_TRY(cufftCreate(ret_plan), err, "making a Fourier plan");
    CUFFT_TRY(cufftSetAutoAllocation(*ret_plan, 0), err, "making a Fourier plan");
    CUFFT_TRY(cufftMakePlanMany(*ret_plan, 2, shape, NULL, 1, 0, NULL, 1, 0, type, batch, &needed), err,
              "making a Fourier plan");
    *bytes = largest(*bytes, needed);
    return STATUS_OK;
}

/* One work area for all: they run one after another. */
static enum status make_plans(search_device *s, err *err) {
    int size = s->o.size, work = s->o.work, grid = s->term_grid, maps = s->turn < s->o.rotations ? 2 : 1;
    size_t bytes = 1;
    TRY(plan(size, size, 1, CUFFT_R2C, &s->forward, &bytes, err));
    TRY(plan(work, work, 3, CUFFT_C2R, &s->inverse, &bytes, err));
    TRY(plan(grid, grid, s->term_batch, CUFFT_C2R, &s->term_inverse, &bytes, err));
    if (!s->fused) TRY(plan(work, work, s->pairs * maps, CUFFT_C2R, &s->batch_inverse, &bytes, err));
    CUDA_TRY(cudaMalloc(&s->cufft_work, bytes), err, "making room for Fourier transforms");
    cufftHandle plans[] = {s->forward, s->inverse, s->term_inverse, s->batch_inverse};
    for (int i = 0; i < (s->fused ? 3 : 4); i++) {
        CUFFT_TRY(cufftSetWorkArea(plans[i], s->cufft_work), err, "making a Fourier plan");
        CUFFT_TRY(cufftSetStream(plans[i], s->stream), err, "making a Fourier plan");
    }
    return STATUS_OK;
}

/* Where several of a kind are wanted: cudaMalloc by the type of the pointer. */
template <class T> static enum status room(const search_device *s, T **pointer, size_t count, err *err) {
    CUDA_TRY(cudaMalloc(pointer, count * sizeof(T)), err, "making room for a micrograph's maps");
    CUDA_TRY(cudaMemsetAsync(*pointer, 0, count * sizeof(T), s->stream), err, "making room for a micrograph's maps");
    return STATUS_OK;
}

static enum status make_room(search_device *s, err *err) {
    const search_setup *o = &s->o;
    size_t size = o->size, grid = s->term_grid, count = o->count, maps = s->turn < o->rotations ? 2 : 1;
    size_t bytes = size * (size + 2) * sizeof(float);
    bytes = largest(bytes, 3 * s->half * sizeof(float2));
    bytes = largest(bytes, s->term_batch * grid * (2 * grid + 2) * sizeof(float));
    if (!s->fused) bytes = largest(bytes, s->pairs * maps * (s->half * sizeof(float2) + s->pixels * sizeof(float)));
    CUDA_TRY(cudaMalloc(&s->scratch, bytes), err, "making room for transforms");
    TRY(room(s, &s->scale, 1, err));
    TRY(room(s, &s->power, SEARCH_DEVICE_RINGS, err));
    TRY(room(s, &s->image, s->half, err));
    TRY(room(s, &s->square, s->half, err));
    TRY(room(s, &s->mask, s->half, err));
    TRY(room(s, &s->prepared, s->half, err));
    TRY(room(s, &s->ctf, s->half, err));
    TRY(room(s, &s->statistics, 3 * s->pixels, err));
    TRY(room(s, &s->circle, grid * grid, err));
    TRY(room(s, &s->terms, 2 * count, err));
    TRY(room(s, &s->plain_terms, 2 * count, err));
    TRY(room(s, &s->best, s->pixels, err));
    TRY(room(s, &s->score, s->pixels, err));
    TRY(room(s, &s->best_template, s->pixels, err));
    TRY(room(s, &s->best_rotation, s->pixels, err));
    if (!o->per_template) return STATUS_OK;
    TRY(room(s, &s->scores, count * s->pixels, err));
    return room(s, &s->rotations, count * s->pixels, err);
}

static enum status build(search_device *s, err *err) {
    const search_setup *o = &s->o;
    CUDA_TRY(cudaSetDevice(o->index), err, "choosing it");
    CUDA_TRY(cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking), err, "making a stream");
    CUDA_TRY(cudaStreamCreateWithFlags(&s->copies, cudaStreamNonBlocking), err, "making a stream");
    CUDA_TRY(cudaEventCreateWithFlags(&s->event, cudaEventDisableTiming), err, "making an event");
    CUDA_TRY(cudaHostAlloc((void **)&s->numbers, sizeof *s->numbers, cudaHostAllocPortable), err,
             "making page-locked memory");
    CUDA_TRY(cudaHostAlloc((void **)&s->host_terms, 2 * o->count * sizeof *s->host_terms, cudaHostAllocPortable), err,
             "making page-locked memory");
    s->half = (size_t)o->work * (o->work / 2 + 1);
    s->pixels = (size_t)o->work * o->work;
    s->turn = o->rotations % 2 == 0 ? o->rotations / 2 : o->rotations;
    s->term_grid = 2 * o->work < o->size ? 2 * o->work : o->size;
    s->term_batch = clamp(TERM_BYTES / ((size_t)s->term_grid * s->term_grid * 2 * sizeof(float)), o->count);
    if (!o->cufft) TRY(search_fused_create(s, &s->fused, err));
    size_t pair_bytes = (s->turn < o->rotations ? 2 : 1) * 2 * s->pixels * sizeof(float);
    s->pairs = o->pairs > 0 ? clamp(o->pairs, s->turn) : clamp(BATCH_BYTES / pair_bytes, s->turn);
    TRY(make_plans(s, err));
    TRY(make_room(s, err));
    TRY(search_prepare_create(s, err));
    TRY(search_templates_create(s, s->fused != NULL, err));
    TRY(search_terms_create(s, err));
    if (o->tile > 0) TRY(search_whiten_create(s, &s->whiten, err));
    CUDA_TRY(cudaMemcpyAsync(s->host_terms, s->plain_terms, 2 * o->count * sizeof(double), cudaMemcpyDeviceToHost,
                             s->stream),
             err, "the templates' power");
    CUDA_TRY(cudaStreamSynchronize(s->stream), err, "the templates' power");
    return STATUS_OK;
}

enum status search_device_create(const search_setup *setup, search_device **ret_device, err *err) {
    search_device *s = (search_device *)calloc(1, sizeof *s);
    FAIL_IF(s == NULL, err, STATUS_NO_MEMORY, "no memory for a search");
    s->o = *setup;
    enum status status = build(s, err);
    s->o.padded_ft = NULL;
    s->o.ring_members = s->o.ring_starts = NULL;
    if (status != STATUS_OK) {
        search_device_destroy(&s);
        return status;
    }
    *ret_device = s;
    return STATUS_OK;
}

void search_device_destroy(search_device **device) {
    search_device *s = *device;
    if (s == NULL) return;
    *device = NULL;
    /* A lost device has given everything back. */
    if (cudaSetDevice(s->o.index) == cudaSuccess) {
        cufftHandle plans[] = {s->forward, s->inverse, s->term_inverse, s->batch_inverse};
        for (int i = 0; i < 4; i++)
            if (plans[i]) (void)cufftDestroy(plans[i]);
        void *memory[] = {s->cufft_work, s->micrograph,  s->scratch,   s->parts,         s->scale,
                          s->power,      s->image,       s->square,    s->mask,          s->prepared,
                          s->ctf,        s->statistics,  s->circle,    s->terms,         s->padded_ft,
                          s->turns,      s->plain_terms, s->last,      s->rotated,       s->best,
                          s->score,      s->scores,      s->rotations, s->best_template, s->best_rotation};
        for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
            (void)cudaFree(memory[i]);
        search_fused_destroy(&s->fused);
        search_whiten_destroy(&s->whiten);
        (void)cudaFreeHost(s->numbers);
        (void)cudaFreeHost(s->host_terms);
        if (s->event) (void)cudaEventDestroy(s->event);
        if (s->copies) (void)cudaStreamDestroy(s->copies);
        if (s->stream) (void)cudaStreamDestroy(s->stream);
    }
    free(s);
}

static enum status upload(search_device *s, const float *host, err *err) {
    size_t bytes = (size_t)s->o.nx * s->o.ny * sizeof *host;
    if (s->micrograph == NULL) CUDA_TRY(cudaMalloc(&s->micrograph, bytes), err, "making room for a micrograph");
    CUDA_TRY(cudaMemcpyAsync(s->micrograph, host, bytes, cudaMemcpyHostToDevice, s->stream), err, "an upload");
    return STATUS_OK;
}

static enum status download(search_device *s, void *to, const void *from, size_t bytes, err *err) {
    CUDA_TRY(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, s->copies), err, "a download");
    return STATUS_OK;
}

/* Downloads wait for what the other stream has been given so far. */
static enum status follow(search_device *s, err *err) {
    CUDA_TRY(cudaEventRecord(s->event, s->stream), err, "a download");
    CUDA_TRY(cudaStreamWaitEvent(s->copies, s->event, 0), err, "a download");
    return STATUS_OK;
}

static enum status download_statistics(search_device *s, search_results *r, err *err) {
    size_t bytes = s->pixels * sizeof(float);
    TRY(follow(s, err));
    TRY(download(s, r->mu, s->statistics, bytes, err));
    TRY(download(s, r->sigma, s->statistics + s->pixels, bytes, err));
    TRY(download(s, r->image, s->statistics + 2 * s->pixels, bytes, err));
    TRY(download(s, s->numbers->power, s->power, sizeof s->numbers->power, err));
    TRY(download(s, &s->numbers->scale, s->scale, sizeof s->numbers->scale, err));
    if (s->whiten)
        TRY(download(s, r->weights, search_whiten_weights(s->whiten), (s->o.work / 2 + 1) * sizeof *r->weights, err));
    return download(s, s->host_terms, s->terms, 2 * s->o.count * sizeof *s->host_terms, err);
}

static enum status download_template(search_device *s, int t, search_results *r, err *err) {
    TRY(follow(s, err));
    TRY(download(s, r->scores + t * s->pixels, s->scores + t * s->pixels, s->pixels * sizeof(float), err));
    return download(s, r->rotations + t * s->pixels, s->rotations + t * s->pixels, s->pixels * sizeof(uint16_t), err);
}

static enum status download_best(search_device *s, search_results *r, err *err) {
    TRY(follow(s, err));
    TRY(download(s, r->score, s->score, s->pixels * sizeof(float), err));
    TRY(download(s, r->best_template, s->best_template, s->pixels * sizeof(uint16_t), err));
    return download(s, r->best_rotation, s->best_rotation, s->pixels * sizeof(uint16_t), err);
}

static enum status make_terms(search_device *s, const ctf_terms *ctf, err *err) {
    if (ctf) return search_terms_run(s, s->ctf, s->terms, err);
    CUDA_TRY(
        cudaMemcpyAsync(s->terms, s->plain_terms, 2 * s->o.count * sizeof(double), cudaMemcpyDeviceToDevice, s->stream),
        err, "the templates' power");
    return STATUS_OK;
}

enum status search_device_run(search_device *s, const float *host, const void *on_device, const ctf_terms *ctf,
                              uint64_t seed, search_results *r, err *err) {
    CUDA_TRY(cudaSetDevice(s->o.index), err, "choosing it");
    if (on_device == NULL) TRY(upload(s, host, err));
    TRY(search_prepare_run(s, on_device ? (const float *)on_device : s->micrograph, ctf, seed, err));
    TRY(make_terms(s, ctf, err));
    TRY(download_statistics(s, r, err));
    for (int t = 0; t < s->o.count; t++) {
        TRY(search_correlate_run(s, t, err));
        TRY(search_score_run(s, t, err));
        if (s->o.per_template) TRY(download_template(s, t, r, err));
    }
    TRY(download_best(s, r, err));
    CUDA_TRY(cudaStreamSynchronize(s->copies), err, "a micrograph's search");
    r->deviation = s->numbers->scale.deviation;
    memcpy(r->power, s->numbers->power, sizeof r->power);
    memcpy(r->terms, s->host_terms, 2 * s->o.count * sizeof *r->terms);
    return STATUS_OK;
}
