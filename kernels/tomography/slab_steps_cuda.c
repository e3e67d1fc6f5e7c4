/* Runs the steps of an iteration over all slabs. A step is queued for every slab before the next step, so that an event
 * that a slab waits for has been recorded. */
#include <string.h>

#include "common/device_cuda.h"
#include "kernels/tomography/slab_cuda.h"

#define USE(slab, err) CUDA_TRY(cudaSetDevice((slab)->place->device.index), err, "choosing a device")
#define RECORD(event, stream, err) CUDA_TRY(cudaEventRecord(event, stream), err, "recording an event")
#define AWAIT(stream, event, err) CUDA_TRY(cudaStreamWaitEvent(stream, event, 0), err, "waiting for an event")

enum status tomography_slabs_wait(struct tomography_slabs *all, struct err *err) {
    for (int i = 0; i < all->count; i++) {
        USE(&all->slabs[i], err);
        CUDA_TRY(cudaStreamSynchronize(all->slabs[i].edge), err, "waiting for a slab");
        CUDA_TRY(cudaStreamSynchronize(all->slabs[i].inside), err, "waiting for a slab");
    }
    return STATUS_OK;
}

/* The synchronous scheme: no slab computes while rows are handed on. */
static enum status take_turns(struct tomography_slabs *all, struct err *err) {
    if (!all->setup->options.no_overlap) return STATUS_OK;
    return tomography_slabs_wait(all, err);
}

static size_t rays_of(const struct tomography_setup *s) {
    return (size_t)s->tilts * (size_t)s->nx;
}

/* Copies a slab's outermost row of `from` [lines][pitch] to its neighbour's halo. */
static enum status hand_on(struct tomography_slab *slab, int side, const float *from, size_t lines, float *sent,
                           float *halo, struct err *err) {
    struct tomography_slab *to = slab->beside[side];
    size_t bytes = lines * sizeof(float);
    int row = side == SLAB_BELOW ? 0 : slab->rows - 1;
    int here = slab->place->device.index, there = to->place->device.index;
    TRY(tomography_cuda_take_row(from, lines, slab->pitch, row, sent, slab->edge, err));
    if (here == there)
        CUDA_TRY(cudaMemcpyAsync(halo, sent, bytes, cudaMemcpyDeviceToDevice, slab->edge), err, "handing a row on");
    else
        CUDA_TRY(cudaMemcpyPeerAsync(halo, there, sent, here, bytes, slab->edge), err, "handing a row on");
    return STATUS_OK;
}

enum handed { HAND_Q, HAND_R, HAND_C };
static enum status hand_all(struct tomography_slabs *all, enum handed what, struct err *err) {
    const struct tomography_setup *s = all->setup;
    TRY(take_turns(all, err));
    for (int i = 0; i < all->count; i++) {
        struct tomography_slab *slab = &all->slabs[i];
        const float *from = what == HAND_Q ? slab->q1 : what == HAND_R ? slab->q0 : slab->volume;
        size_t lines = what == HAND_C ? (size_t)s->nz * (size_t)s->nx : rays_of(s);
        USE(slab, err);
        for (int side = 0; side < SLAB_SIDES; side++) {
            struct tomography_slab *to = slab->beside[side];
            if (to == NULL) continue;
            float *sent = what == HAND_R ? slab->sent_r[side] : slab->sent_q[side];
            float *halo = what == HAND_R ? to->halo_r[!side] : to->halo_q[!side];
            TRY(hand_on(slab, side, from, lines, sent, halo, err));
        }
        RECORD(slab->handed, slab->edge, err);
    }
    return take_turns(all, err);
}

static enum status await_neighbours(struct tomography_slab *slab, cudaStream_t stream, struct err *err) {
    for (int side = 0; side < SLAB_SIDES; side++)
        if (slab->beside[side]) AWAIT(stream, slab->beside[side]->handed, err);
    return STATUS_OK;
}

static enum status project(struct tomography_slab *s, struct err *err) {
    const struct tomography_matrix_cuda *m = &s->place->matrix;
    USE(s, err);
    /* The other stream reads r until its sums of neighbours are made. */
    AWAIT(s->edge, s->added_inside, err);
    AWAIT(s->inside, s->added_edge, err);
    TRY(tomography_cuda_project(m, s->edge_chunks, s->pitch, s->volume, s->q0, s->q1, s->edge, err));
    TRY(tomography_cuda_project(m, s->inside_chunks, s->pitch, s->volume, s->q0, s->q1, s->inside, err));
    RECORD(s->projected_edge, s->edge, err);
    RECORD(s->projected_inside, s->inside, err);
    return STATUS_OK;
}

