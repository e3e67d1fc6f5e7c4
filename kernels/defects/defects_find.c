/* Finds hot and dead pixels in the sum of a movie's frames. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/multiversion.h"
#include "kernels/defects/defects_private.h"

/* Statistics are summed in bands of rows, and the bands in order, so that they do not depend on the threads. The first
 * rows of each band stand for the others. */
enum { BANDS = 64, ROWS = 16 };
/* A pixel is compared with those up to REACH away along each side. */
enum { REACH = 3, SIDE = 2 * REACH + 1, LEAST_AROUND = 12 };

void defects_sum_frames(const struct motion_frames *frames, int threads, float *sum) {
    struct motion_frames counts = *frames;
    counts.gain = NULL;
#pragma omp parallel for num_threads(threads)
    for (int y = 0; y < counts.ny; y++) {
        float *row = sum + (size_t)y * (size_t)counts.nx;
        memset(row, 0, (size_t)counts.nx * sizeof *row);
        for (int f = 0; f < counts.count; f++)
            motion_frames_add_row(&counts, f, 0, y, counts.nx, row);
    }
}

struct search {
    const struct defects *defects;
    const float *gain; /* NULL: none */
    double sigma;
    float cap;       /* larger values do not count in the mean of the pixels around */
    bool counts;     /* no value is below 0: the noise grows with the mean */
    double variance; /* of the noise: of each count of the mean, if `counts` */
    float reach;     /* sigma · sqrt(variance) */
};

/* Returns the value of a pixel: its sum with gain. */
static inline float value_at(const struct search *s, size_t at) {
    return s->gain != NULL ? s->defects->sum[at] * s->gain[at] : s->defects->sum[at];
}

struct moments {
    double sum, squares, count, least;
};

/* Adds the good pixels of a row that differ from `centre` by `reach` at most. gain may be NULL. */
MULTIVERSION static void row_moments(const float *restrict sum, const float *restrict gain,
                                     const uint8_t *restrict mask, int nx, float centre, float reach,
                                     struct moments *m) {
    double total = 0, squares = 0;
    float least = FLT_MAX;
    int count = 0;
#pragma omp simd reduction(+ : total, squares, count) reduction(min : least)
    for (int x = 0; x < nx; x++) {
        float value = gain != NULL ? sum[x] * gain[x] : sum[x], d = value - centre;
        int good = mask[x] == 0 && fabsf(d) <= reach; /* not so for NaN */
        double part = good ? (double)d : 0;
        total += part;
        squares += part * part;
        count += good;
        least = good && value < least ? value : least;
    }
    m->sum += total;
    m->squares += squares;
    m->count += count;
    if ((double)least < m->least) m->least = (double)least;
}

/* The surroundings of a row of pixels. */
struct around {
    float *columns, *counts; /* [nx] sums and numbers of good pixels over SIDE rows */
    float *mean;             /* [nx] over SIDE × SIDE; NaN where too few pixels are good */
};

/* Adds a row to the columns, or takes it away (weight −1). */
MULTIVERSION static void add_columns(const float *restrict sum, const float *restrict gain,
                                     const uint8_t *restrict mask, float cap, float weight, int nx,
                                     float *restrict columns, float *restrict counts) {
    for (int x = 0; x < nx; x++) {
        float value = gain != NULL ? sum[x] * gain[x] : sum[x];
        value = value < cap ? value : cap;
        columns[x] += mask[x] == 0 ? weight * value : 0.0f;
        counts[x] += mask[x] == 0 ? weight : 0.0f;
    }
}

MULTIVERSION static void mean_row(const float *restrict columns, const float *restrict counts, int nx,
                                  float *restrict mean) {
    for (int x = REACH; x < nx - REACH; x++) {
        float sum = 0, count = 0;
        for (int i = -REACH; i <= REACH; i++) {
            sum += columns[x + i];
            count += counts[x + i];
        }
        mean[x] = count >= LEAST_AROUND ? sum / count : NAN;
    }
}

