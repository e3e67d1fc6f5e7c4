/* Chooses where two maps are compared. */
#include "kernels/fsc/fsc_private.h"

const struct fsc_work *fsc_work_on(const struct workspace *workspace_or_null) {
    if (workspace_or_null == NULL) return &fsc_cpu_work;
#ifdef ICESTREAM_HAVE_CUDA
    return &fsc_cuda_work;
#else
    return NULL;
#endif
}

enum status fsc_maps(struct workspace *workspace_or_null, int box, const float *a, const float *b, float *ret_fsc,
                     struct err *err) {
    const struct fsc_work *work = fsc_work_on(workspace_or_null);
    FAIL_IF(work == NULL, err, STATUS_UNSUPPORTED,
            "this program was built without CUDA: only the CPU can correlate maps");
    return work->maps(workspace_or_null, box, a, b, ret_fsc, err);
}
