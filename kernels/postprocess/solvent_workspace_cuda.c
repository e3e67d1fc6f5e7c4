/* Masks host maps on a workspace's device. */
#include <math.h>

#include "common/memory.h"
#include "kernels/fourier/workspace_cuda.h"
#include "kernels/postprocess/solvent_cuda.h"
#include "kernels/postprocess/solvent_private.h"

static const double FINEST = 15; /* Å: the low-pass of postprocess_make_mask */

/* Device memory, in the iteration's scope. */
struct volumes {
    struct volume_cuda *plans;
    size_t bytes; /* size of a map */
    float *map, *mask, *spread, *spectrum;
    void *transform, *scratch;
    double *inside;
};

static enum status take(struct workspace *w, int box, struct volumes *v, struct err *err) {
    float **const maps[] = {&v->map, &v->mask, &v->spread};
    v->bytes = (size_t)box * (size_t)box * (size_t)box * sizeof(float);
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        TRY(arena_take(w->arena, v->bytes, 1, "a map", maps[i], err));
    TRY(arena_take(w->arena, volume_cuda_bytes(box), 1, "the transform of a map", &v->spectrum, err));
    TRY(arena_take(w->arena, volume_cuda_scratch(v->plans), 1, "the transform of a map", &v->transform, err));
    TRY(arena_take(w->arena, solvent_cuda_scratch(box), 1, "a histogram", &v->scratch, err));
    return arena_take(w->arena, 1, sizeof *v->inside, "a sum", &v->inside, err);
}

static enum status find(struct workspace *w, const struct solvent_sphere *sphere, double pixel_size, double shell,
                        const float *map, float *ret_mask, double *ret_inside, struct err *err) {
    const int box = sphere->box;
    const double factor = 1 / ((double)box * box * box), limit = round(box * pixel_size / FINEST);
    struct volumes v = {0};
    _cleanup_(workspace_cuda_end) struct workspace *open = NULL;
    TRY(workspace_cuda_volume(w, box, &v.plans, err));
    TRY(workspace_cuda_begin(w, &open, err));
    TRY(take(w, box, &v, err));
    TRY(workspace_cuda_put(w, v.map, map, v.bytes, err));
    TRY(solvent_cuda_multiply(sphere, v.map, NULL, v.map, w->stream, err));
    TRY(volume_cuda_forward(v.plans, v.transform, v.map, v.spectrum, w->stream, err));
    TRY(solvent_cuda_filter(box, shell, 2, false, factor, v.spectrum, w->stream, err));
    TRY(solvent_cuda_filter(box, limit + 1, 2, false, 1, v.spectrum, w->stream, err));
    TRY(volume_cuda_inverse(v.plans, v.transform, v.spectrum, v.map, w->stream, err));
    TRY(solvent_cuda_mask(box, v.map, v.scratch, v.mask, v.inside, w->stream, err));
    TRY(workspace_cuda_get(w, ret_mask, v.mask, v.bytes, err));
    TRY(workspace_cuda_get(w, ret_inside, v.inside, sizeof *ret_inside, err));
    return workspace_cuda_wait(w, err);
}

/* Computes v->spread: the part beyond `shared` of the masked shells up to `shared`. */
static enum status spread_beyond(struct workspace *w, const struct solvent_sphere *sphere, const float *mask,
                                 double shared, const struct volumes *v, struct err *err) {
    const double factor = 1 / ((double)sphere->box * sphere->box * sphere->box);
    TRY(volume_cuda_forward(v->plans, v->transform, v->map, v->spectrum, w->stream, err));
    TRY(solvent_cuda_filter(sphere->box, shared, 0, false, factor, v->spectrum, w->stream, err));
    TRY(volume_cuda_inverse(v->plans, v->transform, v->spectrum, v->spread, w->stream, err));
    TRY(solvent_cuda_multiply(sphere, v->spread, mask, v->spread, w->stream, err));
    TRY(volume_cuda_forward(v->plans, v->transform, v->spread, v->spectrum, w->stream, err));
    TRY(solvent_cuda_filter(sphere->box, shared, 0, true, factor, v->spectrum, w->stream, err));
    return volume_cuda_inverse(v->plans, v->transform, v->spectrum, v->spread, w->stream, err);
}

