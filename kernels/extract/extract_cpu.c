#include "kernels/extract/extract.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/fft.h"
#include "common/memory.h"

struct extract {
    struct extract_options options;
    struct fft_plan *forward, *inverse; /* NULL when nothing is cropped */
    float *window, *spectrum, *cropped;
    int *inner;            /* per row of the final box: columns inner .. size-inner are not background */
    double inverse_fit[9]; /* of the normal equations of the plane */
};

/* Returns the reach of the radius in the row at height i: columns half - reach to half + reach lie within it. -1:
 * none. */
static int reach_of(int i, int radius) {
    int rest = radius * radius - i * i;
    return rest < 0 ? -1 : (int)floor(sqrt((double)rest) + 1e-9);
}

static void invert_symmetric(const double m[9], double out[9]) {
    double c0 = m[4] * m[8] - m[5] * m[7], c1 = m[5] * m[6] - m[3] * m[8], c2 = m[3] * m[7] - m[4] * m[6];
    double det = m[0] * c0 + m[1] * c1 + m[2] * c2;
    out[0] = c0 / det;
    out[1] = (m[2] * m[7] - m[1] * m[8]) / det;
    out[2] = (m[1] * m[5] - m[2] * m[4]) / det;
    out[3] = c1 / det;
    out[4] = (m[0] * m[8] - m[2] * m[6]) / det;
    out[5] = (m[2] * m[3] - m[0] * m[5]) / det;
    out[6] = c2 / det;
    out[7] = (m[1] * m[6] - m[0] * m[7]) / det;
    out[8] = (m[0] * m[4] - m[1] * m[3]) / det;
}

/* Returns the background columns of row `y` of the final box: 0 .. left-1 and right .. size-1. */
static void background_spans(const struct extract *e, int y, int *ret_left, int *ret_right) {
    int size = e->options.size, half = size / 2, reach = e->inner[y];
    *ret_left = reach < 0 ? size : half - reach > 0 ? half - reach : 0;
    *ret_right = reach < 0 ? size : half + reach + 1 < size ? half + reach + 1 : size;
}

static enum status prepare_background(struct extract *e, struct err *err) {
    int size = e->options.size, half = size / 2;
    TRY(mem_new((size_t)size, sizeof *e->inner, "background mask", &e->inner, err));
    double m[9] = {0};
    for (int y = 0; y < size; y++) {
        e->inner[y] = reach_of(y - half, e->options.background_radius);
        int left, right;
        background_spans(e, y, &left, &right);
        for (int x = 0; x < size; x++) {
            if (x >= left && x < right) continue;
            double v[3] = {x - half, y - half, 1};
            for (int a = 0; a < 9; a++)
                m[a] += v[a / 3] * v[a % 3];
        }
    }
    invert_symmetric(m, e->inverse_fit);
    return STATUS_OK;
}

enum status extract_create(const struct extract_options *options, struct extract **ret_extract, struct err *err) {
    FAIL_IF(options->box < 8 || options->box % 2 != 0 || options->box > 8192, err, STATUS_BAD_ARGUMENT,
            "box is %d px: give an even number from 8 to 8192", options->box);
    FAIL_IF(options->size < 8 || options->size % 2 != 0 || options->size > options->box, err, STATUS_BAD_ARGUMENT,
            "downscale_to is %d px: give an even number from 8 to the box of %d px", options->size, options->box);
    int radius = options->background_radius;
    FAIL_IF(2 * radius > options->size, err, STATUS_BAD_ARGUMENT,
            "background_radius is %d px, but in a box of %d px (after downscaling) it can be %d px at most", radius,
            options->size, options->size / 2);
    struct extract *e = calloc(1, sizeof *e);
    FAIL_IF(e == NULL, err, STATUS_NO_MEMORY, "no memory to extract particles");
    e->options = *options;
    if (radius < 0) e->options.background_radius = (int)(0.375 * options->size);
    size_t box = (size_t)options->box, size = (size_t)options->size;
    enum status status = prepare_background(e, err);
    if (status == STATUS_OK && size != box) {
        struct fft_options forward = {
            .rank = 2, .shape = {options->box, options->box}, .direction = FFT_FORWARD, .measure = false};
        struct fft_options inverse = {
            .rank = 2, .shape = {options->size, options->size}, .direction = FFT_INVERSE, .measure = false};
        status = fft_create(&forward, &e->forward, err);
        if (status == STATUS_OK) status = fft_create(&inverse, &e->inverse, err);
        if (status == STATUS_OK) status = mem_new(box * box, sizeof *e->window, "window", &e->window, err);
        if (status == STATUS_OK)
            status = mem_new(box * (box + 2), sizeof *e->spectrum, "window's spectrum", &e->spectrum, err);
        if (status == STATUS_OK)
            status = mem_new(size * (size + 2), sizeof *e->cropped, "cropped spectrum", &e->cropped, err);
    }
    if (status != STATUS_OK) {
        extract_destroy(&e);
        return status;
    }
    *ret_extract = e;
    return STATUS_OK;
}

