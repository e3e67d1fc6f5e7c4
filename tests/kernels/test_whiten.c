/* Tests whitening weights: 1 for white noise, the inverse of the colour for coloured noise. Lumps in a few places must
 * change them little. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/fft.h"
#include "common/memory.h"
#include "kernels/whiten/whiten.h"

enum { WORK = 240, RINGS = WORK / 2 + 1, X0 = 6, Y0 = 30, X1 = 240, Y1 = 210 };
static uint64_t seed = 424242;

static double uniform(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return ((double)(seed >> 40) + 0.5) * 0x1p-24;
}

static float gauss(void) {
    double u = uniform(), v = uniform();
    return (float)(sqrt(-2 * log(u)) * cos(2 * M_PI * v));
}

static double white(double r) {
    (void)r;
    return 1;
}

/* Amplitude as denoising leaves it: a hundredth at half of the band. */
static double blurred(double r) {
    return exp(-r * r / 800);
}

/* Makes noise with a given amplitude on each ring. */
static float *noise_map(double (*colour)(double)) {
    float *map = mem_aligned(WORK * WORK, sizeof *map), *half = mem_aligned(WORK * (WORK + 2), sizeof *half);
    struct fft_options options = {.rank = 2, .shape = {WORK, WORK}, .direction = FFT_FORWARD};
    struct fft_plan *forward = NULL, *inverse = NULL;
    struct err err = {0};
    assert_int_equal(fft_create(&options, &forward, &err), STATUS_OK);
    options.direction = FFT_INVERSE;
    assert_int_equal(fft_create(&options, &inverse, &err), STATUS_OK);
    for (int i = 0; i < WORK * WORK; i++)
        map[i] = gauss() / (WORK * WORK);
    fft_run(forward, map, half);
    for (int row = 0; row < WORK; row++)
        for (int kx = 0; kx < RINGS; kx++)
            for (int part = 0; part < 2; part++)
                half[2 * (row * RINGS + kx) + part] *= (float)colour(hypot(kx, row <= WORK / 2 ? row : row - WORK));
    fft_run(inverse, half, map);
    fft_destroy(&forward);
    fft_destroy(&inverse);
    free(half);
    return map;
}

static struct whiten_options usual(void) {
    return (struct whiten_options){.size = WORK, .work = WORK, .x0 = X0, .y0 = Y0, .x1 = X1, .y1 = Y1, .diameter = 11};
}

static void weights_of(const struct whiten_options *options, const float *map, float *weights) {
    struct whiten *whiten = NULL;
    struct err err = {0};
    if (whiten_create(options, &whiten, &err) != STATUS_OK) fail_msg("%s", err.message);
    whiten_weights(whiten, map, weights);
    whiten_destroy(&whiten);
}

static void white_noise_has_weights_of_one(void **state) {
    (void)state;
    float *map = noise_map(white), weights[RINGS];
    struct whiten_options options = usual();
    /* Pixels around the micrograph must not count. */
    for (int i = 0; i < Y0 * WORK; i++)
        map[i] = 1e6f;
    weights_of(&options, map, weights);
    /* There are 130 tiles. The lowest ring that counts has 10 coefficients in each, which are not independent. */
    for (int r = 0; r < RINGS; r++)
        assert_true(fabsf(weights[r] - 1) < (r < WORK / 8 ? 0.12f : 0.06f));
    /* On a micrograph of twice the size, the band holds a quarter of the variance. The weights must be the same. */
    options.size = 2 * WORK;
    for (int i = 0; i < WORK * WORK; i++)
        map[i] /= 2;
    float half[RINGS];
    weights_of(&options, map, half);
    for (int r = 0; r < RINGS; r++)
        assert_float_equal(half[r], weights[r], 1e-4);
    free(map);
}

