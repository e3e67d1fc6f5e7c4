/* Sums, wherever they lie. */
#include "kernels/reconstruct/accumulator_private.h"

#include <string.h>

#include "common/memory.h"

enum { PAD = ACCUMULATOR_PAD };

const struct accumulator_work accumulator_host_work = {
    .finish = accumulator_host_finish,
    .merge = accumulator_host_merge,
    .join_shells = accumulator_host_join_shells,
    .fsc = accumulator_host_fsc,
    .sigma2 = accumulator_host_sigma2,
    .map = accumulator_host_map,
};

enum status accumulator_create(int dimensions, int box, int size, struct accumulator **ret_accumulator,
                               struct err *err) {
    FAIL_IF(dimensions != 2 && dimensions != 3, err, STATUS_BAD_ARGUMENT,
            "a reconstruction has 2 or 3 dimensions, not %d", dimensions);
    FAIL_IF(box < 4 || box % 2 != 0 || box > 2048, err, STATUS_BAD_ARGUMENT,
            "a box of %d px cannot be reconstructed: it must be even and between 4 and 2048 px", box);
    struct accumulator *a = NULL;
    TRY(mem_new(1, sizeof *a, "accumulator", &a, err));
    a->dimensions = dimensions;
    a->box = box;
    enum status status = accumulator_clear(a, size, err);
    if (status == STATUS_OK) status = mem_new(1, sizeof *a->space, "accumulator", &a->space, err);
    if (status != STATUS_OK) {
        accumulator_destroy(&a);
        return status;
    }
    *ret_accumulator = a;
    return STATUS_OK;
}

void accumulator_destroy(struct accumulator **accumulator) {
    if (accumulator == NULL || *accumulator == NULL) return;
    if ((*accumulator)->space != NULL) map_space_clear((*accumulator)->space);
    mem_free(&(*accumulator)->space);
    mem_free(&(*accumulator)->voxels);
    mem_free(accumulator);
}

static void set_shape(struct accumulator *a, int size) {
    a->r_max = size / 2, a->reach = PAD * a->r_max + 1;
    a->nx = a->reach + 1, a->ny = 2 * a->reach + 1;
    a->nz = a->dimensions == 3 ? a->ny : 1;
}

static enum status check_size(const struct accumulator *a, int size, struct err *err) {
    FAIL_IF(size < 2 || size > a->box, err, STATUS_BAD_ARGUMENT, "a Fourier size of %d px does not fit a box of %d px",
            size, a->box);
    FAIL_IF(a->dimensions == 3 && size > FOURIER_SIZE_MOST_3D, err, STATUS_UNSUPPORTED,
            "a 3-D transform of %d px has more points than can be numbered: bin images to at most %d px", size,
            FOURIER_SIZE_MOST_3D);
    return STATUS_OK;
}

enum status accumulator_clear(struct accumulator *a, int size, struct err *err) {
    TRY(check_size(a, size, err));
    set_shape(a, size);
    size_t count = accumulator_voxels(a);
    a->work = &accumulator_host_work;
    a->workspace = a->beside = NULL;
    if (count > a->capacity) {
        mem_free(&a->voxels);
        a->capacity = 0;
        TRY(mem_new(count, sizeof *a->voxels, "Fourier grid of a reconstruction", &a->voxels, err));
        a->capacity = count;
    } else {
        memset(a->voxels, 0, count * sizeof *a->voxels);
    }
    return STATUS_OK;
}

size_t accumulator_bytes(int dimensions, int size) {
    struct accumulator a = {.dimensions = dimensions};
    set_shape(&a, size);
    return arena_need(accumulator_voxels(&a), sizeof *a.voxels);
}

struct accumulator_grid accumulator_grid(struct accumulator *a) {
    return (struct accumulator_grid){.values = a->workspace != NULL ? a->device_voxels : (double *)a->voxels,
                                     .bytes = accumulator_voxels(a) * sizeof *a->voxels,
                                     .nx = a->nx,
                                     .ny = a->ny,
                                     .nz = a->nz,
                                     .reach = a->reach,
                                     .r_max = a->r_max,
                                     .dimensions = a->dimensions,
                                     .workspace = a->workspace};
}

static enum status same_place(const struct accumulator *a, const struct accumulator *b, struct err *err) {
    FAIL_IF(a->workspace != b->workspace, err, STATUS_BAD_ARGUMENT,
            "sums in different memories cannot be worked on together");
    FAIL_IF(a->box != b->box || a->dimensions != b->dimensions, err, STATUS_BAD_ARGUMENT,
            "halves with boxes of %d and %d px in %d and %d dimensions cannot be joined or correlated", a->box, b->box,
            a->dimensions, b->dimensions);
    return STATUS_OK;
}

