#include "kernels/regrid/regrid.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "common/fft.h"
#include "common/memory.h"
#include "common/multiversion.h"

enum { TAPS = 6, PER_STEP = 4096, PAD = 2 };
static const double BETA = 13.86;    /* of the window: best for TAPS and PAD */
static const double SAME = 1e-4;     /* parts by which extents may differ and count as the same */
static const double IDENTITY = 1e-6; /* by which a matrix may differ from 1 */

struct regrid {
    struct regrid_options options;
    double inverse[4]; /* M⁻¹ */
    bool copies;       /* frequencies coincide */
    int grid;          /* px: of the transform that is read */
    struct fft_plan *forward, *backward;
    /* In place of `forward` where frequencies coincide and only the first ones of each row are read: the rows, and then
     * the first box/2 columns. The values agree to rounding. */
    struct fft_plan *rows, *columns;
    float *factors;    /* [box][box/2 + 1] complex, by which the values that were read are multiplied */
    float *correction; /* [from_box]: 1 / the window's transform; 0: beyond the extent of the result */
    float *window;     /* [TAPS/2 · PER_STEP + 2] */
};

static bool is_identity(const double m[4]) {
    return fabs(m[0] - 1) < IDENTITY && fabs(m[1]) < IDENTITY && fabs(m[2]) < IDENTITY && fabs(m[3] - 1) < IDENTITY;
}

static bool same_extent(const struct regrid_options *o) {
    return fabs(o->from_box * o->from_pixel / (o->box * o->pixel_size) - 1) < SAME;
}

int regrid_changes_nothing(const struct regrid_options *o) {
    return o->from_box == o->box && same_extent(o) && is_identity(o->magnification) && o->factor == NULL &&
           (o->odd == NULL || o->odd->degree < 0);
}

static void invert(const double m[4], double inverse[4]) {
    double determinant = m[0] * m[3] - m[1] * m[2];
    inverse[0] = m[3] / determinant, inverse[1] = -m[1] / determinant;
    inverse[2] = -m[2] / determinant, inverse[3] = m[0] / determinant;
}

double regrid_limit(const struct regrid_options *o) {
    double inverse[4];
    invert(o->magnification, inverse);
    double stretch = fmax(hypot(inverse[0], inverse[1]), hypot(inverse[2], inverse[3]));
    double limit = 0.5 / (o->from_pixel * stretch), last = 0.5 / o->pixel_size;
    return limit < last * (1 - 1e-3) ? limit : 0;
}

double regrid_share(const float *spectrum, int shells, double limit) {
    double all = 0, held = 0;
    if (!(limit > 0)) return 1;
    for (int s = 1; s < shells; s++) {
        double inner = (s - 0.5) * (s - 0.5), outer = (s + 0.5) * (s + 0.5);
        all += (double)spectrum[s] * (outer - inner);
        if (limit > s - 0.5) held += (double)spectrum[s] * (fmin(outer, limit * limit) - inner);
    }
    return held > 0 ? held / all : 1;
}

int regrid_last_shell(int shells, double limit) {
    enum { CARRIED = 3 }; /* shells */
    int last = limit > 0 ? (int)floor(limit) - CARRIED : shells - 1;
    return last < 1 ? 1 : last < shells - 1 ? last : shells - 1;
}

/* Modified Bessel function of order 0. */
static double bessel(double x) {
    double sum = 1, term = 1;
    for (int k = 1; k < 60; k++) {
        term *= (x / (2 * k)) * (x / (2 * k));
        sum += term;
    }
    return sum;
}

static void fill_window(struct regrid *r) {
    for (int i = 0; i < TAPS / 2 * PER_STEP + 2; i++) {
        double t = 2.0 * i / PER_STEP / TAPS;
        r->window[i] = (float)(t <= 1 ? bessel(BETA * sqrt(1 - t * t)) / bessel(BETA) : 0);
    }
}

/* Returns the window's transform at a pixel. */
static double window_transform(int pixel, int grid) {
    double a = M_PI * TAPS * pixel / grid, root = sqrt(BETA * BETA - a * a);
    return TAPS * sinh(root) / root / bessel(BETA);
}

