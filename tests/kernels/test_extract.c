/* Compares extraction with its definition: truncation, edges, Fourier cropping of a cosine, plane and normalisation. */
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
#include "kernels/extract/extract.h"

static float *random_image(int nx, int ny, unsigned seed) {
    float *image = mem_aligned((size_t)nx * (size_t)ny, sizeof *image);
    assert_non_null(image);
    srand(seed);
    for (int i = 0; i < nx * ny; i++)
        image[i] = (float)rand() / (float)RAND_MAX * 10 - 3;
    return image;
}

static struct extract *make(struct extract_options options) {
    struct extract *e = NULL;
    struct err err = {0};
    if (extract_create(&options, &e, &err) != STATUS_OK) fail_msg("%s", err.message);
    return e;
}

static void coordinates_are_truncated(void **state) {
    (void)state;
    assert_true(extract_inside(100, 50, 99.9, 0));
    assert_true(extract_inside(100, 50, -0.5, 49.99));
    assert_false(extract_inside(100, 50, 100, 0));
    assert_false(extract_inside(100, 50, 0, -1));
    assert_false(extract_inside(100, 50, NAN, 3));
    float *image = random_image(100, 50, 1);
    float out[64];
    extract_window(image, 100, 50, 50.99, 20.5, 8, out);
    for (int j = 0; j < 8; j++)
        for (int i = 0; i < 8; i++)
            assert_float_equal(out[j * 8 + i], image[(20 - 4 + j) * 100 + 50 - 4 + i], 0);
    free(image);
}

static void edges_are_replicated(void **state) {
    (void)state;
    enum { NX = 13, NY = 9, BOX = 32 };
    float *image = random_image(NX, NY, 2);
    float out[BOX * BOX];
    const double at[][2] = {{0, 0}, {12.9, 8.2}, {-0.5, 8}, {6, 4}, {12, 0}};
    for (size_t c = 0; c < sizeof at / sizeof *at; c++) {
        extract_window(image, NX, NY, at[c][0], at[c][1], BOX, out);
        for (int j = 0; j < BOX; j++)
            for (int i = 0; i < BOX; i++) {
                int x = (int)at[c][0] - BOX / 2 + i, y = (int)at[c][1] - BOX / 2 + j;
                x = x < 0 ? 0 : x >= NX ? NX - 1 : x;
                y = y < 0 ? 0 : y >= NY ? NY - 1 : y;
                assert_float_equal(out[j * BOX + i], image[y * NX + x], 0);
            }
    }
    free(image);
}

static void cropping_keeps_a_cosine(void **state) {
    (void)state;
    enum { BOX = 64, SIZE = 32 };
    float image[BOX * BOX], out[SIZE * SIZE];
    for (int y = 0; y < BOX; y++)
        for (int x = 0; x < BOX; x++)
            image[y * BOX + x] = 5 + 2 * cosf(2 * (float)M_PI * (3 * (float)x + 7 * (float)y) / BOX);
    struct extract *e = make((struct extract_options){.box = BOX, .size = SIZE, .background_radius = -1});
    assert_true(extract_particle(e, image, BOX, BOX, BOX / 2, BOX / 2, out));
    for (int y = 0; y < SIZE; y++)
        for (int x = 0; x < SIZE; x++)
            assert_float_equal(out[y * SIZE + x], 5 + 2 * cosf(2 * (float)M_PI * (3 * (float)x + 7 * (float)y) / SIZE),
                               1e-5);
    extract_destroy(&e);
    assert_null(e);
}

/* Checks steps c and d with plain sums in double: mean, deviation and slopes outside the circle. */
static void background_is_normalised(void **state) {
    (void)state;
    enum { N = 24, R = 9 };
    float *image = random_image(N, N, 3);
    for (int y = 0; y < N; y++)
        for (int x = 0; x < N; x++)
            image[y * N + x] += 0.7f * (float)x - 0.4f * (float)y + 100;
    float out[N * N], inverted[N * N];
    struct extract *e = make((struct extract_options){.box = N, .size = N, .background_radius = R, .normalise = true});
    assert_true(extract_particle(e, image, N, N, N / 2, N / 2, out));
    extract_destroy(&e);
    double sum = 0, squares = 0, along_x = 0, along_y = 0, count = 0;
    for (int y = 0; y < N; y++)
        for (int x = 0; x < N; x++) {
            int i = x - N / 2, j = y - N / 2;
            if (i * i + j * j <= R * R) continue;
            double v = out[y * N + x];
            sum += v, squares += v * v, along_x += v * i, along_y += v * j, count++;
        }
    assert_true(fabs(sum / count) < 1e-6);
    assert_true(fabs(squares / count - 1) < 1e-5);
    assert_true(fabs(along_x / count) < 1e-4 && fabs(along_y / count) < 1e-4); /* no slope is left */
    e = make((struct extract_options){.box = N, .size = N, .background_radius = R, .normalise = true, .invert = true});
    assert_true(extract_particle(e, image, N, N, N / 2, N / 2, inverted));
    extract_destroy(&e);
    for (int i = 0; i < N * N; i++)
        assert_float_equal(inverted[i], -out[i], 0);
    free(image);
}

static void a_plane_is_left_flat(void **state) {
    (void)state;
    enum { N = 16 };
    float image[N * N], out[N * N];
    for (int y = 0; y < N; y++)
        for (int x = 0; x < N; x++)
            image[y * N + x] = (float)(3 * x - 2 * y + 40);
    struct extract *e = make((struct extract_options){.box = N, .size = N, .background_radius = -1, .normalise = true});
    assert_false(extract_particle(e, image, N, N, N / 2, N / 2, out));
    for (int i = 0; i < N * N; i++)
        assert_true(fabsf(out[i]) < 1e-6f);
    extract_destroy(&e);
}

static void bad_sizes_are_refused(void **state) {
    (void)state;
    struct extract *e = NULL;
    struct err err = {0};
    assert_int_equal(extract_create(&(struct extract_options){.box = 33, .size = 32}, &e, &err), STATUS_BAD_ARGUMENT);
    assert_non_null(strstr(err.message, "33"));
    assert_int_equal(extract_create(&(struct extract_options){.box = 32, .size = 64}, &e, &err), STATUS_BAD_ARGUMENT);
    assert_int_equal(
        extract_create(&(struct extract_options){.box = 32, .size = 32, .background_radius = 17}, &e, &err),
        STATUS_BAD_ARGUMENT);
    assert_null(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(coordinates_are_truncated), cmocka_unit_test(edges_are_replicated),
        cmocka_unit_test(cropping_keeps_a_cosine),   cmocka_unit_test(background_is_normalised),
        cmocka_unit_test(a_plane_is_left_flat),      cmocka_unit_test(bad_sizes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
