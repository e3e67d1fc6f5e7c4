#include "kernels/texture/texture_reference.h"

#include <math.h>
#include <string.h>

#include "common/memory.h"

/* Marginals: of the first level (and of the second, which is the same), of sums, of differences. */
struct marginals {
    double *one, *sum, *difference;
    int levels;
};

static double entropy(const double *p, int count) {
    double sum = 0;
    for (int k = 0; k < count; k++)
        if (p[k] > 0) sum -= p[k] * log(p[k]);
    return sum;
}

static double mean(const double *p, int count) {
    double sum = 0;
    for (int k = 0; k < count; k++)
        sum += k * p[k];
    return sum;
}

static double variance(const double *p, int count) {
    double about = mean(p, count), sum = 0;
    for (int k = 0; k < count; k++)
        sum += (k - about) * (k - about) * p[k];
    return sum;
}

static void marginalise(const double *p, struct marginals *m) {
    int q = m->levels;
    memset(m->one, 0, (size_t)q * sizeof *m->one);
    memset(m->sum, 0, (size_t)(2 * q) * sizeof *m->sum);
    memset(m->difference, 0, (size_t)q * sizeof *m->difference);
    for (int i = 0; i < q; i++)
        for (int j = 0; j < q; j++) {
            m->one[i] += p[i * q + j];
            m->sum[i + j] += p[i * q + j];
            m->difference[abs(i - j)] += p[i * q + j];
        }
}

static void features_of(const double *p, const struct marginals *m, double f[TEXTURE_FEATURES]) {
    int q = m->levels;
    memset(f, 0, TEXTURE_FEATURES * sizeof *f);
    double mu = mean(m->one, q), square = variance(m->one, q), product = 0;
    double hxy = entropy(p, q * q), hx = entropy(m->one, q), hxy1 = 0, hxy2 = 0;
    for (int i = 0; i < q; i++)
        for (int j = 0; j < q; j++) {
            double x = p[i * q + j], apart = m->one[i] * m->one[j];
            f[TEXTURE_ANGULAR_SECOND_MOMENT] += x * x;
            f[TEXTURE_CONTRAST] += (i - j) * (i - j) * x;
            f[TEXTURE_VARIANCE] += (i - mu) * (i - mu) * x;
            f[TEXTURE_INVERSE_DIFFERENCE_MOMENT] += x / (1 + (i - j) * (i - j));
            product += i * j * x;
            if (apart > 0) {
                hxy1 -= x * log(apart);
                hxy2 -= apart * log(apart);
            }
        }
    bool flat = hx == 0;
    f[TEXTURE_CORRELATION] = flat ? 1 : (product - mu * mu) / square;
    f[TEXTURE_SUM_AVERAGE] = mean(m->sum, 2 * q - 1);
    f[TEXTURE_SUM_VARIANCE] = variance(m->sum, 2 * q - 1);
    f[TEXTURE_SUM_ENTROPY] = entropy(m->sum, 2 * q - 1);
    f[TEXTURE_ENTROPY] = hxy;
    f[TEXTURE_DIFFERENCE_VARIANCE] = variance(m->difference, q);
    f[TEXTURE_DIFFERENCE_ENTROPY] = entropy(m->difference, q);
    f[TEXTURE_INFORMATION_1] = flat ? 0 : (hxy - hxy1) / hx;
    f[TEXTURE_INFORMATION_2] = sqrt(fmax(0, 1 - exp(-2 * (hxy2 - hxy))));
}

static enum status marginals_create(int levels, struct marginals *ret, struct err *err) {
    double *room = NULL;
    TRY(mem_new(4 * (size_t)levels, sizeof *room, "marginals", &room, err));
    *ret = (struct marginals){room, room + levels, room + 3 * levels, levels};
    return STATUS_OK;
}

enum status texture_reference_features(const double *p, int levels, double ret_features[TEXTURE_FEATURES],
                                       struct err *err) {
    struct marginals m;
    TRY(marginals_create(levels, &m, err));
    marginalise(p, &m);
    features_of(p, &m, ret_features);
    mem_free(&m.one);
    return STATUS_OK;
}

int texture_reference_counts(const uint8_t *from, ptrdiff_t pitch, int window, int dx, int dy, int levels,
                             int *ret_counts) {
    int total = 0;
    memset(ret_counts, 0, (size_t)(levels * levels) * sizeof *ret_counts);
    for (int y = 0; y < window; y++)
        for (int x = 0; x < window; x++) {
            if (x + dx < 0 || x + dx >= window || y + dy < 0 || y + dy >= window) continue;
            int i = from[y * pitch + x], j = from[(y + dy) * pitch + x + dx];
            ret_counts[i * levels + j]++;
            ret_counts[j * levels + i]++;
            total += 2;
        }
    return total;
}

int texture_reference_level(double v, double low, double high, int levels) {
    if (!(high > low) || v <= low) return 0;
    int level = (int)floor(levels * (v - low) / (high - low));
    return v >= high || level > levels - 1 ? levels - 1 : level;
}

struct reference {
    const struct texture_options *options;
    const struct texture_image *image;
    double low, high;
    uint8_t *levels; /* [ny][nx] */
    int *counts;
    double *p;
    struct marginals marginals;
    double (*values)[TEXTURE_LENGTHS][TEXTURE_FEATURES][TEXTURE_AGGREGATES];
    int pixels;
};

