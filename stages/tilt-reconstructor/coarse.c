#include "stages/tilt-reconstructor/coarse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/fft.h"
#include "common/memory.h"

/* Fractions of Nyquist. Slow changes of grey and the noise of single pixels carry no information on shifts. */
static const double HIGH_PASS = 0.03, LOW_PASS = 0.35, LOW_PASS_WIDTH = 0.1;
/* Fractions of a side: the rim where the image fades into its mean, and how far a neighbour may have moved. */
static const double TAPER = 0.1, FARTHEST = 0.4;
/* Degrees: beyond this tilt the stretch by the cosine grows without limit. */
static const double ANGLE_MOST = 85;

struct coarse {
    int nx, ny;
    struct fft_plan *forward, *inverse;
    float *filter; /* [ny][nx/2+1] */
    float *taper_x, *taper_y;
    float *picture, *map;     /* [ny][nx] */
    float *reference, *other; /* half-complex */
};

void coarse_destroy(struct coarse **coarse) {
    if (coarse == NULL || *coarse == NULL) return;
    struct coarse *c = *coarse;
    fft_destroy(&c->forward);
    fft_destroy(&c->inverse);
    float *buffers[] = {c->filter, c->taper_x, c->taper_y, c->picture, c->map, c->reference, c->other};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        free(buffers[i]);
    free(c);
    *coarse = NULL;
}

static void fill_taper(float *taper, int n) {
    double width = fmax(TAPER * n, 1), pi = acos(-1);
    for (int i = 0; i < n; i++) {
        double edge = fmin(i + 0.5, n - i - 0.5) / width;
        taper[i] = (float)(edge >= 1 ? 1 : 0.5 - 0.5 * cos(pi * edge));
    }
}

static void fill_filter(struct coarse *c) {
    for (int y = 0; y < c->ny; y++)
        for (int x = 0; x <= c->nx / 2; x++) {
            double fy = (y <= c->ny / 2 ? y : y - c->ny) / (0.5 * c->ny), fx = x / (0.5 * c->nx);
            double f = sqrt(fx * fx + fy * fy), d = fmax(f - LOW_PASS, 0) / LOW_PASS_WIDTH;
            double pass = (1 - exp(-0.5 * f * f / (HIGH_PASS * HIGH_PASS))) * exp(-0.5 * d * d);
            c->filter[(size_t)y * (size_t)(c->nx / 2 + 1) + (size_t)x] = (float)(pass * pass);
        }
}

enum status coarse_create(int nx, int ny, int threads, struct coarse **ret_coarse, struct err *err) {
    _cleanup_(coarse_destroy) struct coarse *c = NULL;
    TRY(mem_new(1, sizeof *c, "coarse alignment", &c, err));
    c->nx = nx;
    c->ny = ny;
    size_t real = (size_t)nx * (size_t)ny, half = (size_t)ny * (size_t)(nx / 2 + 1);
    struct fft_options plan = {.rank = 2, .shape = {ny, nx}, .direction = FFT_FORWARD, .threads = threads};
    TRY(fft_create(&plan, &c->forward, err));
    plan.direction = FFT_INVERSE;
    TRY(fft_create(&plan, &c->inverse, err));
    TRY(mem_new(half, sizeof *c->filter, "coarse alignment", &c->filter, err));
    TRY(mem_new((size_t)nx, sizeof *c->taper_x, "coarse alignment", &c->taper_x, err));
    TRY(mem_new((size_t)ny, sizeof *c->taper_y, "coarse alignment", &c->taper_y, err));
    TRY(mem_new(real, sizeof *c->picture, "coarse alignment", &c->picture, err));
    TRY(mem_new(real, sizeof *c->map, "coarse alignment", &c->map, err));
    TRY(mem_new(2 * half, sizeof *c->reference, "coarse alignment", &c->reference, err));
    TRY(mem_new(2 * half, sizeof *c->other, "coarse alignment", &c->other, err));
    fill_taper(c->taper_x, nx);
    fill_taper(c->taper_y, ny);
    fill_filter(c);
    *ret_coarse = c;
    c = NULL;
    return STATUS_OK;
}

