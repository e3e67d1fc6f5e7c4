/* Running sums in host memory or on a device. */
#include "kernels/reconstruct/accumulator_private.h"

#include "common/memory.h"

enum { PAD = ACCUMULATOR_PAD };

/* Returns NULL for a workspace when the program was built without CUDA. */
static const struct accumulator_work *work_on(const struct workspace *workspace_or_null) {
    if (workspace_or_null == NULL) return &accumulator_cpu_work;
#ifdef ICESTREAM_HAVE_CUDA
    return &accumulator_cuda_work;
#else
    return NULL;
#endif
}

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
            "a 3D transform of %d px has more points than can be numbered: bin images to at most %d px", size,
            FOURIER_SIZE_MOST_3D);
    return STATUS_OK;
}

enum status accumulator_clear(struct accumulator *a, int size, struct err *err) {
    return accumulator_clear_on(a, NULL, size, err);
}

enum status accumulator_clear_on(struct accumulator *a, struct workspace *workspace, int size, struct err *err) {
    const struct accumulator_work *work = work_on(workspace);
    FAIL_IF(work == NULL, err, STATUS_UNSUPPORTED, "this program was built without CUDA: only the CPU can keep sums");
    TRY(check_size(a, size, err));
    set_shape(a, size);
    return work->clear(a, workspace, err);
}

enum status accumulator_place(struct accumulator *a, struct workspace *workspace, double *values, int size,
                              struct err *err) {
    const struct accumulator_work *work = work_on(workspace);
    FAIL_IF(work == NULL, err, STATUS_UNSUPPORTED, "this program was built without CUDA: only the CPU can keep sums");
    TRY(check_size(a, size, err));
    set_shape(a, size);
    a->device_voxels = values;
    a->workspace = workspace;
    a->work = work;
    return STATUS_OK;
}

enum status accumulator_clear_beside(struct accumulator *a, struct workspace *workspace, int size,
                                     const struct symmetry *symmetry_or_null, struct err *err) {
    const struct accumulator_work *work = work_on(workspace);
    size_t scratch = 0;
    TRY(accumulator_clear(a, size, err));
    if (work == NULL || work->beside == NULL) return STATUS_OK;
    TRY(work->scratch(workspace, a->dimensions, a->box, size, symmetry_or_null, &scratch, err));
    if (accumulator_bytes(a->dimensions, size) + scratch > workspace_capacity(workspace)) return STATUS_OK;
    a->beside = workspace;
    a->work = work->beside;
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
    FAIL_IF(a->workspace != b->workspace, err, STATUS_BAD_ARGUMENT, "sums in different memories cannot be combined");
    FAIL_IF(a->box != b->box || a->dimensions != b->dimensions, err, STATUS_BAD_ARGUMENT,
            "halves with boxes of %d and %d px in %d and %d dimensions cannot be joined or correlated", a->box, b->box,
            a->dimensions, b->dimensions);
    return STATUS_OK;
}

enum status accumulator_finish(struct accumulator *a, const struct symmetry *symmetry_or_null, int threads,
                               struct err *err) {
    FAIL_IF(a->dimensions == 2 && symmetry_or_null != NULL && symmetry_or_null->count > 1, err, STATUS_BAD_ARGUMENT,
            "symmetry %s cannot be applied to a 2D reconstruction", symmetry_or_null->name);
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

enum status reconstruct_scratch(struct workspace *workspace, int dimensions, int box, int size,
                                const struct symmetry *symmetry_or_null, size_t *ret_bytes, struct err *err) {
    const struct accumulator_work *work = work_on(workspace);
    FAIL_IF(work == NULL || work->scratch == NULL, err, STATUS_UNSUPPORTED,
            "this program was built without CUDA: only the CPU can make maps");
    return work->scratch(workspace, dimensions, box, size, symmetry_or_null, ret_bytes, err);
}
