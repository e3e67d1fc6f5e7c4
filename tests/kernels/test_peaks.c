/* Tests peak search and both ways of pruning, on small cases with known answers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/peaks/peaks.h"

static uint64_t seed = 5150;

static float uniform(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return ((float)(seed >> 40) + 0.5f) * 0x1p-24f;
}

static struct peak_search whole(int nx, int ny, float threshold) {
    return (struct peak_search){.nx = nx, .ny = ny, .x1 = nx, .y1 = ny, .threshold = threshold};
}

static void finds_local_maxima(void **state) {
    (void)state;
    float map[5 * 7] = {0};
    map[1 * 7 + 2] = 3;
    map[1 * 7 + 3] = 2;
    map[3 * 7 + 5] = 1;
    map[3 * 7 + 6] = 1; /* a plateau at the edge */
    map[4 * 7 + 0] = 9;
    map[2 * 7 + 0] = NAN;
    uint16_t rotation[5 * 7] = {[1 * 7 + 2] = 4};
    struct peak_list list = {0};
    struct err err = {0};
    struct peak_search search = whole(7, 5, 0.5f);
    assert_int_equal(peaks_find(&search, map, rotation, 1, &list, &err), STATUS_OK);
    assert_int_equal(list.count, 3);
    assert_true(list.items[0].x == 2 && list.items[0].y == 1 && list.items[0].rotation == 4);
    assert_true(list.items[1].x == 5 && list.items[1].y == 3 && list.items[1].template == 1);
    assert_true(list.items[2].x == 0 && list.items[2].y == 4 && list.items[2].merit == 9);

    uint8_t bad[5 * 7] = {[4 * 7 + 0] = 1};
    search.bad = bad;
    search.x1 = 4;
    list.count = 0;
    assert_int_equal(peaks_find(&search, map, NULL, 0, &list, &err), STATUS_OK);
    assert_int_equal(list.count, 1);
    search.all_neighbours = true;
    list.count = 0;
    assert_int_equal(peaks_find(&search, map, NULL, 0, &list, &err), STATUS_OK);
    assert_int_equal(list.count, 0);
    peak_list_destroy(&list);
}

static void tops_of_parabolas(void **state) {
    (void)state;
    float map[9 * 9];
    for (int y = 0; y < 9; y++)
        for (int x = 0; x < 9; x++)
            map[y * 9 + x] = (float)(10 - (x - 4.3) * (x - 4.3) - 2 * (y - 3.8) * (y - 3.8));
    struct peak_list list = {0};
    struct err err = {0};
    struct peak_search search = whole(9, 9, 0);
    search.fractional = true;
    assert_int_equal(peaks_find(&search, map, NULL, 0, &list, &err), STATUS_OK);
    assert_int_equal(list.count, 1);
    assert_float_equal(list.items[0].x, 4.3, 1e-4);
    assert_float_equal(list.items[0].y, 3.8, 1e-4);
    peak_list_destroy(&list);
}

static void constant_map_is_one_plateau(void **state) {
    (void)state;
    float map[64 * 64];
    for (int i = 0; i < 64 * 64; i++)
        map[i] = 2;
    struct peak_list list = {0};
    struct err err = {0};
    struct peak_search search = whole(64, 64, 1);
    assert_int_equal(peaks_find(&search, map, NULL, 0, &list, &err), STATUS_OK);
    assert_int_equal(list.count, 1);
    peak_list_destroy(&list);
}

/* Three in a row, the middle one weakest: greedy pruning keeps the outer two. */
static void of_close_ones_the_best_stays(void **state) {
    (void)state;
    struct peak items[] = {{.x = 10, .y = 0, .merit = 1},
                           {.x = 0, .y = 0, .merit = 2},
                           {.x = 18, .y = 0, .merit = 3},
                           {.x = 0, .y = 50, .merit = 0.5f}};
    struct peak_list list = {.items = items, .count = 4, .capacity = 4};
    struct err err = {0};
    assert_int_equal(peaks_prune_greedy(&list, 12, &err), STATUS_OK);
    assert_int_equal(list.count, 3);
    assert_float_equal(list.items[0].merit, 3, 0);
    assert_float_equal(list.items[1].merit, 2, 0);
    assert_float_equal(list.items[2].merit, 0.5, 0);
    /* Peaks exactly at the distance are not too close. */
    struct peak pair[] = {{.x = 0, .merit = 1}, {.x = 12, .merit = 2}};
    list.items = pair;
    list.count = list.capacity = 2;
    assert_int_equal(peaks_prune_greedy(&list, 12, &err), STATUS_OK);
    assert_int_equal(list.count, 2);
    list.items = NULL;
    peak_list_destroy(&list);
}