void extract_destroy(struct extract **extract) {
    if (extract == NULL || *extract == NULL) return;
    struct extract *e = *extract;
    fft_destroy(&e->forward);
    fft_destroy(&e->inverse);
    mem_free(&e->window);
    mem_free(&e->spectrum);
    mem_free(&e->cropped);
    mem_free(&e->inner);
    free(e);
    *extract = NULL;
}

bool extract_inside(int nx, int ny, double x, double y) {
    /* Truncation towards zero: -0.5 is pixel 0. The comparison is false for NaN. */
    return x > -1 && y > -1 && x < nx && y < ny;
}

void extract_window(const float *micrograph, int nx, int ny, double x, double y, int box, float *out) {
    int x0 = (int)x - box / 2, y0 = (int)y - box / 2;
    int left = x0 < 0 ? -x0 : 0;
    int right = x0 + box > nx ? nx - x0 : box; /* columns left .. right-1 lie in the micrograph */
    for (int j = 0; j < box; j++, out += box) {
        int row = y0 + j < 0 ? 0 : y0 + j >= ny ? ny - 1 : y0 + j;
        const float *in = micrograph + (size_t)row * (size_t)nx;
        for (int i = 0; i < left; i++)
            out[i] = in[0];
        memcpy(out + left, in + x0 + left, (size_t)(right - left) * sizeof *out);
        for (int i = right; i < box; i++)
            out[i] = in[nx - 1];
    }
}

static void rescale(struct extract *e, float *out) {
    int box = e->options.box, size = e->options.size, half = size / 2;
    size_t in_row = (size_t)box + 2, out_row = (size_t)size + 2;
    float factor = 1.0f / ((float)box * (float)box);
    fft_run(e->forward, e->window, e->spectrum);
    for (int y = 0; y < size; y++) {
        const float *in = e->spectrum + (size_t)(y <= half ? y : y - size + box) * in_row;
        float *to = e->cropped + (size_t)y * out_row;
        for (int x = 0; x < size + 2; x++)
            to[x] = in[x] * factor;
    }
    fft_run(e->inverse, e->cropped, out);
}

static void subtract_ramp(const struct extract *e, float *image) {
    int size = e->options.size, half = size / 2;
    double b[3] = {0};
    for (int y = 0; y < size; y++) {
        const float *row = image + (size_t)y * (size_t)size;
        double sum = 0, moment = 0;
        int left, right;
        background_spans(e, y, &left, &right);
        for (int x = 0; x < left; x++)
            sum += row[x], moment += (double)row[x] * (x - half);
        for (int x = right; x < size; x++)
            sum += row[x], moment += (double)row[x] * (x - half);
        b[0] += moment;
        b[1] += sum * (y - half);
        b[2] += sum;
    }
    double plane[3];
    for (int i = 0; i < 3; i++)
        plane[i] = e->inverse_fit[3 * i] * b[0] + e->inverse_fit[3 * i + 1] * b[1] + e->inverse_fit[3 * i + 2] * b[2];
    for (int y = 0; y < size; y++, image += size)
        for (int x = 0; x < size; x++) /* in double: a plane must leave nothing, or its rounding would be amplified */
            image[x] = (float)(image[x] - (plane[0] * (x - half) + plane[1] * (y - half) + plane[2]));
}

static bool normalise(const struct extract *e, float *image) {
    int size = e->options.size;
    double sum = 0, squares = 0, count = 0;
    for (int y = 0; y < size; y++) {
        const float *row = image + (size_t)y * (size_t)size;
        int left, right;
        background_spans(e, y, &left, &right);
        for (int x = 0; x < size; x++)
            if (x < left || x >= right) sum += row[x], squares += (double)row[x] * row[x], count++;
    }
    double mean = sum / count;
    double deviation = sqrt(fmax(squares / count - mean * mean, 0));
    if (!(deviation >= 1e-10)) return false;
    for (size_t i = 0; i < (size_t)size * (size_t)size; i++)
        image[i] = (float)((image[i] - mean) / deviation);
    return true;
}

bool extract_particle(struct extract *e, const float *micrograph, int nx, int ny, double x, double y, float *out) {
    bool cropped = e->options.size != e->options.box;
    extract_window(micrograph, nx, ny, x, y, e->options.box, cropped ? e->window : out);
    if (cropped) rescale(e, out);
    bool varied = true;
    if (e->options.normalise) {
        subtract_ramp(e, out);
        varied = normalise(e, out);
    }
    if (e->options.invert)
        for (size_t i = 0; i < (size_t)e->options.size * (size_t)e->options.size; i++)
            out[i] = -out[i];
    return varied;
}
