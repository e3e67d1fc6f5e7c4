/* Motion correction on the CPU or a device. */
#include "kernels/motion/motion.h"

#include <math.h>

#include "common/memory.h"
#include "kernels/motion/motion_private.h"

enum { SIDE_MIN = 64, SIDE_MAX = 32768 };

struct motion {
    struct motion_task task;
    const struct motion_work *work;
    void *state;
    bool taken;
};

size_t motion_pixel_size(enum motion_pixels pixels) {
    return pixels == MOTION_U8 ? 1 : pixels == MOTION_U16 ? 2 : sizeof(float);
}

void motion_sum_size(int nx, int ny, double bin, int *ret_nx, int *ret_ny) {
    *ret_nx = (int)(2 * lround(nx / bin / 2));
    *ret_ny = (int)(2 * lround(ny / bin / 2));
    if (*ret_nx > nx) *ret_nx -= 2; /* an odd side without binning */
    if (*ret_ny > ny) *ret_ny -= 2;
}

/* Returns NULL for a device that this build does not know. */
static const struct motion_work *work_on(const struct device *device) {
    if (device->kind == DEVICE_CPU) return &motion_cpu_work;
#ifdef ICESTREAM_HAVE_CUDA
    return &motion_cuda_work;
#else
    return NULL;
#endif
}

void motion_destroy(struct motion **motion) {
    if (motion == NULL || *motion == NULL) return;
    if ((*motion)->state != NULL) (*motion)->work->destroy((*motion)->state);
    mem_free(motion);
}

static enum status check_task(const struct motion_task *task, struct err *err) {
    const struct motion_align_options *align = &task->align;
    int least = task->nx < task->ny ? task->nx : task->ny, most = task->nx > task->ny ? task->nx : task->ny;
    FAIL_IF(least < SIDE_MIN || most > SIDE_MAX, err, STATUS_BAD_ARGUMENT,
            "a movie of %d × %d px: sides from %d to %d px are expected", task->nx, task->ny, SIDE_MIN, SIDE_MAX);
    FAIL_IF(task->frames < 1, err, STATUS_BAD_ARGUMENT, "a movie of %d frames: at least one is expected", task->frames);
    FAIL_IF(!(align->bfactor > 0) || !(align->search > 0) || !(align->tolerance > 0), err, STATUS_BAD_ARGUMENT,
            "B-factor %g px², search range %g px, tolerance %g px: they must be above 0", align->bfactor, align->search,
            align->tolerance);
    FAIL_IF(align->patches_x < 1 || align->patches_y < 1 || align->group < 1 || align->iterations < 1, err,
            STATUS_BAD_ARGUMENT, "%d × %d patches, groups of %d frames, %d iterations: they must be at least 1",
            align->patches_x, align->patches_y, align->group, align->iterations);
    FAIL_IF(align->patches_x > task->nx / SIDE_MIN || align->patches_y > task->ny / SIDE_MIN, err, STATUS_BAD_ARGUMENT,
            "%d × %d patches in %d × %d px: a patch must be at least %d px wide", align->patches_x, align->patches_y,
            task->nx, task->ny, SIDE_MIN);
    return STATUS_OK;
}

enum status motion_create(const struct motion_task *task, struct motion **ret_motion, struct err *err) {
    TRY(check_task(task, err));
    _cleanup_(motion_destroy) struct motion *motion = NULL;
    TRY(mem_new(1, sizeof *motion, "a motion correction", &motion, err));
    motion->task = *task;
    if (motion->task.threads < 1) motion->task.threads = 1;
    motion->work = work_on(&task->device);
    FAIL_IF(motion->work == NULL, err, STATUS_UNSUPPORTED,
            "this program was built without CUDA: only the CPU can correct motion");
    TRY(motion->work->create(&motion->task, &motion->state, err));
    *ret_motion = motion;
    motion = NULL;
    return STATUS_OK;
}

enum status motion_take(struct motion *motion, const struct motion_frames *frames, struct err *err) {
    const struct motion_task *task = &motion->task;
    FAIL_IF(frames->nx != task->nx || frames->ny != task->ny || frames->count != task->frames ||
                frames->pixels != task->pixels,
            err, STATUS_BAD_ARGUMENT, "%d frames of %d × %d px, of %zu bytes: %d of %d × %d px, of %zu are expected",
            frames->count, frames->nx, frames->ny, motion_pixel_size(frames->pixels), task->frames, task->nx, task->ny,
            motion_pixel_size(task->pixels));
    motion->taken = false;
    TRY(motion->work->take(motion->state, frames, err));
    motion->taken = true;
    return STATUS_OK;
}

enum status motion_align(struct motion *motion, struct motion_model *model, struct motion_report *report,
                         struct err *err) {
    const struct motion_task *task = &motion->task;
    struct motion_report unwanted, *told = report != NULL ? report : &unwanted;
    FAIL_IF(!motion->taken, err, STATUS_BAD_STATE, "an alignment before its frames were taken");
    TRY(motion_model_resize(model, task->nx, task->ny, task->frames, err));
    *told = (struct motion_report){.converged = true};
    if (task->frames == 1) return STATUS_OK;
    return motion->work->align(motion->state, model, told, err);
}

static enum status check_sum(const struct motion_task *task, const struct motion_model *model,
                             const struct motion_sum_options *options, const struct motion_sums *sums,
                             struct err *err) {
    int nx, ny, least = task->nx < task->ny ? task->nx : task->ny;
    FAIL_IF(model->nx != task->nx || model->ny != task->ny || model->frames != task->frames, err, STATUS_BAD_ARGUMENT,
            "a model of %d frames of %d × %d px for %d of %d × %d px", model->frames, model->nx, model->ny,
            task->frames, task->nx, task->ny);
    FAIL_IF(!(options->bin >= 1), err, STATUS_BAD_ARGUMENT, "binning by %g: 1 or more is expected", options->bin);
    motion_sum_size(task->nx, task->ny, options->bin, &nx, &ny);
    FAIL_IF(nx < 2 || ny < 2, err, STATUS_BAD_ARGUMENT, "binning by %g leaves nothing of %d × %d px", options->bin,
            task->nx, task->ny);
    FAIL_IF(options->dose != NULL && (!(options->pixel_size > 0) || !(options->voltage > 0)), err, STATUS_BAD_ARGUMENT,
            "dose weights at %g Å/px and %g kV: both must be above 0", options->pixel_size, options->voltage);
    FAIL_IF(sums->power != NULL && (options->spectrum_box < 16 || options->spectrum_box % 2 != 0 ||
                                    options->spectrum_box > least || options->spectrum_group < 1),
            err, STATUS_BAD_ARGUMENT,
            "a spectrum of tiles of %d px of %d frames each: an even number from 16 to %d px, and 1 frame or more, are "
            "expected",
            options->spectrum_box, options->spectrum_group, least);
    return STATUS_OK;
}

enum status motion_sum(struct motion *motion, const struct motion_model *model,
                       const struct motion_sum_options *options, const struct motion_sums *sums, struct err *err) {
    FAIL_IF(!motion->taken, err, STATUS_BAD_STATE, "a sum before its frames were taken");
    TRY(check_sum(&motion->task, model, options, sums, err));
    return motion->work->sum(motion->state, model, options, sums, err);
}

size_t motion_bytes(const struct motion_task *task, const struct motion_sum_options *options) {
    const struct motion_work *work = work_on(&task->device);
    return work == NULL ? 0 : work->bytes(task, options);
}