/* Pruning must equal a comparison of all pairs, for points in general position and on a lattice with ties. */
static void pruning_is_that_of_all_pairs(void **state) {
    (void)state;
    enum { COUNT = 3000 };
    struct peak_list list = {.items = calloc(COUNT, sizeof(struct peak)), .capacity = COUNT};
    struct peak *all = calloc(COUNT, sizeof *all);
    struct err err = {0};
    for (int trial = 0; trial < 6; trial++) {
        double distance = 3 + 4 * trial;
        for (int i = 0; i < COUNT; i++)
            all[i] = (struct peak){.x = trial % 2 ? (float)(i % 60) : 500 * uniform(),
                                   .y = trial % 2 ? (float)(i / 60) : 300 * uniform(),
                                   .merit = trial == 3 ? (float)(i % 7) : uniform()};
        memcpy(list.items, all, COUNT * sizeof *all);
        list.count = COUNT;
        assert_int_equal(peaks_prune_greedy(&list, distance, &err), STATUS_OK);
        /* Every dropped peak has a better one nearby that stayed. All peaks that stayed are apart. */
        for (size_t i = 0; i < list.count; i++)
            for (size_t k = 0; k < i; k++)
                assert_true(hypot(list.items[i].x - list.items[k].x, list.items[i].y - list.items[k].y) >=
                            distance - 1e-3);
        for (int i = 0; i < COUNT; i++) {
            bool explained = false;
            for (size_t k = 0; k < list.count && !explained; k++)
                explained = list.items[k].merit >= all[i].merit &&
                            hypot(list.items[k].x - all[i].x, list.items[k].y - all[i].y) < distance + 1e-3;
            assert_true(explained);
        }
        assert_true(list.count > 3);
    }
    peak_list_destroy(&list);
    free(all);
}

static void relion_rule(void **state) {
    (void)state;
    /* A chain of 5 px steps is one cluster at radius 6. Peaks 12 px apart survive in it. */
    struct peak items[] = {{.x = 0, .merit = 5},     {.x = 5, .merit = 4},   {.x = 10, .merit = 3},
                           {.x = 15, .merit = 4.5f}, {.x = 100, .merit = 1}, {.x = 108, .merit = 2}};
    struct peak_list list = {.items = items, .count = 6, .capacity = 6};
    struct err err = {0};
    assert_int_equal(peaks_prune_clusters(&list, 6, 12, &err), STATUS_OK);
    assert_int_equal(list.count, 4);
    assert_float_equal(list.items[0].x, 0, 0);
    assert_float_equal(list.items[1].x, 15, 0);
    /* The peaks at 100 and 108 are two clusters, and both are dropped. */
    assert_int_equal(peaks_drop_close_pairs(&list, 12, &err), STATUS_OK);
    assert_int_equal(list.count, 2);
    list.count = 0;
    assert_int_equal(peaks_prune_clusters(&list, 6, 12, &err), STATUS_OK);
    assert_int_equal(peaks_drop_close_pairs(&list, 12, &err), STATUS_OK);
    assert_int_equal(peaks_prune_greedy(&list, 12, &err), STATUS_OK);
    assert_int_equal(list.count, 0);
    list.items = NULL;
    peak_list_destroy(&list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_local_maxima),
        cmocka_unit_test(tops_of_parabolas),
        cmocka_unit_test(constant_map_is_one_plateau),
        cmocka_unit_test(of_close_ones_the_best_stays),
        cmocka_unit_test(relion_rule),
        cmocka_unit_test(pruning_is_that_of_all_pairs),
    };
    print_message("seed %llu\n", (unsigned long long)seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
