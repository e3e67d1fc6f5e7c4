/* Computes the local resolution on the CPU.
 *
 * Floor for box³ voxels: two forward transforms, two inverse ones of each band's smaller box until no voxel is left,
 * and an inverse one for each low-pass. The windows' sums are made axis by axis on positions half a deviation apart. */
#include <math.h>
#include <string.h>

#include "common/fft.h"
#include "common/memory.h"
#include "common/multiversion.h"
#include "kernels/local_resolution/local_resolution_private.h"

#ifdef _OPENMP
#include <omp.h>
#else
static int omp_get_thread_num(void) {
    return 0;
}
static int omp_get_max_threads(void) {
    return 1;
}
#endif

enum { PRODUCTS = 3 };

struct work {
    const struct local_resolution_options *options;
    struct local_plan plan;
    int box;
    size_t voxels, floats;
    float *halves[2]; /* transforms of the half maps; later the first is the transform of their mean */
    float *gains;     /* local_table_size */
    double *power;    /* [box/2 + 1] */
    float *before;    /* box³: correlation in the band before; later the smoothed shells */
    /* Belong to one size of box, and are replaced when a band needs another: */
    int grid;
    struct fft_plan *inverse;
    float *spectrum, *maps[2];
    float *lines;  /* [threads][grid][points]: windows along x */
    float *planes; /* [PRODUCTS][grid][points²]: along x and y */
    float *field;  /* [PRODUCTS][points³]: along all axes; the first becomes the correlation */
};

static void release_grid(struct work *w) {
    float **const owned[] = {&w->spectrum, &w->maps[0], &w->maps[1]};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        mem_free(owned[i]);
    fft_destroy(&w->inverse);
    w->grid = 0;
}

static void release_windows(struct work *w) {
    mem_free(&w->lines);
    mem_free(&w->planes);
    mem_free(&w->field);
}

static void release(struct work *w) {
    release_grid(w);
    release_windows(w);
    for (int h = 0; h < 2; h++)
        mem_free(&w->halves[h]);
    mem_free(&w->gains);
    mem_free(&w->power);
    mem_free(&w->before);
}

static inline int frequency(int index, int box) {
    return index <= box / 2 ? index : index - box;
}

/* ---- The half maps ---- */

/* Adds the power of one plane of a half transform to sums[shell], and the number of its values to counts[shell]. */
static void plane_power(int box, int z, const float *spectrum, double *sums, double *counts) {
    int columns = box / 2 + 1, kz = frequency(z, box);
    for (int y = 0; y < box; y++) {
        int ky = frequency(y, box);
        const float *row = spectrum + 2 * ((size_t)z * (size_t)box + (size_t)y) * (size_t)columns;
        for (int x = 0; x < columns; x++) {
            int shell = (int)(sqrt(x * x + ky * ky + kz * kz) + 0.5);
            if (shell > box / 2) break;
            double re = (double)row[2 * x], im = (double)row[2 * x + 1], copies = x == 0 || 2 * x == box ? 1 : 2;
            sums[shell] += copies * (re * re + im * im);
            counts[shell] += copies;
        }
    }
}

static enum status measure_power(struct work *w, struct err *err) {
    const size_t shells = (size_t)w->box / 2 + 1;
    _cleanup_(mem_free) double *sums = NULL; /* of each plane, added in order */
    TRY(mem_new((size_t)w->box * 2 * shells, sizeof *sums, "Fourier shell sums", &sums, err));
#pragma omp parallel for schedule(static)
    for (int z = 0; z < w->box; z++)
        for (int h = 0; h < 2; h++) {
            double *own = sums + (size_t)z * 2 * shells;
            plane_power(w->box, z, w->halves[h], own, own + shells);
        }
    for (size_t s = 0; s < shells; s++) {
        double sum = 0, count = 0;
        for (size_t z = 0; z < (size_t)w->box; z++) {
            sum += sums[z * 2 * shells + s];
            count += sums[(z * 2 + 1) * shells + s];
        }
        w->power[s] = count > 0 ? sum / count : 0;
    }
    return STATUS_OK;
}

