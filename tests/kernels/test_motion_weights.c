/* Tables of the sums: the taps shift waves as the exact Fourier shift does, and dose weights written as few terms equal
 * those of the formula. Sums of frames are not under test here. */
#include <complex.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/memory.h"
#include "kernels/motion/motion_weights.h"

/* Returns the largest error of a wave of k cycles per px over all phases. */
static double worst_error(float (*taps)[MOTION_TAPS], double k) {
    double worst = 0;
    for (int phase = 0; phase <= MOTION_PHASES; phase++) {
        double complex sum = 0;
        for (int i = 0; i < MOTION_TAPS; i++)
            sum += (double)taps[phase][i] * cexp(2 * M_PI * I * k * (i - 3 - (double)phase / MOTION_PHASES));
        worst = fmax(worst, cabs(sum - 1));
    }
    return worst;
}

static void taps_shift_waves(void **state) {
    (void)state;
    _cleanup_(mem_free) float(*taps)[MOTION_TAPS] = calloc(MOTION_PHASES + 1, sizeof *taps);
    assert_non_null(taps);
    motion_taps(taps);
    for (int i = 0; i < MOTION_TAPS; i++) {
        assert_true(fabsf(taps[0][i] - (float)(i == 3)) < 1e-6F);
        assert_true(fabsf(taps[MOTION_PHASES][i] - (float)(i == 4)) < 1e-6F);
        assert_true(fabsf(taps[MOTION_PHASES / 2][i] - taps[MOTION_PHASES / 2][7 - i]) < 1e-6F);
    }
    assert_true(worst_error(taps, 0) < 1e-6);
    for (double k = 0; k <= 0.36; k += 0.005)
        assert_true(worst_error(taps, k) < 0.03);
    assert_true(worst_error(taps, 0.4) < 0.2); /* bilinear: 0.7 */
}

static double formula(double dose, double k) {
    return exp(-dose / (2 * (0.245 * pow(k, -1.665) + 2.81)));
}

/* Compares with exp(−D/2Ne) / sqrt(Σ exp(−D/Ne)) at frequencies that lie between the steps of the tables. */
static void compare(int frames, double total, double before, double pixel_size, double tolerance, int most_terms) {
    struct err err = {0};
    struct motion_weights *w = NULL;
    _cleanup_(mem_free) double *dose = calloc((size_t)frames, sizeof *dose);
    assert_non_null(dose);
    for (int j = 0; j < frames; j++)
        dose[j] = before + total * (j + 1) / frames;
    if (motion_weights_create(frames, dose, pixel_size, 300, &w, &err) != STATUS_OK) fail_msg("%s", err.message);
    assert_true(w->terms >= 1 && w->terms <= most_terms && w->terms <= frames);
    for (int n = 1; n < 1000; n++) {
        double k = n * sqrt(0.5) / pixel_size / 1000, at = k / w->step, part = at - floor(at), power[2] = {0, 0};
        int step = (int)at;
        for (int j = 0; j < frames; j++)
            power[j % 2] += pow(formula(dose[j], k), 2);
        double all = power[0] + power[1];
        for (int j = 0; j < frames; j++) {
            double weight = 0;
            for (int t = 0; t < w->terms; t++)
                weight +=
                    ((1 - part) * (double)w->of_frequency[step][t] + part * (double)w->of_frequency[step + 1][t]) *
                    (double)w->of_frame[j][t];
            assert_true(fabs(weight - formula(dose[j], k) / sqrt(all)) * sqrt(frames) < tolerance);
            assert_true(w->of_frame[j][0] == 1);
        }
        for (int half = 0; half < 2 && frames > 1; half++) {
            double factor = (1 - part) * (double)w->of_half[half][step] + part * (double)w->of_half[half][step + 1];
            assert_true(fabs(factor / sqrt(all / power[half]) - 1) < 1e-4);
        }
    }
    motion_weights_destroy(&w);
    assert_null(w);
}

static void few_terms_equal_the_formula(void **state) {
    (void)state;
    compare(40, 40, 0, 1, 1e-5, 8);
    compare(40, 60, 5, 0.65, 2e-5, 9);
    compare(50, 50, 80, 1.4, 2e-5, 9); /* after 80 e⁻/Å² all weights are tiny at high frequencies, and still right */
    compare(300, 200, 0, 1, 1e-4, 14);
    compare(4, 20, 0, 1, 1e-5, 4);
    compare(1, 1, 0, 1, 1e-5, 1);
}

static void huge_doses_leave_finite_weights(void **state) {
    (void)state;
    struct err err = {0};
    struct motion_weights *w = NULL;
    const double dose[] = {1000, 2000, 3000, 4000};
    assert_int_equal(motion_weights_create(4, dose, 1.2, 300, &w, &err), STATUS_OK);
    for (int s = 0; s <= MOTION_STEPS; s++) {
        for (int t = 0; t < w->terms; t++)
            assert_true(isfinite(w->of_frequency[s][t]));
        assert_true(w->of_half[0][s] >= 1 && w->of_half[0][s] < 1.5F);
        assert_true(w->of_half[1][s] >= 0 && w->of_half[1][s] < 2e6F);
    }
    assert_true(w->of_half[1][MOTION_STEPS] == 0); /* the second frame kept nothing there */
    motion_weights_destroy(&w);
}

static void voltages_scale_the_dose(void **state) {
    (void)state;
    struct err err = {0};
    struct motion_weights *w = NULL, *same = NULL;
    const double dose[] = {8, 16, 24}, at_300[] = {10, 20, 30}, wrong[] = {1, -1, 2};
    assert_int_equal(motion_weights_create(3, dose, 1, 199, &w, &err), STATUS_OK);
    assert_int_equal(motion_weights_create(3, at_300, 1, 300, &same, &err), STATUS_OK);
    for (int s = 0; s <= MOTION_STEPS; s++)
        for (int t = 0; t < w->terms; t++)
            assert_true(fabsf(w->of_frequency[s][t] - same->of_frequency[s][t]) < 1e-5F);
    motion_weights_destroy(&w);
    motion_weights_destroy(&same);
    assert_int_equal(motion_weights_create(3, dose, 1, 120, &w, &err), STATUS_BAD_ARGUMENT);
    assert_int_equal(motion_weights_create(3, wrong, 1, 300, &w, &err), STATUS_BAD_ARGUMENT);
    assert_null(w);
    assert_int_equal(motion_weights_create(3, NULL, 0, 0, &w, &err), STATUS_OK); /* without doses nothing else counts */
    assert_true(w->terms == 1 && w->of_frequency[7][0] == 1 && w->of_half[1][7] == 1 && w->of_frame[2][0] == 1);
    motion_weights_destroy(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(taps_shift_waves),
        cmocka_unit_test(few_terms_equal_the_formula),
        cmocka_unit_test(huge_doses_leave_finite_weights),
        cmocka_unit_test(voltages_scale_the_dose),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
