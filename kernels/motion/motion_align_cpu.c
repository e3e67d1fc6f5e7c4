/* Alignment on the CPU: plans and buffers. */
#include <stdlib.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "common/memory.h"
#include "kernels/motion/motion_align_cpu_private.h"

static const struct motion_align_work work = {motion_cpu_spectra, motion_cpu_powers, motion_cpu_search, motion_cpu_cut,
                                              motion_cpu_slopes};

struct motion_worker *motion_cpu_worker(const struct motion_align_cpu *align) {
#ifdef _OPENMP
    return &align->workers[omp_get_thread_num()];
#else
    return &align->workers[0];
#endif
}

static void clear_worker(struct motion_worker *worker) {
    free(worker->binned);
    free(worker->transform);
    free(worker->turned);
    free(worker->image);
    free(worker->row);
}

void motion_align_cpu_destroy(struct motion_align_cpu **address) {
    struct motion_align_cpu *align = *address;
    if (align == NULL) return;
    for (int i = 0; align->workers != NULL && i < align->plan.task.threads; i++)
        clear_worker(&align->workers[i]);
    free(align->workers);
    motion_course_destroy(&align->course);
    motion_spectra_clear(&align->whole);
    motion_spectra_clear(&align->patches);
    struct fft_plan **plans[] = {&align->rows, &align->columns, &align->search, &align->window, &align->patch};
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++)
        fft_destroy(plans[i]);
    free(align->taper_x);
    free(align->taper_y);
    free(align->patch_taper_x);
    free(align->patch_taper_y);
    free(align->sum);
    free(align->partial);
    mem_free(address);
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static size_t padded(int side) {
    return ((size_t)side / 2 + MOTION_LANES) / MOTION_LANES * MOTION_LANES;
}

/* The floats of a thread's buffers. */
struct worker_sizes {
    size_t binned, transform, turned, image, row;
};
static struct worker_sizes sizes_of(const struct motion_align_plan *plan) {
    size_t window = (size_t)plan->window_x * (size_t)plan->window_y,
           patch = (size_t)plan->patch_x * (size_t)plan->patch_y;
    size_t strip = MOTION_ROWS * (size_t)plan->binned_x, half = (size_t)plan->window_x / 2 + 1;
    size_t rows = 2 * padded(plan->window_x) * ((size_t)plan->task.frames + 1 + 2);
    return (struct worker_sizes){
        .binned = larger(strip, patch),
        .transform = larger(strip + 2 * MOTION_ROWS, 2 * half * (size_t)plan->window_y),
        .turned = 2 * half * (size_t)plan->binned_y,
        .image = window,
        .row = larger(rows, (size_t)plan->binned_x * (size_t)plan->bin),
    };
}

static enum status make_worker(const struct worker_sizes *sizes, struct motion_worker *worker, struct err *err) {
    const char *what = "buffers of an alignment";
    TRY(mem_new(sizes->binned, sizeof(float), what, &worker->binned, err));
    TRY(mem_new(sizes->transform, sizeof(float), what, &worker->transform, err));
    TRY(mem_new(sizes->turned, sizeof(float), what, &worker->turned, err));
    TRY(mem_new(sizes->image, sizeof(float), what, &worker->image, err));
    return mem_new(sizes->row, sizeof(float), what, &worker->row, err);
}

static enum status make_taper(int side, float **ret_taper, struct err *err) {
    TRY(mem_new((size_t)side, sizeof **ret_taper, "a taper", ret_taper, err));
    for (int i = 0; i < side; i++)
        (*ret_taper)[i] = (float)motion_align_taper(side, i);
    return STATUS_OK;
}

static enum status make_plans(struct motion_align_cpu *align, struct err *err) {
    const struct motion_align_plan *plan = &align->plan;
    struct fft_options rows = {
        .rank = 1, .shape = {plan->binned_x}, .batch = MOTION_ROWS, .direction = FFT_FORWARD, .measure = true};
    struct fft_options columns = {.rank = 1, .shape = {plan->binned_y}, .direction = FFT_COMPLEX, .measure = true};
    struct fft_options search = {.rank = 2, .shape = {plan->search_y, plan->search_x}, .direction = FFT_INVERSE};
    TRY(fft_create(&rows, &align->rows, err));
    TRY(fft_create(&columns, &align->columns, err));
    TRY(fft_create(&search, &align->search, err));
    TRY(make_taper(plan->binned_x, &align->taper_x, err));
    TRY(make_taper(plan->binned_y, &align->taper_y, err));
    if (plan->patches_x == 0) return STATUS_OK;
    struct fft_options window = {.rank = 2, .shape = {plan->window_y, plan->window_x}, .direction = FFT_INVERSE};
    struct fft_options patch = {
        .rank = 2, .shape = {plan->patch_y, plan->patch_x}, .direction = FFT_FORWARD, .measure = true};
    TRY(fft_create(&window, &align->window, err));
    TRY(fft_create(&patch, &align->patch, err));
    TRY(make_taper(plan->patch_x, &align->patch_taper_x, err));
    return make_taper(plan->patch_y, &align->patch_taper_y, err);
}

static enum status build(struct motion_align_cpu *align, struct err *err) {
    const struct motion_align_plan *plan = &align->plan;
    struct worker_sizes sizes = sizes_of(plan);
    TRY(motion_course_create(plan, &align->course, err));
    TRY(motion_spectra_create(plan, MOTION_WHOLE, &align->whole, err));
    if (plan->patches_x > 0) TRY(motion_spectra_create(plan, MOTION_PATCHES, &align->patches, err));
    TRY(make_plans(align, err));
    TRY(mem_new((size_t)plan->task.threads, sizeof *align->workers, "buffers of an alignment", &align->workers, err));
    for (int i = 0; i < plan->task.threads; i++)
        TRY(make_worker(&sizes, &align->workers[i], err));
    TRY(mem_new((size_t)plan->search_y, 2 * align->whole.pad * sizeof(float), "a sum of frames", &align->sum, err));
    return mem_new(motion_cpu_partial_count(plan), sizeof(double), "sums of rows", &align->partial, err);
}

enum status motion_align_cpu_create(const struct motion_task *task, struct motion_align_cpu **ret_align,
                                    struct err *err) {
    struct motion_align_cpu *align = NULL;
    TRY(mem_new(1, sizeof *align, "an alignment of frames", &align, err));
    motion_align_plan_make(task, &align->plan);
    enum status status = build(align, err);
    if (status == STATUS_OK)
        *ret_align = align;
    else
        motion_align_cpu_destroy(&align);
    return status;
}

enum status motion_align_cpu_run(struct motion_align_cpu *align, const struct motion_frames *frames,
                                 struct motion_model *model, struct motion_report *report, struct err *err) {
    align->frames = frames;
    return motion_course_run(align->course, &work, align, model, report, err);
}

size_t motion_align_cpu_bytes(const struct motion_task *task) {
    struct motion_align_plan plan;
    motion_align_plan_make(task, &plan);
    struct worker_sizes sizes = sizes_of(&plan);
    size_t floats = sizes.binned + sizes.transform + sizes.turned + sizes.image + sizes.row;
    size_t bytes = motion_spectra_bytes(&plan, MOTION_WHOLE) +
                   (size_t)(task->threads > 1 ? task->threads : 1) * floats * sizeof(float) +
                   motion_cpu_partial_count(&plan) * sizeof(double) +
                   (size_t)plan.search_y * 2 * padded(plan.window_x) * sizeof(float);
    return plan.patches_x > 0 ? bytes + motion_spectra_bytes(&plan, MOTION_PATCHES) : bytes;
}
