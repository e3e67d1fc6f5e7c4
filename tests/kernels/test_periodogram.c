#include "kernels/periodogram/periodogram.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/memory.h"
#include "tests/kernels/spectrum_cases.h"

enum { NX = 300, NY = 220, BOX = 64 };
enum { HALF = BOX * (BOX / 2 + 1) };

static float *noise_image(uint64_t first_seed) {
    seed = first_seed;
    float *image = malloc(NX * NY * sizeof *image);
    assert_non_null(image);
    for (int i = 0; i < NX * NY; i++)
        image[i] = spectrum_noise() + 1000;
    return image;
}

static void run(const float *image, int threads, float *power) {
    struct err err = {0};
    struct periodogram *periodogram = NULL;
    struct periodogram_task task = {.nx = NX, .ny = NY, .box = BOX, .threads = threads};
    if (periodogram_create(&task, &periodogram, &err) != STATUS_OK) fail_msg("%s", err.message);
    if (periodogram_run(periodogram, image, NULL, power, &err) != STATUS_OK) fail_msg("%s", err.message);
    periodogram_destroy(&periodogram);
}

static void tiles_cover_the_micrograph(void **state) {
    (void)state;
    for (int side = BOX; side < 6 * BOX; side++) {
        int tiles = periodogram_tiles(side, BOX), last = 0;
        assert_int_equal(periodogram_tile_start(side, BOX, 0), 0);
        for (int i = 1; i < tiles; i++) {
            int start = periodogram_tile_start(side, BOX, i);
            assert_true(start > last && start - last <= BOX / 2);
            last = start;
        }
        assert_int_equal(last + BOX, side);
    }
}

static void white_noise_has_power_one(void **state) {
    (void)state;
    _cleanup_(mem_free) float *image = noise_image(1);
    float power[HALF];
    run(image, 1, power);
    double sum = 0;
    for (int i = 0; i < HALF; i++)
        sum += (double)power[i];
    assert_true(fabs(sum / HALF - 1) < 0.03);
    assert_true(power[0] < 1.5f); /* the mean of 1000 is gone */
}

/* A wave along x, four tiles long in pixels, has its power where its frequency is. */
static void a_wave_stands_at_its_frequency(void **state) {
    (void)state;
    _cleanup_(mem_free) float *image = malloc(NX * NY * sizeof *image);
    assert_non_null(image);
    for (int y = 0; y < NY; y++)
        for (int x = 0; x < NX; x++)
            image[y * NX + x] = (float)cos(2 * M_PI * (10.0 * x - 6.0 * y) / BOX);
    float power[HALF];
    run(image, 2, power);
    int best = 0;
    for (int i = 1; i < HALF; i++)
        if (power[i] > power[best]) best = i;
    assert_int_equal(best / (BOX / 2 + 1), BOX - 6);
    assert_int_equal(best % (BOX / 2 + 1), 10);
    assert_true(power[20 * (BOX / 2 + 1) + 20] < 1e-6f * power[best]);
}

static void threads_change_nothing(void **state) {
    (void)state;
    _cleanup_(mem_free) float *image = noise_image(2);
    float one[HALF], three[HALF];
    run(image, 1, one);
    run(image, 3, three);
    assert_memory_equal(one, three, sizeof one);
}

/* A filled border takes no part, and a micrograph of nothing else is refused. */
static void tiles_without_variance_are_left_out(void **state) {
    (void)state;
    struct err err = {0};
    _cleanup_(mem_free) float *image = noise_image(3);
    float power[HALF];
    for (int y = 0; y < NY; y++)
        for (int x = 0; x < 150; x++)
            image[y * NX + x] = 7;
    run(image, 1, power);
    double sum = 0;
    int outer = 0;
    for (int row = 16; row < 48; row++) /* the edge of the border has its own power, at low frequencies */
        for (int kx = 8; kx <= BOX / 2; kx++, outer++)
            sum += (double)power[row * (BOX / 2 + 1) + kx];
    assert_true(sum / outer > 0.62 && sum / outer < 1); /* 0.5, if three of nine tiles counted that are all border */
    for (int i = 0; i < NX * NY; i++)
        image[i] = 7;
    struct periodogram *periodogram = NULL;
    struct periodogram_task task = {.nx = NX, .ny = NY, .box = BOX, .threads = 1};
    assert_int_equal(periodogram_create(&task, &periodogram, &err), STATUS_OK);
    assert_int_equal(periodogram_run(periodogram, image, NULL, power, &err), STATUS_BAD_FORMAT);
    periodogram_destroy(&periodogram);
    task.box = 63;
    assert_int_equal(periodogram_create(&task, &periodogram, &err), STATUS_BAD_ARGUMENT);
    task.box = 256;
    assert_int_equal(periodogram_create(&task, &periodogram, &err), STATUS_BAD_ARGUMENT);
}

/* Cells hold the mean power of their pixels, tile by tile: with a single tile that of the whole, and with many their
 * mean is that of the whole. */
static void cells_hold_the_power_of_each_tile(void **state) {
    (void)state;
    static const struct { int nx, ny, threads; } cases[] = {{BOX, BOX, 1}, {NX, NY, 1}, {NX, NY, 3}};
    _cleanup_(mem_free) float *image = noise_image(4);
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        struct err err = {0};
        struct periodogram *periodogram = NULL;
        struct periodogram_task task = {
            .nx = cases[n].nx, .ny = cases[n].ny, .box = BOX, .threads = cases[n].threads, .tiles = true};
        static float power[HALF], sums[PERIODOGRAM_SECTORS * (BOX / 2)];
        int pixels[PERIODOGRAM_SECTORS * (BOX / 2)] = {0};
        int tiles = periodogram_tiles(task.nx, BOX) * periodogram_tiles(task.ny, BOX),
            cells = sizeof pixels / sizeof *pixels;
        assert_int_equal(periodogram_create(&task, &periodogram, &err), STATUS_OK);
        for (int round = 0; round < 2; round++) /* the second micrograph replaces the first */
            assert_int_equal(periodogram_run(periodogram, image, NULL, power, &err), STATUS_OK);
        memset(sums, 0, sizeof sums);
        for (int row = 0; row < BOX; row++)
            for (int kx = 0; kx <= BOX / 2; kx++) {
                int cell = periodogram_cell(BOX, kx, row <= BOX / 2 ? row : row - BOX);
                if (cell < 0) continue;
                assert_true(cell < cells);
                sums[cell] += power[row * (BOX / 2 + 1) + kx];
                pixels[cell]++;
            }
        const float *found = periodogram_cells(periodogram);
        for (int c = 0; c < cells; c++) {
            double mean = 0;
            for (int t = 0; t < tiles; t++)
                mean += (double)found[t * cells + c] / tiles;
            assert_true(fabs(mean - (pixels[c] > 0 ? (double)sums[c] / pixels[c] : 0)) < 1e-4);
        }
        periodogram_destroy(&periodogram);
    }
    assert_int_equal(periodogram_cell(BOX, 1, 10), -1);
    assert_int_equal(periodogram_cell(BOX, 10, -1), -1);
    assert_int_equal(periodogram_cell(BOX, 30, 20), -1);
    assert_int_equal(periodogram_cell(BOX, 10, -10) / (BOX / 2), 9);
    assert_int_equal(periodogram_cell(BOX, 10, 3) % (BOX / 2), 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_cover_the_micrograph),          cmocka_unit_test(white_noise_has_power_one),
        cmocka_unit_test(a_wave_stands_at_its_frequency),      cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(tiles_without_variance_are_left_out), cmocka_unit_test(cells_hold_the_power_of_each_tile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
