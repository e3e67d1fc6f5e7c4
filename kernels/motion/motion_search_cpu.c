/* Coarse search: the cross-correlation of each frame with the sum of the others. */
#include <string.h>

#include "kernels/motion/motion_align_cpu_private.h"

/* Returns the window's row of a row of the search window. */
static int window_row(const struct motion_align_plan *plan, int row) {
    return row <= plan->search_y / 2 ? row : row - plan->search_y + plan->window_y;
}

/* Fills the transform of the correlation: (R − t) conj(t) w. */
static void multiply(const struct motion_align_cpu *align, int frame, const float *weight, float *product) {
    const struct motion_align_plan *plan = &align->plan;
    const struct motion_spectra *s = &align->whole;
    size_t half = (size_t)plan->search_x / 2 + 1;
    const float *columns = s->columns + (size_t)frame * 2 * s->pad;
    memset(product, 0, half * (size_t)plan->search_y * 2 * sizeof *product);
    for (int y = 0; y < plan->search_y; y++) {
        if (y == plan->search_y / 2) continue;
        size_t row = (size_t)window_row(plan, y);
        const float *re = motion_spectra_at(s, 0, frame) + row * 2 * s->pad, *im = re + s->pad;
        const float *sum = align->sum + (size_t)y * 2 * s->pad;
        const float *factor = s->rows + 2 * ((size_t)frame * (size_t)s->side_y + row);
        const int *ring = s->ring + row * s->pad;
        for (size_t x = 0; x < half - 1; x++) {
            if (ring[x] >= MOTION_RINGS) break;
            float a = columns[x] * factor[0] - columns[s->pad + x] * factor[1];
            float b = columns[x] * factor[1] + columns[s->pad + x] * factor[0];
            float t_re = re[x] * a - im[x] * b, t_im = re[x] * b + im[x] * a;
            float d_re = sum[x] - t_re, d_im = sum[s->pad + x] - t_im;
            product[2 * ((size_t)y * half + x)] = weight[ring[x]] * (d_re * t_re + d_im * t_im);
            product[2 * ((size_t)y * half + x) + 1] = weight[ring[x]] * (d_im * t_re - d_re * t_im);
        }
    }
}

static void find_peak(const struct motion_align_plan *plan, const float *image, float *ret_x, float *ret_y) {
    int nx = plan->search_x, ny = plan->search_y, best_x = 0, best_y = 0;
    double step_x = plan->pitch_x * plan->window_x / nx, step_y = plan->pitch_y * plan->window_y / ny;
    int range_x = motion_align_range(plan, step_x, nx), range_y = motion_align_range(plan, step_y, ny);
    float best = image[0];
    for (int y = -range_y; y <= range_y; y++)
        for (int x = -range_x; x <= range_x; x++) {
            float value = image[(size_t)((y + ny) % ny) * (size_t)nx + (size_t)((x + nx) % nx)];
            if (value > best) {
                best = value;
                best_x = x;
                best_y = y;
            }
        }
    size_t row = (size_t)((best_y + ny) % ny) * (size_t)nx, column = (size_t)((best_x + nx) % nx);
    size_t left = (size_t)((best_x - 1 + nx) % nx), right = (size_t)((best_x + 1 + nx) % nx);
    size_t above = (size_t)((best_y - 1 + ny) % ny) * (size_t)nx, below = (size_t)((best_y + 1 + ny) % ny) * (size_t)nx;
    double middle = (double)best;
    *ret_x = (float)((best_x + motion_align_parabola((double)image[row + left], middle, (double)image[row + right])) *
                     step_x);
    *ret_y =
        (float)((best_y + motion_align_parabola((double)image[above + column], middle, (double)image[below + column])) *
                step_y);
}

enum status motion_cpu_search(void *state, const float *x, const float *y, const float *weight, float *ret_x,
                              float *ret_y, struct err *err) {
    (void)err;
    struct motion_align_cpu *align = state;
    const struct motion_align_plan *plan = &align->plan;
    motion_spectra_shift(&align->whole, 0, x, y);
#pragma omp parallel for schedule(static) num_threads(plan->task.threads)
    for (int row = 0; row < plan->search_y; row++)
        motion_spectra_row(&align->whole, 0, window_row(plan, row), motion_cpu_worker(align)->row,
                           align->sum + (size_t)row * 2 * align->whole.pad);
#pragma omp parallel for schedule(dynamic) num_threads(plan->task.threads)
    for (int frame = 0; frame < plan->task.frames; frame++) {
        struct motion_worker *worker = motion_cpu_worker(align);
        multiply(align, frame, weight, worker->transform);
        fft_run(align->search, worker->transform, worker->image);
        find_peak(plan, worker->image, &ret_x[frame], &ret_y[frame]);
    }
    return STATUS_OK;
}