/* Brings the columns from row y − 1 to row y; `first`: begins at row y. */
static void look_around(const struct search *s, int y, bool first, struct around *a) {
    const struct defects *d = s->defects;
    int nx = d->nx;
    if (first) memset(a->columns, 0, 2 * (size_t)nx * sizeof *a->columns); /* and the counts */
    for (int v = first ? y - REACH : y + REACH; v <= y + REACH; v++) {
        size_t row = (size_t)v * (size_t)nx;
        if (v < 0 || v >= d->ny) continue;
        add_columns(d->sum + row, s->gain != NULL ? s->gain + row : NULL, d->mask + row, s->cap, 1, nx, a->columns,
                    a->counts);
    }
    if (!first && y > REACH) {
        size_t row = (size_t)(y - REACH - 1) * (size_t)nx;
        add_columns(d->sum + row, s->gain != NULL ? s->gain + row : NULL, d->mask + row, s->cap, -1, nx, a->columns,
                    a->counts);
    }
    mean_row(a->columns, a->counts, nx, a->mean);
    for (int x = 0; x < nx; x++) {
        if (x >= REACH && x < nx - REACH) continue;
        float sum = 0, count = 0;
        for (int u = x > REACH ? x - REACH : 0; u <= x + REACH && u < nx; u++) {
            sum += a->columns[u];
            count += a->counts[u];
        }
        a->mean[x] = count >= LEAST_AROUND ? sum / count : NAN;
    }
}

/* Returns DEFECT_HOT or DEFECT_DEAD for a value that the mean around it does not explain, else 0. For counts with a
 * variance of v times the mean m, 2 sqrt(x / v) has the deviation 1 whatever the mean: the thresholds are
 * (sqrt(m) ± reach / 2)², reach = sigma sqrt(v). Without roots: x − m − reach²/4 against ± reach sqrt(m). */
static inline int judge(bool counts, float reach, float value, float mean) {
    float quarter = counts ? reach * reach / 4 : 0, spread = counts ? reach * reach * mean : reach * reach;
    float above = value - mean - quarter, below = mean + quarter - value;
    int hot = above > 0 && above * above > spread;
    int dead = below > 0 && below * below > spread && (!counts || mean > quarter);
    return hot ? DEFECT_HOT : dead ? DEFECT_DEAD : 0;
}

/* Judges all pixels of a row that are not bad yet by the means around them. */
MULTIVERSION static void judge_all(const float *restrict sum, const float *restrict gain, const uint8_t *restrict mask,
                                   const float *restrict mean, bool counts, float reach, int nx,
                                   uint8_t *restrict verdict) {
    for (int x = 0; x < nx; x++) {
        float value = gain != NULL ? sum[x] * gain[x] : sum[x];
        int doubt = judge(counts, reach, value, mean[x]) != 0 || !(fabsf(value) <= FLT_MAX);
        verdict[x] = doubt && mask[x] == 0;
    }
}

