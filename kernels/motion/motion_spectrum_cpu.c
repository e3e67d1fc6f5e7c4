/* The spectrum of a movie on the CPU: tiles as in kernels/periodogram, each of the sum of a few frames.
 *
 * In a tile, the frames of a group are read at the nearest whole pixel along the motion. So nothing is interpolated and
 * the noise stays white, while rings are blurred by half a pixel at most. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "common/memory.h"
#include "common/multiversion.h"
#include "kernels/motion/motion_places.h"
#include "kernels/motion/motion_sum_private.h"
#include "kernels/periodogram/periodogram.h"

/* Sums of power are kept apart, so that their order does not depend on the threads. */
enum { PARTS = 16 };

struct worker {
    float *tile, *transform;
    int (*from)[2]; /* [frames]: first pixel of the tile in each frame */
};

struct motion_spectrum_cpu {
    struct motion_task task;
    int box;
    double window_power; /* sum of squares of the window over a tile */
    float *window;       /* [box] along a side */
    struct fft_plan *plan;
    struct worker *workers;
    float *sums;     /* [PARTS][box][box/2 + 1] */
    int used[PARTS]; /* tiles in them */
};

/* Shared by all threads of a run. */
struct run {
    const struct motion_frames *frames;
    const struct motion_model *model;
    int tiles_x, tiles_y, groups;
};

void motion_spectrum_cpu_destroy(struct motion_spectrum_cpu **spectrum) {
    if (spectrum == NULL || *spectrum == NULL) return;
    struct motion_spectrum_cpu *s = *spectrum;
    for (int i = 0; s->workers != NULL && i < s->task.threads; i++) {
        free(s->workers[i].tile);
        free(s->workers[i].transform);
        free(s->workers[i].from);
    }
    fft_destroy(&s->plan);
    free(s->workers);
    free(s->window);
    free(s->sums);
    mem_free(spectrum);
}

static enum status build(struct motion_spectrum_cpu *s, struct err *err) {
    struct fft_options options = {.rank = 2, .shape = {s->box, s->box}, .direction = FFT_FORWARD, .measure = true};
    TRY(mem_new((size_t)s->box, sizeof *s->window, "a window", &s->window, err));
    s->window_power = periodogram_window(s->box, s->window);
    TRY(fft_create(&options, &s->plan, err));
    TRY(mem_new((size_t)s->task.threads, sizeof *s->workers, "workers of the spectrum", &s->workers, err));
    for (int i = 0; i < s->task.threads; i++) {
        TRY(mem_new((size_t)s->task.frames, sizeof *s->workers[i].from, "places of tiles", &s->workers[i].from, err));
        TRY(mem_new(fft_real_count(s->plan), sizeof(float), "a tile", &s->workers[i].tile, err));
        TRY(mem_new(fft_complex_floats(s->plan), sizeof(float), "a tile's transform", &s->workers[i].transform, err));
    }
    return mem_new(PARTS, fft_complex_floats(s->plan) / 2 * sizeof(float), "sums of tiles", &s->sums, err);
}

enum status motion_spectrum_cpu_create(const struct motion_task *task, int box,
                                       struct motion_spectrum_cpu **ret_spectrum, struct err *err) {
    _cleanup_(motion_spectrum_cpu_destroy) struct motion_spectrum_cpu *s = NULL;
    TRY(mem_new(1, sizeof *s, "the spectrum of a movie", &s, err));
    s->task = *task;
    s->box = box;
    TRY(build(s, err));
    *ret_spectrum = s;
    s = NULL;
    return STATUS_OK;
}

int motion_spectrum_cpu_box(const struct motion_spectrum_cpu *spectrum) {
    return spectrum->box;
}

size_t motion_spectrum_cpu_bytes(const struct motion_task *task, int box) {
    size_t half = mem_bytes((size_t)box * ((size_t)box / 2 + 1), sizeof(float));
    return mem_sum(mem_bytes(half, PARTS), mem_bytes(half, 4 * (size_t)task->threads));
}

/* Sum, smallest and largest of a tile's pixels so far. */
struct seen {
    double sum;
    float least, most;
};

/* Adds a row to the sum and the extremes. */
MULTIVERSION static void see_row(const float *restrict row, int count, struct seen *seen) {
    float sum = 0, least = seen->least, most = seen->most;
#pragma omp simd reduction(+ : sum) reduction(min : least) reduction(max : most)
    for (int x = 0; x < count; x++) {
        sum += row[x];
        least = row[x] < least ? row[x] : least;
        most = row[x] > most ? row[x] : most;
    }
    seen->sum += (double)sum;
    seen->least = least;
    seen->most = most;
}

