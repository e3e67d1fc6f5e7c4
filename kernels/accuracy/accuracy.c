/* Chooses where accuracies are estimated. */
#include "kernels/accuracy/accuracy_private.h"

/* Returns NULL for a workspace when the program was built without CUDA. */
static const struct accuracy_work *work_on(const struct workspace *workspace_or_null) {
    if (workspace_or_null == NULL) return &accuracy_cpu_work;
#ifdef ICESTREAM_HAVE_CUDA
    return &accuracy_cuda_work;
#else
    return NULL;
#endif
}

enum status accuracy_estimate(const struct accuracy_input *input, struct workspace *workspace_or_null,
                              double *ret_angles, double *ret_offsets, struct err *err) {
    const struct accuracy_work *work = work_on(workspace_or_null);
    FAIL_IF(projector_grid(input->projector).workspace != workspace_or_null, err, STATUS_BAD_ARGUMENT,
            "accuracies cannot be estimated here: the reference lies in another memory");
    FAIL_IF(work == NULL, err, STATUS_UNSUPPORTED,
            "this program was built without CUDA: only the CPU can estimate accuracies");
    return work->estimate(input, workspace_or_null, ret_angles, ret_offsets, err);
}
