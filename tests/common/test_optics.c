/* Tests from which source the optics of micrographs, items and particles come, and which pixel sizes are the same. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/formats/optics.h"

static const struct optics SESSION = {
    .pixel_size = 1.1,
    .voltage = NAN,
    .spherical_aberration = 1.4,
    .amplitude_contrast = NAN,
};
static const struct optics OTHER = {
    .pixel_size = 2,
    .voltage = 200,
    .spherical_aberration = 2,
    .amplitude_contrast = 0,
};

static void assert_optics(struct optics found, struct optics expected) {
    assert_true(found.pixel_size == expected.pixel_size);
    assert_true(found.voltage == expected.voltage);
    assert_true(found.spherical_aberration == expected.spherical_aberration);
    assert_true(found.amplitude_contrast == expected.amplitude_contrast);
}

static void of_a_micrograph_the_session_decides_then_the_table(void **state) {
    (void)state;
    assert_optics(optics_of_micrograph(&SESSION, &OTHER, 3), (struct optics){1.1, 200, 1.4, 0});
}

static void of_a_micrograph_the_header_comes_after_session_and_table(void **state) {
    (void)state;
    const struct optics none = optics_unknown();
    assert_optics(optics_of_micrograph(&none, &OTHER, 3), (struct optics){2, 200, 2, 0});
    assert_optics(optics_of_micrograph(&none, &none, 3), (struct optics){3, 300, 2.7, 0.1});
    assert_true(isnan(optics_of_micrograph(&none, &none, 0).pixel_size));
}

static void of_an_item_its_own_values_decide_then_the_session(void **state) {
    (void)state;
    const struct optics item = {
        .pixel_size = 2,
        .voltage = 200,
        .spherical_aberration = NAN,
        .amplitude_contrast = NAN,
    };
    assert_optics(optics_of_item(&item, &SESSION), (struct optics){2, 200, 1.4, 0.1});
}

static void of_a_particle_only_the_pixel_size_comes_from_elsewhere(void **state) {
    (void)state;
    const struct optics none = optics_unknown();
    assert_optics(optics_of_particle(&OTHER, 3, 4, 5), OTHER);
    assert_optics(optics_of_particle(&none, 3, 4, 5), (struct optics){3, 300, 2.7, 0.1});
    assert_optics(optics_of_particle(&none, NAN, 4, 5), (struct optics){4, 300, 2.7, 0.1});
    assert_optics(optics_of_particle(&none, NAN, NAN, 5), (struct optics){5, 300, 2.7, 0.1});
}

static void a_pixel_size_has_no_default(void **state) {
    (void)state;
    const struct optics none = optics_unknown();
    assert_true(isnan(optics_of_item(&none, &none).pixel_size));
    assert_true(isnan(optics_of_particle(&none, NAN, NAN, 0).pixel_size));
}

static void detector_and_magnification_give_a_pixel_size_if_both_are_known(void **state) {
    (void)state;
    assert_true(fabs(optics_pixel_size_of_detector(14, 100000) - 1.4) < 1e-12);
    assert_true(isnan(optics_pixel_size_of_detector(0, 100000)));
    assert_true(isnan(optics_pixel_size_of_detector(-5, 100000)));
    assert_true(isnan(optics_pixel_size_of_detector(14, 0)));
    assert_true(isnan(optics_pixel_size_of_detector(NAN, 100000)));
    assert_true(isnan(optics_pixel_size_of_detector(14, INFINITY)));
}

static void pixel_sizes_are_the_same_within_a_thousandth(void **state) {
    (void)state;
    assert_true(optics_same_pixel_size(1.0009, 1) && optics_same_pixel_size(10.009, 10));
    assert_false(optics_same_pixel_size(1.0011, 1) || optics_same_pixel_size(0.0995, 0.1));
    assert_false(optics_same_pixel_size(NAN, 1) || optics_same_pixel_size(0, 1));
}

static void a_header_confirms_a_pixel_size_within_a_hundredth(void **state) {
    (void)state;
    assert_true(optics_pixel_size_confirms(1.009, 1));
    assert_false(optics_pixel_size_confirms(0.98, 1) || optics_pixel_size_confirms(1, NAN));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_a_micrograph_the_session_decides_then_the_table),
        cmocka_unit_test(of_a_micrograph_the_header_comes_after_session_and_table),
        cmocka_unit_test(of_an_item_its_own_values_decide_then_the_session),
        cmocka_unit_test(of_a_particle_only_the_pixel_size_comes_from_elsewhere),
        cmocka_unit_test(a_pixel_size_has_no_default),
        cmocka_unit_test(detector_and_magnification_give_a_pixel_size_if_both_are_known),
        cmocka_unit_test(pixel_sizes_are_the_same_within_a_thousandth),
        cmocka_unit_test(a_header_confirms_a_pixel_size_within_a_hundredth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
