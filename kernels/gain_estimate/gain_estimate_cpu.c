#include "kernels/gain_estimate/gain_estimate.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/defects/defects.h"

/* Slow changes are those of the mean over a square of 2 REACH + 1 pixels a side. A detector shows few of them, so their
 * noise is badly known: it counts more the fewer movies there are, and fewer than SLOW_LEAST show nothing. */
enum { REACH = 32, SLOW_LEAST = 8, SLOW_DOUBT = 32 };

struct gain_estimate {
    int nx, ny, movies;
    float *half[2]; /* sums of the movies */
    float *scratch; /* the sum of a movie; then the slow part of a half */
};

void gain_estimate_destroy(struct gain_estimate **estimate) {
    if (estimate == NULL || *estimate == NULL) return;
    free((*estimate)->half[0]);
    free((*estimate)->half[1]);
    free((*estimate)->scratch);
    mem_free(estimate);
}

size_t gain_estimate_bytes(int nx, int ny) {
    return mem_sum(mem_bytes((size_t)nx * (size_t)ny, 5 * sizeof(float)), 4 * (size_t)nx * sizeof(double));
}

enum status gain_estimate_create(int nx, int ny, struct gain_estimate **ret_estimate, struct err *err) {
    _cleanup_(gain_estimate_destroy) struct gain_estimate *e = calloc(1, sizeof *e);
    size_t pixels = (size_t)nx * (size_t)ny;
    FAIL_IF(e == NULL, err, STATUS_NO_MEMORY, "no memory to estimate a gain reference");
    e->nx = nx;
    e->ny = ny;
    for (int h = 0; h < 2; h++)
        TRY(mem_new(pixels, sizeof(float), "the sum of movies", &e->half[h], err));
    TRY(mem_new(pixels, sizeof(float), "the sum of a movie", &e->scratch, err));
    *ret_estimate = e;
    e = NULL;
    return STATUS_OK;
}

enum status gain_estimate_add(struct gain_estimate *e, const struct motion_frames *frames, int threads,
                              struct err *err) {
    FAIL_IF(frames->nx != e->nx || frames->ny != e->ny, err, STATUS_BAD_FORMAT,
            "its frames have %d × %d px, those of the movies before %d × %d: one gain reference is of one camera",
            frames->nx, frames->ny, e->nx, e->ny);
    size_t pixels = (size_t)e->nx * (size_t)e->ny;
    float *half = e->half[e->movies % 2];
    double total = 0;
    defects_sum_frames(frames, threads, e->scratch);
    for (size_t i = 0; i < pixels; i++)
        total += (double)e->scratch[i];
    FAIL_IF(!(total > 0) || !isfinite(total), err, STATUS_BAD_FORMAT,
            "its frames hold no counts (their sum is %g): a gain reference is made of movies that were exposed", total);
    for (size_t i = 0; i < pixels; i++)
        half[i] += e->scratch[i];
    e->movies++;
    return STATUS_OK;
}

/* Divides a half by its mean. Returns the mean. */
static double normalise(float *half, size_t pixels) {
    double sum = 0;
    for (size_t i = 0; i < pixels; i++)
        sum += (double)half[i];
    double mean = sum / (double)pixels;
    for (size_t i = 0; i < pixels; i++)
        half[i] = (float)((double)half[i] / mean);
    return mean;
}

/* Columns of the squares whose means are the slow part. */
struct columns {
    double *sum, *count; /* [nx] */
};

static void add_row(const float *values, const uint8_t *bad, int nx, double weight, const struct columns *c) {
    for (int x = 0; x < nx; x++)
        if (bad[x] == 0) {
            c->sum[x] += weight * (double)values[x];
            c->count[x] += weight;
        }
}

/* Fills slow[ny][nx] with the mean of the good pixels around each; 1 where there are none. */
static void find_slow(const float *values, const uint8_t *bad, int nx, int ny, const struct columns *c, float *slow) {
    memset(c->sum, 0, (size_t)nx * sizeof *c->sum);
    memset(c->count, 0, (size_t)nx * sizeof *c->count);
    for (int y = -REACH; y < ny; y++) {
        size_t leads = (size_t)(y + REACH) * (size_t)nx, leaves = (size_t)(y - REACH - 1) * (size_t)nx;
        if (y + REACH < ny) add_row(values + leads, bad + leads, nx, 1, c);
        if (y > REACH) add_row(values + leaves, bad + leaves, nx, -1, c);
        if (y < 0) continue;
        double sum = 0, count = 0;
        for (int x = -REACH; x < nx; x++) {
            if (x + REACH < nx) {
                sum += c->sum[x + REACH];
                count += c->count[x + REACH];
            }
            if (x > REACH) {
                sum -= c->sum[x - REACH - 1];
                count -= c->count[x - REACH - 1];
            }
            if (x >= 0) slow[(size_t)y * (size_t)nx + (size_t)x] = count > 0.5 ? (float)(sum / count) : 1;
        }
    }
}