static enum status begin(struct work *w, const float *half1, const float *half2, struct err *err) {
    const float *halves[2] = {half1, half2};
    const struct fft_options options = {
        .rank = 3, .shape = {w->box, w->box, w->box}, .direction = FFT_FORWARD, .threads = FFT_ALL_THREADS};
    struct fft_plan *forward = NULL;
    TRY(fft_create(&options, &forward, err));
    w->floats = fft_complex_floats(forward);
    enum status status = mem_new_unset(w->voxels, sizeof *w->before, "a map", &w->before, err);
    for (int h = 0; h < 2 && status == STATUS_OK; h++)
        status = mem_new_unset(w->floats, sizeof(float), "the transform of a map", &w->halves[h], err);
    for (int h = 0; h < 2 && status == STATUS_OK; h++) {
        memcpy(w->before, halves[h], w->voxels * sizeof *w->before); /* FFTW's input is aligned */
        fft_run(forward, w->before, w->halves[h]);
    }
    fft_destroy(&forward);
    TRY(status);
    TRY(mem_new((size_t)w->box / 2 + 1, sizeof *w->power, "a spectrum", &w->power, err));
    TRY(mem_new((size_t)local_table_size(w->box), sizeof *w->gains, "a spectrum", &w->gains, err));
    return measure_power(w, err);
}

/* ---- A band in its smaller box ---- */

static enum status open_grid(struct work *w, int grid, struct err *err) {
    if (grid == w->grid) return STATUS_OK;
    release_grid(w);
    const size_t voxels = (size_t)grid * (size_t)grid * (size_t)grid;
    const struct fft_options options = {
        .rank = 3, .shape = {grid, grid, grid}, .direction = FFT_INVERSE, .threads = FFT_ALL_THREADS};
    TRY(fft_create(&options, &w->inverse, err));
    TRY(mem_new_unset(fft_complex_floats(w->inverse), sizeof(float), "the transform of a band", &w->spectrum, err));
    for (int h = 0; h < 2; h++)
        TRY(mem_new_unset(voxels, sizeof(float), "a band of a map", &w->maps[h], err));
    w->grid = grid;
    return STATUS_OK;
}

static enum status open_windows(struct work *w, const struct local_band *b, struct err *err) {
    const size_t points = (size_t)b->points, grid = (size_t)b->grid;
    release_windows(w);
    TRY(mem_new_unset(mem_bytes((size_t)omp_get_max_threads() * grid, points), sizeof(float), "windows", &w->lines,
                      err));
    TRY(mem_new_unset(PRODUCTS * grid * points * points, sizeof(float), "windows", &w->planes, err));
    return mem_new_unset(PRODUCTS * points * points * points, sizeof(float), "windows", &w->field, err);
}

/* Copies what a gain keeps of a transform into the transform of a box of side `grid`. */
static void cut(const struct work *w, const float *from, int grid, double last, float *to) {
    const int columns = grid / 2 + 1, all = w->box / 2 + 1;
#pragma omp parallel for schedule(static)
    for (int z = 0; z < grid; z++)
        for (int y = 0; y < grid; y++) {
            int kz = frequency(z, grid), ky = frequency(y, grid), rest = kz * kz + ky * ky;
            size_t wide = (size_t)(kz < 0 ? kz + w->box : kz) * (size_t)w->box + (size_t)(ky < 0 ? ky + w->box : ky);
            const float *row = from + 2 * wide * (size_t)all;
            float *out = to + 2 * ((size_t)z * (size_t)grid + (size_t)y) * (size_t)columns;
            int end = rest <= last * last ? (int)sqrt(last * last - rest) + 1 : 0;
            end = end < columns ? end : columns;
            for (int x = 0; x < end; x++) {
                float gain = w->gains[(int)(sqrtf((float)(rest + x * x)) * LOCAL_FINE + 0.5f)];
                out[2 * x] = gain * row[2 * x];
                out[2 * x + 1] = gain * row[2 * x + 1];
            }
            memset(out + 2 * end, 0, 2 * (size_t)(columns - end) * sizeof *out);
        }
}

