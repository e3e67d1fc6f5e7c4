/* FSC by direction of halves whose answer is known: the truth by brute force over all voxels, halves that agree in all
 * directions alike, and halves that lack signal in a cone. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/memory.h"
#include "kernels/fsc/directional.h"
#include "kernels/fsc/fsc.h"
#include "tests/kernels/filter.h"
#include "tests/kernels/phantom.h"

enum { BOX = 48, MAP = BOX * BOX * BOX, SHELLS = BOX / 2 + 1, AXES = 40 };

static uint64_t seed = 77;

static float *new_floats(size_t count) {
    float *values = mem_aligned(count, sizeof *values);
    assert_non_null(values);
    return values;
}

/* Signal that a half map holds: to a shell, in voxels that lie `lacking` degrees or more from the z axis. */
struct seen {
    double lacking;
    int last;
};

static double seen_gain(int kx, int ky, int kz, const void *context) {
    const struct seen *seen = context;
    double r = sqrt(kx * kx + ky * ky + kz * kz), off = r > 0 ? acos(abs(kz) / r) * 180 / M_PI : 90;
    return r < seen->last + 0.5 && off >= seen->lacking ? 1 : 0;
}

/* Makes halves that hold that signal, with noise of their own. */
static void make_halves(double lacking, int last, double noise, float *half1, float *half2) {
    const struct seen seen = {.lacking = lacking, .last = last};
    for (int i = 0; i < MAP; i++)
        half1[i] = (float)phantom_normal(&seed);
    filter_voxels(BOX, half1, seen_gain, &seen);
    for (int i = 0; i < MAP; i++) {
        half2[i] = half1[i] + (float)(noise * phantom_normal(&seed));
        half1[i] += (float)(noise * phantom_normal(&seed));
    }
}

/* A cone of 90° holds all voxels. */
static void a_wide_cone_is_the_whole_shell(void **state) {
    (void)state;
    static const double axis[1][3] = {{0.6, 0, 0.8}};
    _cleanup_(mem_free) float *a = new_floats(MAP);
    _cleanup_(mem_free) float *b = new_floats(MAP);
    float whole[SHELLS], cone[SHELLS];
    make_halves(0, 15, 0.3, a, b);
    const struct fsc_cones cones = {.box = BOX, .half_angle = 90, .axes = axis, .count = 1};
    assert_int_equal(fsc_maps(NULL, BOX, a, b, whole, NULL), STATUS_OK);
    assert_int_equal(fsc_directional(&cones, a, b, NULL, cone, NULL), STATUS_OK);
    for (int s = 0; s < SHELLS; s++)
        assert_true(fabsf(whole[s] - cone[s]) < 1e-5f);
}

static void missing_views_are_found(void **state) {
    (void)state;
    double axes[AXES][3];
    _cleanup_(mem_free) float *a = new_floats(MAP);
    _cleanup_(mem_free) float *b = new_floats(MAP);
    _cleanup_(mem_free) float *curves = new_floats((size_t)AXES * SHELLS);
    const struct fsc_cones cones = {.box = BOX, .half_angle = 20, .axes = axes, .count = AXES};
    fsc_even_axes(AXES, axes);
    make_halves(55, 15, 0.3, a, b);
    assert_int_equal(fsc_directional(&cones, a, b, NULL, curves, NULL), STATUS_OK);
    int seen = 0, missing = 0;
    for (int i = 0; i < AXES; i++) {
        const float *curve = curves + (size_t)i * SHELLS;
        double off = acos(axes[i][2]) * 180 / M_PI, resolution = fsc_cone_resolution(curve, BOX, 1);
        double length = axes[i][0] * axes[i][0] + axes[i][1] * axes[i][1] + axes[i][2] * axes[i][2];
        assert_true(fabs(length - 1) < 1e-12);
        if (off > 76) {
            seen++;
            assert_true(resolution < BOX / 13.0 && curve[10] > 0.7f);
        }
        if (off < 34) {
            missing++;
            assert_true(resolution > BOX / 8.0 && fabsf(curve[12]) < 0.4f);
        }
    }
    assert_true(seen >= 5 && missing >= 5);
    /* The whole shell agrees all the same. */
    float whole[SHELLS];
    assert_int_equal(fsc_maps(NULL, BOX, a, b, whole, NULL), STATUS_OK);
    assert_true(whole[14] > 0.5f);
}

/* Evenly seen maps have about one resolution, with a mask and without, and any number of threads gives the same. */
static void even_maps_are_even(void **state) {
    (void)state;
    double axes[AXES][3];
    _cleanup_(mem_free) float *a = new_floats(MAP);
    _cleanup_(mem_free) float *b = new_floats(MAP);
    _cleanup_(mem_free) float *mask = new_floats(MAP);
    _cleanup_(mem_free) float *curves = new_floats((size_t)AXES * SHELLS);
    _cleanup_(mem_free) float *again = new_floats((size_t)AXES * SHELLS);
    const struct fsc_cones cones = {.box = BOX, .half_angle = 20, .axes = axes, .count = AXES};
    fsc_even_axes(AXES, axes);
    make_halves(0, 15, 0.3, a, b);
    for (int i = 0; i < MAP; i++)
        mask[i] = 1;
    mask_sphere(3, BOX, mask, 12, 6, 0);
    for (int masked = 0; masked < 2; masked++) {
        assert_int_equal(fsc_directional(&cones, a, b, masked ? mask : NULL, curves, NULL), STATUS_OK);
        double least = 999, most = 0;
        for (int i = 0; i < AXES; i++) {
            double resolution = fsc_cone_resolution(curves + (size_t)i * SHELLS, BOX, 1);
            least = fmin(least, resolution), most = fmax(most, resolution);
        }
        printf("%s: %.2f to %.2f px\n", masked ? "masked" : "unmasked", least, most);
        assert_true(most < 1.25 * least && least > BOX / 20.0 && most < BOX / 13.0);
    }
    assert_int_equal(fsc_directional(&cones, a, b, mask, again, NULL), STATUS_OK);
    assert_memory_equal(curves, again, (size_t)AXES * SHELLS * sizeof *curves);
}

static void nonsense_is_refused(void **state) {
    (void)state;
    static const double axis[1][3] = {{0, 0, 1}};
    float curve[SHELLS];
    struct fsc_cones cones = {.box = 31, .half_angle = 20, .axes = axis, .count = 1};
    assert_int_equal(fsc_directional(&cones, NULL, NULL, NULL, curve, NULL), STATUS_BAD_ARGUMENT);
    cones.box = BOX, cones.half_angle = 0;
    assert_int_equal(fsc_directional(&cones, NULL, NULL, NULL, curve, NULL), STATUS_BAD_ARGUMENT);
}

int main(void) {
    printf("seed %llu\n", (unsigned long long)seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wide_cone_is_the_whole_shell),
        cmocka_unit_test(missing_views_are_found),
        cmocka_unit_test(even_maps_are_even),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
