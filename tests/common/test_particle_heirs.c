/* Particles that follow others by their places: each the nearest one in its micrograph, and no two the same one. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/formats/particle_heirs.h"

enum { MOST = 400 };

static uint64_t seed = 4;

static double uniform(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return ((double)(seed >> 40) + 0.5) * 0x1p-24;
}

static void find(const struct particle_place *earlier, size_t earlier_count, const struct particle_place *later,
                 size_t later_count, double reach, int *heir_of) {
    struct err err = {0};
    if (particle_heirs_find(earlier, earlier_count, later, later_count, reach, heir_of, &err) != STATUS_OK)
        fail_msg("%s", err.message);
}

static void the_nearest_of_the_micrograph_is_followed(void **state) {
    (void)state;
    const struct particle_place earlier[] = {{7, 100, 100}, {7, 130, 100}, {8, 104, 100}, {0, 105, 100}};
    const struct particle_place later[] = {{7, 104, 100}, {7, 123, 96}, {9, 100, 100}, {0, 105, 100}, {7, 60, 100}};
    int heir_of[5];
    find(earlier, 4, later, 5, 20, heir_of);
    const int expected[5] = {0, 1, -1, -1, -1};
    for (int i = 0; i < 5; i++)
        assert_int_equal(heir_of[i], expected[i]);
    find(earlier, 4, later, 5, 3.9, heir_of); /* all are farther away */
    for (int i = 0; i < 5; i++)
        assert_int_equal(heir_of[i], -1);
    find(earlier, 4, later, 5, 0, heir_of);
    assert_int_equal(heir_of[0], -1);
}

/* The second one is nearer; the first then takes its second choice, and gives way nowhere else. */
static void no_two_follow_the_same(void **state) {
    (void)state;
    const struct particle_place earlier[] = {{7, 100, 100}, {7, 112, 100}};
    const struct particle_place later[] = {{7, 104, 100}, {7, 101, 100}, {7, 98, 100}};
    int heir_of[3];
    find(earlier, 2, later, 3, 20, heir_of);
    assert_int_equal(heir_of[1], 0);
    assert_int_equal(heir_of[0], 1);
    assert_int_equal(heir_of[2], -1);
}

/* Against pairs of all lists, by distance, the nearest pair first. */
static void equals_all_pairs_by_distance(void **state) {
    (void)state;
    struct particle_place earlier[MOST], later[MOST];
    int heir_of[MOST], expected[MOST], owner[MOST];
    for (int i = 0; i < MOST; i++) {
        earlier[i] = (struct particle_place){1 + (uint64_t)(3 * uniform()), 1000 * uniform(), 1000 * uniform()};
        later[i] = (struct particle_place){1 + (uint64_t)(3 * uniform()), 1000 * uniform(), 1000 * uniform()};
        expected[i] = owner[i] = -1;
    }
    const double reach = 60;
    for (;;) {
        double best = reach;
        int from = -1, to = -1;
        for (int i = 0; i < MOST; i++)
            for (int j = 0; j < MOST; j++) {
                double apart = hypot(later[i].x - earlier[j].x, later[i].y - earlier[j].y);
                if (expected[i] >= 0 || owner[j] >= 0 || later[i].micrograph != earlier[j].micrograph || apart > best)
                    continue;
                best = apart;
                from = j;
                to = i;
            }
        if (from < 0) break;
        expected[to] = from;
        owner[from] = to;
    }
    find(earlier, MOST, later, MOST, reach, heir_of);
    int found = 0;
    for (int i = 0; i < MOST; i++) {
        assert_int_equal(heir_of[i], expected[i]);
        found += heir_of[i] >= 0;
    }
    assert_true(found > MOST / 2 && found < MOST);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nearest_of_the_micrograph_is_followed),
        cmocka_unit_test(no_two_follow_the_same),
        cmocka_unit_test(equals_all_pairs_by_distance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
