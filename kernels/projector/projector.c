#include "kernels/projector/projector.h"

#include "common/memory.h"
#include "kernels/projector/projector_private.h"

enum { PAD = PROJECTOR_PAD };

/* Returns NULL for a workspace when the program was built without CUDA. */
static const struct projector_work *work_on(const struct workspace *workspace_or_null) {
    if (workspace_or_null == NULL) return &projector_cpu_work;
#ifdef ICESTREAM_HAVE_CUDA
    return &projector_cuda_work;
#else
    return NULL;
#endif
}

enum status projector_create(int dimensions, int box, int threads, struct projector **ret_projector, struct err *err) {
    FAIL_IF(dimensions != 2 && dimensions != 3, err, STATUS_BAD_ARGUMENT, "a reference has 2 or 3 dimensions, not %d",
            dimensions);
    FAIL_IF(box < 4 || box % 2 != 0 || box > 2048, err, STATUS_BAD_ARGUMENT,
            "a reference of %d px cannot be projected: the box must be even and between 4 and 2048 px", box);
    struct projector *p = NULL;
    TRY(mem_new(1, sizeof *p, "projector", &p, err));
    p->dimensions = dimensions;
    p->box = box;
    p->threads = threads > 0 ? threads : 1;
    p->work = &projector_cpu_work;
    *ret_projector = p;
    return STATUS_OK;
}

void projector_destroy(struct projector **projector) {
    if (projector == NULL || *projector == NULL) return;
    fft_destroy(&(*projector)->plan);
    fourier_cube_destroy(&(*projector)->cube);
    mem_free(&(*projector)->padded);
    mem_free(&(*projector)->spectrum);
    mem_free(&(*projector)->correction);
    mem_free(&(*projector)->grid);
    mem_free(projector);
}

void projector_shape(struct projector *p, int size) {
    p->r_max = size / 2, p->reach = PAD * p->r_max + 1;
    p->nx = p->reach + 1, p->ny = 2 * p->reach + 1;
    p->nz = p->dimensions == 3 ? p->ny : 1;
}

enum status projector_reserve(struct projector *p, struct err *err) {
    size_t floats = projector_floats(p);
    if (floats <= p->grid_capacity) return STATUS_OK;
    mem_free(&p->grid);
    p->grid_capacity = 0;
    TRY(mem_new_unset(floats, sizeof *p->grid, "reference slices", &p->grid, err));
    p->grid_capacity = floats;
    return STATUS_OK;
}

size_t projector_bytes(int dimensions, int size) {
    struct projector p = {.dimensions = dimensions};
    projector_shape(&p, size);
    return arena_need(projector_floats(&p), sizeof *p.grid);
}

enum status projector_set_map(struct projector *p, const float *map, int size, struct err *err) {
    return projector_set_map_on(p, NULL, map, size, err);
}

static enum status check_size(const struct projector *p, int size, struct err *err) {
    FAIL_IF(size < 2 || size > p->box, err, STATUS_BAD_ARGUMENT, "a Fourier size of %d px does not fit a box of %d px",
            size, p->box);
    FAIL_IF(p->dimensions == 3 && size > FOURIER_SIZE_MOST_3D, err, STATUS_UNSUPPORTED,
            "a 3D transform of %d px has more points than can be numbered: bin images to at most %d px", size,
            FOURIER_SIZE_MOST_3D);
    return STATUS_OK;
}

enum status projector_set_map_on(struct projector *p, struct workspace *workspace, const float *map, int size,
                                 struct err *err) {
    const struct projector_work *work = work_on(workspace);
    TRY(check_size(p, size, err));
    FAIL_IF(work == NULL, err, STATUS_UNSUPPORTED,
            "this program was built without CUDA: only the CPU can prepare maps");
    enum status status = work->set_map(p, workspace, map, size, err);
    p->work = work_on(p->workspace);
    return status;
}

enum status projector_place(struct projector *p, struct workspace *workspace, float *values, int size,
                            struct err *err) {
    const struct projector_work *work = work_on(workspace);
    TRY(check_size(p, size, err));
    FAIL_IF(work == NULL, err, STATUS_UNSUPPORTED,
            "this program was built without CUDA: only the CPU can prepare maps");
    projector_shape(p, size);
    p->device_grid = values;
    p->workspace = workspace;
    p->work = work;
    return STATUS_OK;
}

enum status projector_set_shells(struct projector *p, const float *map, int last_shell, struct err *err) {
    FAIL_IF(p->r_max == 0 || last_shell < 0, err, STATUS_BAD_ARGUMENT,
            "shells up to %d of a reference cannot be set: it has no map yet, or the shell is negative", last_shell);
    return p->work->set_shells(p, map, last_shell, err);
}

enum status projector_to_host(struct projector *p, struct err *err) {
    return p->work->to_host(p, err);
}

enum status projector_power(const struct projector *p, float *ret_power, struct err *err) {
    return p->work->power(p, ret_power, err);
}

struct projector_grid projector_grid(const struct projector *p) {
    const float *values = p->workspace != NULL ? p->device_grid : p->grid;
    return (struct projector_grid){values, p->nx, p->ny, p->nz, p->reach, p->r_max, p->dimensions, p->workspace};
}
