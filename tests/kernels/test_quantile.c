/* Compares order statistics with sorting. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/quantile/quantile.h"

static uint64_t seed = 31337;

static float uniform(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return ((float)(seed >> 40) + 0.5f) * 0x1p-24f;
}

static int ascending(const void *a, const void *b) {
    float p = *(const float *)a, q = *(const float *)b;
    return (p > q) - (p < q);
}

static void ranks_are_those_of_a_sort(void **state) {
    (void)state;
    enum { MOST = 5000 };
    float values[MOST], sorted[MOST];
    for (int trial = 0; trial < 40; trial++) {
        size_t count = trial < 8 ? (size_t)trial + 1 : (size_t)(1 + uniform() * (MOST - 1));
        for (size_t i = 0; i < count; i++)
            values[i] = trial % 3 == 0 ? floorf(7 * uniform()) - 3 : (uniform() - 0.4f) * powf(10, 20 * uniform() - 10);
        memcpy(sorted, values, count * sizeof *values);
        qsort(sorted, count, sizeof *sorted, ascending);
        for (size_t rank = 0; rank < count; rank += 1 + count / 17)
            assert_true(quantile_rank(values, count, rank) == sorted[rank]);
        assert_true(quantile_rank(values, count, count - 1) == sorted[count - 1]);
    }
}

static void outliers_do_not_matter(void **state) {
    (void)state;
    enum { COUNT = 20001 };
    float *values = malloc(COUNT * sizeof *values), median, deviation;
    for (int i = 0; i < COUNT; i++)
        values[i] = i < 1000 ? 1e6f : 5 + 2 * sqrtf(-2 * logf(uniform())) * cosf(6.2831853f * uniform());
    quantile_robust(values, COUNT, &median, &deviation);
    /* One value in twenty lies far above. This shifts the median by 0.06 standard deviations and widens the spread as
     * much. */
    assert_float_equal(median, 5, 0.25);
    assert_float_equal(deviation, 2, 0.25);
    quantile_robust(values, 0, &median, &deviation);
    assert_true(median == 0 && deviation == 0);
    free(values);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_are_those_of_a_sort),
        cmocka_unit_test(outliers_do_not_matter),
    };
    print_message("seed %llu\n", (unsigned long long)seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
