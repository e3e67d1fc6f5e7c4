/* Tests normalisation: mean 0 and deviation 1, cut outliers, noise around the image, the same result for any number of
 * threads. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/memory.h"
#include "kernels/normalise/normalise.h"

static uint64_t lcg = 12345;

static float uniform(void) {
    lcg = lcg * 6364136223846793005u + 1442695040888963407u;
    return (float)(lcg >> 40) * 0x1p-24f;
}

static void moments(const float *values, size_t count, double *mean, double *deviation) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++) {
        sum += values[i];
        squares += (double)values[i] * values[i];
    }
    *mean = sum / (double)count;
    *deviation = sqrt(squares / (double)count - *mean * *mean);
}

static void scores_and_fill(void **state) {
    (void)state;
    enum { NX = 301, NY = 150, SIZE = 320 };
    float *in = mem_aligned(NX * NY, sizeof *in), *out = mem_aligned(SIZE * SIZE, sizeof *out);
    float *other = mem_aligned(SIZE * SIZE, sizeof *out);
    for (int i = 0; i < NX * NY; i++)
        in[i] = 5000 + 3 * uniform();
    double mean = 0, deviation = 0;
    moments(in, NX * NY, &mean, &deviation);
    normalise_micrograph(in, NX, NY, 8, SIZE, 7, 1, out);
    int x0 = normalise_offset(SIZE, NX), y0 = normalise_offset(SIZE, NY);
    for (int y = 0; y < NY; y++)
        for (int x = 0; x < NX; x++)
            assert_float_equal(out[(y + y0) * SIZE + x + x0], (in[y * NX + x] - mean) / deviation, 2e-3);
    /* The surrounding noise is N(0,1): 57,000 values give the mean to 0.004 and the deviation to 0.003. */
    double sum = 0, squares = 0;
    int count = 0;
    for (int y = 0; y < SIZE; y++)
        for (int x = 0; x < SIZE; x++)
            if (y < y0 || y >= y0 + NY || x < x0 || x >= x0 + NX) {
                float v = out[y * SIZE + x];
                sum += v;
                squares += (double)v * v;
                count++;
            }
    assert_float_equal(sum / count, 0, 0.02);
    assert_float_equal(squares / count, 1, 0.03);
    normalise_micrograph(in, NX, NY, 8, SIZE, 7, 3, other);
    assert_memory_equal(out, other, SIZE * SIZE * sizeof *out);
    normalise_micrograph(in, NX, NY, 8, SIZE, 8, 1, other);
    assert_memory_not_equal(out, other, SIZE * sizeof *out);
    free(in);
    free(out);
    free(other);
}

/* A hot column dominates the first deviation; dead columns become visible once it is excluded, and the rest is N(0,1)
 * again. */
static void one_kind_of_outlier_hides_no_other(void **state) {
    (void)state;
    enum { N = 256 };
    float *in = mem_aligned(N * N, sizeof *in), *out = mem_aligned(N * N, sizeof *out);
    for (int i = 0; i < N * N; i++)
        in[i] = i % N == 200 ? 65535 : i % N == 50 ? 0 : 1000 + 40 * uniform();
    in[0] = 1e30f; /* a wild first pixel must not hide others either */
    float deviation = normalise_micrograph(in, N, N, 8, N, 1, 1, out);
    assert_float_equal(deviation, 40 / sqrt(12), 0.2);
    double mean = 0, spread = 0;
    moments(out, N * N, &mean, &spread);
    for (int y = 0; y < N; y++)
        assert_true(out[y * N + 200] == 0 && out[y * N + 50] == 0);
    assert_float_equal(mean, 0, 1e-3);
    assert_float_equal(spread, sqrt(254 / 256.0), 1e-3);
    free(in);
    free(out);
}

static void outliers_and_nonsense(void **state) {
    (void)state;
    enum { N = 64 };
    float in[N * N], out[N * N];
    for (int i = 0; i < N * N; i++)
        in[i] = uniform();
    in[5] = 1e4f;
    in[77] = NAN;
    in[78] = INFINITY;
    normalise_micrograph(in, N, N, 8, N, 1, 1, out);
    assert_float_equal(out[5], 0, 0);
    assert_float_equal(out[77], 0, 0);
    assert_float_equal(out[78], 0, 0);
    for (int i = 0; i < N * N; i++)
        assert_true(fabsf(out[i]) <= 8);
}

static void constant_image(void **state) {
    (void)state;
    enum { N = 32 };
    float in[N * N], out[N * N];
    const float values[] = {0, 1, 1.1f, 60000.1f, NAN};
    for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
        for (int i = 0; i < N * N; i++)
            in[i] = values[v];
        normalise_micrograph(in, N, N, 8, N, 1, 1, out);
        for (int i = 0; i < N * N; i++)
            assert_float_equal(out[i], 0, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_and_fill),
        cmocka_unit_test(one_kind_of_outlier_hides_no_other),
        cmocka_unit_test(outliers_and_nonsense),
        cmocka_unit_test(constant_image),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
