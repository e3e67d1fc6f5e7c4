/* Draws random images whose texture is easy to get wrong, and compares features. */
#ifndef ICESTREAM_TESTS_KERNELS_TEXTURE_CASES_H
#define ICESTREAM_TESTS_KERNELS_TEXTURE_CASES_H

#include "kernels/texture/texture_private.h"
#include "kernels/texture/texture_reference.h"
#include "tests/kernels/chance.h"

/* NOISE: all levels. STRIPES: all pairs are alike. SPOT: a square of another value in a plain field, so that most
 * windows are constant. */
enum pattern { NOISE, SMOOTH, CONSTANT, TWO_LEVELS, STRIPES, HALVES, SPOT, PATTERNS };
static const char *const PATTERN_NAMES[] = {"noise", "smooth", "constant", "two levels", "stripes", "halves", "spot"};

struct picture {
    int nx, ny;
    uint8_t *bytes; /* [ny][nx] */
    float *floats;
};

static inline uint8_t pattern_at(enum pattern pattern, const struct picture *p, int x, int y) {
    switch (pattern) {
    case NOISE:
        return (uint8_t)(256 * uniform());
    case SMOOTH:
        return (uint8_t)(128 + 60 * sin(0.11 * x + 0.05 * y) + 40 * cos(0.2 * y) + 20 * uniform());
    case CONSTANT:
        return 77;
    case TWO_LEVELS:
        return uniform() < 0.3 ? 10 : 200;
    case STRIPES:
        return (uint8_t)(x % 4 * 60);
    case HALVES:
        return (uint8_t)(y < p->ny / 2 ? 40 : 90 + 8 * (x % 3));
    default:
        return abs(x - p->nx / 2) < 3 && abs(y - p->ny / 2) < 3 ? 250 : 30;
    }
}

static inline struct picture make_picture(enum pattern pattern, int nx, int ny) {
    struct picture p = {.nx = nx, .ny = ny};
    p.bytes = malloc((size_t)(nx * ny));
    p.floats = malloc((size_t)(nx * ny) * sizeof *p.floats);
    assert_non_null(p.bytes);
    assert_non_null(p.floats);
    for (int y = 0; y < ny; y++)
        for (int x = 0; x < nx; x++) {
            p.bytes[y * nx + x] = pattern_at(pattern, &p, x, y);
            p.floats[y * nx + x] = (float)(1e-3 * p.bytes[y * nx + x] - 0.1);
        }
    return p;
}

static inline void free_picture(struct picture *p) {
    free(p->bytes);
    free(p->floats);
}

static inline struct texture_image image_of(const struct picture *p, bool floats) {
    struct texture_image image = {.nx = p->nx, .ny = p->ny, .pitch = p->nx, .centre = {p->nx / 2, p->ny / 2}};
    image.bytes = floats ? NULL : p->bytes;
    image.floats = floats ? p->floats : NULL;
    return image;
}

/* The allowed error is 1e-5 of a feature's size, for ranges too. The size is the mean, or the largest range if that is
 * more, as with correlations whose signs cancel. A value that is 0 in exact arithmetic may be the √ of a rounding
 * error. So if the size is below 1e-6, the allowed error is 1e-6. */
static const double ALLOWED = 1e-5, NOTHING = 1e-6;

static inline double allowed_error(const double feature[TEXTURE_AGGREGATES]) {
    double size = fmax(fabs(feature[TEXTURE_MEAN]), feature[TEXTURE_LARGEST_RANGE]);
    return size < NOTHING ? NOTHING : ALLOWED * size;
}

/* Returns the largest error relative to the allowed error. */
static inline double worst_error(const struct texture_options *o, const struct texture_features *found,
                                 double (*expected)[TEXTURE_LENGTHS][TEXTURE_FEATURES][TEXTURE_AGGREGATES]) {
    double worst = 0;
    int shown = 0;
    for (int q = 0; q < TEXTURE_QUANTISATIONS; q++)
        for (int l = 0; l < TEXTURE_LENGTHS; l++)
            for (int k = 0; k < TEXTURE_FEATURES; k++)
                for (int a = 0; a < TEXTURE_AGGREGATES; a++) {
                    bool computed = l < o->lengths;
                    double x = found->values[q][l][k][a], y = computed ? expected[q][l][k][a] : 0;
                    double error = computed ? fabs(x - y) / allowed_error(expected[q][l][k]) : x == 0 ? 0 : HUGE_VAL;
                    if (!(error <= 1) && shown++ < 5)
                        print_message("    levels %d, length %d, f%d, aggregate %d: %.9g, not %.9g\n", o->levels[q],
                                      l + 1, k + 1, a, x, y);
                    /* NaN is worst. */
                    worst = error > worst || !(error == error) ? error : worst;
                }
    return worst;
}

#endif