/* Returns the median of the good pixels around a pixel. */
static float median_around(const struct search *s, int x, int y) {
    const struct defects *d = s->defects;
    float sorted[SIDE * SIDE];
    int count = 0;
    for (int v = y > REACH ? y - REACH : 0; v <= y + REACH && v < d->ny; v++)
        for (int u = x > REACH ? x - REACH : 0; u <= x + REACH && u < d->nx; u++) {
            size_t at = (size_t)v * (size_t)d->nx + (size_t)u;
            if ((d->mask[at] & (DEFECT_GAIN | DEFECT_LISTED)) != 0 || (u == x && v == y)) continue;
            float value = value_at(s, at);
            int place = count++;
            for (; place > 0 && sorted[place - 1] > value; place--)
                sorted[place] = sorted[place - 1];
            sorted[place] = value;
        }
    return count == 0 ? NAN : count % 2 == 1 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

static struct moments add_up(const struct moments *bands) {
    struct moments all = {.least = INFINITY};
    for (int b = 0; b < BANDS; b++) {
        all.sum += bands[b].sum;
        all.squares += bands[b].squares;
        all.count += bands[b].count;
        if (bands[b].least < all.least) all.least = bands[b].least;
    }
    return all;
}

/* Finds mean and deviation of the good pixels without those far out, and whether any is below 0. */
static void measure_image(struct search *s, int threads, double *ret_mean, double *ret_deviation) {
    const struct defects *d = s->defects;
    struct moments bands[BANDS];
    float centre = 0, reach = FLT_MAX;
    for (int round = 0; round < 3; round++) {
#pragma omp parallel for num_threads(threads)
        for (int b = 0; b < BANDS; b++) {
            bands[b] = (struct moments){.least = INFINITY};
            int first = d->ny * b / BANDS, last = d->ny * (b + 1) / BANDS;
            for (int y = first; y < last && y < first + ROWS; y++) {
                size_t row = (size_t)y * (size_t)d->nx;
                row_moments(d->sum + row, s->gain != NULL ? s->gain + row : NULL, d->mask + row, d->nx, centre, reach,
                            &bands[b]);
            }
        }
        struct moments all = add_up(bands);
        if (all.count < 1) return;
        if (round == 0) s->counts = all.least >= 0;
        double shift = all.sum / all.count, variance = all.squares / all.count - shift * shift;
        *ret_mean = (double)centre + shift;
        *ret_deviation = variance > 0 ? sqrt(variance) : 0;
        centre = (float)*ret_mean;
        reach = (float)(6 * *ret_deviation);
    }
}

/* Returns the rows of a band's scratch. */
static struct around around_of(const struct defects *d, int band) {
    float *rows = d->scratch + (size_t)band * 3 * (size_t)d->nx;
    return (struct around){.columns = rows, .counts = rows + d->nx, .mean = rows + 2 * (size_t)d->nx};
}

/* Adds the differences of a row from the means around its pixels, up to `reach`; `sum` is that of the means. */
MULTIVERSION static void add_differences(const float *restrict sum, const float *restrict gain,
                                         const uint8_t *restrict mask, const float *restrict mean, int nx, float reach,
                                         struct moments *m) {
    double means = 0, squares = 0;
    int count = 0;
#pragma omp simd reduction(+ : means, squares, count)
    for (int x = 0; x < nx; x++) {
        float value = gain != NULL ? sum[x] * gain[x] : sum[x], d = value - mean[x];
        int good = mask[x] == 0 && fabsf(d) <= reach;
        double part = good ? (double)d : 0;
        squares += part * part;
        means += good ? (double)mean[x] : 0;
        count += good;
    }
    m->sum += means;
    m->squares += squares;
    m->count += count;
}

/* Finds the variance of the noise from the differences between pixels and those around them, in a part of each band.
 * `deviation` is that of the image, which holds the specimen too. */
static void measure_noise(struct search *s, int threads, double deviation) {
    const double own_share = (double)(SIDE * SIDE) / (SIDE * SIDE - 1); /* a pixel counts in its own mean */
    struct moments bands[BANDS];
    const struct defects *d = s->defects;
    double reach = 6 * deviation;
    for (int round = 0; round < 2; round++) {
#pragma omp parallel for num_threads(threads)
        for (int b = 0; b < BANDS; b++) {
            struct around a = around_of(d, b);
            int first = d->ny * b / BANDS, last = d->ny * (b + 1) / BANDS;
            bands[b] = (struct moments){0};
            for (int y = first; y < last && y < first + ROWS; y++) {
                size_t row = (size_t)y * (size_t)d->nx;
                look_around(s, y, y == first, &a);
                add_differences(d->sum + row, s->gain != NULL ? s->gain + row : NULL, d->mask + row, a.mean, d->nx,
                                (float)reach, &bands[b]);
            }
        }
        struct moments all = add_up(bands);
        double variance = all.count > 0 ? all.squares / all.count * own_share : 0;
        reach = 6 * sqrt(variance);
        s->variance = !s->counts ? variance : all.sum > 0 ? variance * all.count / all.sum : 0;
    }
    s->reach = (float)(s->sigma * sqrt(s->variance));
}

/* Returns whether chance does not explain so low a count. Far below the mean the deviation says little: among a million
 * pixels with a mean of 10 counts, some have none. Chernoff's bound for counts, in place of exp(−sigma²/2). */
static bool is_too_low(const struct search *s, float value, float mean) {
    double x = (double)value / s->variance, m = (double)mean / s->variance;
    return !s->counts || m - x + (x > 0 ? x * log(x / m) : 0) > s->sigma * s->sigma / 2;
}

/* Judges the pixels of a row into d->found. */
static void judge_row(const struct search *s, int y, const struct around *a) {
    const struct defects *d = s->defects;
    size_t row = (size_t)y * (size_t)d->nx;
    uint8_t *found = d->found + row;
    judge_all(d->sum + row, s->gain != NULL ? s->gain + row : NULL, d->mask + row, a->mean, s->counts, s->reach, d->nx,
              found);
    for (int x = 0; x < d->nx; x++) {
        if (found[x] == 0) continue;
        /* The mean may lie: beside the border of a dark area, or beside another bad pixel. */
        float value = value_at(s, row + (size_t)x), median = median_around(s, x, y);
        int verdict = isfinite(value) ? judge(s->counts, s->reach, value, median) : DEFECT_HOT;
        found[x] = (uint8_t)(verdict == DEFECT_DEAD && !is_too_low(s, value, median) ? 0 : verdict);
    }
}

static struct defects_found take_found(struct defects *d) {
    struct defects_found found = {0};
    for (size_t i = 0; i < (size_t)d->nx * (size_t)d->ny; i++) {
        d->mask[i] |= d->found[i];
        found.hot += d->found[i] == DEFECT_HOT;
        found.dead += d->found[i] == DEFECT_DEAD;
    }
    return found;
}

static void forget_found(struct defects *d) {
    for (size_t i = 0; i < (size_t)d->nx * (size_t)d->ny; i++)
        d->mask[i] &= DEFECT_GAIN | DEFECT_LISTED;
}

enum status defects_find_hot(struct defects *d, const struct motion_frames *frames, int threads, double sigma,
                             struct defects_found *ret_found, struct err *err) {
    FAIL_IF(frames->nx != d->nx || frames->ny != d->ny, err, STATUS_BAD_ARGUMENT,
            "frames of %d × %d px with the bad pixels of %d × %d", frames->nx, frames->ny, d->nx, d->ny);
    struct search s = {.defects = d, .gain = frames->gain, .sigma = sigma};
    struct defects_found found = {0};
    double mean = 0, deviation = 0;
    if (d->scratch == NULL)
        TRY(mem_new_unset((size_t)d->nx * 3 * BANDS, sizeof *d->scratch, "rows of bad pixels", &d->scratch, err));
    forget_found(d);
    defects_sum_frames(frames, threads, d->sum);
    measure_image(&s, threads, &mean, &deviation);
    if (deviation > 0) {
        s.cap = (float)(mean + sigma * deviation);
        measure_noise(&s, threads, deviation);
    }
    if (s.variance > 0) {
#pragma omp parallel for num_threads(threads)
        for (int b = 0; b < BANDS; b++) {
            struct around a = around_of(d, b);
            int first = d->ny * b / BANDS;
            for (int y = first; y < d->ny * (b + 1) / BANDS; y++) {
                look_around(&s, y, y == first, &a);
                judge_row(&s, y, &a);
            }
        }
        found = take_found(d);
    }
    if (ret_found != NULL) *ret_found = found;
    return STATUS_OK;
}
