/* Compares the transform of a padded map that leaves lines of zeros out with that of the whole cube: both directions,
 * small and large reach, any number of threads. New random input from a printed seed, or from a given one. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "common/memory.h"
#include "kernels/fourier/cube.h"
#include "tests/kernels/phantom.h"

static uint64_t seed;

static const struct {
    int box, padded, reach;
} SHAPES[] = {{12, 24, 3}, {12, 24, 11}, {12, 24, 12}, {12, 24, 13}, {10, 14, 4}, {16, 16, 5}, {2, 4, 1}};
enum { SHAPE_COUNT = sizeof SHAPES / sizeof *SHAPES };

static float *floats(size_t count) {
    float *values = NULL;
    assert_int_equal(mem_new(count, sizeof *values, "test", &values, NULL), STATUS_OK);
    return values;
}

static float *random_floats(size_t count) {
    float *values = floats(count);
    for (size_t i = 0; i < count; i++)
        values[i] = (float)phantom_normal(&seed);
    return values;
}

static struct fourier_cube cube_of(int shape, enum fft_direction direction, int threads) {
    struct fourier_cube cube = {0};
    struct err err = {0};
    assert_int_equal(fourier_cube_create(SHAPES[shape].box, SHAPES[shape].padded, SHAPES[shape].reach, direction,
                                         threads, &cube, &err),
                     STATUS_OK);
    return cube;
}

static struct fft_plan *whole_plan(int n, enum fft_direction direction) {
    struct fft_plan *plan = NULL;
    const struct fft_options options = {.rank = 3, .shape = {n, n, n}, .direction = direction};
    assert_int_equal(fft_create(&options, &plan, NULL), STATUS_OK);
    return plan;
}

/* Returns where the whole transform holds a frequency; y and z may lie one beyond Nyquist. */
static size_t place(int n, int z, int y, int x) {
    return 2 * (((size_t)((z + n) % n) * (size_t)n + (size_t)((y + n) % n)) * (size_t)(n / 2 + 1) + (size_t)x);
}

static float largest(const float *values, size_t count) {
    float most = 0;
    for (size_t i = 0; i < count; i++)
        most = fmaxf(most, fabsf(values[i]));
    return most;
}

static void forward_is_that_of_the_whole_cube(int shape) {
    const int box = SHAPES[shape].box, n = SHAPES[shape].padded, reach = SHAPES[shape].reach, first = (n - box) / 2;
    const size_t voxels = (size_t)box * (size_t)box * (size_t)box, all = (size_t)n * (size_t)n * (size_t)n;
    float *map = random_floats(voxels), *factors = random_floats(3 * (size_t)(box / 2) * (size_t)(box / 2) + 1);
    float *padded = floats(all), *spectrum = floats(2 * all);
    for (int z = 0; z < box; z++)
        for (int y = 0; y < box; y++)
            for (int x = 0; x < box; x++) {
                int c = box / 2, r2 = (z - c) * (z - c) + (y - c) * (y - c) + (x - c) * (x - c);
                padded[((z + first) * n + y + first) * n + x + first] = map[(z * box + y) * box + x] * factors[r2];
            }
    struct fft_plan *plan = whole_plan(n, FFT_FORWARD);
    fft_run(plan, padded, spectrum);
    fft_destroy(&plan);
    float bound = 1e-6f * largest(spectrum, 2 * all);
    for (int threads = 1; threads <= 3; threads += 2) {
        struct fourier_cube cube = cube_of(shape, FFT_FORWARD, threads);
        for (int again = 0; again < 2; again++)
            fourier_cube_forward(&cube, map, factors);
        for (int z = -reach; z <= reach; z++)
            for (int y = -reach; y <= reach; y++)
                for (int x = 0; x <= reach && x <= n / 2; x++)
                    for (int part = 0; part < 2; part++)
                        assert_float_equal(fourier_cube_line(&cube, z, y)[2 * x + part],
                                           spectrum[place(n, z, y, x) + (size_t)part], bound);
        fourier_cube_destroy(&cube);
    }
    mem_free(&map), mem_free(&factors), mem_free(&padded), mem_free(&spectrum);
}

static void inverse_is_that_of_the_whole_cube(int shape) {
    const int box = SHAPES[shape].box, n = SHAPES[shape].padded, first = (n - box) / 2;
    const int reach = SHAPES[shape].reach <= n / 2 ? SHAPES[shape].reach : n / 2;
    const size_t voxels = (size_t)box * (size_t)box * (size_t)box, all = (size_t)n * (size_t)n * (size_t)n;
    float *padded = floats(all), *spectrum = floats(2 * all), *source = random_floats(2 * all), *map = floats(voxels);
    for (int z = -reach; z <= reach; z++)
        for (int y = -reach; y <= reach; y++)
            memcpy(spectrum + place(n, z, y, 0), source + place(n, z, y, 0), 2 * (size_t)(reach + 1) * sizeof *source);
    float *kept = floats(2 * all);
    memcpy(kept, spectrum, 2 * all * sizeof *kept);
    struct fft_plan *plan = whole_plan(n, FFT_INVERSE);
    fft_run(plan, spectrum, padded);
    fft_destroy(&plan);
    float bound = 1e-6f * largest(padded, all);
    for (int threads = 1; threads <= 3; threads += 2) {
        struct fourier_cube cube = cube_of(shape, FFT_INVERSE, threads);
        for (int z = -reach; z <= reach; z++)
            for (int y = -reach; y <= reach; y++)
                memcpy(fourier_cube_line(&cube, z, y), kept + place(n, z, y, 0),
                       2 * (size_t)(reach + 1) * sizeof *kept);
        for (size_t i = 0; i < voxels; i++)
            map[i] = NAN;
        fourier_cube_inverse(&cube, 0.5f, map);
        for (int z = 0; z < box; z++)
            for (int y = 0; y < box; y++)
                for (int x = 0; x < box; x++)
                    assert_float_equal(map[(z * box + y) * box + x],
                                       0.5f * padded[((z + first) * n + y + first) * n + x + first], bound);
        fourier_cube_destroy(&cube);
    }
    mem_free(&padded), mem_free(&spectrum), mem_free(&source), mem_free(&map), mem_free(&kept);
}

static void transforms_are_those_of_the_whole_cube(void **state) {
    (void)state;
    for (int shape = 0; shape < SHAPE_COUNT; shape++) {
        forward_is_that_of_the_whole_cube(shape);
        inverse_is_that_of_the_whole_cube(shape);
    }
}

static void bad_shapes_are_refused(void **state) {
    (void)state;
    static const int bad[][3] = {{11, 22, 3}, {12, 10, 3}, {12, 24, 0}, {12, 24, 14}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct fourier_cube cube = {0};
        struct err err = {0};
        assert_int_equal(fourier_cube_create(bad[i][0], bad[i][1], bad[i][2], FFT_FORWARD, 1, &cube, &err),
                         STATUS_BAD_ARGUMENT);
        assert_null(cube.values);
    }
}

int main(int argc, char **argv) {
    seed = argc > 1 ? strtoull(argv[1], NULL, 10) : (uint64_t)time(NULL);
    printf("seed %llu\n", (unsigned long long)seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transforms_are_those_of_the_whole_cube),
        cmocka_unit_test(bad_shapes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
