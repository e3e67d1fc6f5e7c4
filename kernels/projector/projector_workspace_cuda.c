/* Keeps a projector's transform in a workspace. */
#include "common/memory.h"
#include "kernels/fourier/workspace_cuda.h"
#include "kernels/projector/projector_cuda.h"
#include "kernels/projector/projector_private.h"

static struct grid_cuda grid_of(const struct projector *p) {
    return projector_cuda_grid(p->dimensions, 2 * p->r_max);
}

static enum status set_map(struct projector *p, struct workspace *w, const float *map, int size, struct err *err) {
    const struct grid_cuda grid = projector_cuda_grid(p->dimensions, size);
    const size_t n = (size_t)p->box, voxels = n * n * (p->dimensions == 3 ? n : 1);
    struct padded_cuda *padded = NULL;
    float *device_map = NULL;
    void *scratch = NULL;
    TRY(workspace_cuda_plan(w, p->dimensions, p->box, &padded, err));
    TRY(arena_take(w->arena, projector_cuda_bytes(&grid), 1, "a reference", &p->device_grid, err));
    _cleanup_(workspace_cuda_end) struct workspace *open = NULL;
    TRY(workspace_cuda_begin(w, &open, err));
    TRY(arena_take(w->arena, voxels, sizeof *map, "a map", &device_map, err));
    TRY(arena_take(w->arena, padded_cuda_scratch(padded, size), 1, "the transform of a map", &scratch, err));
    TRY(workspace_cuda_put(w, device_map, map, voxels * sizeof *map, err));
    TRY(projector_cuda_set_map(padded, device_map, size, &grid, p->device_grid, scratch, w->stream, err));
    projector_shape(p, size);
    p->workspace = w;
    return workspace_cuda_wait(w, err);
}

/* Transforms the other map into a grid of its own, as small as these shells allow, then copies its inner points. */
static enum status set_shells(struct projector *p, const float *map, int last_shell, struct err *err) {
    struct workspace *w = p->workspace;
    const size_t n = (size_t)p->box, voxels = n * n * (p->dimensions == 3 ? n : 1);
    const int inner_shell = last_shell < p->r_max ? last_shell + 1 : p->r_max;
    const struct grid_cuda grid = grid_of(p), inner = projector_cuda_grid(p->dimensions, 2 * inner_shell);
    struct padded_cuda *padded = NULL;
    float *device_map = NULL, *values = NULL;
    void *scratch = NULL;
    TRY(workspace_cuda_plan(w, p->dimensions, p->box, &padded, err));
    _cleanup_(workspace_cuda_end) struct workspace *open = NULL;
    TRY(workspace_cuda_begin(w, &open, err));
    TRY(arena_take(w->arena, voxels, sizeof *map, "a map", &device_map, err));
    TRY(arena_take(w->arena, projector_cuda_bytes(&inner), 1, "shells of a reference", &values, err));
    TRY(arena_take(w->arena, padded_cuda_scratch(padded, 2 * inner_shell), 1, "the transform of a map", &scratch, err));
    TRY(workspace_cuda_put(w, device_map, map, voxels * sizeof *map, err));
    TRY(projector_cuda_set_map(padded, device_map, 2 * inner_shell, &inner, values, scratch, w->stream, err));
    TRY(projector_cuda_copy_inner(&inner, values, PROJECTOR_PAD * last_shell, &grid, p->device_grid, w->stream, err));
    return workspace_cuda_wait(w, err);
}

static enum status to_host(struct projector *p, struct err *err) {
    _cleanup_(workspace_cuda_end) struct workspace *open = NULL;
    TRY(projector_reserve(p, err));
    TRY(workspace_cuda_begin(p->workspace, &open, err));
    TRY(workspace_cuda_get(p->workspace, p->grid, p->device_grid, projector_floats(p) * sizeof *p->grid, err));
    return workspace_cuda_wait(p->workspace, err);
}

static enum status power(const struct projector *p, float *ret_power, struct err *err) {
    struct workspace *w = p->workspace;
    const struct grid_cuda grid = grid_of(p);
    const size_t shells = (size_t)p->box / 2 + 1;
    float *values = NULL;
    void *scratch = NULL;
    _cleanup_(workspace_cuda_end) struct workspace *open = NULL;
    TRY(workspace_cuda_begin(w, &open, err));
    TRY(arena_take(w->arena, shells, sizeof *values, "spectra", &values, err));
    TRY(arena_take(w->arena, projector_cuda_power_scratch(&grid), 1, "spectra", &scratch, err));
    TRY(projector_cuda_power(&grid, p->device_grid, p->box, scratch, values, w->stream, err));
    TRY(workspace_cuda_get(w, ret_power, values, shells * sizeof *values, err));
    return workspace_cuda_wait(w, err);
}

const struct projector_work projector_cuda_work = {
    .set_map = set_map,
    .set_shells = set_shells,
    .to_host = to_host,
    .power = power,
};
