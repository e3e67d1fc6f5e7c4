/* Tests that optics come from the first source that has them, and from the defaults if none has. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/formats/optics.h"

static void the_first_source_decides(void **state) {
    (void)state;
    struct optics optics = {.pixel_size = 1.1, .voltage = NAN, .spherical_aberration = NAN, .amplitude_contrast = NAN};
    const struct optics table = {.pixel_size = 2, .voltage = 200, .spherical_aberration = NAN, .amplitude_contrast = 0};
    optics_fill(&optics, &table);
    optics_fill_defaults(&optics);
    assert_true(optics.pixel_size == 1.1 && optics.voltage == 200);
    assert_true(optics.spherical_aberration == 2.7 && optics.amplitude_contrast == 0);
}

static void a_pixel_size_has_no_default(void **state) {
    (void)state;
    struct optics optics = optics_unknown();
    optics_fill_defaults(&optics);
    assert_true(isnan(optics.pixel_size));
    assert_true(optics.voltage == 300 && optics.spherical_aberration == 2.7 && optics.amplitude_contrast == 0.1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_source_decides),
        cmocka_unit_test(a_pixel_size_has_no_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
