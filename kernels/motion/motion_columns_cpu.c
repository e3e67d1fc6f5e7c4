/* Columns of the sums in Fourier space: transformed, weighted, cropped, and transformed back along y. */
#include <math.h>
#include <string.h>

#include "common/multiversion.h"
#include "kernels/motion/motion_sum_private.h"

/* Frequencies whose factors are made at once. */
enum { CHUNK = 64 };

/* Returns the floats of a column in the buffer: whole cache lines. */
static size_t column_floats(const struct motion_columns *c) {
    return ((size_t)c->to_ny * 2 + 15) / 16 * 16;
}

size_t motion_columns_floats(const struct motion_columns *c) {
    return (size_t)c->outputs * column_floats(c);
}

/* Fills the factors of `count` frequencies from row `first` of the input on, each twice: for re and im. factors:
 * [terms][2 · CHUNK]; halves: [2][2 · CHUNK]. */
static void fill_factors(const struct motion_columns *c, int kx, int first, int count, float (*factors)[2 * CHUNK],
                         float (*halves)[2 * CHUNK]) {
    const struct motion_weights *w = c->weights;
    const double x = (double)kx / c->nx, to_steps = M_SQRT2 * MOTION_STEPS;
    for (int i = 0; i < count; i++) {
        int row = first + i, ky = row <= c->ny / 2 ? row : row - c->ny;
        double y = (double)ky / c->ny, at = sqrt(x * x + y * y) * to_steps;
        int step = at < MOTION_STEPS - 1 ? (int)at : MOTION_STEPS - 1;
        float part = (float)(at - step);
        const float *low = w->of_frequency[step], *high = w->of_frequency[step + 1];
        for (int t = 0; t < w->terms; t++)
            factors[t][2 * i] = factors[t][2 * i + 1] = low[t] + part * (high[t] - low[t]);
        for (int half = 0; half < 2; half++) {
            const float *of_half = w->of_half[half] + step;
            halves[half][2 * i] = halves[half][2 * i + 1] = of_half[0] + part * (of_half[1] - of_half[0]);
        }
    }
}

MULTIVERSION static void add_product(const float *restrict a, const float *restrict b, size_t count,
                                     float *restrict sum) {
    for (size_t i = 0; i < count; i++)
        sum[i] += a[i] * b[i];
}

MULTIVERSION static void multiply(const float *restrict a, size_t count, float *restrict value) {
    for (size_t i = 0; i < count; i++)
        value[i] *= a[i];
}

/* Fills the part of one output: frequencies first … first + count − 1 of the columns. */
static void combine(const struct motion_columns *c, enum motion_output_kind kind, int kx, int first, int count,
                    float (*factors)[2 * CHUNK], float (*halves)[2 * CHUNK], float *to) {
    int terms = c->weights->terms;
    const float *columns = c->sums + (size_t)kx * c->stride + 2 * (size_t)first;
    size_t floats = 2 * (size_t)count;
    memset(to, 0, floats * sizeof *to);
    for (int set = 0; set < c->sets; set++) {
        if ((kind == MOTION_ODD && set != 0) || (kind == MOTION_EVEN && set != 1)) continue;
        const float *of_set = columns + (size_t)set * (size_t)terms * c->each;
        if (kind == MOTION_UNWEIGHTED)
            for (size_t i = 0; i < floats; i++)
                to[i] += of_set[i];
        else
            for (int t = 0; t < terms; t++)
                add_product(factors[t], of_set + (size_t)t * c->each, floats, to);
    }
    if (kind == MOTION_ODD || kind == MOTION_EVEN) multiply(halves[kind == MOTION_EVEN], floats, to);
}

/* Fills all outputs at the frequencies that rows first … first + count − 1 of the input hold; row `to` of the outputs
 * takes the first. */
static void combine_rows(const struct motion_columns *c, int kx, int first, int count, int to, float *buffer) {
    float factors[MOTION_TERMS][2 * CHUNK], halves[2][2 * CHUNK];
    for (int done = 0; done < count; done += CHUNK) {
        int part = count - done < CHUNK ? count - done : CHUNK;
        fill_factors(c, kx, first + done, part, factors, halves);
        for (int o = 0; o < c->outputs; o++)
            combine(c, c->output[o].kind, kx, first + done, part, factors, halves,
                    buffer + (size_t)o * column_floats(c) + 2 * (size_t)(to + done));
    }
}

/* Transforms back: the conjugate of the transform of the conjugate. */
MULTIVERSION static void conjugate(float *column, size_t count, float scale) {
    for (size_t i = 0; i < count; i++) {
        column[2 * i] *= scale;
        column[2 * i + 1] *= -scale;
    }
}

void motion_columns_run(const struct motion_columns *c, int kx, float *buffer) {
    int sums = c->sets * c->weights->terms, half = c->to_ny / 2;
    for (int s = 0; s < sums; s++) {
        float *column = c->sums + (size_t)s * c->each + (size_t)kx * c->stride;
        fft_run(c->forward, column, column);
    }
    combine_rows(c, kx, 0, half + 1, 0, buffer); /* ky = 0 … half, then the negative ones */
    combine_rows(c, kx, c->ny - (half - 1), half - 1, half + 1, buffer);
    for (int o = 0; o < c->outputs; o++) {
        float *column = buffer + (size_t)o * column_floats(c);
        conjugate(column, (size_t)c->to_ny, c->scale);
        fft_run(c->back, column, column);
        conjugate(column, (size_t)c->to_ny, 1);
        memcpy(c->sums + (size_t)o * c->each + (size_t)kx * c->stride, column, 2 * (size_t)c->to_ny * sizeof *column);
    }
}
