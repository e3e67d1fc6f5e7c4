/* Laplacian of Gaussian: a disc gives its maximum at its centre, at the diameter nearest to its own. */
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
#include "kernels/fourier/window.h"
#include "kernels/log_filter/log_filter.h"

enum { SIZE = 256, WORK = 128 };

static void discs_are_found_at_their_size(void **state) {
    (void)state;
    const double diameters[] = {10, 20, 30, 45, 70, 100};
    const int count = sizeof diameters / sizeof *diameters;
    float *image = mem_aligned(SIZE * SIZE, sizeof *image), *half = mem_aligned(SIZE * (SIZE + 2), sizeof *half);
    float *cut = mem_aligned(WORK * (WORK + 2), sizeof *cut), *response = mem_aligned(WORK * WORK, sizeof *response);
    uint16_t *which = mem_aligned(WORK * WORK, sizeof *which);
    struct fft_plan *plan = NULL;
    struct log_filter *filter = NULL;
    struct err err = {0};
    struct fft_options options = {.rank = 2, .shape = {SIZE, SIZE}, .direction = FFT_FORWARD};
    assert_int_equal(fft_create(&options, &plan, &err), STATUS_OK);
    assert_int_equal(log_filter_create(SIZE, WORK, diameters, count, 2, &filter, &err), STATUS_OK);
    for (int d = 1; d < count - 1; d++) {
        int x = 120, y = 80;
        for (int j = 0; j < SIZE; j++)
            for (int i = 0; i < SIZE; i++)
                image[j * SIZE + i] = 4 * ((i - x) * (i - x) + (j - y) * (j - y)) < diameters[d] * diameters[d] ? 1 : 0;
        fft_run(plan, image, half);
        fourier_window_crop(half, SIZE, WORK, 1.0f / (SIZE * SIZE), cut);
        log_filter_run(filter, cut, response, which);
        size_t top = 0;
        for (size_t i = 0; i < WORK * WORK; i++)
            if (response[i] > response[top]) top = i;
        assert_int_equal(top % WORK, x / 2);
        assert_int_equal(top / WORK, y / 2);
        assert_int_equal(which[top], d);
    }
    log_filter_destroy(&filter);
    assert_int_equal(log_filter_create(SIZE, WORK, diameters, 0, 1, &filter, &err), STATUS_BAD_ARGUMENT);
    fft_destroy(&plan);
    free(image);
    free(half);
    free(cut);
    free(response);
    free(which);
}

/* H at the frequency of a cosine, from the formula. */
static void the_filter_is_the_formula(void **state) {
    (void)state;
    const double diameter = 40;
    float *half = mem_aligned(WORK * (WORK + 2), sizeof *half), *response = mem_aligned(WORK * WORK, sizeof *response);
    uint16_t *which = mem_aligned(WORK * WORK, sizeof *which);
    struct log_filter *filter = NULL;
    struct err err = {0};
    assert_int_equal(log_filter_create(SIZE, WORK, &diameter, 1, 1, &filter, &err), STATUS_OK);
    for (int k = 1; k < 20; k += 3) {
        memset(half, 0, WORK * (WORK + 2) * sizeof *half);
        half[2 * k] = 0.5f; /* cos(2π k x / WORK) */
        log_filter_run(filter, half, response, which);
        double iota = 0.5 * SIZE / diameter, s = k * k / (iota * iota);
        assert_float_equal(response[0], s * exp(-s / 2), 1e-5);
    }
    log_filter_destroy(&filter);
    free(half);
    free(response);
    free(which);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(discs_are_found_at_their_size),
        cmocka_unit_test(the_filter_is_the_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
