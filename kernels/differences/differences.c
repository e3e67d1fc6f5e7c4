/* Chooses the device that holds differences of maps. */
#include "kernels/differences/differences.h"

#include "common/memory.h"
#include "kernels/differences/differences_private.h"
#include "kernels/fourier/workspace_cuda.h"

/* Returns NULL for a workspace when the program was built without CUDA. */
static const struct differences_work *work_on(const struct workspace *workspace_or_null) {
    if (workspace_or_null == NULL) return &differences_cpu_work;
#ifdef ICESTREAM_HAVE_CUDA
    return &differences_cuda_work;
#else
    return NULL;
#endif
}

enum status differences_fit(struct workspace *w, int box, int count, bool *ret_fit, struct err *err) {
    const size_t map = arena_need((size_t)box * (size_t)box * (size_t)box, sizeof(float));
    size_t bytes = 0;
    *ret_fit = false;
    if (w == NULL || count > DIFFERENCES_MOST) return STATUS_OK;
    /* The room of three more maps and a transform. */
    TRY(workspace_volumes_bytes(w, box, &bytes, err));
    *ret_fit = bytes + (size_t)count * map <= arena_left(w->arena);
    return STATUS_OK;
}

enum status differences_create(struct workspace *workspace_or_null, const struct differences_maps *of,
                               struct differences **ret_differences, struct err *err) {
    const struct differences_work *work = work_on(workspace_or_null);
    const size_t box = (size_t)of->box;
    struct differences *d = NULL;
    FAIL_IF(work == NULL, err, STATUS_UNSUPPORTED, "this program was built without CUDA: only the CPU compares maps");
    FAIL_IF(of->count < 1 || of->count > DIFFERENCES_MOST, err, STATUS_BAD_ARGUMENT,
            "%d maps have no differences: 1 to %d were expected", of->count, DIFFERENCES_MOST);
    TRY(mem_new(1, work->size, "differences of maps", &d, err));
    d->work = work;
    d->workspace = workspace_or_null;
    d->of = *of;
    d->voxels = box * box * box;
    const enum status status = work->open(d, err);
    if (status != STATUS_OK) {
        differences_destroy(&d);
        return status;
    }
    *ret_differences = d;
    return STATUS_OK;
}

void differences_destroy(struct differences **differences) {
    if (*differences == NULL) return;
    (*differences)->work->close(*differences);
    mem_free(differences);
}

enum status differences_filter(struct differences *d, const float *gains, const float *about, float *ret_square,
                               struct err *err) {
    return d->work->filter(d, gains, about, ret_square, err);
}

enum status differences_weigh(struct differences *d, double noise, struct err *err) {
    return d->work->weigh(d, noise, err);
}

enum status differences_power(struct differences *d, int k, double *ret_power, struct err *err) {
    return d->work->power(d, k, ret_power, err);
}

enum status differences_move(struct differences *d, double part, struct err *err) {
    return d->work->move(d, part, err);
}
