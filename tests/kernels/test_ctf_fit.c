#include "kernels/ctf_fit/ctf_fit.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/memory.h"
#include "kernels/periodogram/periodogram.h"
#include "tests/kernels/spectrum_cases.h"

enum { SIZE = 2048 };
static const double PIXEL = 1.2;

static struct ctf_fit_options usual(void) {
    return (struct ctf_fit_options){.pixel_size = PIXEL,
                                    .voltage = 300,
                                    .spherical_aberration = 2.7,
                                    .amplitude_contrast = 0.1,
                                    .low = 30,
                                    .high = 5,
                                    .defocus_min = 2000,
                                    .defocus_max = 50000,
                                    .astigmatism_max = 2000};
}

static struct ctf ctf_with(double u, double v, double angle, double phase) {
    return (struct ctf){.defocus_u = u,
                        .defocus_v = v,
                        .defocus_angle = angle,
                        .voltage = 300,
                        .spherical_aberration = 2.7,
                        .amplitude_contrast = 0.1,
                        .phase_shift = phase,
                        .b_factor = 100,
                        .scale = 1};
}

/* Simulates a micrograph, and fits its spectrum. */
static void fit(const struct ctf *ctf, double signal, uint64_t first_seed, const struct ctf_fit_options *options,
                struct ctf_fit_result *ret_result) {
    struct err err = {0};
    int box = ctf_fit_box(SIZE, SIZE, PIXEL);
    struct periodogram_task task = {.nx = SIZE, .ny = SIZE, .box = box, .threads = 2};
    struct periodogram *periodogram = NULL;
    struct ctf_fit *fit = NULL;
    float *image = mem_aligned((size_t)SIZE * SIZE, sizeof *image);
    float *power = mem_aligned((size_t)box * (size_t)(box / 2 + 1), sizeof *power);
    assert_true(image != NULL && power != NULL);
    spectrum_micrograph(SIZE, PIXEL, ctf, signal, first_seed, image);
    if (periodogram_create(&task, &periodogram, &err) != STATUS_OK || ctf_fit_create(box, 2, &fit, &err) != STATUS_OK ||
        periodogram_run(periodogram, image, NULL, power, &err) != STATUS_OK ||
        ctf_fit_run(fit, power, options, ret_result, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    periodogram_destroy(&periodogram);
    ctf_fit_destroy(&fit);
    free(image);
    free(power);
}

/* The distance of two angles, which repeat after 180°. */
static double apart(double a, double b) {
    double d = fmod(fabs(a - b), 180);
    return d > 90 ? 180 - d : d;
}

static void defocus_and_astigmatism_are_found(void **state) {
    (void)state;
    static const struct {
        double mean, astigmatism, angle;
    } cases[] = {{3000, 400, 20},   {6000, 0, 0},     {9000, 600, -70}, {12000, 300, 45}, {15000, 1000, 89},
                 {20000, 350, -30}, {27000, 800, 60}, {33000, 0, 0},    {40000, 500, -5}};
    const struct ctf_fit_options options = usual();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double mean = cases[i].mean, half = cases[i].astigmatism / 2;
        struct ctf ctf = ctf_with(mean + half, mean - half, cases[i].angle, 0);
        struct ctf_fit_result r = {0};
        fit(&ctf, 0.3, i + 1, &options, &r);
        double found = (r.defocus_u + r.defocus_v) / 2;
        print_message("%.0f %.0f %.0f: found %.0f %.0f %.1f, score %.3f, to %.2f Å\n", mean, cases[i].astigmatism,
                      cases[i].angle, found, r.defocus_u - r.defocus_v, r.angle, r.score, r.resolution);
        assert_true(fabs(found - mean) < fmax(100, 0.005 * mean));
        assert_true(fabs(r.defocus_u - r.defocus_v - cases[i].astigmatism) < 150);
        if (cases[i].astigmatism >= 300) assert_true(apart(r.angle, cases[i].angle) < 5);
        assert_true(r.resolution > 0 && r.resolution < 8);
        assert_true(r.angle >= -90 && r.angle <= 90);
    }
}

static void the_resolution_falls_with_noise(void **state) {
    (void)state;
    const struct ctf_fit_options options = usual();
    struct ctf ctf = ctf_with(16000, 15700, 30, 0);
    double last = 0;
    for (double signal = 1.6; signal > 0.05; signal /= 4) {
        struct ctf_fit_result r = {0};
        fit(&ctf, signal, 11, &options, &r);
        print_message("signal %.3f: to %.2f Å, score %.3f\n", signal, r.resolution, r.score);
        assert_true(r.resolution > last);
        last = r.resolution;
    }
}

static void noise_has_no_resolution(void **state) {
    (void)state;
    const struct ctf_fit_options options = usual();
    struct ctf ctf = ctf_with(16000, 15700, 30, 0);
    for (uint64_t k = 21; k < 25; k++) {
        struct ctf_fit_result r = {0};
        fit(&ctf, 0, k, &options, &r);
        print_message("noise: score %.3f, significance %.1f, to %.2f Å\n", r.score, r.significance, r.resolution);
        assert_true(r.score < 0.05 && (r.resolution == 0 || r.resolution > 15));
    }
}

static void a_phase_shift_is_found(void **state) {
    (void)state;
    struct ctf_fit_options options = usual();
    options.find_phase = true;
    options.phase_max = 180;
    for (int i = 0; i < 3; i++) {
        double phase = 30 + 50 * i;
        struct ctf ctf = ctf_with(12400, 12000, 10, phase);
        struct ctf_fit_result r = {0};
        fit(&ctf, 0.2, (uint64_t)i + 31, &options, &r);
        print_message("phase %.0f: found %.1f at %.0f\n", phase, r.phase_shift, (r.defocus_u + r.defocus_v) / 2);
        assert_true(apart(r.phase_shift, phase) < 8);
        assert_true(fabs((r.defocus_u + r.defocus_v) / 2 - 12200) < 150);
    }
}

static void options_that_fit_nothing_are_refused(void **state) {
    (void)state;
    struct err err = {0};
    struct ctf_fit *fit = NULL;
    struct ctf_fit_result r = {0};
    _cleanup_(mem_free) float *power = calloc(64 * 33, sizeof *power);
    assert_non_null(power);
    assert_int_equal(ctf_fit_create(63, 1, &fit, &err), STATUS_BAD_ARGUMENT);
    assert_int_equal(ctf_fit_create(64, 1, &fit, &err), STATUS_OK);
    struct ctf_fit_options options = usual();
    options.high = 60;
    assert_int_equal(ctf_fit_run(fit, power, &options, &r, &err), STATUS_BAD_ARGUMENT);
    options = usual();
    options.defocus_max = 1000;
    assert_int_equal(ctf_fit_run(fit, power, &options, &r, &err), STATUS_BAD_ARGUMENT);
    options = usual();
    options.low = 20;
    options.high = 19; /* too few pixels */
    assert_int_equal(ctf_fit_run(fit, power, &options, &r, &err), STATUS_BAD_ARGUMENT);
    assert_non_null(strstr(err.message, "resolution"));
    ctf_fit_destroy(&fit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defocus_and_astigmatism_are_found),
        cmocka_unit_test(the_resolution_falls_with_noise),
        cmocka_unit_test(noise_has_no_resolution),
        cmocka_unit_test(a_phase_shift_is_found),
        cmocka_unit_test(options_that_fit_nothing_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