/* Stretches an image across the axis, subtracts its mean, tapers its rim to 0, and transforms it. */
static void transform(struct coarse *c, const float *image, double stretch, float *spectrum) {
    int nx = c->nx, ny = c->ny;
    double sum = 0, centre = 0.5 * (nx - 1);
    for (int y = 0; y < ny; y++)
        for (int x = 0; x < nx; x++) {
            double u = centre + (x - centre) / stretch;
            int i = (int)floor(u);
            i = i < 0 ? 0 : i > nx - 2 ? nx - 2 : i;
            float f = (float)fmin(fmax(u - i, 0), 1);
            const float *row = image + (size_t)y * (size_t)nx;
            float value = row[i] * (1 - f) + row[i + 1] * f;
            c->picture[(size_t)y * (size_t)nx + (size_t)x] = value;
            sum += value;
        }
    float mean = (float)(sum / nx / ny);
    for (int y = 0; y < ny; y++)
        for (int x = 0; x < nx; x++) {
            float *value = &c->picture[(size_t)y * (size_t)nx + (size_t)x];
            *value = (*value - mean) * c->taper_x[x] * c->taper_y[y];
        }
    fft_run(c->forward, c->picture, spectrum);
}

/* Computes map(t) = Σ reference(x + t) other(x). Its peak is the shift that moves `other` onto the reference. */
static void correlate(struct coarse *c) {
    size_t half = (size_t)c->ny * (size_t)(c->nx / 2 + 1);
    for (size_t i = 0; i < half; i++) {
        float ar = c->reference[2 * i], ai = c->reference[2 * i + 1];
        float br = c->other[2 * i], bi = c->other[2 * i + 1], f = c->filter[i];
        c->other[2 * i] = f * (ar * br + ai * bi);
        c->other[2 * i + 1] = f * (ai * br - ar * bi);
    }
    fft_run(c->inverse, c->other, c->map);
}

static float map_at(const struct coarse *c, int x, int y) {
    x = (x % c->nx + c->nx) % c->nx;
    y = (y % c->ny + c->ny) % c->ny;
    return c->map[(size_t)y * (size_t)c->nx + (size_t)x];
}

/* Returns where the parabola through three values has its top, from the middle one. */
static double top(float before, float at, float after) {
    double curve = (double)before - 2 * (double)at + (double)after;
    if (!(curve < 0)) return 0;
    return fmin(fmax(0.5 * ((double)before - (double)after) / curve, -0.5), 0.5);
}

static void find_peak(const struct coarse *c, double *ret_x, double *ret_y, double *ret_height) {
    int most_x = (int)(FARTHEST * c->nx), most_y = (int)(FARTHEST * c->ny), best_x = 0, best_y = 0;
    float best = -INFINITY;
    double squares = 0;
    for (int y = -most_y; y <= most_y; y++)
        for (int x = -most_x; x <= most_x; x++) {
            float value = map_at(c, x, y);
            if (value > best) {
                best = value;
                best_x = x;
                best_y = y;
            }
        }
    for (size_t i = 0; i < (size_t)c->nx * (size_t)c->ny; i++)
        squares += (double)c->map[i] * (double)c->map[i];
    double deviation = sqrt(squares / c->nx / c->ny);
    *ret_x = *ret_y = *ret_height = 0;
    if (!(deviation > 0)) return; /* a blank image */
    *ret_x = best_x + top(map_at(c, best_x - 1, best_y), best, map_at(c, best_x + 1, best_y));
    *ret_y = best_y + top(map_at(c, best_x, best_y - 1), best, map_at(c, best_x, best_y + 1));
    *ret_height = best / deviation;
}

static double cosine(double angle) {
    return cos(fmin(fabs(angle), ANGLE_MOST) * acos(-1) / 180);
}

enum status coarse_align(struct coarse *c, const float *images, const double *angles, int count, double *ret_dx,
                         double *ret_dy, double *ret_peaks, struct err *err) {
    size_t pixels = (size_t)c->nx * (size_t)c->ny;
    int least = 0;
    FAIL_IF(c->nx < 16 || c->ny < 16, err, STATUS_BAD_ARGUMENT,
            "images of %d × %d px are too small to be aligned: 16 px or more are needed; take a smaller bin", c->nx,
            c->ny);
    for (int i = 1; i < count; i++)
        if (fabs(angles[i]) < fabs(angles[least])) least = i;
    ret_dx[least] = ret_dy[least] = ret_peaks[least] = 0;
    for (int way = -1; way <= 1; way += 2)
        for (int j = least + way; j >= 0 && j < count; j += way) {
            int i = j - way;
            double stretch = cosine(angles[i]) / cosine(angles[j]), tx, ty;
            transform(c, images + (size_t)i * pixels, 1, c->reference);
            transform(c, images + (size_t)j * pixels, stretch, c->other);
            correlate(c);
            find_peak(c, &tx, &ty, &ret_peaks[j]);
            ret_dx[j] = (tx + ret_dx[i]) / stretch;
            ret_dy[j] = ty + ret_dy[i];
        }
    return STATUS_OK;
}