/* ---- Windows ---- */

MULTIVERSION static void multiply_line(const float *a, const float *b, int count, float *out) {
    for (int i = 0; i < count; i++)
        out[i] = a[i] * b[i];
}

/* Weighs a line about each position. Behind its end the line holds its first values again. */
MULTIVERSION static void weigh_line(const struct local_taps *t, const float *line, float *out) {
    for (int i = 0; i < t->points; i++) {
        const float *weights = t->weights + (size_t)i * (size_t)t->length, *values = line + t->starts[i];
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int j = 0; j < t->length; j++)
            sum += weights[j] * values[j];
        out[i] = sum;
    }
}

/* Weighs `count` lines of `width` values, `stride` apart, about one position. */
MULTIVERSION static void weigh_across(const struct local_taps *t, int point, const float *lines, int count,
                                      size_t stride, int width, float *out) {
    const float *weights = t->weights + (size_t)point * (size_t)t->length;
    int at = t->starts[point];
    for (int x = 0; x < width; x++)
        out[x] = 0;
    for (int j = 0; j < t->length; j++) {
        const float *line = lines + (size_t)at * stride, weight = weights[j];
        for (int x = 0; x < width; x++)
            out[x] += weight * line[x];
        at = at + 1 < count ? at + 1 : 0;
    }
}

/* Sums a·b, a² and b² in all windows: w->field. */
static void sum_windows(struct work *w, const struct local_taps *t, int grid) {
    const size_t points = (size_t)t->points, square = points * points, side = (size_t)grid;
    const float *pairs[PRODUCTS][2] = {{w->maps[0], w->maps[1]}, {w->maps[0], w->maps[0]}, {w->maps[1], w->maps[1]}};
#pragma omp parallel for schedule(static) collapse(2)
    for (int q = 0; q < PRODUCTS; q++)
        for (size_t z = 0; z < side; z++) {
            float line[2 * LOCAL_RESOLUTION_MOST_BOX], *own = w->lines + (size_t)omp_get_thread_num() * side * points;
            for (size_t y = 0; y < side; y++) {
                size_t at = (z * side + y) * side;
                multiply_line(pairs[q][0] + at, pairs[q][1] + at, grid, line);
                memcpy(line + grid, line, (size_t)t->length * sizeof *line);
                weigh_line(t, line, own + y * points);
            }
            float *plane = w->planes + ((size_t)q * side + z) * square;
            for (int i = 0; i < t->points; i++)
                weigh_across(t, i, own, grid, points, t->points, plane + (size_t)i * points);
        }
#pragma omp parallel for schedule(static) collapse(2)
    for (int q = 0; q < PRODUCTS; q++)
        for (int i = 0; i < t->points; i++)
            for (size_t y = 0; y < points; y++)
                weigh_across(t, i, w->planes + (size_t)q * side * square + y * points, grid, square, t->points,
                             w->field + ((size_t)q * points + (size_t)i) * square + y * points);
}

MULTIVERSION static void divide(const float *aa, const float *bb, size_t count, float *ab) {
    for (size_t i = 0; i < count; i++) {
        float scale = sqrtf(aa[i]) * sqrtf(bb[i]);
        ab[i] = scale > 0 ? ab[i] / scale : 0;
    }
}

/* ---- First crossing ---- */

/* Interpolates between two lines. */
MULTIVERSION static void blend_lines(const float *a, const float *b, float share, int count, float *out) {
    for (int i = 0; i < count; i++)
        out[i] = a[i] + share * (b[i] - a[i]);
}

/* The band before, and this one. */
struct crossing {
    float from, to; /* shells; equal for the first band */
};

/* Finds which voxels of a row fall below the threshold between two bands. shells: 0 while a voxel has not. Returns how
 * many have not. */