static void fill_correction(struct regrid *r) {
    const struct regrid_options *o = &r->options;
    int n = o->from_box;
    double reach = 0.5 * o->box * o->pixel_size / o->from_pixel;
    for (int i = 0; i < n; i++) {
        int pixel = i - n / 2;
        if (r->copies)
            r->correction[i] = 1;
        else if (fabs((double)pixel) <= reach + 1e-9)
            r->correction[i] = (float)(1 / window_transform(pixel, r->grid));
    }
}

/* A column or row in the middle of the transform stands for both signs of its frequency and has no phase. */
static void fill_factors(struct regrid *r) {
    const struct regrid_options *o = &r->options;
    int n = o->box, columns = n / 2 + 1;
    double step = 1 / (n * o->pixel_size), nyquist = 0.5 / o->from_pixel * (1 - 1e-9);
    double scale = o->from_pixel / o->pixel_size / ((double)n * n), limit = regrid_limit(o);
    bool same_box = r->copies && o->from_box == n;
    for (int row = 0; row < n; row++)
        for (int kx = 0; kx < columns; kx++) {
            int ky = row <= n / 2 ? row : row - n;
            bool middle = kx == n / 2 || ky == n / 2;
            double x = kx * step, y = ky * step;
            double from_x = r->inverse[0] * x + r->inverse[1] * y, from_y = r->inverse[2] * x + r->inverse[3] * y;
            bool held = middle ? same_box : fabs(from_x) < nyquist && fabs(from_y) < nyquist;
            if (!held || (limit > 0 && hypot(x, y) > limit)) continue;
            double factor = scale * (o->factor != NULL ? o->factor(o->context, hypot(x, y)) : 1);
            double phase = o->odd != NULL && !middle ? -aberration_phase(o->odd, x, y) : 0;
            float *value = r->factors + 2 * ((size_t)row * (size_t)columns + (size_t)kx);
            value[0] = (float)(factor * cos(phase));
            value[1] = (float)(factor * sin(phase));
        }
}

static enum status plan_forward(struct regrid *r, struct err *err) {
    const int m = r->grid;
    const struct fft_options forward = {.rank = 2, .shape = {m, m}, .direction = FFT_FORWARD};
    const struct fft_options rows = {.rank = 1, .shape = {m}, .batch = m, .direction = FFT_FORWARD};
    const struct fft_options columns = {
        .rank = 1, .shape = {m}, .batch = r->options.box / 2, .stride = m / 2 + 1, .direction = FFT_COMPLEX};
    if (!r->copies || r->options.box >= m) return fft_create(&forward, &r->forward, err);
    TRY(fft_create(&rows, &r->rows, err));
    return fft_create(&columns, &r->columns, err);
}

static enum status allocate(struct regrid *r, struct err *err) {
    size_t n = (size_t)r->options.box;
    const struct fft_options backward = {.rank = 2, .shape = {(int)n, (int)n}, .direction = FFT_INVERSE};
    TRY(plan_forward(r, err));
    TRY(fft_create(&backward, &r->backward, err));
    TRY(mem_new(n * (n / 2 + 1), 2 * sizeof *r->factors, "factors of a particle's transform", &r->factors, err));
    TRY(mem_new((size_t)r->options.from_box, sizeof *r->correction, "a window", &r->correction, err));
    return mem_new((size_t)TAPS / 2 * PER_STEP + 2, sizeof *r->window, "a window", &r->window, err);
}

