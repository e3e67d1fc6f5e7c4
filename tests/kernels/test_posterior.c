/* Compares kernels/expectation/posterior with exp() in double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernels/expectation/posterior.h"

enum { ROWS = 61, COLUMNS = 173 };

static void weights_are_those_of_the_formula(void **state) {
    (void)state;
    static float values[ROWS * COLUMNS];
    static double truth[ROWS * COLUMNS];
    float rows[ROWS], columns[COLUMNS];
    srand(8);
    for (int with = 0; with < 4; with++) {
        double least = 1e300, sum = 0, found_least, found_sum;
        for (int i = 0; i < ROWS; i++)
            rows[i] = -(float)(rand() % 1000) / 200;
        for (int i = 0; i < COLUMNS; i++)
            columns[i] = -(float)(rand() % 1000) / 300;
        for (int i = 0; i < ROWS * COLUMNS; i++) {
            values[i] = -50 + 120 * (float)rand() / (float)RAND_MAX;
            float row = with & 1 ? rows[i / COLUMNS] : 0, column = with & 2 ? columns[i % COLUMNS] : 0;
            /* Computed in float, as the kernel does: this test is about the exponential. */
            truth[i] = (float)(values[i] - row - column);
            least = fmin(least, truth[i]);
        }
        posterior_weights(values, ROWS, COLUMNS, with & 1 ? rows : NULL, with & 2 ? columns : NULL, &found_least,
                          &found_sum);
        assert_true(fabs(found_least - least) < 1e-4);
        for (int i = 0; i < ROWS * COLUMNS; i++) {
            double w = truth[i] - least > 87 ? 0 : exp(least - truth[i]);
            sum += w;
            /* 1e-5: rounding of an exponent of 87 gives 4e-6. */
            assert_true(fabs(values[i] - w) <= 2e-5 * w + 1e-37);
        }
        assert_true(fabs(found_sum / sum - 1) < 1e-4);
    }
}

static void one_sample_has_weight_one(void **state) {
    (void)state;
    float value = 1e6f;
    double least, sum;
    posterior_weights(&value, 1, 1, NULL, NULL, &least, &sum);
    assert_true(value == 1 && sum == 1 && least == 1e6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_those_of_the_formula),
        cmocka_unit_test(one_sample_has_weight_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
