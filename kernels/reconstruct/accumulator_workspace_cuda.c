/* Works on sums that lie in a workspace, or that are copied there from the host for each step. */
#include "common/memory.h"
#include "kernels/fourier/workspace_cuda.h"
#include "kernels/reconstruct/accumulator_private.h"
#include "kernels/reconstruct/reconstruct_cuda.h"

static struct accumulator_cuda sums_of(const struct accumulator *a) {
    struct accumulator_cuda sums = accumulator_cuda_shape(a->dimensions, a->box, 2 * a->r_max);
    sums.voxels = a->device_voxels;
    return sums;
}

static struct workspace *workspace_of(const struct accumulator *a) {
    return a->workspace != NULL ? a->workspace : a->beside;
}

/* Returns the sums on the device, copied from the host if they lie there. Call it within an open scope. */
static enum status reach(const struct accumulator *a, struct accumulator_cuda *ret_sums, struct err *err) {
    struct workspace *w = workspace_of(a);
    *ret_sums = sums_of(a);
    if (a->workspace != NULL) return STATUS_OK;
    const size_t bytes = accumulator_cuda_bytes(ret_sums);
    TRY(arena_take(w->arena, bytes, 1, "the sums of a reference", &ret_sums->voxels, err));
    return workspace_cuda_put(w, ret_sums->voxels, a->voxels, bytes, err);
}

static size_t shells_of(const struct accumulator *a) {
    return (size_t)a->box / 2 + 1;
}

static size_t map_voxels(int dimensions, int box) {
    size_t n = (size_t)box;
    return n * n * (dimensions == 3 ? n : 1);
}

static enum status finish(struct accumulator *a, const struct symmetry *symmetry_or_null, int threads,
                          struct err *err) {
    (void)threads;
    struct workspace *w = workspace_of(a);
    struct accumulator_cuda sums;
    void *scratch = NULL;
    _cleanup_(workspace_cuda_end) struct workspace *open = NULL;
    TRY(workspace_cuda_begin(w, &open, err));
    TRY(reach(a, &sums, err));
    TRY(arena_take(w->arena, accumulator_cuda_finish_scratch(&sums, symmetry_or_null), 1, "sums to be symmetrised",
                   &scratch, err));
    TRY(accumulator_cuda_finish(&sums, symmetry_or_null, scratch, w->stream, err));
    if (a->workspace == NULL) TRY(workspace_cuda_get(w, a->voxels, sums.voxels, accumulator_cuda_bytes(&sums), err));
    return workspace_cuda_wait(w, err);
}

/* Joining Friedel pairs alone is not worth copying the sums. */
static enum status finish_beside(struct accumulator *a, const struct symmetry *symmetry_or_null, int threads,
                                 struct err *err) {
    if (symmetry_or_null == NULL || symmetry_or_null->count == 1)
        return accumulator_cpu_finish(a, symmetry_or_null, threads, err);
    return finish(a, symmetry_or_null, threads, err);
}

static enum status merge(struct accumulator *a, const struct accumulator *b, struct err *err) {
    const struct accumulator_cuda to = sums_of(a), from = sums_of(b);
    _cleanup_(workspace_cuda_end) struct workspace *open = NULL;
    TRY(workspace_cuda_begin(a->workspace, &open, err));
    TRY(accumulator_cuda_merge(&to, &from, a->workspace->stream, err));
    return workspace_cuda_wait(a->workspace, err);
}

static enum status join_shells(struct accumulator *a, struct accumulator *b, int shells, struct err *err) {
    const struct accumulator_cuda one = sums_of(a), other = sums_of(b);
    _cleanup_(workspace_cuda_end) struct workspace *open = NULL;
    TRY(workspace_cuda_begin(a->workspace, &open, err));
    TRY(accumulator_cuda_join_shells(&one, &other, shells, a->workspace->stream, err));
    return workspace_cuda_wait(a->workspace, err);
}

static enum status fsc(const struct accumulator *a, const struct accumulator *b, float *ret_fsc, struct err *err) {
    struct workspace *w = a->workspace;
    const struct accumulator_cuda one = sums_of(a), other = sums_of(b);
    void *scratch = NULL;
    float *values = NULL;
    _cleanup_(workspace_cuda_end) struct workspace *open = NULL;
    TRY(workspace_cuda_begin(w, &open, err));
    TRY(arena_take(w->arena, shells_of(a), sizeof *values, "spectra", &values, err));
    TRY(arena_take(w->arena, accumulator_cuda_fsc_scratch(&one, &other), 1, "Fourier shell sums", &scratch, err));
    TRY(accumulator_cuda_fsc(&one, &other, scratch, values, w->stream, err));
    TRY(workspace_cuda_get(w, ret_fsc, values, shells_of(a) * sizeof *values, err));
    return workspace_cuda_wait(w, err);
}