enum status regrid_create(const struct regrid_options *o, struct regrid **ret_regrid, struct err *err) {
    double determinant = o->magnification[0] * o->magnification[3] - o->magnification[1] * o->magnification[2];
    FAIL_IF(o->box < 4 || o->box % 2 != 0 || o->from_box < 4 || o->from_box % 2 != 0 || !(o->from_pixel > 0) ||
                !(o->pixel_size > 0) || !(determinant > 0),
            err, STATUS_BAD_ARGUMENT,
            "images of %d px of %g Å cannot be brought to %d px of %g Å with a magnification of determinant %g",
            o->from_box, o->from_pixel, o->box, o->pixel_size, determinant);
    struct regrid *r = NULL;
    TRY(mem_new(1, sizeof *r, "another grid for particles", &r, err));
    r->options = *o;
    invert(o->magnification, r->inverse);
    r->copies = same_extent(o) && is_identity(o->magnification);
    r->grid = r->copies ? o->from_box : fft_good_size(PAD * o->from_box);
    enum status status = allocate(r, err);
    if (status != STATUS_OK) {
        regrid_destroy(&r);
        return status;
    }
    fill_window(r);
    fill_correction(r);
    fill_factors(r);
    r->options.odd = NULL; /* they need not outlive this call */
    r->options.context = NULL;
    *ret_regrid = r;
    return STATUS_OK;
}

void regrid_destroy(struct regrid **regrid) {
    struct regrid *r = *regrid;
    if (r == NULL) return;
    fft_destroy(&r->forward);
    fft_destroy(&r->rows);
    fft_destroy(&r->columns);
    fft_destroy(&r->backward);
    mem_free(&r->factors);
    mem_free(&r->correction);
    mem_free(&r->window);
    mem_free(regrid);
}

/* Keeps each part of the scratch aligned. */
static size_t aligned(size_t floats) {
    return (floats + 15) / 16 * 16;
}

static size_t largest(size_t a, size_t b) {
    return a > b ? a : b;
}

/* Returns the floats of an image, which is given or made, and of its transform. */
static size_t image_floats(const struct regrid *r) {
    return aligned(largest((size_t)r->grid * (size_t)r->grid, fft_real_count(r->backward)));
}

static size_t transform_floats(const struct regrid *r) {
    return aligned(2 * (size_t)r->grid * (size_t)(r->grid / 2 + 1));
}

size_t regrid_before_scratch(int box) {
    return aligned((size_t)box * (size_t)box);
}

size_t regrid_scratch(const struct regrid *r) {
    return image_floats(r) + transform_floats(r) + aligned(fft_complex_floats(r->backward));
}

static inline int around(int i, int n) {
    return i < 0 ? i + n : i;
}

static MULTIVERSION void correct(const float *from, float of_row, const float *correction, int count, float *to) {
    for (int i = 0; i < count; i++)
        to[i] = from[i] * of_row * correction[i];
}

/* Puts the image's centre at the origin of the grid. */
static void spread(const struct regrid *r, const float *image, float *grid) {
    const int n = r->options.from_box, m = r->grid, half = n / 2;
    if (m > n) memset(grid, 0, (size_t)m * (size_t)m * sizeof *grid);
    for (int y = 0; y < n; y++) {
        const float *from = image + (size_t)y * (size_t)n, of_row = r->correction[y];
        float *row = grid + (size_t)around(y - half, m) * (size_t)m;
        correct(from + half, of_row, r->correction + half, half, row);
        correct(from, of_row, r->correction, half, row + m - half);
    }
}

/* Transforms the grid, which is lost; `half` has what is read of it. */
static void transform(const struct regrid *r, float *grid, float *half) {
    if (r->forward != NULL) {
        fft_run(r->forward, grid, half);
        return;
    }
    fft_run(r->rows, grid, half);
    fft_run(r->columns, half, half);
}

/* Returns the weights of TAPS points from `first` on, about `at`. */
static int weigh(const struct regrid *r, double at, float weights[TAPS]) {
    int first = (int)floor(at) - TAPS / 2 + 1;
    for (int i = 0; i < TAPS; i++) {
        double t = fabs(at - (first + i)) * PER_STEP;
        int entry = (int)t;
        float part = (float)(t - entry);
        weights[i] = r->window[entry] + part * (r->window[entry + 1] - r->window[entry]);
    }
    return first;
}

