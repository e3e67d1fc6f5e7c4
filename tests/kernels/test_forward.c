/* Compares the transform of low frequencies with a sum over pixels and with FFTW's whole transform, for any number of
 * columns and threads. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/fft.h"
#include "common/memory.h"
#include "kernels/fourier/forward.h"

static uint64_t seed = 20261121;

static float uniform(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (float)(seed >> 40) * 0x1p-24f - 0.5f;
}

static float *floats(size_t count) {
    float *data = mem_aligned(count, sizeof *data);
    assert_non_null(data);
    return data;
}

static float *noise(int size) {
    float *data = floats((size_t)size * size);
    for (int i = 0; i < size * size; i++)
        data[i] = uniform();
    return data;
}

static float *low_of(const float *image, int size, int columns, int threads) {
    struct fourier_forward *forward = NULL;
    float *low = floats(2 * (size_t)size * columns);
    assert_int_equal(fourier_forward_create(size, columns, threads, &forward, NULL), STATUS_OK);
    fourier_forward_run(forward, image, low);
    fourier_forward_destroy(&forward);
    assert_null(forward);
    return low;
}

static void matches_the_sum(void **state) {
    (void)state;
    enum { SIZE = 18, COLUMNS = 4 };
    float *image = noise(SIZE), *low = low_of(image, SIZE, COLUMNS, 2);
    for (int ky = 0; ky < SIZE; ky++)
        for (int kx = 0; kx < COLUMNS; kx++) {
            double re = 0, im = 0;
            for (int y = 0; y < SIZE; y++)
                for (int x = 0; x < SIZE; x++) {
                    double phase = 2 * M_PI * (kx * x + ky * y) / SIZE;
                    re += image[y * SIZE + x] * cos(phase);
                    im -= image[y * SIZE + x] * sin(phase);
                }
            /* Single precision over 324 values of at most a half. */
            assert_true(fabs(low[2 * (ky * COLUMNS + kx)] - re) < 1e-4);
            assert_true(fabs(low[2 * (ky * COLUMNS + kx) + 1] - im) < 1e-4);
        }
    free(image);
    free(low);
}

static void matches_the_whole_transform(void **state) {
    (void)state;
    const int sizes[] = {2, 6, 64, 90, 250, 302};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int size = sizes[s], half = size / 2 + 1;
        struct fft_options options = {.rank = 2, .shape = {size, size}, .direction = FFT_FORWARD};
        struct fft_plan *plan = NULL;
        float *image = noise(size), *copy = floats((size_t)size * size), *whole = floats(2 * (size_t)size * half);
        memcpy(copy, image, (size_t)size * size * sizeof *copy);
        assert_int_equal(fft_create(&options, &plan, NULL), STATUS_OK);
        fft_run(plan, copy, whole);
        const int columns[] = {1, half / 2 > 0 ? half / 2 : 1, half};
        for (int c = 0; c < 3; c++) {
            float *one = low_of(image, size, columns[c], 1);
            for (int threads = 2; threads <= 5; threads += 3) {
                float *many = low_of(image, size, columns[c], threads);
                assert_memory_equal(one, many, 2 * (size_t)size * columns[c] * sizeof *one);
                free(many);
            }
            for (int row = 0; row < size; row++)
                for (int i = 0; i < 2 * columns[c]; i++) {
                    float difference = one[2 * row * columns[c] + i] - whole[2 * row * half + i];
                    /* Rounding grows with the root of the number of pixels. */
                    assert_true(fabsf(difference) < 1e-6f * (float)size * 4);
                }
            free(one);
        }
        fft_destroy(&plan);
        free(image);
        free(copy);
        free(whole);
    }
}

static void refuses_what_is_not_there(void **state) {
    (void)state;
    struct fourier_forward *forward = NULL;
    struct err err = {0};
    assert_int_equal(fourier_forward_create(64, 34, 1, &forward, &err), STATUS_BAD_ARGUMENT);
    assert_int_equal(fourier_forward_create(65, 3, 1, &forward, &err), STATUS_BAD_ARGUMENT);
    assert_int_equal(fourier_forward_create(64, 0, 1, &forward, &err), STATUS_BAD_ARGUMENT);
    assert_null(forward);
    fourier_forward_destroy(&forward);
}

int main(void) {
    printf("seed %llu\n", (unsigned long long)seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_the_sum),
        cmocka_unit_test(matches_the_whole_transform),
        cmocka_unit_test(refuses_what_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