/* Returns the part of the movies that went into a half. */
static double weight_of(const struct gain_estimate *e, int half) {
    return (double)((e->movies + 1 - half) / 2) / e->movies;
}

/* Variances of the mean of two halves. */
struct spread {
    double total, noise; /* all of it; the part that is noise */
};

static struct spread compare(const struct gain_estimate *e, const float *a, const float *b, const uint8_t *bad) {
    size_t pixels = (size_t)e->nx * (size_t)e->ny;
    const double first = weight_of(e, 0), second = weight_of(e, 1);
    double sum = 0, squares = 0, differences = 0, count = 0;
    for (size_t i = 0; i < pixels; i++) {
        if (bad[i] != 0) continue;
        double mean = first * (double)a[i] + second * (double)b[i], difference = (double)a[i] - (double)b[i];
        sum += mean;
        squares += mean * mean;
        differences += difference * difference * first * second;
        count++;
    }
    if (count < 1) return (struct spread){0};
    return (struct spread){.total = squares / count - sum / count * (sum / count), .noise = differences / count};
}

/* Returns how much of a deviation to believe. */
static double share(struct spread s) {
    return s.total > s.noise ? (s.total - s.noise) / s.total : 0;
}

/* Marks pixels whose response is far from 1, where the slow part of both halves is known, or from the mean. */
static size_t mark_bad(const struct gain_estimate *e, const float *slow, uint8_t *bad) {
    const double most = 5;
    size_t pixels = (size_t)e->nx * (size_t)e->ny, count = 0;
    for (size_t i = 0; i < pixels; i++) {
        double value = ((double)e->half[0][i] + (double)e->half[1][i]) / 2,
               expected = slow != NULL ? (double)slow[i] : 1;
        bad[i] = !(value * most > expected && value < most * expected);
        count += bad[i];
    }
    return count;
}

/* Takes the slow part out of a half: half = slow + detail. */
static void split(float *half, const float *slow, size_t pixels) {
    for (size_t i = 0; i < pixels; i++)
        half[i] -= slow[i];
}

/* A detail that stands far out of the noise is believed, however even the other pixels are. */
static double believed(double detail, double part, double noise) {
    double own = 1 - 16 * noise / (detail * detail);
    return detail * (own > part ? own : part);
}

enum status gain_estimate_finish(struct gain_estimate *e, float *gain, struct gain_estimate_report *ret_report,
                                 struct err *err) {
    FAIL_IF(e->movies < 2, err, STATUS_BAD_STATE,
            "%d movie%s: a gain reference is made of 2 movies at least, and of 20 or more to be good", e->movies,
            e->movies == 1 ? "" : "s");
    size_t pixels = (size_t)e->nx * (size_t)e->ny;
    _cleanup_(mem_free) uint8_t *bad = NULL;
    _cleanup_(mem_free) float *other = NULL;
    struct columns columns;
    _cleanup_(mem_free) double *sums = NULL;
    TRY(mem_new(pixels, sizeof *bad, "bad pixels", &bad, err));
    TRY(mem_new_unset(pixels, sizeof *other, "the slow part of a gain", &other, err));
    TRY(mem_new_unset((size_t)e->nx, 2 * sizeof *sums, "sums of columns", &sums, err));
    columns = (struct columns){.sum = sums, .count = sums + e->nx};
    double counts = normalise(e->half[0], pixels) + normalise(e->half[1], pixels);
    /* The first look knows no surroundings, the second leaves the bad pixels of the first out of them. */
    mark_bad(e, NULL, bad);
    find_slow(e->half[0], bad, e->nx, e->ny, &columns, e->scratch);
    size_t bad_count = mark_bad(e, e->scratch, bad);
    find_slow(e->half[0], bad, e->nx, e->ny, &columns, e->scratch);
    find_slow(e->half[1], bad, e->nx, e->ny, &columns, other);
    split(e->half[0], e->scratch, pixels);
    split(e->half[1], other, pixels);
    struct spread slow = compare(e, e->scratch, other, bad);
    struct spread fine = compare(e, e->half[0], e->half[1], bad);
    const double first = weight_of(e, 0), second = weight_of(e, 1);
    slow.noise *= 1 + (double)SLOW_DOUBT / e->movies;
    double slow_part = e->movies < SLOW_LEAST ? 0 : share(slow), fine_part = share(fine);
    for (size_t i = 0; i < pixels; i++) {
        double detail = first * (double)e->half[0][i] + second * (double)e->half[1][i];
        double far = first * (double)e->scratch[i] + second * (double)other[i] - 1;
        double response = 1 + slow_part * far + believed(detail, fine_part, fine.noise);
        gain[i] = bad[i] == 0 && response > 0 ? (float)(1 / response) : 0;
    }
    if (ret_report != NULL)
        *ret_report = (struct gain_estimate_report){.movies = e->movies,
                                                    .counts = counts,
                                                    .variation = sqrt(fmax(fine.total - fine.noise, 0)),
                                                    .noise = sqrt(fine.noise),
                                                    .bad = bad_count};
    return STATUS_OK;
}
