/* Computes the local resolution of host maps on a workspace's device. */
#include <math.h>

#include "common/memory.h"
#include "kernels/fourier/workspace_cuda.h"
#include "kernels/local_resolution/local_resolution_cuda.h"
#include "kernels/local_resolution/local_resolution_private.h"

enum { PRODUCTS = 3, PLANS = 8, SMALL = 1 << 20 };

/* The largest boxes and windows of all bands. */
struct extents {
    size_t spectrum, map;          /* bytes, of the box */
    size_t lines, planes, scratch; /* bytes */
    size_t points, length;         /* of windows */
};

struct run {
    struct workspace *w;
    const struct local_resolution_options *options;
    struct local_plan plan;
    struct volume_cuda *volumes[PLANS]; /* of smaller boxes */
    int volume_count;
    struct volume_cuda *whole; /* the workspace's */
    struct extents extents;
    float *gains; /* on the host: of one band or level */
    /* on the device: */
    float *halves[2], *shells, *before, *spectrum, *maps[2];
    float *lines; /* later the windows' sums along all axes; at the end the filtered map */
    float *planes;
    float *device_gains, *weights;
    int *starts;
    double *power;
    unsigned long long *left;
    void *scratch, *transform;
};

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static struct extents extents_of(const struct local_plan *plan) {
    const size_t box = (size_t)plan->box;
    struct extents e = {.spectrum = volume_cuda_bytes(plan->box),
                        .map = box * box * box * sizeof(float),
                        .points = box,
                        .length = box,
                        .scratch = local_cuda_scratch(plan->box)};
    e.lines = e.map;
    for (int i = 0; i < plan->count; i++) {
        const size_t points = (size_t)plan->bands[i].points, grid = (size_t)plan->bands[i].grid;
        e.lines = larger(e.lines, PRODUCTS * grid * grid * points * sizeof(float));
        e.lines = larger(e.lines, PRODUCTS * points * points * points * sizeof(float));
        e.planes = larger(e.planes, PRODUCTS * grid * points * points * sizeof(float));
        e.points = larger(e.points, points);
    }
    return e;
}

static size_t bytes_of(const struct extents *e) {
    const size_t bands = 3 * arena_need(e->spectrum, 1) + 4 * arena_need(e->map, 1);
    return bands + arena_need(e->lines, 1) + arena_need(e->planes, 1) + arena_need(e->scratch, 1) +
           arena_need(e->points * e->length, sizeof(float)) + SMALL;
}

static enum status fits(struct workspace *w, int box, bool *ret_fits, struct err *err) {
    struct local_plan plan;
    struct volume_cuda *whole;
    local_plan_make(box, 0, &plan);
    const struct extents e = extents_of(&plan);
    TRY(workspace_cuda_volume(w, box, &whole, err));
    *ret_fits = bytes_of(&e) + arena_need(volume_cuda_scratch(whole), 1) <= arena_left(w->arena);
    return STATUS_OK;
}

/* Returns plans for a box: the workspace's, or one that is kept until the end. */
static enum status volume_of(struct run *r, int grid, struct volume_cuda **ret_volume, struct err *err) {
    *ret_volume = r->whole;
    if (grid == r->plan.box) return STATUS_OK;
    for (int i = 0; i < r->volume_count; i++)
        if (volume_cuda_box(r->volumes[i]) == grid) {
            *ret_volume = r->volumes[i];
            return STATUS_OK;
        }
    FAIL_IF(r->volume_count == PLANS, err, STATUS_BAD_STATE, "bands need more than %d sizes", PLANS);
    TRY(volume_cuda_create(grid, &r->volumes[r->volume_count], err));
    *ret_volume = r->volumes[r->volume_count++];
    return STATUS_OK;
}

