/* Patches of the shifted window, as images under a taper, and their transforms. */
#include <string.h>

#include "kernels/motion/motion_align_cpu_private.h"

/* Adds a shifted frame to an interleaved transform. */
static void add_shifted(const struct motion_spectra *s, int frame, float *transform) {
    const float *columns = s->columns + (size_t)frame * 2 * s->pad;
    for (int y = 0; y < s->side_y; y++) {
        const float *re = motion_spectra_at(s, 0, frame) + (size_t)y * 2 * s->pad, *im = re + s->pad;
        const float *factor = s->rows + 2 * ((size_t)frame * (size_t)s->side_y + (size_t)y);
        float *to = transform + (size_t)y * 2 * s->half;
        for (size_t x = 0; x < s->half; x++) {
            float a = columns[x] * factor[0] - columns[s->pad + x] * factor[1];
            float b = columns[x] * factor[1] + columns[s->pad + x] * factor[0];
            to[2 * x] += re[x] * a - im[x] * b;
            to[2 * x + 1] += re[x] * b + im[x] * a;
        }
    }
}

static void cut_patch(const struct motion_align_cpu *align, const struct motion_worker *worker, int index, int group) {
    const struct motion_align_plan *plan = &align->plan;
    int side_x = plan->patch_x, side_y = plan->patch_y;
    int first_x = motion_align_patch_start(plan->window_x, plan->patches_x, side_x, index % plan->patches_x);
    int first_y = motion_align_patch_start(plan->window_y, plan->patches_y, side_y, index / plan->patches_x);
    double sum = 0;
    for (int y = 0; y < side_y; y++) {
        const float *row = worker->image + (size_t)(first_y + y) * (size_t)plan->window_x + (size_t)first_x;
        float part = 0;
        for (int x = 0; x < side_x; x++)
            part += row[x];
        sum += (double)part;
    }
    float mean = (float)(sum / ((double)side_x * side_y));
    float scale = 1 / ((float)plan->window_x * (float)plan->window_y);
    for (int y = 0; y < side_y; y++) {
        const float *row = worker->image + (size_t)(first_y + y) * (size_t)plan->window_x + (size_t)first_x;
        float factor = align->patch_taper_y[y] * scale;
        for (int x = 0; x < side_x; x++)
            worker->binned[(size_t)y * (size_t)side_x + (size_t)x] = (row[x] - mean) * factor * align->patch_taper_x[x];
    }
    fft_run(align->patch, worker->binned, worker->transform);
    motion_spectra_store(&align->patches, index, group, worker->transform);
}

enum status motion_cpu_cut(void *state, const float *x, const float *y, struct err *err) {
    (void)err;
    struct motion_align_cpu *align = state;
    const struct motion_align_plan *plan = &align->plan;
    int patches = plan->patches_x * plan->patches_y;
    motion_spectra_shift(&align->whole, 0, x, y);
#pragma omp parallel for schedule(dynamic) num_threads(plan->task.threads)
    for (int group = 0; group < plan->groups; group++) {
        struct motion_worker *worker = motion_cpu_worker(align);
        memset(worker->transform, 0, align->whole.half * (size_t)plan->window_y * 2 * sizeof *worker->transform);
        int first = motion_group_start(plan->task.frames, plan->groups, group);
        int end = motion_group_start(plan->task.frames, plan->groups, group + 1);
        for (int j = first; j < end; j++)
            add_shifted(&align->whole, j, worker->transform);
        fft_run(align->window, worker->transform, worker->image);
        for (int p = 0; p < patches; p++)
            cut_patch(align, worker, p, group);
    }
#pragma omp parallel for schedule(static) num_threads(plan->task.threads)
    for (int p = 0; p < patches; p++)
        for (int row = 0; row < plan->patch_y; row++)
            motion_spectra_add_power(&align->patches, p, row);
    return STATUS_OK;
}