static size_t cross_row(const struct crossing *c, const float *line, double scale, int box, float *before,
                        float *shells) {
    size_t left = 0;
    for (int x = 0; x < box; x++) {
        if (shells[x] > 0) continue;
        double at = x * scale;
        int i = (int)at;
        float now = line[i] + (float)(at - i) * (line[i + 1] - line[i]);
        if (now < LOCAL_THRESHOLD)
            shells[x] =
                c->from + (c->to > c->from ? (before[x] - LOCAL_THRESHOLD) / (before[x] - now) : 0) * (c->to - c->from);
        before[x] = now;
        left += shells[x] > 0 ? 0 : 1;
    }
    return left;
}

/* Compares the correlation in the windows, w->field, with the threshold at each voxel. */
static size_t cross(struct work *w, int points, const struct crossing *c, float *shells) {
    const int box = w->box;
    const size_t side = (size_t)points;
    const double scale = (double)(points - 1) / box;
    size_t left = 0;
#pragma omp parallel for schedule(static) reduction(+ : left)
    for (int z = 0; z < box; z++) {
        float below[LOCAL_RESOLUTION_MOST_BOX + 2], above[LOCAL_RESOLUTION_MOST_BOX + 2];
        const int iz = (int)(z * scale);
        const float dz = (float)(z * scale - iz);
        for (int y = 0; y < box; y++) {
            const int iy = (int)(y * scale);
            const float *corner = w->field + ((size_t)iz * side + (size_t)iy) * side;
            blend_lines(corner, corner + side * side, dz, points, below);
            blend_lines(corner + side, corner + side * side + side, dz, points, above);
            blend_lines(below, above, (float)(y * scale - iy), points, below);
            size_t at = ((size_t)z * (size_t)box + (size_t)y) * (size_t)box;
            left += cross_row(c, below, scale, box, w->before + at, shells + at);
        }
    }
    return left;
}

static enum status correlate_band(struct work *w, int band, float *shells, size_t *ret_left, struct err *err) {
    const struct local_band *b = &w->plan.bands[band];
    TRY(open_grid(w, b->grid, err));
    TRY(open_windows(w, b, err));
    local_band_gains(&w->plan, band, w->power, w->gains);
    for (int h = 0; h < 2; h++) {
        cut(w, w->halves[h], b->grid, b->last, w->spectrum);
        fft_run(w->inverse, w->spectrum, w->maps[h]);
    }
    struct local_taps taps;
    TRY(local_taps_make(b->grid, b->points, (double)b->grid / (b->points - 1), b->sigma, &taps, err));
    sum_windows(w, &taps, b->grid);
    local_taps_destroy(&taps);
    const size_t count = (size_t)b->points * (size_t)b->points * (size_t)b->points;
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < (size_t)b->points; i++) {
        size_t some = count / (size_t)b->points;
        divide(w->field + count + i * some, w->field + 2 * count + i * some, some, w->field + i * some);
    }
    const struct crossing c = {.from = (float)(b - (band > 0))->centre, .to = (float)b->centre};
    *ret_left = cross(w, b->points, &c, shells);
    return STATUS_OK;
}

/* Finds the shell at which each voxel falls below the threshold; the last shell where it does not until there. */
static enum status find_shells(struct work *w, float *shells, struct err *err) {
    const float last = (float)w->plan.last_shell;
    size_t left = w->voxels;
    memset(shells, 0, w->voxels * sizeof *shells);
    for (int band = 0; band < w->plan.count && left > 0; band++)
        TRY(correlate_band(w, band, shells, &left, err));
    release_windows(w);
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < w->voxels; i++)
        if (!(shells[i] > 0 && shells[i] < last)) shells[i] = last;
    return STATUS_OK;
}

/* ---- Filter ---- */

