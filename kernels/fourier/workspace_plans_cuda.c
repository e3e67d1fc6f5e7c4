/* Destroys the plans of a workspace, and counts the memory that they need. */
#include "kernels/fourier/workspace_cuda.h"

static void close_plans(struct workspace *w) {
    padded_cuda_destroy(&w->padded);
    volume_cuda_destroy(&w->volume);
}

static enum status volumes_bytes(struct workspace *w, int box, size_t *ret_bytes, struct err *err) {
    /* Three maps and a transform, or a map and two transforms with their sums, which are smaller than a map. */
    enum { MAPS = 4, SMALL = 1 << 18 };
    struct volume_cuda *volume;
    TRY(workspace_cuda_volume(w, box, &volume, err));
    *ret_bytes = MAPS * arena_need(volume_cuda_bytes(box), 1) + arena_need(volume_cuda_scratch(volume), 1) + SMALL;
    return STATUS_OK;
}

const struct workspace_work workspace_cuda_work = {.close = close_plans, .volumes_bytes = volumes_bytes};