static struct tomography_residual residual_of(const struct tomography_slab *s) {
    return (struct tomography_residual){.tilts = s->setup->tilts,
                                        .nx = s->setup->nx,
                                        .rows = s->rows,
                                        .pitch = s->pitch,
                                        .projections = s->projections,
                                        .rays = s->place->rays,
                                        .first_is_end = s->is_end[SLAB_BELOW],
                                        .last_is_end = s->is_end[SLAB_ABOVE],
                                        .r = s->q0,
                                        .sums = s->sums};
}

/* k: 0 for the start, before anything has been projected. */
static enum status differ(struct tomography_slab *s, int k, struct err *err) {
    struct tomography_residual residual = residual_of(s);
    if (k > 0) {
        residual.q0 = s->q0, residual.q1 = s->setup->halo ? s->q1 : NULL;
        residual.below = s->beside[SLAB_BELOW] ? s->halo_q[SLAB_BELOW] : NULL;
        residual.above = s->beside[SLAB_ABOVE] ? s->halo_q[SLAB_ABOVE] : NULL;
    }
    residual.plain = k == 0 && s->setup->options.start == TOMOGRAPHY_START_PLAIN;
    USE(s, err);
    if (k > 0) {
        AWAIT(s->edge, s->projected_inside, err);
        AWAIT(s->inside, s->projected_edge, err);
        TRY(await_neighbours(s, s->edge, err));
    }
    TRY(tomography_cuda_residual(&residual, s->edge_chunks, s->edge, err));
    TRY(tomography_cuda_residual(&residual, s->inside_chunks, s->inside, err));
    RECORD(s->differed_edge, s->edge, err);
    RECORD(s->differed_inside, s->inside, err);
    return STATUS_OK;
}

static enum status add_neighbours(struct tomography_slab *s, struct tomography_chunks chunks, cudaStream_t stream,
                                  struct err *err) {
    struct tomography_residual residual = residual_of(s);
    if (!s->setup->halo) return STATUS_OK;
    return tomography_cuda_neighbours(&residual, chunks, s->q0, s->beside[SLAB_BELOW] ? s->halo_r[SLAB_BELOW] : NULL,
                                      s->beside[SLAB_ABOVE] ? s->halo_r[SLAB_ABOVE] : NULL, s->q1, stream, err);
}

static struct tomography_update update_of(const struct tomography_slab *s, int k) {
    const struct tomography_options *o = &s->setup->options;
    bool sirt = o->method == TOMOGRAPHY_SIRT;
    return (struct tomography_update){.kept = k > 0,
                                      .scale = k > 0 ? (float)o->relaxation : 1,
                                      .voxels = sirt ? s->place->voxels : NULL,
                                      .non_negative = sirt && o->non_negative,
                                      .mask = sirt ? s->mask : NULL,
                                      .rows = s->rows,
                                      .first_is_end = s->is_end[SLAB_BELOW],
                                      .last_is_end = s->is_end[SLAB_ABOVE]};
}

static enum status change(struct tomography_slab *s, int k, struct err *err) {
    const struct tomography_matrix_cuda *m = &s->place->matrix;
    struct tomography_update update = update_of(s, k);
    double *sums = s->row_sums + (size_t)k * (size_t)s->capacity;
    USE(s, err);
    AWAIT(s->inside, s->differed_edge, err);
    if (s->setup->options.method == TOMOGRAPHY_SIRT)
        TRY(tomography_cuda_row_sums(s->sums, s->rows, s->pitch, sums, s->inside, err));
    TRY(add_neighbours(s, s->inside_chunks, s->inside, err));
    RECORD(s->added_inside, s->inside, err);
    AWAIT(s->edge, s->differed_inside, err);
    TRY(await_neighbours(s, s->edge, err));
    TRY(add_neighbours(s, s->edge_chunks, s->edge, err));
    RECORD(s->added_edge, s->edge, err);
    TRY(tomography_cuda_back_project(m, s->edge_chunks, s->pitch, s->q0, s->q1, &update, s->volume, s->edge, err));
    TRY(tomography_cuda_back_project(m, s->inside_chunks, s->pitch, s->q0, s->q1, &update, s->volume, s->inside, err));
    RECORD(s->changed_edge, s->edge, err);
    return STATUS_OK;
}

#define FOR_ALL(all, step, ...)                                                                                        \
    for (int slab_ = 0; slab_ < (all)->count; slab_++)                                                                 \
        if ((all)->slabs[slab_].rows > 0) TRY(step(&(all)->slabs[slab_], __VA_ARGS__))

