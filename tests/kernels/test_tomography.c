/* Tomography on the CPU against formulas in double, weight by weight. test_tomography [SEED]. */
#include "tomography_cases.h"

#include <time.h>

#include "kernels/tomography/blob.h"
#include "kernels/tomography/tomography_cpu.h"
#include "kernels/tomography/tomography_reference.h"

static const enum tomography_basis BASES[] = {TOMOGRAPHY_BLOB, TOMOGRAPHY_LINEAR, TOMOGRAPHY_VOXEL};
static const char *const BASIS_NAMES[] = {"blob", "linear", "voxel"};
static const enum tomography_matrix MATRICES[] = {TOMOGRAPHY_ON_THE_FLY, TOMOGRAPHY_ELLR, TOMOGRAPHY_BLOB_ELLR};

/* Single precision, and a table of footprints that errs by 3e-7: sums of some hundred weights, ten times over. */
static const double SINGLE = 1e-5;

static double integral_along(double s) {
    enum { STEPS = 4000 };
    double half = sqrt(fmax(0, BLOB_RADIUS * BLOB_RADIUS - s * s)), sum = 0;
    for (int i = 0; i < STEPS; i++) {
        double l = half * ((i + 0.5) / STEPS * 2 - 1);
        sum += blob_value(sqrt(s * s + l * l));
    }
    return sum * 2 * half / STEPS;
}

static void footprint_is_the_line_integral(void **state) {
    (void)state;
    for (double s = 0; s < 2.2; s += 0.01)
        assert_below(fabs(blob_footprint(s) - integral_along(s)), 1e-6, "the footprint's distance from its integral");
    assert_true(blob_value(0) == 1 && blob_value(2) == 0 && blob_value(2.5) == 0);
}

static void weights_sum_to_one(void **state) {
    (void)state;
    struct series s = even_series(3, 60, 16, 8, 8);
    for (int b = 0; b < 3; b++) {
        struct tomography_options o = options_of(&s);
        struct tomography_setup setup = {0};
        struct err err = {0};
        o.basis = BASES[b];
        must(tomography_setup_make(&o, &setup, &err), &err);
        for (int step = 0; step <= TOMOGRAPHY_STEPS; step++) {
            double sum = 0;
            for (int k = 0; k < 4; k++)
                sum += (double)setup.weights[8 * step + k] + 2 * (double)setup.weights[8 * step + 4 + k];
            assert_below(fabs(sum - 1), 1e-6, "the sum of a voxel's weights less 1");
        }
        /* The paper's symmetry 1 (eq. 6), in the order of the rays: 1 − f, 2 − f, 1 + f, f, over 4. */
        for (int k = 0; b == 1 && k < 4; k++) {
            double f = 0.25, expected[4] = {1 - f, 2 - f, 1 + f, f};
            assert_below(fabs((double)setup.weights[8 * (TOMOGRAPHY_STEPS / 4) + k] - expected[k] / 4), 1e-6,
                         "a weight");
        }
        tomography_setup_clear(&setup);
    }
}

static struct series odd_series(int which) {
    struct series s = which == 0 ? even_series(7, 65, 45, 67, 19) : even_series(6, 90, 40, 130, 22);
    if (which == 2) s = even_series(5, 60, 33, 5, 40);
    if (which == 3) s = even_series(4, 70, 70, 1, 1);
    if (which > 0) shift_randomly(&s, which == 2 ? 30 : 4);
    return s;
}

static void agrees_with_reference(void **state) {
    (void)state;
    for (int which = 0; which < 4; which++)
        for (int b = 0; b < 3; b++) {
            struct series s = odd_series(which);
            struct tomography_options o = options_of(&s);
            struct err err = {0};
            double residuals[3], expected_residuals[3];
            size_t voxels = voxel_count(&s);
            o.basis = BASES[b];
            o.start = (enum tomography_start)((which + b) % 3);
            o.iterations = 3;
            o.relaxation = 1.3;
            o.non_negative = which == 0;
            unsigned char *mask = new_memory(voxels, 1);
            for (size_t i = 0; i < voxels; i++)
                mask[i] = uniform() < 0.8;
            if (which == 1) o.mask = mask;
            float *p = random_floats(ray_count(&s));
            double *expected = new_memory(voxels, sizeof *expected);
            must(tomography_reference_run(&o, p, expected, expected_residuals, &err), &err);
            float *volume = run_once(&o, p, NULL, residuals);
            double off = difference(volume, expected, voxels);
            if (!(off < SINGLE)) fail_msg("series %d, %s: off by %g", which, BASIS_NAMES[b], off);
            for (int k = 0; k < 3; k++)
                assert_below(fabs(residuals[k] / expected_residuals[k] - 1), SINGLE, "a residual's error");
            free(mask), free(p), free(expected), free(volume);
        }
}

int main(int argc, char **argv) {
    seed = argc > 1 ? strtoull(argv[1], NULL, 10) : (uint64_t)time(NULL);
    printf("seed %llu\n", (unsigned long long)seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(footprint_is_the_line_integral),
        cmocka_unit_test(weights_sum_to_one),
        cmocka_unit_test(agrees_with_reference),
    };
    (void)MATRICES;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
