/* Finds hot and dead pixels in the sum of a movie's frames. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/multiversion.h"
#include "kernels/defects/defects_private.h"

/* Statistics are summed in bands of rows, and the bands in order, so that they do not depend on the threads. */
enum { BANDS = 64 };
/* A pixel is compared with those up to REACH away along each side. */
enum { REACH = 3, SIDE = 2 * REACH + 1, LEAST_AROUND = 12 };

MULTIVERSION static void add_bytes(const uint8_t *restrict counts, int n, float *restrict sum) {
    for (int x = 0; x < n; x++)
        sum[x] += (float)counts[x];
}

MULTIVERSION static void add_words(const uint16_t *restrict counts, int n, float *restrict sum) {
    for (int x = 0; x < n; x++)
        sum[x] += (float)counts[x];
}

MULTIVERSION static void add_floats(const float *restrict counts, int n, float *restrict sum) {
    for (int x = 0; x < n; x++)
        sum[x] += counts[x];
}

static void sum_row(const struct motion_frames *frames, int y, float *sum) {
    size_t row = (size_t)y * (size_t)frames->nx;
    memset(sum, 0, (size_t)frames->nx * sizeof *sum);
    for (int f = 0; f < frames->count; f++) {
        if (frames->pixels == MOTION_U8)
            add_bytes((const uint8_t *)frames->frame[f] + row, frames->nx, sum);
        else if (frames->pixels == MOTION_U16)
            add_words((const uint16_t *)frames->frame[f] + row, frames->nx, sum);
        else
            add_floats((const float *)frames->frame[f] + row, frames->nx, sum);
    }
}

struct search {
    const struct defects *defects;
    const float *gain; /* NULL: none */
    double sigma;
    float cap;      /* larger values do not count in the mean of the pixels around */
    bool counts;    /* no value is below 0: the noise grows with the mean */
    float variance; /* of the noise: of each count of the mean, if `counts` */
};

/* Returns the value of a pixel: its sum with gain. */
static inline float value_at(const struct search *s, size_t at) {
    return s->gain != NULL ? s->defects->sum[at] * s->gain[at] : s->defects->sum[at];
}

struct moments {
    double sum, squares, count, least;
};

/* Sums the good pixels of a row that differ from `centre` by `reach` at most. */
static void row_moments(const struct search *s, int y, float centre, float reach, struct moments *m) {
    size_t row = (size_t)y * (size_t)s->defects->nx;
    for (int x = 0; x < s->defects->nx; x++) {
        float value = value_at(s, row + (size_t)x), d = value - centre;
        if (s->defects->mask[row + (size_t)x] != 0 || !(fabsf(d) <= reach)) continue;
        m->sum += (double)d;
        m->squares += (double)d * (double)d;
        m->count++;
        if ((double)value < m->least) m->least = (double)value;
    }
}

/* What one row of pixels has around it: sums and numbers of good pixels, the row's own pixel left out. */
struct around {
    float *columns, *counts; /* [nx] sums over SIDE rows */
    float *mean;             /* [nx]; NaN where too few pixels are good */
};

