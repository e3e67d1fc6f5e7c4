#include "kernels/fourier/workspace.h"

#include "common/memory.h"
#include "kernels/fourier/workspace_cuda.h"

enum status workspace_create(const struct device *device, struct arena *arena, void *stream,
                             struct device_busy *busy_or_null, struct workspace **ret_workspace, struct err *err) {
    struct workspace *w = NULL;
#ifndef ICESTREAM_HAVE_CUDA
    (void)device, (void)arena, (void)stream, (void)busy_or_null, (void)ret_workspace;
    FAIL(err, STATUS_UNSUPPORTED, "this program was built without CUDA: grids are kept in the host's memory only");
#endif
    FAIL_IF(device->kind != DEVICE_CUDA, err, STATUS_UNSUPPORTED, "the CPU keeps grids in the host's memory");
    TRY(mem_new(1, sizeof *w, "a device's workspace", &w, err));
    *w = (struct workspace){.device = *device, .arena = arena, .stream = stream, .busy = busy_or_null};
    *ret_workspace = w;
    return STATUS_OK;
}

void workspace_destroy(struct workspace **workspace) {
    if (*workspace == NULL) return;
#ifdef ICESTREAM_HAVE_CUDA
    padded_cuda_destroy(&(*workspace)->padded);
    volume_cuda_destroy(&(*workspace)->volume);
#endif
    mem_free(workspace);
}

void workspace_reset(struct workspace *w) {
    arena_reset(w->arena);
}

size_t workspace_capacity(const struct workspace *w) {
    return arena_capacity(w->arena);
}

enum status workspace_volumes_bytes(struct workspace *w, int box, size_t *ret_bytes, struct err *err) {
#ifdef ICESTREAM_HAVE_CUDA
    /* Three maps and a transform, or a map and two transforms with their sums, which are smaller than a map. */
    enum { MAPS = 4, SMALL = 1 << 18 };
    struct volume_cuda *volume;
    TRY(workspace_cuda_volume(w, box, &volume, err));
    *ret_bytes = MAPS * arena_need(volume_cuda_bytes(box), 1) + arena_need(volume_cuda_scratch(volume), 1) + SMALL;
    return STATUS_OK;
#else
    (void)w, (void)box, (void)ret_bytes;
    FAIL(err, STATUS_UNSUPPORTED, "this program was built without CUDA: the CPU masks maps");
#endif
}

enum status workspace_fits_volumes(struct workspace *w, int box, bool *ret_fits, struct err *err) {
    size_t bytes = 0;
    *ret_fits = false;
    if (w == NULL) return STATUS_OK;
    TRY(workspace_volumes_bytes(w, box, &bytes, err));
    *ret_fits = bytes <= arena_left(w->arena);
    return STATUS_OK;
}