static enum status take(struct run *r, struct err *err) {
    const struct extents *e = &r->extents;
    const size_t shells = (size_t)r->plan.box / 2 + 1;
    struct arena *arena = r->w->arena;
    size_t transform = volume_cuda_scratch(r->whole);
    for (int i = 0; i < r->plan.count; i++) {
        struct volume_cuda *volume;
        TRY(volume_of(r, r->plan.bands[i].grid, &volume, err));
        transform = larger(transform, volume_cuda_scratch(volume));
    }
    TRY(workspace_cuda_adopt(r->w, err));
    float **const spectra[] = {&r->halves[0], &r->halves[1], &r->spectrum};
    float **const maps[] = {&r->shells, &r->before, &r->maps[0], &r->maps[1]};
    for (size_t i = 0; i < sizeof spectra / sizeof *spectra; i++)
        TRY(arena_take(arena, e->spectrum, 1, "the transform of a map", spectra[i], err));
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        TRY(arena_take(arena, e->map, 1, "a map", maps[i], err));
    TRY(arena_take(arena, e->lines, 1, "windows", &r->lines, err));
    TRY(arena_take(arena, e->planes, 1, "windows", &r->planes, err));
    TRY(arena_take(arena, e->points * e->length, sizeof *r->weights, "windows", &r->weights, err));
    TRY(arena_take(arena, e->points, sizeof *r->starts, "windows", &r->starts, err));
    TRY(arena_take(arena, (size_t)local_table_size(r->plan.box), sizeof *r->gains, "spectra", &r->device_gains, err));
    TRY(arena_take(arena, shells, sizeof *r->power, "spectra", &r->power, err));
    TRY(arena_take(arena, e->scratch, 1, "Fourier shell sums", &r->scratch, err));
    TRY(arena_take(arena, 1, sizeof *r->left, "a sum", &r->left, err));
    TRY(arena_take(arena, transform, 1, "the transform of a map", &r->transform, err));
    return mem_new((size_t)local_table_size(r->plan.box), sizeof *r->gains, "a spectrum", &r->gains, err);
}

static enum status put_gains(struct run *r, struct err *err) {
    return workspace_cuda_put(r->w, r->device_gains, r->gains, (size_t)local_table_size(r->plan.box) * sizeof *r->gains,
                              err);
}

static enum status put_taps(struct run *r, int line, int points, double pitch, double sigma,
                            struct local_cuda_taps *ret_taps, struct err *err) {
    struct local_taps t;
    TRY(local_taps_make(line, points, pitch, sigma, &t, err));
    const size_t weights = (size_t)t.points * (size_t)t.length;
    enum status status = workspace_cuda_put(r->w, r->starts, t.starts, (size_t)t.points * sizeof *t.starts, err);
    if (status == STATUS_OK) status = workspace_cuda_put(r->w, r->weights, t.weights, weights * sizeof *t.weights, err);
    if (status == STATUS_OK) status = workspace_cuda_wait(r->w, err);
    *ret_taps =
        (struct local_cuda_taps){.points = t.points, .length = t.length, .starts = r->starts, .weights = r->weights};
    local_taps_destroy(&t);
    return status;
}

static enum status begin(struct run *r, const float *half1, const float *half2, double *ret_power, struct err *err) {
    const float *const halves[2] = {half1, half2};
    const int box = r->plan.box;
    void *stream = r->w->stream;
    for (int h = 0; h < 2; h++) {
        TRY(workspace_cuda_put(r->w, r->maps[0], halves[h], r->extents.map, err));
        TRY(volume_cuda_forward(r->whole, r->transform, r->maps[0], r->halves[h], stream, err));
    }
    TRY(local_cuda_power(box, r->halves[0], r->halves[1], r->scratch, r->power, stream, err));
    TRY(workspace_cuda_get(r->w, ret_power, r->power, ((size_t)box / 2 + 1) * sizeof *ret_power, err));
    return workspace_cuda_wait(r->w, err);
}

static enum status correlate_band(struct run *r, int band, const double *power, unsigned long long *ret_left,
                                  struct err *err) {
    const struct local_band *b = &r->plan.bands[band];
    const size_t points = (size_t)b->points;
    const float from = (float)(b - (band > 0))->centre;
    void *stream = r->w->stream;
    struct volume_cuda *volume;
    struct local_cuda_taps taps;
    TRY(volume_of(r, b->grid, &volume, err));
    local_band_gains(&r->plan, band, power, r->gains);
    TRY(put_gains(r, err));
    TRY(put_taps(r, b->grid, b->points, (double)b->grid / (b->points - 1), b->sigma, &taps, err));
    for (int h = 0; h < 2; h++) {
        TRY(local_cuda_cut(r->plan.box, r->halves[h], r->device_gains, b->last, b->grid, r->spectrum, stream, err));
        TRY(volume_cuda_inverse(volume, r->transform, r->spectrum, r->maps[h], stream, err));
    }
    TRY(local_cuda_products(b->grid, r->maps[0], r->maps[1], &taps, r->lines, stream, err));
    TRY(local_cuda_weigh(PRODUCTS * (size_t)b->grid, b->grid, points, r->lines, &taps, r->planes, stream, err));
    TRY(local_cuda_weigh(PRODUCTS, b->grid, points * points, r->planes, &taps, r->lines, stream, err));
    TRY(local_cuda_divide(points * points * points, r->lines, stream, err));
    TRY(workspace_cuda_zero(r->w, r->left, sizeof *r->left, err));
    TRY(local_cuda_cross(r->plan.box, b->points, r->lines, from, (float)b->centre, r->before, r->shells, r->left,
                         stream, err));
    TRY(workspace_cuda_get(r->w, ret_left, r->left, sizeof *ret_left, err));
    return workspace_cuda_wait(r->w, err);
}