MULTIVERSION static void add_columns(const float *restrict sum, const float *restrict gain,
                                     const uint8_t *restrict mask, float cap, int nx, float *restrict columns,
                                     float *restrict counts) {
    for (int x = 0; x < nx; x++) {
        float value = gain != NULL ? sum[x] * gain[x] : sum[x];
        value = value < cap ? value : cap;
        columns[x] += mask[x] == 0 ? value : 0.0f;
        counts[x] += mask[x] == 0 ? 1.0f : 0.0f;
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

static void look_around(const struct search *s, int y, struct around *a) {
    int nx = s->defects->nx, ny = s->defects->ny;
    memset(a->columns, 0, (size_t)nx * sizeof *a->columns);
    memset(a->counts, 0, (size_t)nx * sizeof *a->counts);
    for (int v = y > REACH ? y - REACH : 0; v <= y + REACH && v < ny; v++) {
        size_t row = (size_t)v * (size_t)nx;
        add_columns(s->defects->sum + row, s->gain != NULL ? s->gain + row : NULL, s->defects->mask + row, s->cap, nx,
                    a->columns, a->counts);
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
 * (sqrt(m) ± sigma sqrt(v) / 2)². */
static int judge(const struct search *s, float value, float mean) {
    double reach = s->sigma * sqrt((double)s->variance);
    if (!s->counts)
        return (double)(value - mean) > reach ? DEFECT_HOT : (double)(mean - value) > reach ? DEFECT_DEAD : 0;
    double root = sqrt(mean > 0 ? (double)mean : 0), high = root + reach / 2, low = root - reach / 2;
    if ((double)value > high * high) return DEFECT_HOT;
    return low > 0 && (double)value < low * low ? DEFECT_DEAD : 0;
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
    struct moments bands[BANDS];
    int ny = s->defects->ny;
    float centre = 0, reach = FLT_MAX;
    for (int round = 0; round < 3; round++) {
#pragma omp parallel for num_threads(threads)
        for (int b = 0; b < BANDS; b++) {
            bands[b] = (struct moments){.least = INFINITY};
            for (int y = ny * b / BANDS; y < ny * (b + 1) / BANDS; y++)
                row_moments(s, y, centre, reach, &bands[b]);
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

/* Returns the rows of a thread's scratch. */
static struct around around_of(const struct defects *d, int band) {
    float *rows = d->scratch + (size_t)band * 3 * (size_t)d->nx;
    return (struct around){.columns = rows, .counts = rows + d->nx, .mean = rows + 2 * (size_t)d->nx};
}

/* Finds the variance of the noise from the differences between pixels and those around them. `deviation` is that of
 * the image, which holds the specimen too. */
static void measure_noise(struct search *s, int threads, double deviation) {
    const double own_share = (double)(SIDE * SIDE) / (SIDE * SIDE - 1); /* a pixel counts in its own mean */
    struct moments bands[BANDS];                                        /* `sum` is that of the means */
    const struct defects *d = s->defects;
    double reach = 6 * deviation;
    for (int round = 0; round < 2; round++) {
#pragma omp parallel for num_threads(threads)
        for (int b = 0; b < BANDS; b++) {
            struct around a = around_of(d, b);
            bands[b] = (struct moments){0};
            for (int y = d->ny * b / BANDS; y < d->ny * (b + 1) / BANDS; y++) {
                look_around(s, y, &a);
                for (int x = 0; x < d->nx; x++) {
                    size_t at = (size_t)y * (size_t)d->nx + (size_t)x;
                    double difference = (double)(value_at(s, at) - a.mean[x]);
                    if (d->mask[at] != 0 || !(fabs(difference) <= reach)) continue;
                    bands[b].squares += difference * difference;
                    bands[b].sum += (double)a.mean[x];
                    bands[b].count++;
                }
            }
        }
        struct moments all = add_up(bands);
        double variance = all.count > 0 ? all.squares / all.count * own_share : 0;
        reach = 6 * sqrt(variance);
        s->variance = (float)(!s->counts ? variance : all.sum > 0 ? variance * all.count / all.sum : 0);
    }
}

/* Judges the pixels of a row into d->found. */
static void judge_row(const struct search *s, int y, struct around *a) {
    const struct defects *d = s->defects;
    size_t row = (size_t)y * (size_t)d->nx;
    look_around(s, y, a);
    for (int x = 0; x < d->nx; x++) {
        float value = value_at(s, row + (size_t)x);
        int verdict = 0;
        if (d->mask[row + (size_t)x] != 0)
            verdict = 0;
        else if (!isfinite(value))
            verdict = DEFECT_HOT;
        else if (judge(s, value, a->mean[x]) != 0)
            /* The mean may lie: beside the border of a dark area, or beside another bad pixel. */
            verdict = judge(s, value, median_around(s, x, y));
        d->found[row + (size_t)x] = (uint8_t)verdict;
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
#pragma omp parallel for num_threads(threads)
    for (int y = 0; y < d->ny; y++)
        sum_row(frames, y, d->sum + (size_t)y * (size_t)d->nx);
    measure_image(&s, threads, &mean, &deviation);
    if (deviation > 0) {
        s.cap = (float)(mean + sigma * deviation);
        measure_noise(&s, threads, deviation);
    }
    if (s.variance > 0) {
#pragma omp parallel for num_threads(threads)
        for (int b = 0; b < BANDS; b++) {
            struct around a = around_of(d, b);
            for (int y = d->ny * b / BANDS; y < d->ny * (b + 1) / BANDS; y++)
                judge_row(&s, y, &a);
        }
        found = take_found(d);
    }
    if (ret_found != NULL) *ret_found = found;
    return STATUS_OK;
}
