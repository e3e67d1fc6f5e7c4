#include "kernels/fourier/workspace.h"

#include "common/memory.h"
#include "kernels/fourier/workspace_cuda.h"

/* Returns NULL when the program was built without CUDA. A workspace is always on a CUDA device. */
static const struct workspace_work *work_on(void) {
#ifdef ICESTREAM_HAVE_CUDA
    return &workspace_cuda_work;
#else
    return NULL;
#endif
}

enum status workspace_create(const struct device *device, struct arena *arena, void *stream,
                             struct device_busy *busy_or_null, struct workspace **ret_workspace, struct err *err) {
    struct workspace *w = NULL;
    FAIL_IF(work_on() == NULL, err, STATUS_UNSUPPORTED,
            "this program was built without CUDA: only host memory can keep grids");
    FAIL_IF(device->kind != DEVICE_CUDA, err, STATUS_UNSUPPORTED,
            "a CPU has no workspace: its grids are in host memory");
    TRY(mem_new(1, sizeof *w, "a device's workspace", &w, err));
    *w = (struct workspace){.device = *device, .arena = arena, .stream = stream, .busy = busy_or_null};
    *ret_workspace = w;
    return STATUS_OK;
}

void workspace_destroy(struct workspace **workspace) {
    if (*workspace == NULL) return;
    work_on()->close(*workspace);
    mem_free(workspace);
}

void workspace_reset(struct workspace *w) {
    arena_reset(w->arena);
}

size_t workspace_capacity(const struct workspace *w) {
    return arena_capacity(w->arena);
}

enum status workspace_take_map(struct workspace *w, int box, float **ret_map, struct err *err) {
    const size_t n = (size_t)box;
    return arena_take(w->arena, n * n * n, sizeof **ret_map, "a map", ret_map, err);
}

enum status workspace_volumes_bytes(struct workspace *w, int box, size_t *ret_bytes, struct err *err) {
    const struct workspace_work *work = work_on();
    FAIL_IF(work == NULL, err, STATUS_UNSUPPORTED, "this program was built without CUDA: only the CPU can mask maps");
    return work->volumes_bytes(w, box, ret_bytes, err);
}

enum status workspace_fits_volumes(struct workspace *w, int box, bool *ret_fits, struct err *err) {
    size_t bytes = 0;
    *ret_fits = false;
    if (w == NULL) return STATUS_OK;
    TRY(workspace_volumes_bytes(w, box, &bytes, err));
    *ret_fits = bytes <= arena_left(w->arena);
    return STATUS_OK;
}