/* Smooths the shells, r->shells, into r->before. */
static enum status smooth(struct run *r, struct err *err) {
    const int box = r->plan.box;
    const size_t side = (size_t)box;
    void *stream = r->w->stream;
    struct local_cuda_taps taps;
    TRY(put_taps(r, box, box, 1, LOCAL_SMOOTH, &taps, err));
    TRY(local_cuda_weigh(side * side, box, 1, r->shells, &taps, r->maps[0], stream, err));
    TRY(local_cuda_weigh(side, box, side, r->maps[0], &taps, r->maps[1], stream, err));
    return local_cuda_weigh(1, box, side * side, r->maps[1], &taps, r->before, stream, err);
}

static enum status filter(struct run *r, struct err *err) {
    const int box = r->plan.box;
    void *stream = r->w->stream;
    TRY(smooth(r, err));
    TRY(local_cuda_mean(r->extents.spectrum / sizeof(float), r->halves[0], r->halves[1], stream, err));
    TRY(workspace_cuda_zero(r->w, r->lines, r->extents.map, err));
    for (int i = 0; i < r->plan.level_count; i++) {
        local_level_gains(&r->plan, i, r->options, r->gains);
        TRY(put_gains(r, err));
        TRY(local_cuda_cut(box, r->halves[0], r->device_gains, box, box, r->spectrum, stream, err));
        TRY(volume_cuda_inverse(r->whole, r->transform, r->spectrum, r->maps[0], stream, err));
        TRY(local_cuda_blend(box, (float)local_before(&r->plan, i), (float)r->plan.levels[i],
                             (float)local_after(&r->plan, i), r->before, r->maps[0], r->lines, stream, err));
        TRY(workspace_cuda_wait(r->w, err)); /* the gains are changed next */
    }
    return STATUS_OK;
}

static enum status compute(struct run *r, const float *half1, const float *half2, double *power, float *ret_resolution,
                           float *ret_filtered, struct err *err) {
    const int box = r->plan.box;
    void *stream = r->w->stream;
    unsigned long long left = 1;
    TRY(begin(r, half1, half2, power, err));
    TRY(workspace_cuda_zero(r->w, r->shells, r->extents.map, err));
    for (int band = 0; band < r->plan.count && left > 0; band++)
        TRY(correlate_band(r, band, power, &left, err));
    TRY(local_cuda_close(box, (float)r->plan.last_shell, r->shells, stream, err));
    TRY(filter(r, err));
    TRY(local_cuda_resolution(box, (float)(box * r->options->pixel_size), r->shells, stream, err));
    TRY(workspace_cuda_get(r->w, ret_resolution, r->shells, r->extents.map, err));
    TRY(workspace_cuda_get(r->w, ret_filtered, r->lines, r->extents.map, err));
    return workspace_cuda_wait(r->w, err);
}

static enum status run_on(struct run *r, const float *half1, const float *half2, float *ret_resolution,
                          float *ret_filtered, struct err *err) {
    _cleanup_(mem_free) double *power = NULL;
    _cleanup_(workspace_cuda_end) struct workspace *open = NULL;
    TRY(mem_new((size_t)r->plan.box / 2 + 1, sizeof *power, "a spectrum", &power, err));
    TRY(workspace_cuda_volume(r->w, r->plan.box, &r->whole, err));
    TRY(workspace_cuda_begin(r->w, &open, err));
    TRY(take(r, err));
    return compute(r, half1, half2, power, ret_resolution, ret_filtered, err);
}

static enum status run(struct workspace *w, const struct local_resolution_options *options, const float *half1,
                       const float *half2, float *ret_resolution, float *ret_filtered, struct err *err) {
    struct run r = {.w = w, .options = options};
    local_plan_make(options->box, options->last_shell, &r.plan);
    r.extents = extents_of(&r.plan);
    enum status status = run_on(&r, half1, half2, ret_resolution, ret_filtered, err);
    for (int i = 0; i < r.volume_count; i++)
        volume_cuda_destroy(&r.volumes[i]);
    mem_free(&r.gains);
    return status;
}

const struct local_work local_cuda_work = {.run = run, .fits = fits};
