/* Allocates the memory of slabs, and deals rows out to them. */
#include "kernels/tomography/slab_cuda.h"

#include <string.h>

#include "common/device_cuda.h"

static size_t rays_of(const struct tomography_setup *s) {
    return (size_t)s->tilts * (size_t)s->nx;
}
static size_t voxels_of(const struct tomography_setup *s) {
    return (size_t)s->nz * (size_t)s->nx;
}
/* Returns the floats of a row that is handed on: of r, of Q1, or at the end of c. */
static size_t row_floats(const struct tomography_setup *s) {
    return rays_of(s) > voxels_of(s) ? rays_of(s) : voxels_of(s);
}
/* WBP has no q1 and needs room for the transform of a tilt. */
static size_t q1_floats(const struct tomography_setup *s, size_t rows) {
    if (s->options.method == TOMOGRAPHY_WBP) return rows * (size_t)(2 * (s->padded / 2 + 1));
    return s->halo ? rays_of(s) * rows : 0;
}

size_t tomography_slab_bytes(const struct tomography_setup *s, int slab_rows) {
    size_t rows = (size_t)slab_rows, bytes = 0;
    bytes += arena_need(voxels_of(s) * rows, sizeof(float));
    bytes += 2 * arena_need(rays_of(s) * rows, sizeof(float)) + arena_need(q1_floats(s, rows), sizeof(float));
    if (s->options.mask) bytes += arena_need(voxels_of(s) * rows, 1);
    if (s->halo) bytes += 4 * SLAB_SIDES * arena_need(row_floats(s), sizeof(float));
    bytes += arena_need(TOMOGRAPHY_RESIDUAL_GROUPS * rows, sizeof(double));
    return bytes + arena_need((size_t)(s->options.iterations + 1) * rows, sizeof(double));
}

static enum status take(struct tomography_slab *slab, struct err *err) {
    const struct tomography_setup *s = slab->setup;
    struct arena *arena = slab->place->arena;
    size_t rows = (size_t)slab->capacity, iterations = (size_t)s->options.iterations;
    TRY(arena_take(arena, voxels_of(s) * rows, sizeof(float), "a slab of the volume", &slab->volume, err));
    TRY(arena_take(arena, rays_of(s) * rows, sizeof(float), "projections", &slab->projections, err));
    TRY(arena_take(arena, rays_of(s) * rows, sizeof(float), "projections", &slab->q0, err));
    if (q1_floats(s, rows) > 0)
        TRY(arena_take(arena, q1_floats(s, rows), sizeof(float), "projections", &slab->q1, err));
    if (s->options.mask) TRY(arena_take(arena, voxels_of(s) * rows, 1, "a mask", &slab->mask, err));
    for (int side = 0; s->halo && side < SLAB_SIDES; side++) {
        float **pieces[] = {&slab->halo_q[side], &slab->halo_r[side], &slab->sent_q[side], &slab->sent_r[side]};
        for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
            TRY(arena_take(arena, row_floats(s), sizeof(float), "rows beside a slab", pieces[i], err));
    }
    TRY(arena_take(arena, TOMOGRAPHY_RESIDUAL_GROUPS * rows, sizeof(double), "residuals", &slab->sums, err));
    return arena_take(arena, (iterations + 1) * rows, sizeof(double), "residuals", &slab->row_sums, err);
}

static cudaEvent_t *const *events_of(struct tomography_slab *s, cudaEvent_t *list[8]) {
    cudaEvent_t *all[8] = {&s->projected_edge,  &s->projected_inside, &s->handed,       &s->differed_edge,
                           &s->differed_inside, &s->added_edge,       &s->added_inside, &s->changed_edge};
    memcpy(list, all, sizeof all);
    return list;
}

static enum status queues(struct tomography_slab *slab, struct err *err) {
    cudaEvent_t *events[8];
    int least = 0, greatest = 0;
    CUDA_TRY(cudaDeviceGetStreamPriorityRange(&least, &greatest), err, "making streams");
    CUDA_TRY(cudaStreamCreateWithPriority(&slab->edge, cudaStreamNonBlocking, greatest), err, "making streams");
    CUDA_TRY(cudaStreamCreateWithPriority(&slab->inside, cudaStreamNonBlocking, least), err, "making streams");
    events_of(slab, events);
    for (int i = 0; i < 8; i++)
        CUDA_TRY(cudaEventCreateWithFlags(events[i], cudaEventDisableTiming), err, "making events");
    return STATUS_OK;
}

enum status tomography_slab_make(const struct tomography_setup *setup, struct tomography_place *place, int rows,
                                 struct tomography_slab *slab, struct err *err) {
    slab->setup = setup, slab->place = place, slab->capacity = rows;
    TRY(take(slab, err));
    CUDA_TRY(cudaSetDevice(place->device.index), err, "choosing a device");
    TRY(queues(slab, err));
    if (setup->options.method == TOMOGRAPHY_WBP)
        TRY(tomography_filter_create(setup->padded, rows, slab->inside, &slab->filter, err));
    return STATUS_OK;
}

void tomography_slab_clear(struct tomography_slab *slab) {
    cudaEvent_t *events[8];
    if (slab->place == NULL || cudaSetDevice(slab->place->device.index) != cudaSuccess) return;
    tomography_filter_destroy(&slab->filter);
    events_of(slab, events);
    for (int i = 0; i < 8; i++)
        if (*events[i]) (void)cudaEventDestroy(*events[i]);
    if (slab->edge) (void)cudaStreamDestroy(slab->edge);
    if (slab->inside) (void)cudaStreamDestroy(slab->inside);
}

static void cut(struct tomography_slab *slab, bool overlap) {
    int chunks = slab->pitch / TOMOGRAPHY_CHUNK;
    bool below = overlap && slab->beside[SLAB_BELOW], above = overlap && slab->beside[SLAB_ABOVE];
    struct tomography_chunks *edge = &slab->edge_chunks;
    *edge = (struct tomography_chunks){below ? 0 : chunks - 1, chunks > 1 ? chunks - 1 : 1, below + above};
    if (edge->count > chunks) edge->count = chunks;
    slab->inside_chunks = (struct tomography_chunks){below, 1, chunks - edge->count};
}

void tomography_slabs_deal(struct tomography_slabs *all, int first, int rows) {
    const struct tomography_setup *s = all->setup;
    int count = all->count < rows ? all->count : rows, at = first;
    for (int i = 0; i < all->count; i++) {
        struct tomography_slab *slab = &all->slabs[i];
        int end = first + (int)((long)rows * (i < count ? i + 1 : count) / count);
        slab->first = at, slab->rows = end - at, at = end;
        slab->pitch = (slab->rows + TOMOGRAPHY_CHUNK - 1) / TOMOGRAPHY_CHUNK * TOMOGRAPHY_CHUNK;
        slab->is_end[SLAB_BELOW] = slab->first == 0;
        slab->is_end[SLAB_ABOVE] = end == s->ny;
        slab->beside[SLAB_BELOW] = s->halo && i > 0 && i < count ? &all->slabs[i - 1] : NULL;
        slab->beside[SLAB_ABOVE] = s->halo && i + 1 < count ? &all->slabs[i + 1] : NULL;
    }
    for (int i = 0; i < all->count; i++)
        cut(&all->slabs[i], !s->options.no_overlap);
}