static enum status correct(struct tomography_slabs *all, int k, struct err *err) {
    FOR_ALL(all, differ, k, err);
    TRY(hand_all(all, HAND_R, err));
    FOR_ALL(all, change, k, err);
    return STATUS_OK;
}

/* Without a start, computes the sums only. */
static enum status measure(struct tomography_slab *s, struct err *err) {
    USE(s, err);
    AWAIT(s->inside, s->differed_edge, err);
    return tomography_cuda_row_sums(s->sums, s->rows, s->pitch, s->row_sums, s->inside, err);
}

enum status tomography_slabs_start(struct tomography_slabs *all, struct err *err) {
    if (all->setup->options.method == TOMOGRAPHY_WBP) {
        FOR_ALL(all, change, 0, err);
        return STATUS_OK;
    }
    if (all->setup->options.start != TOMOGRAPHY_START_ZERO) return correct(all, 0, err);
    FOR_ALL(all, differ, 0, err);
    FOR_ALL(all, measure, err);
    return STATUS_OK;
}

enum status tomography_slabs_iterate(struct tomography_slabs *all, int k, struct err *err) {
    FOR_ALL(all, project, err);
    TRY(hand_all(all, HAND_Q, err));
    return correct(all, k, err);
}

enum status tomography_slabs_sums(struct tomography_slabs *all, int k, double *ret_sums, struct err *err) {
    for (int i = 0; i < all->count; i++) {
        struct tomography_slab *s = &all->slabs[i];
        USE(s, err);
        CUDA_TRY(cudaMemcpyAsync(ret_sums + (s->first - all->slabs[0].first),
                                 s->row_sums + (size_t)k * (size_t)s->capacity, (size_t)s->rows * sizeof(double),
                                 cudaMemcpyDeviceToHost, s->inside),
                 err, "fetching residuals");
        CUDA_TRY(cudaStreamSynchronize(s->inside), err, "fetching residuals");
    }
    return STATUS_OK;
}

/* c is complete once both streams are done. */
static enum status slices_of(struct tomography_slab *s, int first, int rows, float *ret_volume, struct err *err) {
    const struct tomography_setup *setup = s->setup;
    size_t nx = (size_t)setup->nx, slice = (size_t)s->rows * nx;
    struct tomography_stencil stencil = {.nx = setup->nx,
                                         .nz = setup->nz,
                                         .rows = s->rows,
                                         .pitch = s->pitch,
                                         .plain = !setup->halo,
                                         .coefficients = s->volume,
                                         .below = s->beside[SLAB_BELOW] ? s->halo_q[SLAB_BELOW] : NULL,
                                         .above = s->beside[SLAB_ABOVE] ? s->halo_q[SLAB_ABOVE] : NULL};
    for (int k = 0; k < 4; k++)
        stencil.weights[k] = (float)setup->stencil[k];
    /* The requested rows that this slab has. */
    int from = s->first > first ? s->first : first;
    int to = s->first + s->rows < first + rows ? s->first + s->rows : first + rows;
    if (from >= to) return STATUS_OK;
    /* The two streams take turns, each with a buffer that is free. */
    size_t room = rays_of(setup) * (size_t)s->pitch / slice;
    int planes = room < 16 ? (int)room : 16;
    for (int z = 0, turn = 0; z < setup->nz; z += planes, turn = !turn) {
        cudaStream_t stream = turn ? s->edge : s->inside;
        float *slices = turn ? s->projections : s->q0;
        int count = setup->nz - z < planes ? setup->nz - z : planes;
        TRY(tomography_cuda_stencil(&stencil, z, count, slices, stream, err));
        for (int i = 0; i < count; i++)
            CUDA_TRY(cudaMemcpyAsync(ret_volume + ((size_t)(z + i) * (size_t)setup->ny + (size_t)from) * nx,
                                     slices + (size_t)i * slice + (size_t)(from - s->first) * nx,
                                     (size_t)(to - from) * nx * sizeof(float), cudaMemcpyDeviceToHost, stream),
                     err, "fetching the volume");
    }
    return STATUS_OK;
}

enum status tomography_slabs_store(struct tomography_slabs *all, int first, int rows, float *ret_volume,
                                   struct err *err) {
    TRY(tomography_slabs_wait(all, err));
    TRY(hand_all(all, HAND_C, err));
    TRY(tomography_slabs_wait(all, err));
    for (int i = 0; i < all->count; i++) {
        if (all->slabs[i].rows == 0) continue;
        USE(&all->slabs[i], err);
        TRY(slices_of(&all->slabs[i], first, rows, ret_volume, err));
    }
    return tomography_slabs_wait(all, err);
}