/* Smooths the shells by a Gaussian: where the first crossing jumps, the filter changes within a few voxels. */
static enum status smooth(struct work *w, const float *shells, struct err *err) {
    const size_t side = (size_t)w->box, square = side * side;
    struct local_taps t;
    TRY(open_grid(w, w->box, err));
    TRY(local_taps_make(w->box, w->box, 1, LOCAL_SMOOTH, &t, err));
    float *along = w->maps[0], *plane = w->maps[1];
#pragma omp parallel for schedule(static)
    for (size_t z = 0; z < side; z++) {
        float line[2 * LOCAL_RESOLUTION_MOST_BOX];
        for (size_t y = 0; y < side; y++) {
            memcpy(line, shells + z * square + y * side, side * sizeof *line);
            memcpy(line + side, line, (size_t)t.length * sizeof *line);
            weigh_line(&t, line, along + z * square + y * side);
        }
        for (int y = 0; y < w->box; y++)
            weigh_across(&t, y, along + z * square, w->box, side, w->box, plane + z * square + (size_t)y * side);
    }
#pragma omp parallel for schedule(static)
    for (int z = 0; z < w->box; z++)
        for (size_t y = 0; y < side; y++)
            weigh_across(&t, z, plane + y * side, w->box, square, w->box, w->before + (size_t)z * square + y * side);
    local_taps_destroy(&t);
    return STATUS_OK;
}

struct level {
    float before, at, after; /* shells */
};

/* Adds a level's share of a row. */
MULTIVERSION static void blend_row(const struct level *l, const float *shells, const float *map, int count,
                                   float *out) {
    for (int x = 0; x < count; x++)
        out[x] += local_share(shells[x], l->before, l->at, l->after) * map[x];
}

static bool level_is_used(const struct work *w, const struct level *l) {
    int used = 0;
#pragma omp parallel for schedule(static) reduction(| : used)
    for (size_t i = 0; i < w->voxels; i++)
        used |= local_share(w->before[i], l->before, l->at, l->after) > 0;
    return used != 0;
}

static enum status filter(struct work *w, const float *shells, float *ret_filtered, struct err *err) {
    TRY(smooth(w, shells, err));
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < w->floats; i++)
        w->halves[0][i] = 0.5f * (w->halves[0][i] + w->halves[1][i]);
    memset(ret_filtered, 0, w->voxels * sizeof *ret_filtered);
    for (int i = 0; i < w->plan.level_count; i++) {
        const struct level l = {.before = (float)local_before(&w->plan, i),
                                .at = (float)w->plan.levels[i],
                                .after = (float)local_after(&w->plan, i)};
        if (!level_is_used(w, &l)) continue;
        local_level_gains(&w->plan, i, w->options, w->gains);
        cut(w, w->halves[0], w->box, w->box, w->spectrum);
        fft_run(w->inverse, w->spectrum, w->maps[0]);
        const size_t side = (size_t)w->box;
#pragma omp parallel for schedule(static)
        for (size_t row = 0; row < side * side; row++)
            blend_row(&l, w->before + row * side, w->maps[0] + row * side, w->box, ret_filtered + row * side);
    }
    return STATUS_OK;
}

static enum status compute(struct work *w, const float *half1, const float *half2, float *ret_resolution,
                           float *ret_filtered, struct err *err) {
    TRY(begin(w, half1, half2, err));
    TRY(find_shells(w, ret_resolution, err));
    TRY(filter(w, ret_resolution, ret_filtered, err));
    const float length = (float)(w->box * w->options->pixel_size);
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < w->voxels; i++)
        ret_resolution[i] = length / ret_resolution[i];
    return STATUS_OK;
}

static enum status run(struct workspace *workspace_or_null, const struct local_resolution_options *o,
                       const float *half1, const float *half2, float *ret_resolution, float *ret_filtered,
                       struct err *err) {
    (void)workspace_or_null;
    struct work w = {.options = o, .box = o->box, .voxels = (size_t)o->box * (size_t)o->box * (size_t)o->box};
    local_plan_make(o->box, o->last_shell, &w.plan);
    enum status status = compute(&w, half1, half2, ret_resolution, ret_filtered, err);
    release(&w);
    return status;
}

const struct local_work local_cpu_work = {.run = run};
