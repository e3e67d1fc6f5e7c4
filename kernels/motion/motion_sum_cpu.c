/* Sums of frames on the CPU. */
#include "common/memory.h"
#include "kernels/motion/motion_private.h"

struct motion_sum_cpu {
    struct motion_task task;
};

void motion_sum_cpu_destroy(struct motion_sum_cpu **sum) {
    mem_free(sum);
}

enum status motion_sum_cpu_create(const struct motion_task *task, struct motion_sum_cpu **ret_sum, struct err *err) {
    TRY(mem_new(1, sizeof **ret_sum, "a sum of frames", ret_sum, err));
    (*ret_sum)->task = *task;
    return STATUS_OK;
}

enum status motion_sum_cpu_run(struct motion_sum_cpu *sum, const struct motion_frames *frames,
                               const struct motion_model *model, const struct motion_sum_options *options,
                               const struct motion_sums *sums, struct err *err) {
    (void)sum, (void)frames, (void)model, (void)options, (void)sums;
    FAIL(err, STATUS_UNSUPPORTED, "the CPU cannot sum frames");
}

size_t motion_sum_cpu_bytes(const struct motion_task *task, const struct motion_sum_options *options) {
    (void)task, (void)options;
    return 0;
}
