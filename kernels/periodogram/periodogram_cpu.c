#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "common/fft.h"
#include "common/memory.h"
#include "common/multiversion.h"
#include "kernels/periodogram/periodogram_private.h"

/* Buffers of one thread. */
struct worker {
    float *tile, *transform;
};

struct periodogram_cpu {
    struct periodogram_task task;
    const struct periodogram_window *window;
    const struct periodogram_cells *cells;
    struct fft_plan *plan;
    struct worker *workers; /* [threads] */
    float *sums;            /* a sum for each row of tiles, so that the order of the sum is always the same */
    int *used;              /* tiles in it */
};

static void destroy(void *state) {
    struct periodogram_cpu *p = state;
    for (int i = 0; p->workers != NULL && i < p->task.threads; i++) {
        free(p->workers[i].tile);
        free(p->workers[i].transform);
    }
    fft_destroy(&p->plan);
    free(p->workers);
    free(p->sums);
    free(p->used);
    free(p);
}

static enum status build(struct periodogram_cpu *p, struct err *err) {
    int box = p->task.box, rows = periodogram_tiles(p->task.ny, box);
    struct fft_options options = {.rank = 2, .shape = {box, box}, .direction = FFT_FORWARD, .measure = true};
    TRY(fft_create(&options, &p->plan, err));
    TRY(mem_new((size_t)p->task.threads, sizeof *p->workers, "workers of the periodogram", &p->workers, err));
    for (int i = 0; i < p->task.threads; i++) {
        TRY(mem_new(fft_real_count(p->plan), sizeof(float), "a tile", &p->workers[i].tile, err));
        TRY(mem_new(fft_complex_floats(p->plan), sizeof(float), "the transform of a tile", &p->workers[i].transform,
                    err));
    }
    TRY(mem_new((size_t)rows, sizeof *p->used, "sums of tiles", &p->used, err));
    return mem_new((size_t)rows, fft_complex_floats(p->plan) / 2 * sizeof(float), "sums of tiles", &p->sums, err);
}

static enum status create(const struct periodogram_task *task, const struct periodogram_window *window,
                          const struct periodogram_cells *cells, void **ret_state, struct err *err) {
    struct periodogram_cpu *p = NULL;
    TRY(mem_new(1, sizeof *p, "a periodogram", &p, err));
    p->task = *task;
    p->window = window;
    p->cells = cells;
    enum status status = build(p, err);
    if (status == STATUS_OK)
        *ret_state = p;
    else
        destroy(p);
    return status;
}

MULTIVERSION static void add_power(const float *restrict transform, size_t count, float *restrict sum) {
    for (size_t i = 0; i < count; i++)
        sum[i] += transform[2 * i] * transform[2 * i] + transform[2 * i + 1] * transform[2 * i + 1];
}

/* Sums the power of a tile over its cells. */
static void sum_cells(const struct periodogram_cells *cells, const float *transform, size_t tile) {
    float *sums = cells->sums + tile * (size_t)cells->count;
    for (int c = 0; c < cells->count; c++) {
        float sum = 0;
        for (int i = cells->first[c]; i < cells->first[c + 1]; i++) {
            const float *value = transform + 2 * (size_t)cells->pixel[i];
            sum += value[0] * value[0] + value[1] * value[1];
        }
        sums[c] = sum;
    }
}

/* Copies a tile, without its mean, under the window. Returns whether it varies. */
static bool take_tile(const struct periodogram_cpu *p, const float *first, float *tile) {
    int box = p->task.box;
    double sum = 0;
    float least = first[0], most = first[0];
    for (int y = 0; y < box; y++) {
        const float *row = first + (size_t)y * (size_t)p->task.nx;
        float row_sum = 0;
        for (int x = 0; x < box; x++) {
            row_sum += row[x] - first[0];
            least = row[x] < least ? row[x] : least;
            most = row[x] > most ? row[x] : most;
        }
        sum += (double)row_sum;
    }
    if (!(least < most)) return false;
    float mean = (float)((double)first[0] + sum / ((double)box * box));
    for (int y = 0; y < box; y++)
        for (int x = 0; x < box; x++)
            tile[(size_t)y * (size_t)box + (size_t)x] = (first[(size_t)y * (size_t)p->task.nx + (size_t)x] - mean) *
                                                        p->window->values[y] * p->window->values[x];
    return true;
}

static void add_row_of_tiles(struct periodogram_cpu *p, struct worker *worker, const float *micrograph, int row) {
    int nx = p->task.nx, ny = p->task.ny, box = p->task.box;
    size_t count = fft_complex_floats(p->plan) / 2;
    float *sum = p->sums + (size_t)row * count;
    const float *first = micrograph + (size_t)periodogram_tile_start(ny, box, row) * (size_t)nx;
    memset(sum, 0, count * sizeof *sum);
    p->used[row] = 0;
    int tiles = periodogram_tiles(nx, box);
    for (int i = 0; i < tiles; i++) {
        if (!take_tile(p, first + periodogram_tile_start(nx, box, i), worker->tile)) continue;
        fft_run(p->plan, worker->tile, worker->transform);
        add_power(worker->transform, count, sum);
        if (p->cells->count > 0) sum_cells(p->cells, worker->transform, (size_t)row * (size_t)tiles + (size_t)i);
        p->used[row]++;
    }
}

static enum status run(void *state, const float *micrograph, const void *on_device, float *power, int *ret_used,
                       struct err *err) {
    (void)on_device, (void)err;
    struct periodogram_cpu *p = state;
    int rows = periodogram_tiles(p->task.ny, p->task.box), used = 0;
    size_t count = fft_complex_floats(p->plan) / 2;
    size_t tiles = (size_t)rows * (size_t)periodogram_tiles(p->task.nx, p->task.box);
    if (p->cells->count > 0) memset(p->cells->sums, 0, tiles * (size_t)p->cells->count * sizeof *p->cells->sums);
#pragma omp parallel num_threads(p->task.threads)
    {
#ifdef _OPENMP
        struct worker *worker = &p->workers[omp_get_thread_num()];
#else
        struct worker *worker = &p->workers[0];
#endif
#pragma omp for schedule(dynamic)
        for (int row = 0; row < rows; row++)
            add_row_of_tiles(p, worker, micrograph, row);
    }
    for (int row = 0; row < rows; row++)
        used += p->used[row];
    memset(power, 0, count * sizeof *power);
    for (int row = 0; row < rows; row++)
        for (size_t i = 0; i < count; i++)
            power[i] += p->sums[(size_t)row * count + i];
    *ret_used = used;
    return STATUS_OK;
}

const struct periodogram_work periodogram_cpu_work = {create, destroy, run};
