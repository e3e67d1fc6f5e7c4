/* Chooses where the local resolution is computed. */
#include "kernels/local_resolution/local_resolution_private.h"

/* Returns NULL for a workspace when the program was built without CUDA. */
static const struct local_work *work_on(const struct workspace *workspace_or_null) {
    if (workspace_or_null == NULL) return &local_cpu_work;
#ifdef ICESTREAM_HAVE_CUDA
    return &local_cuda_work;
#else
    return NULL;
#endif
}

enum status local_resolution_run(struct workspace *workspace_or_null, const struct local_resolution_options *o,
                                 const float *half1, const float *half2, float *ret_resolution, float *ret_filtered,
                                 struct err *err) {
    const struct local_work *work = work_on(workspace_or_null);
    FAIL_IF(work == NULL, err, STATUS_UNSUPPORTED,
            "this program was built without CUDA: only the CPU can compute the local resolution");
    FAIL_IF(o->box < LOCAL_RESOLUTION_LEAST_BOX || o->box % 2 != 0 || o->box > LOCAL_RESOLUTION_MOST_BOX, err,
            STATUS_BAD_ARGUMENT,
            "half maps of %d px have no local resolution: the box must be even and between %d and %d px", o->box,
            LOCAL_RESOLUTION_LEAST_BOX, LOCAL_RESOLUTION_MOST_BOX);
    FAIL_IF(o->last_shell < 0, err, STATUS_BAD_ARGUMENT, "the local resolution cannot end at shell %d", o->last_shell);
    FAIL_IF(!(o->pixel_size > 0), err, STATUS_BAD_ARGUMENT, "the local resolution needs a pixel size, not %g Å",
            o->pixel_size);
    return work->run(workspace_or_null, o, half1, half2, ret_resolution, ret_filtered, err);
}

enum status local_resolution_fits(struct workspace *workspace_or_null, int box, bool *ret_fits, struct err *err) {
    const struct local_work *work = work_on(workspace_or_null);
    *ret_fits = false;
    return workspace_or_null == NULL || work == NULL ? STATUS_OK : work->fits(workspace_or_null, box, ret_fits, err);
}
