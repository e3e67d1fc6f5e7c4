/* Runs a search on a CUDA device: memory, plans and the order of the steps. */
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

/* All plans share one work area, since they run one after another. */
static enum status make_plans(search_cuda *s, err *err) {
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

/* Allocates device memory by the type of the pointer, and clears it. */
template <class T> static enum status room(const search_cuda *s, T **pointer, size_t count, err *err) {
    CUDA_TRY(cudaMalloc(pointer, count * sizeof(T)), err, "making room for a micrograph's maps");
    CUDA_TRY(cudaMemsetAsync(*pointer, 0, count * sizeof(T), s->stream), err, "making room for a micrograph's maps");
    return STATUS_OK;
}

static enum status make_room(search_cuda *s, err *err) {
    const struct search_options *o = &s->o;
    size_t size = o->size, grid = s->term_grid, count = o->count, maps = s->turn < o->rotations ? 2 : 1;
    size_t bytes = size * (size + 2) * sizeof(float);
    bytes = largest(bytes, 3 * s->half * sizeof(float2));
    bytes = largest(bytes, s->term_batch * grid * (2 * grid + 2) * sizeof(float));
    if (!s->fused) bytes = largest(bytes, s->pairs * maps * (s->half * sizeof(float2) + s->pixels * sizeof(float)));
    CUDA_TRY(cudaMalloc(&s->scratch, bytes), err, "making room for transforms");
    TRY(room(s, &s->scale, 1, err));
    TRY(room(s, &s->power, SEARCH_RINGS, err));
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

static enum status keep_template_power(search_cuda *s, err *err) {
    size_t rings = s->o.work / 2 + 1;
    s->weights = (float *)calloc(rings, sizeof *s->weights);
    s->template_power = (double *)calloc(rings, sizeof *s->template_power);
    FAIL_IF(s->weights == NULL || s->template_power == NULL, err, STATUS_NO_MEMORY, "no memory for weights");
    memcpy(s->template_power, s->setup.template_power, rings * sizeof *s->template_power);
    return STATUS_OK;
}

static enum status build(search_cuda *s, err *err) {
    const struct search_options *o = &s->o;
    CUDA_TRY(cudaSetDevice(o->device.index), err, "choosing it");
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
    if (!s->setup.tuning.cufft) TRY(search_fused_create(s, &s->fused, err));
    size_t pair_bytes = (s->turn < o->rotations ? 2 : 1) * 2 * s->pixels * sizeof(float);
    s->pairs =
        s->setup.tuning.pairs > 0 ? clamp(s->setup.tuning.pairs, s->turn) : clamp(BATCH_BYTES / pair_bytes, s->turn);
    TRY(make_plans(s, err));
    TRY(make_room(s, err));
    TRY(search_prepare_create(s, err));
    TRY(search_templates_create(s, s->fused != NULL, err));
    TRY(search_terms_create(s, err));
    if (s->setup.tile > 0) {
        TRY(keep_template_power(s, err));
        TRY(search_whiten_create(s, &s->whiten, err));
    }
    CUDA_TRY(cudaMemcpyAsync(s->host_terms, s->plain_terms, 2 * o->count * sizeof(double), cudaMemcpyDeviceToHost,
                             s->stream),
             err, "the templates' power");
    CUDA_TRY(cudaStreamSynchronize(s->stream), err, "the templates' power");
    return STATUS_OK;
}

enum status search_plan_create(const struct search_options *options, const search_setup *setup,
                               search_cuda **ret_search, err *err) {
    search_cuda *s = (search_cuda *)calloc(1, sizeof *s);
    FAIL_IF(s == NULL, err, STATUS_NO_MEMORY, "no memory for a search");
    s->o = *options;
    s->setup = *setup;
    enum status status = build(s, err);
    s->setup.templates.values = NULL;
    s->setup.ring_members = s->setup.ring_starts = NULL;
    s->setup.template_power = NULL;
    if (status != STATUS_OK) {
        search_cuda_destroy(s);
        return status;
    }
    *ret_search = s;
    return STATUS_OK;
}

void search_cuda_destroy(void *state) {
    search_cuda *s = (search_cuda *)state;
    free(s->weights);
    free(s->template_power);
    /* A lost device has freed everything already. */
    if (cudaSetDevice(s->o.device.index) == cudaSuccess) {
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

static enum status upload(search_cuda *s, const float *host, err *err) {
    size_t bytes = (size_t)s->o.nx * s->o.ny * sizeof *host;
    if (s->micrograph == NULL) CUDA_TRY(cudaMalloc(&s->micrograph, bytes), err, "making room for a micrograph");
    CUDA_TRY(cudaMemcpyAsync(s->micrograph, host, bytes, cudaMemcpyHostToDevice, s->stream), err, "an upload");
    return STATUS_OK;
}

static enum status download(search_cuda *s, void *to, const void *from, size_t bytes, err *err) {
    CUDA_TRY(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, s->copies), err, "a download");
    return STATUS_OK;
}

/* Makes downloads wait for the work queued so far on the other stream. */
static enum status follow(search_cuda *s, err *err) {
    CUDA_TRY(cudaEventRecord(s->event, s->stream), err, "a download");
    CUDA_TRY(cudaStreamWaitEvent(s->copies, s->event, 0), err, "a download");
    return STATUS_OK;
}

static enum status download_statistics(search_cuda *s, search_maps *maps, err *err) {
    size_t bytes = s->pixels * sizeof(float);
    TRY(follow(s, err));
    TRY(download(s, maps->mu, s->statistics, bytes, err));
    TRY(download(s, maps->sigma, s->statistics + s->pixels, bytes, err));
    TRY(download(s, maps->image, s->statistics + 2 * s->pixels, bytes, err));
    TRY(download(s, s->numbers->power, s->power, sizeof s->numbers->power, err));
    TRY(download(s, &s->numbers->scale, s->scale, sizeof s->numbers->scale, err));
    if (s->whiten)
        TRY(download(s, s->weights, search_whiten_weights(s->whiten), (s->o.work / 2 + 1) * sizeof *s->weights, err));
    return download(s, s->host_terms, s->terms, 2 * s->o.count * sizeof *s->host_terms, err);
}

static enum status download_template(search_cuda *s, int t, search_maps *maps, err *err) {
    TRY(follow(s, err));
    TRY(download(s, maps->scores + t * s->pixels, s->scores + t * s->pixels, s->pixels * sizeof(float), err));
    return download(s, maps->rotations + t * s->pixels, s->rotations + t * s->pixels, s->pixels * sizeof(uint16_t),
                    err);
}

static enum status download_best(search_cuda *s, search_maps *maps, err *err) {
    TRY(follow(s, err));
    TRY(download(s, maps->score, s->score, s->pixels * sizeof(float), err));
    TRY(download(s, maps->best_template, s->best_template, s->pixels * sizeof(uint16_t), err));
    return download(s, maps->best_rotation, s->best_rotation, s->pixels * sizeof(uint16_t), err);
}

static enum status make_terms(search_cuda *s, const ctf_terms *ctf, err *err) {
    if (ctf) return search_terms_run(s, s->ctf, s->terms, err);
    CUDA_TRY(
        cudaMemcpyAsync(s->terms, s->plain_terms, 2 * s->o.count * sizeof(double), cudaMemcpyDeviceToDevice, s->stream),
        err, "the templates' power");
    return STATUS_OK;
}

/* Fills what the host works out from the numbers that came back. */
static void finish(const search_cuda *s, search_maps *maps) {
    maps->deviation = s->numbers->scale.deviation;
    maps->noise = search_noise(&s->o, search_rings(&s->o), s->numbers->power, s->setup.ring_count);
    if (s->whiten && maps->deviation > 0) maps->noise *= whiten_noise(s->template_power, s->weights, s->o.work);
    for (int t = 0; t < s->o.count; t++) {
        /* Rounding may leave a power a little below 0. */
        double power = s->host_terms[2 * t + 1];
        maps->terms[t].mean = s->host_terms[2 * t];
        maps->terms[t].power = power > 0 ? power : 0;
    }
}

static enum status run(search_cuda *s, const search_input *input, const ctf_terms *ctf, uint64_t seed,
                       search_maps *maps, err *err) {
    CUDA_TRY(cudaSetDevice(s->o.device.index), err, "choosing it");
    if (input->device == NULL) TRY(upload(s, input->host, err));
    TRY(search_prepare_run(s, input->device ? (const float *)input->device : s->micrograph, ctf, seed, err));
    TRY(make_terms(s, ctf, err));
    TRY(download_statistics(s, maps, err));
    for (int t = 0; t < s->o.count; t++) {
        TRY(search_correlate_run(s, t, err));
        TRY(search_score_run(s, t, err));
        if (s->o.per_template) TRY(download_template(s, t, maps, err));
    }
    TRY(download_best(s, maps, err));
    CUDA_TRY(cudaStreamSynchronize(s->copies), err, "a micrograph's search");
    finish(s, maps);
    return STATUS_OK;
}

enum status search_cuda_run(void *state, const search_input *input, const struct ctf *ctf, uint64_t seed,
                            search_maps *maps, err *err) {
    ctf_terms terms = {};
    if (ctf) terms = ctf_prepare(ctf);
    return run((search_cuda *)state, input, ctf ? &terms : NULL, seed, maps, err);
}
