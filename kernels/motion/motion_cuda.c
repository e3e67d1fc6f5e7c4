/* Motion correction on a CUDA device. */
#include "kernels/motion/motion_private.h"

static enum status create(const struct motion_task *task, void **ret_state, struct err *err) {
    (void)task, (void)ret_state;
    FAIL(err, STATUS_UNSUPPORTED, "a CUDA device cannot correct motion");
}

static size_t bytes(const struct motion_task *task, const struct motion_sum_options *options) {
    (void)task, (void)options;
    return 0;
}

const struct motion_work motion_cuda_work = {.create = create, .bytes = bytes};