/* Reads the transform between its points. */
static void interpolate(const struct regrid *r, const float *half, double x, double y, float value[2]) {
    int m = r->grid, columns = m / 2 + 1;
    float weights_x[TAPS], weights_y[TAPS];
    int first_x = weigh(r, x, weights_x), first_y = weigh(r, y, weights_y);
    value[0] = value[1] = 0;
    for (int j = 0; j < TAPS; j++)
        for (int i = 0; i < TAPS; i++) {
            int kx = first_x + i, ky = first_y + j;
            bool mirrored = kx < 0 || kx > m / 2;
            if (kx > m / 2) kx -= m;
            if (mirrored) kx = -kx, ky = -ky;
            ky = ky < 0 ? ky + m : ky >= m ? ky - m : ky;
            const float *at = half + 2 * ((size_t)ky * (size_t)columns + (size_t)kx);
            float weight = weights_x[i] * weights_y[j];
            value[0] += weight * at[0];
            value[1] += mirrored ? -weight * at[1] : weight * at[1];
        }
}

static void read_value(const struct regrid *r, const float *half, int kx, int ky, float value[2]) {
    const struct regrid_options *o = &r->options;
    double step = r->grid * o->from_pixel / (o->box * o->pixel_size);
    interpolate(r, half, step * (r->inverse[0] * kx + r->inverse[1] * ky),
                step * (r->inverse[2] * kx + r->inverse[3] * ky), value);
}

/* Copies and multiplies a row whose frequencies coincide. Those whose factor is 0 may hold anything. */
static MULTIVERSION void copy_row(const float *from, const float *factors, int count, float *result) {
    for (int i = 0; i < count; i++) {
        const float *v = from + 2 * i, *factor = factors + 2 * i;
        const bool held = factor[0] != 0 || factor[1] != 0;
        const float re = v[0] * factor[0] - v[1] * factor[1], im = v[0] * factor[1] + v[1] * factor[0];
        result[2 * i] = held ? re : 0;
        result[2 * i + 1] = held ? im : 0;
    }
}

static void gather_copies(const struct regrid *r, const float *half, float *result) {
    const int n = r->options.box, m = r->grid;
    const size_t columns = (size_t)n / 2 + 1, from_columns = (size_t)m / 2 + 1;
    const int read = n < m ? n / 2 : m / 2 + 1; /* of a row; others have no counterpart */
    memset(result, 0, 2 * (size_t)n * columns * sizeof *result);
    for (int row = 0; row < n; row++) {
        const int ky = row <= n / 2 ? row : row - n;
        if (ky > m / 2 || ky < -m / 2) continue;
        const size_t to = 2 * (size_t)row * columns;
        copy_row(half + 2 * (size_t)around(ky, m) * from_columns, r->factors + to, read, result + to);
    }
}

/* Fills the transform of the result, whose image has its centre at the origin. */
static void gather(const struct regrid *r, const float *half, float *result) {
    int n = r->options.box, columns = n / 2 + 1;
    if (r->copies) {
        gather_copies(r, half, result);
        return;
    }
    for (int row = 0; row < n; row++)
        for (int kx = 0; kx < columns; kx++) {
            size_t at = 2 * ((size_t)row * (size_t)columns + (size_t)kx);
            const float *factor = r->factors + at;
            float value[2] = {0, 0};
            if (factor[0] != 0 || factor[1] != 0) read_value(r, half, kx, row <= n / 2 ? row : row - n, value);
            result[at] = value[0] * factor[0] - value[1] * factor[1];
            result[at + 1] = value[0] * factor[1] + value[1] * factor[0];
        }
}

void regrid_run(const struct regrid *r, const float *image, float *scratch, float *out) {
    float *real = scratch, *half = real + image_floats(r), *result = half + transform_floats(r);
    const int n = r->options.box, middle = n / 2;
    spread(r, image, real);
    transform(r, real, half);
    gather(r, half, result);
    fft_run(r->backward, result, real);
    for (int y = 0; y < n; y++) {
        const float *row = real + (size_t)around(y - middle, n) * (size_t)n;
        memcpy(out + (size_t)y * (size_t)n, row + n - middle, (size_t)middle * sizeof *out);
        memcpy(out + (size_t)y * (size_t)n + (size_t)middle, row, (size_t)middle * sizeof *out);
    }
}
