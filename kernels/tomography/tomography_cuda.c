/* Makes a tomogram on CUDA devices: decides how many slabs there are, and in how many passes.
 *
 * If memory holds the whole volume there is one pass, in which slabs hand rows on to each other in every iteration.
 * Otherwise a pass computes some rows from the first iteration to the last, together with the rows around them that
 * influence them: each iteration carries errors at the border two rows inward. So a pass computes 2 (iterations + 1)
 * rows on either side again, and saves moving the volume over the bus in every iteration. The rows are the same, bit
 * for bit. */
#include <math.h>
#include <string.h>

#include "common/device_cuda.h"
#include "common/memory.h"
#include "kernels/tomography/slab_cuda.h"

/* Part of the free memory that may be used; CUDA itself takes the rest. */
#define SHARE_OF_FREE 0.92

struct tomography_cuda {
    const struct tomography_setup *setup;
    enum tomography_matrix matrix;
    struct tomography_place *places;
    int place_count;
    struct tomography_slabs slabs;
    int passes, around; /* rows around those of a pass */
    double *sums;       /* [1 + iterations][ny] of rows */
    double *scratch;    /* [ny] */
};

static int chunks_of(int rows) {
    return (rows + TOMOGRAPHY_CHUNK - 1) / TOMOGRAPHY_CHUNK;
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Several places may be on one device. */
static enum status find_memory(struct tomography_cuda *t, struct err *err) {
    size_t wanted = t->setup->options.memory;
    for (int i = 0; i < t->place_count; i++) {
        int sharing = 0;
        for (int k = 0; k < t->place_count; k++)
            sharing += t->places[k].device.index == t->places[i].device.index;
        size_t unused = 0, total = 0;
        CUDA_TRY(cudaSetDevice(t->places[i].device.index), err, "choosing a device");
        CUDA_TRY(cudaMemGetInfo(&unused, &total), err, "asking for memory");
        size_t most = (size_t)(SHARE_OF_FREE * (double)unused) / (size_t)sharing;
        t->places[i].allowed = wanted > 0 ? least(wanted, most) : most;
    }
    return STATUS_OK;
}

/* Returns the first slab of a place if there are `count` slabs: as equal in number as possible, neighbours on the same
 * place. */
static int first_slab(const struct tomography_cuda *t, int count, int place) {
    return (int)((long)count * place / t->place_count);
}

/* Returns the rows of the largest slab that fits every place if there are `count` slabs; 0: none. */
static int capacity_of(const struct tomography_cuda *t, int count) {
    const struct tomography_setup *s = t->setup;
    int chunks = chunks_of(s->ny);
    for (int i = 0; i < t->place_count; i++) {
        size_t slabs = (size_t)(first_slab(t, count, i + 1) - first_slab(t, count, i));
        size_t fixed = tomography_place_bytes(s, t->matrix);
        if (slabs == 0) continue;
        while (chunks > 0 && fixed + slabs * tomography_slab_bytes(s, chunks * TOMOGRAPHY_CHUNK) > t->places[i].allowed)
            chunks--;
    }
    return chunks * TOMOGRAPHY_CHUNK;
}

/* ret_rows: of a slab. */
static enum status choose(struct tomography_cuda *t, int *ret_rows, struct err *err) {
    const struct tomography_setup *s = t->setup;
    int slabs = s->options.slabs > t->place_count ? s->options.slabs : t->place_count;
    if (slabs > s->ny) slabs = s->ny;
    int rows = capacity_of(t, slabs), needed = (s->ny + slabs - 1) / slabs;
    t->around = s->halo ? 2 * (s->options.iterations + 1) : 0;
    t->passes = 1;
    if (rows < needed) {
        slabs = t->place_count < s->ny ? t->place_count : s->ny;
        rows = capacity_of(t, slabs);
        long own = (long)rows * slabs - 2 * t->around;
        FAIL_IF(own < 1, err, STATUS_NO_MEMORY,
                "a tomogram of %d x %d x %d voxels from %d tilts needs %.2f GB of a CUDA device for %d of its rows, "
                "and may have %.2f GB: bin the images, make it thinner, ask for fewer iterations, or allow more memory",
                s->nx, s->ny, s->nz, s->tilts,
                1e-9 * (double)(tomography_place_bytes(s, t->matrix) +
                                tomography_slab_bytes(s, chunks_of(2 * t->around + 1) * TOMOGRAPHY_CHUNK)),
                2 * t->around + 1, 1e-9 * (double)t->places[0].allowed);
        t->passes = (int)((s->ny + own - 1) / own);
        needed = (int)((s->ny + t->passes - 1) / t->passes) + 2 * t->around;
        needed = (needed + slabs - 1) / slabs;
    }
    t->slabs.count = slabs;
    *ret_rows = (int)least((size_t)chunks_of(needed), (size_t)rows / TOMOGRAPHY_CHUNK) * TOMOGRAPHY_CHUNK;
    return STATUS_OK;
}

/* Copies between devices go directly if the devices can see each other. */
static enum status see_each_other(struct tomography_cuda *t, struct err *err) {
    for (int i = 0; i < t->place_count; i++)
        for (int k = 0; k < t->place_count; k++) {
            int can = 0, from = t->places[i].device.index, to = t->places[k].device.index;
            if (from == to) continue;
            CUDA_TRY(cudaDeviceCanAccessPeer(&can, from, to), err, "asking for peers");
            if (!can) continue;
            CUDA_TRY(cudaSetDevice(from), err, "choosing a device");
            cudaError_t result = cudaDeviceEnablePeerAccess(to, 0);
            if (result == cudaErrorPeerAccessAlreadyEnabled)
                (void)cudaGetLastError();
            else
                CUDA_TRY(result, err, "making devices peers");
        }
    return STATUS_OK;
}

static enum status build(struct tomography_cuda *t, struct err *err) {
    const struct tomography_setup *s = t->setup;
    const struct tomography_options *o = &s->options;
    int rows = 0;
    t->matrix = o->method == TOMOGRAPHY_WBP || o->matrix == TOMOGRAPHY_AUTO ? TOMOGRAPHY_ON_THE_FLY : o->matrix;
    t->place_count = o->device_count;
    TRY(mem_new((size_t)t->place_count, sizeof *t->places, "devices", &t->places, err));
    for (int i = 0; i < t->place_count; i++)
        t->places[i].device = o->devices[i];
    TRY(find_memory(t, err));
    TRY(choose(t, &rows, err));
    TRY(see_each_other(t, err));
    t->slabs.setup = s;
    TRY(mem_new((size_t)t->slabs.count, sizeof *t->slabs.slabs, "slabs", &t->slabs.slabs, err));
    TRY(mem_new((size_t)(o->iterations + 1) * (size_t)s->ny, sizeof *t->sums, "residuals", &t->sums, err));
    TRY(mem_new((size_t)s->ny, sizeof *t->scratch, "residuals", &t->scratch, err));
    for (int i = 0; i < t->place_count; i++) {
        int from = first_slab(t, t->slabs.count, i), to = first_slab(t, t->slabs.count, i + 1);
        size_t bytes = tomography_place_bytes(s, t->matrix) + (size_t)(to - from) * tomography_slab_bytes(s, rows);
        TRY(tomography_place_make(s, t->matrix, bytes, &t->places[i], err));
        for (int k = from; k < to; k++)
            TRY(tomography_slab_make(s, &t->places[i], rows, &t->slabs.slabs[k], err));
    }
    return STATUS_OK;
}

static void destroy(void *state) {
    struct tomography_cuda *t = state;
    for (int i = 0; t->slabs.slabs && i < t->slabs.count; i++)
        tomography_slab_clear(&t->slabs.slabs[i]);
    for (int i = 0; t->places && i < t->place_count; i++)
        tomography_place_clear(&t->places[i]);
    mem_free(&t->slabs.slabs);
    mem_free(&t->places);
    mem_free(&t->sums);
    mem_free(&t->scratch);
    mem_free(&t);
}

static enum status create(const struct tomography_setup *setup, void **ret_state, struct err *err) {
    struct tomography_cuda *t = NULL;
    TRY(mem_new(1, sizeof *t, "a tomogram", &t, err));
    t->setup = setup;
    enum status status = build(t, err);
    if (status != STATUS_OK) {
        destroy(t);
        return status;
    }
    *ret_state = t;
    return STATUS_OK;
}

struct pass {
    int first, rows; /* that are wanted */
    int from, to;    /* that are computed */
};

static struct pass pass_of(const struct tomography_cuda *t, int index) {
    int ny = t->setup->ny;
    struct pass p;
    p.first = (int)((long)ny * index / t->passes);
    p.rows = (int)((long)ny * (index + 1) / t->passes) - p.first;
    p.from = p.first > t->around ? p.first - t->around : 0;
    p.to = p.first + p.rows + t->around < ny ? p.first + p.rows + t->around : ny;
    return p;
}

static enum status keep_sums(struct tomography_cuda *t, const struct pass *p, int k, struct err *err) {
    TRY(tomography_slabs_sums(&t->slabs, k, t->scratch, err));
    memcpy(t->sums + (size_t)k * (size_t)t->setup->ny + p->first, t->scratch + (p->first - p->from),
           (size_t)p->rows * sizeof *t->sums);
    return STATUS_OK;
}

/* Sums rows in their order, so that the sum does not depend on the slabs. */
static double sum_of(const struct tomography_cuda *t, int k) {
    double sum = 0;
    for (int y = 0; y < t->setup->ny; y++)
        sum += t->sums[(size_t)k * (size_t)t->setup->ny + (size_t)y];
    return sum;
}

/* Called after iteration k of a pass, or a pass of WBP (k = 0). Waits for the devices first, so that go_on can end the
 * run in time. */
static enum status ask(struct tomography_cuda *t, int pass, int k, struct err *err) {
    const struct tomography_options *o = &t->setup->options;
    if (!o->go_on) return STATUS_OK;
    TRY(tomography_slabs_wait(&t->slabs, err));
    FAIL_IF(!o->go_on(o->context, k, NAN), err, STATUS_CANCELLED, "stopped in pass %d of %d over the rows", pass + 1,
            t->passes);
    return STATUS_OK;
}

/* Called after iteration k of all rows: decides whether another one follows. */
static enum status judge(struct tomography_cuda *t, int k, bool *ret_stop, struct err *err) {
    const struct tomography_options *o = &t->setup->options;
    double norm = sum_of(t, 0), *residuals = t->setup->residuals;
    double residual = residuals[k - 1] = norm > 0 ? sqrt(sum_of(t, k) / norm) : 0;
    FAIL_IF(t->passes == 1 && o->go_on && !o->go_on(o->context, k, residual), err, STATUS_CANCELLED,
            "stopped after %d of %d iterations", k, o->iterations);
    *ret_stop = o->limit > 0 && k > 1 && residuals[k - 2] - residual < o->limit * residuals[k - 2];
    return STATUS_OK;
}

/* ret_made: number of iterations, which the limit may reduce. */
static enum status run_whole(struct tomography_cuda *t, const float *projections, float *ret_volume, int *ret_made,
                             struct err *err) {
    const struct tomography_options *o = &t->setup->options;
    struct pass p = pass_of(t, 0);
    bool watched = o->go_on || o->limit > 0, stop = false;
    int made = 0;
    tomography_slabs_deal(&t->slabs, p.from, p.to - p.from);
    TRY(tomography_slabs_load(&t->slabs, projections, err));
    TRY(tomography_slabs_start(&t->slabs, err));
    if (watched) TRY(keep_sums(t, &p, 0, err));
    while (made < o->iterations && !stop) {
        TRY(tomography_slabs_iterate(&t->slabs, ++made, err));
        if (!watched) continue;
        TRY(keep_sums(t, &p, made, err));
        TRY(judge(t, made, &stop, err));
    }
    for (int k = 0; !watched && k <= made; k++)
        TRY(keep_sums(t, &p, k, err));
    for (int k = 1; !watched && k <= made; k++)
        TRY(judge(t, k, &stop, err));
    *ret_made = made;
    return tomography_slabs_store(&t->slabs, p.first, p.rows, ret_volume, err);
}

static enum status run_passes(struct tomography_cuda *t, const float *projections, float *ret_volume, int iterations,
                              struct err *err) {
    for (int i = 0; i < t->passes; i++) {
        struct pass p = pass_of(t, i);
        tomography_slabs_deal(&t->slabs, p.from, p.to - p.from);
        TRY(tomography_slabs_load(&t->slabs, projections, err));
        TRY(tomography_slabs_start(&t->slabs, err));
        for (int k = 1; k <= iterations; k++) {
            TRY(tomography_slabs_iterate(&t->slabs, k, err));
            TRY(ask(t, i, k, err));
        }
        for (int k = 0; k <= iterations; k++)
            TRY(keep_sums(t, &p, k, err));
        TRY(tomography_slabs_store(&t->slabs, p.first, p.rows, ret_volume, err));
    }
    return STATUS_OK;
}

/* The residual of all rows, and so whether fewer iterations were enough, is known only after the last pass. If so, all
 * passes run again with fewer iterations. */
static enum status run_in_passes(struct tomography_cuda *t, const float *projections, float *ret_volume, int *ret_made,
                                 struct err *err) {
    int iterations = t->setup->options.iterations, made = 0;
    bool stop = false;
    TRY(run_passes(t, projections, ret_volume, iterations, err));
    while (made < iterations && !stop)
        TRY(judge(t, ++made, &stop, err));
    if (made < iterations) TRY(run_passes(t, projections, ret_volume, made, err));
    *ret_made = made;
    return STATUS_OK;
}

static enum status run_filtered(struct tomography_cuda *t, const float *projections, float *ret_volume,
                                struct err *err) {
    for (int i = 0; i < t->passes; i++) {
        struct pass p = pass_of(t, i);
        tomography_slabs_deal(&t->slabs, p.from, p.to - p.from);
        TRY(tomography_slabs_load(&t->slabs, projections, err));
        TRY(tomography_slabs_start(&t->slabs, err));
        TRY(tomography_slabs_store(&t->slabs, p.first, p.rows, ret_volume, err));
        if (i + 1 < t->passes) TRY(ask(t, i, 0, err));
    }
    return STATUS_OK;
}

static enum status run(void *state, const float *projections, float *ret_volume, struct tomography_report *ret_report,
                       struct err *err) {
    struct tomography_cuda *t = state;
    enum status status;
    ret_report->matrix = t->matrix;
    ret_report->slabs = t->slabs.count * t->passes;
    ret_report->residuals = t->setup->residuals;
    ret_report->iterations = 0;
    if (t->setup->options.method == TOMOGRAPHY_WBP)
        status = run_filtered(t, projections, ret_volume, err);
    else if (t->passes == 1)
        status = run_whole(t, projections, ret_volume, &ret_report->iterations, err);
    else
        status = run_in_passes(t, projections, ret_volume, &ret_report->iterations, err);
    /* No device may touch the caller's memory after the return. */
    if (status != STATUS_OK) (void)tomography_slabs_wait(&t->slabs, NULL);
    return status;
}

const struct tomography_work tomography_cuda_work = {.create = create, .destroy = destroy, .run = run};
