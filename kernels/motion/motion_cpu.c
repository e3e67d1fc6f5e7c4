/* Motion correction on the CPU: joins the alignment and the sums. */
#include <stdlib.h>

#include "common/memory.h"
#include "kernels/motion/motion_private.h"

struct motion_cpu {
    struct motion_frames frames;
    struct motion_align_cpu *align;
    struct motion_sum_cpu *sum;
};

static void destroy(void *state) {
    struct motion_cpu *motion = state;
    motion_align_cpu_destroy(&motion->align);
    motion_sum_cpu_destroy(&motion->sum);
    free(motion);
}

static enum status build(const struct motion_task *task, struct motion_cpu *motion, struct err *err) {
    TRY(motion_align_cpu_create(task, &motion->align, err));
    return motion_sum_cpu_create(task, &motion->sum, err);
}

static enum status create(const struct motion_task *task, void **ret_state, struct err *err) {
    struct motion_cpu *motion = NULL;
    TRY(mem_new(1, sizeof *motion, "a motion correction", &motion, err));
    enum status status = build(task, motion, err);
    if (status == STATUS_OK)
        *ret_state = motion;
    else
        destroy(motion);
    return status;
}

static enum status take(void *state, const struct motion_frames *frames, struct err *err) {
    (void)err;
    ((struct motion_cpu *)state)->frames = *frames;
    return STATUS_OK;
}

static enum status align(void *state, struct motion_model *model, struct motion_report *report, struct err *err) {
    struct motion_cpu *motion = state;
    return motion_align_cpu_run(motion->align, &motion->frames, model, report, err);
}

static enum status sum(void *state, const struct motion_model *model, const struct motion_sum_options *options,
                       const struct motion_sums *sums, struct err *err) {
    struct motion_cpu *motion = state;
    return motion_sum_cpu_run(motion->sum, &motion->frames, model, options, sums, err);
}

static size_t bytes(const struct motion_task *task, const struct motion_sum_options *options) {
    return mem_sum(motion_align_cpu_bytes(task), motion_sum_cpu_bytes(task, options));
}

const struct motion_work motion_cpu_work = {create, destroy, take, align, sum, bytes};
