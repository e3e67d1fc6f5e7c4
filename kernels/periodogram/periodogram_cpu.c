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

/* What one thread works with. */
struct worker {
    float *tile, *transform;
};

struct periodogram {
    struct periodogram_task task;
    float *window; /* [box] along a side */
    double window_power;
    struct fft_plan *plan;
    struct worker *workers; /* [threads] */
    float *sums;            /* a sum for each row of tiles, so that the order of the sum is always the same */
    int *used;              /* tiles in it */
    struct periodogram_cuda *cuda;
};

int periodogram_tiles(int side, int box) {
    int step = box / 2;
    return (side - box + step - 1) / step + 1;
}

int periodogram_tile_start(int side, int box, int index) {
    int tiles = periodogram_tiles(side, box);
    return tiles == 1 ? 0 : (int)((long long)index * (side - box) / (tiles - 1));
}

void periodogram_destroy(struct periodogram **periodogram) {
    if (periodogram == NULL || *periodogram == NULL) return;
    struct periodogram *p = *periodogram;
    for (int i = 0; p->workers != NULL && i < p->task.threads; i++) {
        free(p->workers[i].tile);
        free(p->workers[i].transform);
    }
    fft_destroy(&p->plan);
    free(p->workers);
    free(p->window);
    free(p->sums);
    free(p->used);
    periodogram_cuda_destroy(&p->cuda);
    mem_free(periodogram);
}

static enum status make_cpu(struct periodogram *p, struct err *err) {
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

enum status periodogram_create(const struct periodogram_task *task, struct periodogram **ret_periodogram,
                               struct err *err) {
    int box = task->box, least = task->nx < task->ny ? task->nx : task->ny;
    FAIL_IF(box < 16 || box % 2 != 0 || box > least, err, STATUS_BAD_ARGUMENT,
            "a periodogram of tiles of %d px from %d × %d px: an even number from 16 to the shorter side is expected",
            box, task->nx, task->ny);
    _cleanup_(periodogram_destroy) struct periodogram *p = calloc(1, sizeof *p);
    FAIL_IF(p == NULL, err, STATUS_NO_MEMORY, "no memory for a periodogram");
    p->task = *task;
    if (p->task.threads < 1) p->task.threads = 1;
    TRY(mem_new((size_t)box, sizeof *p->window, "a window", &p->window, err));
    double power = 0;
    for (int x = 0; x < box; x++) {
        double s = sin(M_PI * (x + 0.5) / box);
        p->window[x] = (float)(s * s);
        power += s * s * s * s;
    }
    p->window_power = power * power;
    if (task->device.kind == DEVICE_CUDA)
        TRY(periodogram_cuda_create(&p->task, p->window, p->window_power, &p->cuda, err));
    else
        TRY(make_cpu(p, err));
    *ret_periodogram = p;
    p = NULL;
    return STATUS_OK;
}

MULTIVERSION static void add_power(const float *restrict transform, size_t count, float *restrict sum) {
    for (size_t i = 0; i < count; i++)
        sum[i] += transform[2 * i] * transform[2 * i] + transform[2 * i + 1] * transform[2 * i + 1];
}

/* Copies a tile, without its mean, under the window. Returns whether it varies. */
static bool take_tile(const struct periodogram *p, const float *first, float *tile) {
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
            tile[(size_t)y * (size_t)box + (size_t)x] =
                (first[(size_t)y * (size_t)p->task.nx + (size_t)x] - mean) * p->window[y] * p->window[x];
    return true;
}

static void add_row_of_tiles(struct periodogram *p, struct worker *worker, const float *micrograph, int row) {
    int nx = p->task.nx, ny = p->task.ny, box = p->task.box;
    size_t count = fft_complex_floats(p->plan) / 2;
    float *sum = p->sums + (size_t)row * count;
    const float *first = micrograph + (size_t)periodogram_tile_start(ny, box, row) * (size_t)nx;
    memset(sum, 0, count * sizeof *sum);
    p->used[row] = 0;
    for (int i = 0; i < periodogram_tiles(nx, box); i++) {
        if (!take_tile(p, first + periodogram_tile_start(nx, box, i), worker->tile)) continue;
        fft_run(p->plan, worker->tile, worker->transform);
        add_power(worker->transform, count, sum);
        p->used[row]++;
    }
}

static enum status run_cpu(struct periodogram *p, const float *micrograph, float *power, struct err *err) {
    int rows = periodogram_tiles(p->task.ny, p->task.box), used = 0;
    size_t count = fft_complex_floats(p->plan) / 2;
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
    FAIL_IF(used == 0, err, STATUS_BAD_FORMAT, "the micrograph has no variance: no part of it is an image");
    float scale = (float)(1 / (p->window_power * used));
    for (size_t i = 0; i < count; i++) {
        float sum = 0;
        for (int row = 0; row < rows; row++)
            sum += p->sums[(size_t)row * count + i];
        power[i] = sum * scale;
    }
    return STATUS_OK;
}

enum status periodogram_run(struct periodogram *p, const float *micrograph, const void *on_device, float *power,
                            struct err *err) {
    if (p->cuda != NULL) return periodogram_cuda_run(p->cuda, micrograph, on_device, power, err);
    return run_cpu(p, micrograph, power, err);
}

#ifndef ICESTREAM_HAVE_CUDA
enum status periodogram_cuda_create(const struct periodogram_task *task, const float *window, double window_power,
                                    struct periodogram_cuda **ret_cuda, struct err *err) {
    (void)task, (void)window, (void)window_power, (void)ret_cuda;
    FAIL(err, STATUS_UNSUPPORTED, "this build has no CUDA");
}

void periodogram_cuda_destroy(struct periodogram_cuda **cuda) {
    (void)cuda;
}

enum status periodogram_cuda_run(struct periodogram_cuda *cuda, const float *micrograph, const void *on_device,
                                 float *power, struct err *err) {
    (void)cuda, (void)micrograph, (void)on_device, (void)power;
    FAIL(err, STATUS_UNSUPPORTED, "this build has no CUDA");
}
#endif