/* Sums the frames of a group in a tile. */
static struct seen sum_group(const struct run *run, struct worker *worker, int group, const int start[2], int box) {
    const struct motion_frames *f = run->frames;
    int first = motion_places_group_start(f->count, run->groups, group);
    int end = motion_places_group_start(f->count, run->groups, group + 1);
    struct seen seen = {0, INFINITY, -INFINITY};
    motion_places_fill(run->model, first, end, start, box, worker->from);
    for (int y = 0; y < box; y++) { /* row by row, because a tile is larger than a cache */
        float *row = worker->tile + (size_t)y * (size_t)box;
        memset(row, 0, (size_t)box * sizeof *row);
        for (int j = first; j < end; j++)
            motion_frames_add_row(f, j, worker->from[j][0], worker->from[j][1] + y, box, row);
        see_row(row, box, &seen);
    }
    return seen;
}

/* Takes the mean out and applies the window. */
MULTIVERSION static void apply_window(const float *restrict window, float mean, int box, float *restrict tile) {
    for (int y = 0; y < box; y++) {
        float *row = tile + (size_t)y * (size_t)box, of_row = window[y];
        for (int x = 0; x < box; x++)
            row[x] = (row[x] - mean) * of_row * window[x];
    }
}

MULTIVERSION static void add_power(const float *restrict transform, size_t count, float *restrict sum) {
    for (size_t i = 0; i < count; i++)
        sum[i] += transform[2 * i] * transform[2 * i] + transform[2 * i + 1] * transform[2 * i + 1];
}

/* Sums the power of some tiles: of all groups one after the other, while the gain there is in the cache. */
static void add_part(struct motion_spectrum_cpu *s, const struct run *run, struct worker *worker, int part) {
    size_t count = fft_complex_floats(s->plan) / 2;
    float *sum = s->sums + (size_t)part * count;
    memset(sum, 0, count * sizeof *sum);
    s->used[part] = 0;
    long long all = (long long)run->tiles_x * run->tiles_y * run->groups;
    for (int i = (int)(all * part / PARTS); i < (int)(all * (part + 1) / PARTS); i++) {
        int tile = i / run->groups;
        int start[2] = {periodogram_tile_start(s->task.nx, s->box, tile % run->tiles_x),
                        periodogram_tile_start(s->task.ny, s->box, tile / run->tiles_x)};
        struct seen seen = sum_group(run, worker, i % run->groups, start, s->box);
        if (!(seen.least < seen.most)) continue; /* flat, such as a filled border */
        apply_window(s->window, (float)(seen.sum / ((double)s->box * s->box)), s->box, worker->tile);
        fft_run(s->plan, worker->tile, worker->transform);
        add_power(worker->transform, count, sum);
        s->used[part]++;
    }
}

static void add_all_parts(struct motion_spectrum_cpu *s, const struct run *run) {
#pragma omp parallel num_threads(s->task.threads)
    {
#ifdef _OPENMP
        struct worker *worker = &s->workers[omp_get_thread_num()];
#else
        struct worker *worker = &s->workers[0];
#endif
#pragma omp for schedule(dynamic)
        for (int part = 0; part < PARTS; part++)
            add_part(s, run, worker, part);
    }
}

enum status motion_spectrum_cpu_run(struct motion_spectrum_cpu *s, const struct motion_frames *frames,
                                    const struct motion_model *model, int group, float *power, struct err *err) {
    size_t count = fft_complex_floats(s->plan) / 2;
    int used = 0;
    struct run run = {.frames = frames,
                      .model = model,
                      .tiles_x = periodogram_tiles(s->task.nx, s->box),
                      .tiles_y = periodogram_tiles(s->task.ny, s->box),
                      .groups = motion_places_groups(frames->count, group)};
    add_all_parts(s, &run);
    for (int part = 0; part < PARTS; part++)
        used += s->used[part];
    FAIL_IF(used == 0, err, STATUS_BAD_FORMAT, "the movie has no variance: no part of it is an image");
    float scale = (float)(1 / (s->window_power * used));
    for (size_t i = 0; i < count; i++) {
        float sum = 0;
        for (int part = 0; part < PARTS; part++)
            sum += s->sums[(size_t)part * count + i];
        power[i] = sum * scale;
    }
    return STATUS_OK;
}