static void colour_is_undone(void **state) {
    (void)state;
    float *map = noise_map(blurred), weights[RINGS];
    struct whiten_options options = usual();
    weights_of(&options, map, weights);
    /* A tile's rings are 6 wide here. The colour changes by a third over this width, and more beyond 44. */
    for (int r = 12; r < 44; r++)
        assert_true(fabs(weights[r] * blurred(r) - 1) < 0.25);
    for (int r = 0; r < RINGS; r++)
        assert_true(isfinite(weights[r]));
    free(map);
}

static void lumps_matter_little(void **state) {
    (void)state;
    float *map = noise_map(white), before[RINGS], after[RINGS];
    struct whiten_options options = usual();
    weights_of(&options, map, before);
    for (int y = 60; y < 110; y++)
        for (int x = 90; x < 150; x++)
            map[y * WORK + x] += 20 * (float)exp(-((x - 120) * (x - 120) + (y - 85) * (y - 85)) / 100.0);
    for (int y = Y0; y < Y1; y++)
        for (int x = 225; x < X1; x++)
            map[y * WORK + x] -= 10;
    weights_of(&options, map, after);
    for (int r = 0; r < RINGS; r++)
        assert_true(fabsf(after[r] / before[r] - 1) < 0.15f);
    free(map);
}

static void empty_maps_have_weights(void **state) {
    (void)state;
    float *map = calloc(WORK * WORK, sizeof *map), weights[RINGS];
    struct whiten_options options = usual();
    weights_of(&options, map, weights);
    for (int r = 0; r < RINGS; r++)
        assert_true(weights[r] == 0);
    struct whiten *whiten = NULL;
    struct err err = {0};
    options.x1 = WORK + 1;
    assert_int_equal(whiten_create(&options, &whiten, &err), STATUS_BAD_ARGUMENT);
    assert_null(whiten);
    free(map);
}

static void weights_apply_by_ring(void **state) {
    (void)state;
    enum { N = 12 };
    float half[N * (N + 2)], weights[N / 2 + 1] = {0, 1, 2, 3, 4, 5, 6};
    for (int i = 0; i < N * (N + 2); i++)
        half[i] = 1;
    whiten_apply(weights, N, half);
    for (int row = 0; row < N; row++)
        for (int kx = 0; kx <= N / 2; kx++) {
            int ring = (int)lround(hypot(kx, row <= N / 2 ? row : row - N));
            for (int part = 0; part < 2; part++)
                assert_true(half[2 * (row * (N / 2 + 1) + kx) + part] == (ring <= N / 2 ? weights[ring] : 0));
        }
}

static void noise_follows_the_weights(void **state) {
    (void)state;
    enum { BOX = 40 };
    float template[BOX * BOX], weights[RINGS];
    double power[RINGS];
    struct whiten_options options = usual();
    struct err err = {0};
    for (int i = 0; i < BOX * BOX; i++) {
        double x = i % BOX - BOX / 2, y = i / BOX - BOX / 2;
        template[i] = (float)exp(-(x * x + y * y) / 50);
    }
    assert_int_equal(whiten_template_power(&options, template, BOX, 1, 18, power, &err), STATUS_OK);
    for (int r = 0; r < RINGS; r++)
        weights[r] = 3;
    assert_float_equal(whiten_noise(power, weights, WORK), 3, 1e-5);
    /* For a Gaussian exp(−x²/2s²), s = 5, the power within ring k is 1 − exp(−(2π s k / size)²). */
    for (int r = 0; r < RINGS; r++)
        weights[r] = r < 8 ? 1 : 0;
    double within = 1 - exp(-pow(2 * M_PI * 5 * 7.5 / WORK, 2));
    assert_float_equal(whiten_noise(power, weights, WORK), sqrt(within), 0.1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(white_noise_has_weights_of_one),
        cmocka_unit_test(colour_is_undone),
        cmocka_unit_test(lumps_matter_little),
        cmocka_unit_test(empty_maps_have_weights),
        cmocka_unit_test(weights_apply_by_ring),
        cmocka_unit_test(noise_follows_the_weights),
    };
    print_message("seed %llu\n", (unsigned long long)seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
