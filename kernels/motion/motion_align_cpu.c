/* Alignment on the CPU. */
#include "common/memory.h"
#include "kernels/motion/motion_private.h"

struct motion_align_cpu {
    struct motion_task task;
};

void motion_align_cpu_destroy(struct motion_align_cpu **align) {
    mem_free(align);
}

enum status motion_align_cpu_create(const struct motion_task *task, struct motion_align_cpu **ret_align,
                                    struct err *err) {
    TRY(mem_new(1, sizeof **ret_align, "an alignment of frames", ret_align, err));
    (*ret_align)->task = *task;
    return STATUS_OK;
}

enum status motion_align_cpu_run(struct motion_align_cpu *align, const struct motion_frames *frames,
                                 struct motion_model *model, struct motion_report *report, struct err *err) {
    (void)align, (void)frames, (void)model, (void)report;
    FAIL(err, STATUS_UNSUPPORTED, "the CPU cannot align frames");
}

size_t motion_align_cpu_bytes(const struct motion_task *task) {
    (void)task;
    return 0;
}