enum status accumulator_finish(struct accumulator *a, const struct symmetry *symmetry_or_null, int threads,
                               struct err *err) {
    FAIL_IF(a->dimensions == 2 && symmetry_or_null != NULL && symmetry_or_null->count > 1, err, STATUS_BAD_ARGUMENT,
            "symmetry %s cannot be applied to a 2-D reconstruction", symmetry_or_null->name);
    return a->work->finish(a, symmetry_or_null, threads, err);
}

enum status accumulator_merge(struct accumulator *a, const struct accumulator *b, struct err *err) {
    TRY(same_place(a, b, err));
    return a->work->merge(a, b, err);
}

enum status accumulator_join_shells(struct accumulator *a, struct accumulator *b, int shells, struct err *err) {
    TRY(same_place(a, b, err));
    return a->work->join_shells(a, b, shells, err);
}

enum status accumulator_fsc(const struct accumulator *a, const struct accumulator *b, float *ret_fsc, struct err *err) {
    TRY(same_place(a, b, err));
    return a->work->fsc(a, b, ret_fsc, err);
}

enum status accumulator_sigma2(const struct accumulator *a, float *ret_sigma2, struct err *err) {
    return a->work->sigma2(a, ret_sigma2, err);
}

enum status reconstruct_map(const struct accumulator *a, const struct reconstruct_options *options, float *map,
                            float *ret_data_vs_prior, float *ret_completeness, struct err *err) {
    return a->work->map(a, options, map, ret_data_vs_prior, ret_completeness, err);
}

#ifdef ICESTREAM_HAVE_CUDA
#include "kernels/fourier/workspace_cuda.h"

enum status accumulator_clear_on(struct accumulator *a, struct workspace *workspace, int size, struct err *err) {
    if (workspace == NULL) return accumulator_clear(a, size, err);
    TRY(check_size(a, size, err));
    set_shape(a, size);
    TRY(arena_take(workspace->arena, accumulator_voxels(a), sizeof *a->voxels, "the sums of a reference",
                   &a->device_voxels, err));
    TRY(workspace_cuda_zero(workspace, a->device_voxels, accumulator_voxels(a) * sizeof *a->voxels, err));
    a->workspace = workspace;
    a->work = &accumulator_device_work;
    return STATUS_OK;
}

enum status accumulator_place(struct accumulator *a, struct workspace *workspace, double *values, int size,
                              struct err *err) {
    TRY(check_size(a, size, err));
    set_shape(a, size);
    a->device_voxels = values;
    a->workspace = workspace;
    a->work = &accumulator_device_work;
    return STATUS_OK;
}

enum status accumulator_clear_beside(struct accumulator *a, struct workspace *workspace, int size,
                                     const struct symmetry *symmetry_or_null, struct err *err) {
    size_t scratch = 0;
    TRY(accumulator_clear(a, size, err));
    TRY(reconstruct_scratch(workspace, a->dimensions, a->box, size, symmetry_or_null, &scratch, err));
    if (accumulator_bytes(a->dimensions, size) + scratch > workspace_capacity(workspace)) return STATUS_OK;
    a->beside = workspace;
    a->work = &accumulator_beside_work;
    return STATUS_OK;
}
#else
enum status accumulator_clear_beside(struct accumulator *a, struct workspace *workspace, int size,
                                     const struct symmetry *symmetry_or_null, struct err *err) {
    (void)workspace, (void)symmetry_or_null;
    return accumulator_clear(a, size, err);
}

enum status accumulator_clear_on(struct accumulator *a, struct workspace *workspace, int size, struct err *err) {
    FAIL_IF(workspace != NULL, err, STATUS_UNSUPPORTED, "this program was built without CUDA: the CPU keeps sums");
    return accumulator_clear(a, size, err);
}

enum status accumulator_place(struct accumulator *a, struct workspace *workspace, double *values, int size,
                              struct err *err) {
    (void)a, (void)workspace, (void)values, (void)size;
    FAIL(err, STATUS_UNSUPPORTED, "this program was built without CUDA: the CPU keeps sums");
}

enum status reconstruct_scratch(struct workspace *workspace, int dimensions, int box, int size,
                                const struct symmetry *symmetry_or_null, size_t *ret_bytes, struct err *err) {
    (void)workspace, (void)dimensions, (void)box, (void)size, (void)symmetry_or_null, (void)ret_bytes;
    FAIL(err, STATUS_UNSUPPORTED, "this program was built without CUDA: the CPU makes maps");
}
#endif
