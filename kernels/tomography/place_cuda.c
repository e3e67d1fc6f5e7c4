/* Makes what all slabs of a device share: matrix, reciprocal sums, filter. */
#include <stdlib.h>

#include "common/device_cuda.h"
#include "common/memory.h"
#include "kernels/tomography/slab_cuda.h"

static size_t rays_of(const struct tomography_setup *s) {
    return (size_t)s->tilts * (size_t)s->nx;
}
static size_t voxels_of(const struct tomography_setup *s) {
    return (size_t)s->nz * (size_t)s->nx;
}
static size_t half_of(const struct tomography_setup *s) {
    return (voxels_of(s) + 1) / 2;
}

size_t tomography_place_bytes(const struct tomography_setup *s, enum tomography_matrix matrix) {
    size_t tilts = (size_t)s->tilts, bytes = 0;
    bytes += 3 * arena_need(tilts, sizeof(double)) + 3 * arena_need(tilts, sizeof(int32_t)) + arena_need(tilts, 1);
    bytes += arena_need(8 * (TOMOGRAPHY_STEPS + 1), sizeof(float));
    bytes += arena_need(3 * rays_of(s), sizeof(float)) + arena_need(3 * voxels_of(s), sizeof(float));
    bytes += arena_need((size_t)s->padded / 2 + 1, sizeof(float)) + ARENA_ALIGNMENT;
    if (matrix == TOMOGRAPHY_ELLR) bytes += (2 + (size_t)s->halo) * arena_need(4 * tilts * voxels_of(s), 4);
    if (matrix == TOMOGRAPHY_BLOB_ELLR) bytes += 2 * arena_need((size_t)s->pairs * half_of(s), 4);
    return bytes;
}

static enum status put(struct tomography_place *place, const void *host, size_t count, size_t size, const char *what,
                       void *ret_pointer, struct err *err) {
    void *memory = NULL;
    TRY(arena_take(place->arena, count, size, what, &memory, err));
    TRY(device_put(&place->device, memory, host, count * size, err));
    *(void **)ret_pointer = memory;
    return STATUS_OK;
}

struct placed {
    double angle;
    int tilt;
};
static int by_angle(const void *a, const void *b) {
    const struct placed *x = a, *y = b;
    if (x->angle != y->angle) return x->angle < y->angle ? -1 : 1;
    return x->tilt - y->tilt;
}

static enum status put_order(const struct tomography_setup *s, struct tomography_place *place, struct err *err) {
    _cleanup_(mem_free) struct placed *placed = NULL;
    _cleanup_(mem_free) int *order = NULL;
    TRY(mem_new((size_t)s->tilts, sizeof *placed, "tilts", &placed, err));
    TRY(mem_new((size_t)s->tilts, sizeof *order, "tilts", &order, err));
    for (int t = 0; t < s->tilts; t++)
        placed[t] = (struct placed){s->options.geometry.angles[t], t};
    qsort(placed, (size_t)s->tilts, sizeof *placed, by_angle);
    for (int t = 0; t < s->tilts; t++)
        order[t] = placed[t].tilt;
    return put(place, order, (size_t)s->tilts, sizeof *order, "tilts", &place->matrix.order, err);
}

static enum status fill_matrix(const struct tomography_setup *s, struct tomography_place *place, struct err *err) {
    struct tomography_matrix_cuda *m = &place->matrix;
    const int32_t *pair_tilt = NULL;
    size_t tilts = (size_t)s->tilts;
    if (m->kind == TOMOGRAPHY_ELLR) {
        TRY(arena_take(place->arena, 4 * tilts * voxels_of(s), 4, "ELLR's weights", &m->a0, err));
        if (s->halo) TRY(arena_take(place->arena, 4 * tilts * voxels_of(s), 4, "ELLR's weights", &m->a1, err));
        TRY(arena_take(place->arena, 4 * tilts * voxels_of(s), 4, "ELLR's rays", &m->rays, err));
    }
    if (m->kind == TOMOGRAPHY_BLOB_ELLR) {
        TRY(put(place, s->pair, tilts, sizeof *s->pair, "pairs of tilts", &m->pair, err));
        TRY(put(place, s->mirror, tilts, 1, "pairs of tilts", &m->mirror, err));
        TRY(put(place, s->pair_tilt, (size_t)s->pairs, sizeof *s->pair_tilt, "pairs of tilts", &pair_tilt, err));
        TRY(arena_take(place->arena, (size_t)s->pairs * half_of(s), 4, "blob-ELLR", &m->floors, err));
        TRY(arena_take(place->arena, (size_t)s->pairs * half_of(s), 4, "blob-ELLR", &m->fractions, err));
    }
    return tomography_cuda_fill(m, pair_tilt, s->pairs, NULL, err);
}

static enum status fill(const struct tomography_setup *s, struct tomography_place *place, struct err *err) {
    struct tomography_matrix_cuda *m = &place->matrix;
    size_t tilts = (size_t)s->tilts;
    TRY(put(place, s->cosines, tilts, sizeof *s->cosines, "tilts", &m->cosines, err));
    TRY(put(place, s->sines, tilts, sizeof *s->sines, "tilts", &m->sines, err));
    TRY(put(place, s->offsets, tilts, sizeof *s->offsets, "tilts", &m->offsets, err));
    TRY(put(place, s->weights, 8 * (TOMOGRAPHY_STEPS + 1), sizeof *s->weights, "weights", &m->weights, err));
    TRY(put_order(s, place, err));
    TRY(arena_take(place->arena, 1, sizeof *place->bad, "a flag", &place->bad, err));
    if (s->options.method == TOMOGRAPHY_WBP)
        return put(place, s->filter, (size_t)s->padded / 2 + 1, sizeof *s->filter, "a filter", &place->factors, err);
    TRY(arena_take(place->arena, 3 * rays_of(s), sizeof(float), "sums of weights", &place->rays, err));
    TRY(arena_take(place->arena, 3 * voxels_of(s), sizeof(float), "sums of weights", &place->voxels, err));
    TRY(fill_matrix(s, place, err));
    TRY(tomography_cuda_reciprocals(m, place->rays, place->voxels, NULL, err));
    CUDA_TRY(cudaDeviceSynchronize(), err, "making a matrix");
    return STATUS_OK;
}

enum status tomography_place_make(const struct tomography_setup *s, enum tomography_matrix matrix, size_t bytes,
                                  struct tomography_place *place, struct err *err) {
    place->matrix = (struct tomography_matrix_cuda){
        .kind = matrix, .coupled = s->halo > 0, .tilts = s->tilts, .nx = s->nx, .nz = s->nz};
    CUDA_TRY(cudaSetDevice(place->device.index), err, "choosing a device");
    TRY(arena_create(&place->device, bytes, &place->arena, err));
    return fill(s, place, err);
}

void tomography_place_clear(struct tomography_place *place) {
    arena_destroy(&place->arena);
}