static enum status sigma2(const struct accumulator *a, float *ret_sigma2, struct err *err) {
    struct workspace *w = workspace_of(a);
    struct accumulator_cuda sums;
    void *scratch = NULL;
    float *values = NULL;
    _cleanup_(workspace_cuda_end) struct workspace *open = NULL;
    TRY(workspace_cuda_begin(w, &open, err));
    TRY(reach(a, &sums, err));
    TRY(arena_take(w->arena, shells_of(a), sizeof *values, "spectra", &values, err));
    TRY(arena_take(w->arena, reconstruct_cuda_shells_scratch(&sums), 1, "shell sums", &scratch, err));
    TRY(accumulator_cuda_sigma2(&sums, scratch, values, w->stream, err));
    TRY(workspace_cuda_get(w, ret_sigma2, values, shells_of(a) * sizeof *values, err));
    return workspace_cuda_wait(w, err);
}

/* Input and output of a map, in device memory. */
struct made {
    float *tau2, *map, *data_vs_prior, *completeness;
    void *scratch;
};

static enum status take(struct workspace *w, const struct accumulator *a, size_t scratch, struct made *m,
                        struct err *err) {
    size_t shells = shells_of(a);
    TRY(arena_take(w->arena, shells, sizeof *m->tau2, "spectra", &m->tau2, err));
    TRY(arena_take(w->arena, shells, sizeof *m->data_vs_prior, "spectra", &m->data_vs_prior, err));
    TRY(arena_take(w->arena, shells, sizeof *m->completeness, "spectra", &m->completeness, err));
    TRY(arena_take(w->arena, map_voxels(a->dimensions, a->box), sizeof *m->map, "a map", &m->map, err));
    return arena_take(w->arena, scratch, 1, "the transform of a map", &m->scratch, err);
}

static enum status map(const struct accumulator *a, const struct reconstruct_options *options, float *ret_map,
                       float *ret_data_vs_prior, float *ret_completeness, struct err *err) {
    struct workspace *w = workspace_of(a);
    struct accumulator_cuda sums;
    const size_t shells = shells_of(a) * sizeof(float);
    struct padded_cuda *padded = NULL;
    struct made made = {0};
    _cleanup_(workspace_cuda_end) struct workspace *open = NULL;
    TRY(workspace_cuda_plan(w, a->dimensions, a->box, &padded, err));
    TRY(workspace_cuda_begin(w, &open, err));
    TRY(reach(a, &sums, err));
    TRY(take(w, a, reconstruct_cuda_scratch(padded, &sums), &made, err));
    const struct reconstruct_cuda_options o = {.tau2 = options->tau2 != NULL ? made.tau2 : NULL,
                                               .tau_fudge = options->tau_fudge,
                                               .minres_shell = options->minres_shell,
                                               .last_shell = options->last_shell};
    if (options->tau2 != NULL) TRY(workspace_cuda_put(w, made.tau2, options->tau2, shells, err));
    TRY(reconstruct_cuda_map(padded, &sums, &o, made.scratch, made.map, made.data_vs_prior, made.completeness,
                             w->stream, err));
    if (ret_data_vs_prior != NULL) TRY(workspace_cuda_get(w, ret_data_vs_prior, made.data_vs_prior, shells, err));
    if (ret_completeness != NULL) TRY(workspace_cuda_get(w, ret_completeness, made.completeness, shells, err));
    TRY(workspace_cuda_get(w, ret_map, made.map, map_voxels(a->dimensions, a->box) * sizeof *ret_map, err));
    return workspace_cuda_wait(w, err);
}

static enum status clear(struct accumulator *a, struct workspace *w, struct err *err) {
    TRY(arena_take(w->arena, accumulator_voxels(a), sizeof *a->voxels, "the sums of a reference", &a->device_voxels,
                   err));
    TRY(workspace_cuda_zero(w, a->device_voxels, accumulator_voxels(a) * sizeof *a->voxels, err));
    a->workspace = w;
    a->work = &accumulator_cuda_work;
    return STATUS_OK;
}

static enum status scratch(struct workspace *w, int dimensions, int box, int size,
                           const struct symmetry *symmetry_or_null, size_t *ret_bytes, struct err *err) {
    const struct accumulator_cuda sums = accumulator_cuda_shape(dimensions, box, size);
    struct padded_cuda *padded = NULL;
    TRY(workspace_cuda_plan(w, dimensions, box, &padded, err));
    size_t finishing = arena_need(accumulator_cuda_finish_scratch(&sums, symmetry_or_null), 1);
    size_t correlating = arena_need(accumulator_cuda_fsc_scratch(&sums, &sums), 1);
    size_t making =
        arena_need(reconstruct_cuda_scratch(padded, &sums), 1) + arena_need(map_voxels(dimensions, box), sizeof(float));
    size_t most = finishing > correlating ? finishing : correlating;
    /* A few spectra in addition. */
    *ret_bytes = (most > making ? most : making) + 4 * arena_need((size_t)box / 2 + 1, sizeof(float));
    return STATUS_OK;
}

const struct accumulator_work accumulator_beside_work = {
    .finish = finish_beside,
    .merge = accumulator_cpu_merge,
    .join_shells = accumulator_cpu_join_shells,
    .fsc = accumulator_cpu_fsc,
    .sigma2 = sigma2,
    .map = map,
};

const struct accumulator_work accumulator_cuda_work = {
    .clear = clear,
    .finish = finish,
    .merge = merge,
    .join_shells = join_shells,
    .fsc = fsc,
    .sigma2 = sigma2,
    .map = map,
    .scratch = scratch,
    .beside = &accumulator_beside_work,
};