static enum status flatten(struct workspace *w, const struct solvent_sphere *sphere, const float *mask_or_null,
                           double shared, float *map, struct err *err) {
    struct volumes v = {0};
    _cleanup_(workspace_cuda_end) struct workspace *open = NULL;
    TRY(workspace_cuda_volume(w, sphere->box, &v.plans, err));
    TRY(workspace_cuda_begin(w, &open, err));
    TRY(take(w, sphere->box, &v, err));
    const float *mask = mask_or_null != NULL ? v.mask : NULL;
    if (mask != NULL) TRY(workspace_cuda_put(w, v.mask, mask_or_null, v.bytes, err));
    TRY(workspace_cuda_put(w, v.map, map, v.bytes, err));
    if (shared > 0) TRY(spread_beyond(w, sphere, mask, shared, &v, err));
    TRY(solvent_cuda_multiply(sphere, v.map, mask, v.map, w->stream, err));
    if (shared > 0) TRY(solvent_cuda_subtract(sphere->box, v.map, v.spread, w->stream, err));
    TRY(workspace_cuda_get(w, map, v.map, v.bytes, err));
    return workspace_cuda_wait(w, err);
}

static enum status part(struct workspace *w, int box, int shell, const float *map, float *ret_low, float *ret_high,
                        struct err *err) {
    const double factor = 1 / ((double)box * box * box);
    struct volumes v = {0};
    _cleanup_(workspace_cuda_end) struct workspace *open = NULL;
    TRY(workspace_cuda_volume(w, box, &v.plans, err));
    TRY(workspace_cuda_begin(w, &open, err));
    TRY(take(w, box, &v, err));
    TRY(workspace_cuda_put(w, v.map, map, v.bytes, err));
    TRY(volume_cuda_forward(v.plans, v.transform, v.map, v.spectrum, w->stream, err));
    TRY(solvent_cuda_filter(box, shell + 0.5, 0, false, factor, v.spectrum, w->stream, err));
    TRY(volume_cuda_inverse(v.plans, v.transform, v.spectrum, v.spread, w->stream, err));
    TRY(solvent_cuda_subtract(box, v.map, v.spread, w->stream, err));
    TRY(workspace_cuda_get(w, ret_low, v.spread, v.bytes, err));
    TRY(workspace_cuda_get(w, ret_high, v.map, v.bytes, err));
    return workspace_cuda_wait(w, err);
}

/* Takes a map and two transforms, less than struct volumes. */
static enum status join(struct workspace *w, int box, int low, int reached, const float *inner, float *map,
                        struct err *err) {
    const double factor = 1 / ((double)box * box * box);
    const size_t bytes = (size_t)box * (size_t)box * (size_t)box * sizeof(float);
    struct volume_cuda *plans = NULL;
    float *volume = NULL, *of_map = NULL, *of_inner = NULL;
    void *scratch = NULL;
    _cleanup_(workspace_cuda_end) struct workspace *open = NULL;
    TRY(workspace_cuda_volume(w, box, &plans, err));
    TRY(workspace_cuda_begin(w, &open, err));
    TRY(arena_take(w->arena, bytes, 1, "a map", &volume, err));
    TRY(arena_take(w->arena, volume_cuda_bytes(box), 1, "the transform of a map", &of_map, err));
    TRY(arena_take(w->arena, volume_cuda_bytes(box), 1, "the transform of a map", &of_inner, err));
    TRY(arena_take(w->arena, volume_cuda_scratch(plans), 1, "the transform of a map", &scratch, err));
    TRY(workspace_cuda_put(w, volume, map, bytes, err));
    TRY(volume_cuda_forward(plans, scratch, volume, of_map, w->stream, err));
    TRY(workspace_cuda_put(w, volume, inner, bytes, err));
    TRY(volume_cuda_forward(plans, scratch, volume, of_inner, w->stream, err));
    TRY(solvent_cuda_join(box, low, reached, factor, of_inner, of_map, w->stream, err));
    TRY(volume_cuda_inverse(plans, scratch, of_map, volume, w->stream, err));
    TRY(workspace_cuda_get(w, map, volume, bytes, err));
    return workspace_cuda_wait(w, err);
}

const struct solvent_work solvent_cuda_work = {.find = find, .flatten = flatten, .part = part, .join = join};