static double value_at(const struct texture_image *image, int x, int y) {
    ptrdiff_t at = y * image->pitch + x;
    return image->bytes ? image->bytes[at] : (double)image->floats[at];
}

static void find_range(struct reference *r) {
    r->low = r->options->fixed_range ? 0 : INFINITY;
    r->high = r->options->fixed_range ? 255 : -INFINITY;
    if (r->options->fixed_range) return;
    for (int y = 0; y < r->image->ny; y++)
        for (int x = 0; x < r->image->nx; x++) {
            if (hypot(x - r->image->centre[0], y - r->image->centre[1]) > r->options->diameter / 2) continue;
            r->low = fmin(r->low, value_at(r->image, x, y));
            r->high = fmax(r->high, value_at(r->image, x, y));
        }
}

/* Displacements whose length rounds to this one: mean and range of a pixel's features go to the image's. */
static void add_pixel(struct reference *r, int x, int y, int levels, int length, double (*values)[TEXTURE_AGGREGATES]) {
    int window = r->options->window, count = 0;
    double sum[TEXTURE_FEATURES] = {0}, low[TEXTURE_FEATURES], high[TEXTURE_FEATURES], f[TEXTURE_FEATURES];
    const uint8_t *from = r->levels + (y - window / 2) * r->image->nx + x - window / 2;
    for (int dy = 0; dy <= length; dy++)
        for (int dx = -length; dx <= length; dx++) {
            if ((dy == 0 && dx <= 0) || lround(hypot(dx, dy)) != length) continue;
            int total = texture_reference_counts(from, r->image->nx, window, dx, dy, levels, r->counts);
            for (int k = 0; k < levels * levels; k++)
                r->p[k] = (double)r->counts[k] / total;
            r->marginals.levels = levels;
            marginalise(r->p, &r->marginals);
            features_of(r->p, &r->marginals, f);
            for (int k = 0; k < TEXTURE_FEATURES; k++) {
                sum[k] += f[k];
                low[k] = count > 0 ? fmin(low[k], f[k]) : f[k];
                high[k] = count > 0 ? fmax(high[k], f[k]) : f[k];
            }
            count++;
        }
    for (int k = 0; k < TEXTURE_FEATURES; k++) {
        double range = high[k] - low[k], *to = values[k];
        to[TEXTURE_MEAN] += sum[k] / count;
        to[TEXTURE_LARGEST_RANGE] = r->pixels > 0 ? fmax(to[TEXTURE_LARGEST_RANGE], range) : range;
        to[TEXTURE_SMALLEST_RANGE] = r->pixels > 0 ? fmin(to[TEXTURE_SMALLEST_RANGE], range) : range;
    }
}

static void add_pixels(struct reference *r, int q) {
    const struct texture_options *o = r->options;
    int levels = o->levels[q], *c = (int[2]){r->image->centre[0], r->image->centre[1]};
    double radius = o->diameter / 2 - o->window / 2.0 - 0.24;
    for (int y = 0; y < r->image->ny; y++)
        for (int x = 0; x < r->image->nx; x++)
            r->levels[y * r->image->nx + x] =
                (uint8_t)texture_reference_level(value_at(r->image, x, y), r->low, r->high, levels);
    r->pixels = 0;
    for (int y = 0; y < r->image->ny; y++)
        for (int x = 0; x < r->image->nx; x++) {
            if (hypot(x - c[0], y - c[1]) > radius + 1e-9 || (x - c[0]) % o->stride || (y - c[1]) % o->stride) continue;
            for (int length = 1; length <= o->lengths; length++)
                add_pixel(r, x, y, levels, length, r->values[q][length - 1]);
            r->pixels++;
        }
    for (int length = 1; length <= o->lengths; length++)
        for (int k = 0; k < TEXTURE_FEATURES; k++)
            r->values[q][length - 1][k][TEXTURE_MEAN] /= r->pixels;
}

static enum status run(struct reference *r, struct err *err) {
    size_t cells = (size_t)TEXTURE_LEVELS * TEXTURE_LEVELS, pixels = (size_t)r->image->nx * (size_t)r->image->ny;
    TRY(mem_new(cells, sizeof *r->counts, "a matrix", &r->counts, err));
    TRY(mem_new(cells, sizeof *r->p, "a matrix", &r->p, err));
    TRY(mem_new(pixels, 1, "grey levels", &r->levels, err));
    TRY(marginals_create(TEXTURE_LEVELS, &r->marginals, err));
    find_range(r);
    for (int q = 0; q < TEXTURE_QUANTISATIONS; q++)
        add_pixels(r, q);
    return STATUS_OK;
}

enum status texture_reference_run(const struct texture_options *options, const struct texture_image *image,
                                  double (*ret_values)[TEXTURE_LENGTHS][TEXTURE_FEATURES][TEXTURE_AGGREGATES],
                                  int *ret_pixels, struct err *err) {
    struct reference r = {.options = options, .image = image, .values = ret_values};
    memset(ret_values, 0, TEXTURE_QUANTISATIONS * sizeof *ret_values);
    enum status status = run(&r, err);
    *ret_pixels = r.pixels;
    mem_free(&r.counts);
    mem_free(&r.p);
    mem_free(&r.levels);
    mem_free(&r.marginals.one);
    return status;
}
