/* Binned frames, and the window of their transforms. */
#include <string.h>

#include "common/multiversion.h"
#include "kernels/motion/motion_align_cpu_private.h"

MULTIVERSION static void add_pairs(const float *restrict row, int n, float *restrict binned) {
    for (int x = 0; x < n; x++)
        binned[x] = row[2 * x] + row[2 * x + 1];
}

/* Fills one binned row. */
static void bin_row(const struct motion_align_cpu *align, int frame, int y, float *row, float *binned) {
    const struct motion_align_plan *plan = &align->plan;
    int bin = plan->bin, n = plan->binned_x;
    memset(row, 0, (size_t)(n * bin) * sizeof *row);
    for (int i = 0; i < bin; i++)
        motion_frames_add_row(align->frames, frame, plan->first_x, plan->first_y + y * bin + i, n * bin, row);
    if (bin == 1) {
        memcpy(binned, row, (size_t)n * sizeof *binned);
        return;
    }
    if (bin == 2) {
        add_pairs(row, n, binned);
        return;
    }
    for (int x = 0; x < n; x++) {
        float sum = 0;
        for (int i = 0; i < bin; i++)
            sum += row[x * bin + i];
        binned[x] = sum;
    }
}

/* Returns the mean of every sixteenth row: good enough to take the edge out of the taper. */
static float sampled_mean(const struct motion_align_cpu *align, int frame, struct motion_worker *worker) {
    const struct motion_align_plan *plan = &align->plan;
    double sum = 0;
    int rows = 0;
    for (int y = 8; y < plan->binned_y; y += 16, rows++) {
        bin_row(align, frame, y, worker->row, worker->binned);
        float part = 0;
        for (int x = 0; x < plan->binned_x; x++)
            part += worker->binned[x];
        sum += (double)part;
    }
    return (float)(sum / ((double)rows * plan->binned_x));
}

MULTIVERSION static void taper_row(float *restrict row, const float *restrict taper, float factor, float mean,
                                   size_t n) {
    for (size_t x = 0; x < n; x++)
        row[x] = (row[x] - mean) * taper[x] * factor;
}

/* Moves the kept columns of transformed rows into columns. */
static void turn(const struct motion_align_cpu *align, const float *rows, int count, int y, float *turned) {
    size_t half = align->whole.half, length = (size_t)align->plan.binned_x / 2 + 1;
    for (size_t x = 0; x < half; x++) {
        float *to = turned + 2 * (x * (size_t)align->plan.binned_y + (size_t)y);
        for (int i = 0; i < count; i++) {
            const float *from = rows + 2 * ((size_t)i * length + x);
            to[2 * i] = from[0];
            to[2 * i + 1] = from[1];
        }
    }
}

/* Copies the rows of the window out of the transformed columns. */
static void crop(const struct motion_align_cpu *align, int frame, const float *turned) {
    const struct motion_spectra *whole = &align->whole;
    float *values = motion_spectra_at(whole, 0, frame);
    int n = align->plan.binned_y;
    for (size_t block = 0; block < whole->half; block += MOTION_LANES)
        for (int y = 0; y < whole->side_y; y++) {
            int from_row = y <= whole->side_y / 2 ? y : y - whole->side_y + n;
            float *re = values + (size_t)y * 2 * whole->pad, *im = re + whole->pad;
            for (size_t x = block; x < block + MOTION_LANES && x < whole->half; x++) {
                const float *from = turned + 2 * (x * (size_t)n + (size_t)from_row);
                re[x] = from[0];
                im[x] = from[1];
            }
        }
}

static void take_frame(struct motion_align_cpu *align, int frame) {
    const struct motion_align_plan *plan = &align->plan;
    struct motion_worker *worker = motion_cpu_worker(align);
    size_t n = (size_t)plan->binned_x;
    float mean = sampled_mean(align, frame, worker);
    for (int y = 0; y < plan->binned_y; y += MOTION_ROWS) {
        int count = y + MOTION_ROWS <= plan->binned_y ? MOTION_ROWS : plan->binned_y - y;
        for (int i = 0; i < count; i++) {
            bin_row(align, frame, y + i, worker->row, worker->binned + (size_t)i * n);
            taper_row(worker->binned + (size_t)i * n, align->taper_x, align->taper_y[y + i], mean, n);
        }
        fft_run(align->rows, worker->binned, worker->transform);
        turn(align, worker->transform, count, y, worker->turned);
    }
    for (size_t x = 0; x < align->whole.half; x++) {
        float *column = worker->turned + 2 * x * (size_t)plan->binned_y;
        fft_run(align->columns, column, column);
    }
    crop(align, frame, worker->turned);
}

enum status motion_cpu_spectra(void *state, struct err *err) {
    (void)err;
    struct motion_align_cpu *align = state;
#pragma omp parallel for schedule(dynamic) num_threads(align->plan.task.threads)
    for (int frame = 0; frame < align->plan.task.frames; frame++)
        take_frame(align, frame);
#pragma omp parallel for schedule(static) num_threads(align->plan.task.threads)
    for (int row = 0; row < align->whole.side_y; row++)
        motion_spectra_add_power(&align->whole, 0, row);
    return STATUS_OK;
}
