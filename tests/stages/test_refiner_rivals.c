/* Tests which starts of K maps are chosen, and what refuses them. Starts, and how alike maps are, follow a script
 * (--wrap): each start has the maps of true molecules or of wrong ones, and a level of evidence after its exploration and
 * another one when it has settled. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "stages/refiner/initial/likeness.h"
#include "stages/refiner/initial/several.h"
#include "stages/refiner/initial/starts.h"
#include "tests/common/scratch.h"

enum { BOX = 8, VOXELS = BOX * BOX * BOX, MOST = 6, CLASSES_MOST = 3, HELD = 60, EXPLORED = 30 };

/* A start: even ones are of half A. */
struct scripted {
    bool wrong;               /* its maps are of no molecule */
    double explored, settled; /* evidence of a particle with its map */
    double least;             /* share of the last class; 0: as large as the others */
    bool apart;               /* its maps are the same as those of its own half only */
};
static const struct scripted *script;
static int classes, at_once, iterations[MOST];
static float maps[MOST][CLASSES_MOST][VOXELS], one[VOXELS];
static double shares[MOST][CLASSES_MOST];

struct starts {
    int count;
};
struct likeness {
    int unused;
};
enum status __wrap_starts_create(const struct initial_images *images, const struct starts_options *options, int count,
                                 struct starts **ret_starts, struct err *err);
void __wrap_starts_destroy(struct starts **starts);
int __wrap_starts_at_once(const struct starts *starts);
enum status __wrap_starts_random(struct starts *starts, const int *which, int count, struct err *err);
enum status __wrap_starts_iterate(struct starts *starts, const int *which, int count, const struct starts_step *step,
                                  struct err *err);
enum status __wrap_starts_judge(struct starts *starts, const struct starts_judgement *judged, int count, int order,
                                double limit, struct err *err);
struct starts_state __wrap_starts_state(const struct starts *starts, int start);
enum status __wrap_likeness_create(const struct likeness_options *options, struct likeness **ret_likeness,
                                   struct err *err);
void __wrap_likeness_destroy(struct likeness **likeness);
enum status __wrap_likeness_find(struct likeness *likeness, const float *fixed, const float *moved,
                                 struct likeness_found *ret_found, struct err *err);

enum status __wrap_starts_create(const struct initial_images *images, const struct starts_options *options, int count,
                                 struct starts **ret_starts, struct err *err) {
    static struct starts starts;
    (void)images, (void)err;
    assert_int_equal(options->classes, classes);
    starts.count = count;
    *ret_starts = &starts;
    return STATUS_OK;
}

void __wrap_starts_destroy(struct starts **starts) {
    *starts = NULL;
}

int __wrap_starts_at_once(const struct starts *starts) {
    (void)starts;
    return at_once;
}

enum status __wrap_starts_random(struct starts *starts, const int *which, int count, struct err *err) {
    (void)starts, (void)err;
    for (int i = 0; i < count; i++)
        assert_int_equal(iterations[which[i]], 0);
    return STATUS_OK;
}

enum status __wrap_starts_iterate(struct starts *starts, const int *which, int count, const struct starts_step *step,
                                  struct err *err) {
    (void)step, (void)err;
    assert_true(count > 0 && count <= at_once);
    for (int i = 0; i < count; i++) {
        assert_in_range(which[i], 0, starts->count - 1);
        iterations[which[i]]++;
    }
    return STATUS_OK;
}

struct starts_state __wrap_starts_state(const struct starts *starts, int start) {
    (void)starts;
    return (struct starts_state){.half = start % 2, .map = maps[start][0], .shares = shares[start]};
}

/* Returns the place of a map in maps[][]; −1: it is another one. */
static int place_of(const float *map) {
    for (int i = 0; i < MOST * CLASSES_MOST; i++)
        if (map == maps[i / CLASSES_MOST][i % CLASSES_MOST]) return i;
    return -1;
}

/* Particles are of each molecule in turn. Every second one is fitted better by a standard deviation or so, and another
 * second one by each start. */
enum status __wrap_starts_judge(struct starts *starts, const struct starts_judgement *judged, int count, int order,
                                double limit, struct err *err) {
    (void)starts, (void)order, (void)limit, (void)err;
    for (int i = 0; i < count; i++) {
        const int place = place_of(judged[i].map), start = place / CLASSES_MOST, class = place % CLASSES_MOST;
        assert_int_equal(judged[i].part, INITIAL_HELD_OUT);
        for (int p = 0; p < HELD; p++) {
            double *gain = &judged[i].ret_gains[p];
            *gain = judged[i].map == one ? 5 : sin(p);
            if (place < 0 || p % classes != class) continue;
            *gain = iterations[start] > EXPLORED ? script[start].settled : script[start].explored;
            *gain += sin(p * (start + 2.7));
        }
    }
    return STATUS_OK;
}

enum status __wrap_likeness_create(const struct likeness_options *options, struct likeness **ret_likeness,
                                   struct err *err) {
    static struct likeness likeness;
    (void)options, (void)err;
    *ret_likeness = &likeness;
    return STATUS_OK;
}

void __wrap_likeness_destroy(struct likeness **likeness) {
    *likeness = NULL;
}

enum status __wrap_likeness_find(struct likeness *likeness, const float *fixed, const float *moved,
                                 struct likeness_found *ret_found, struct err *err) {
    (void)likeness, (void)err;
    const int a = place_of(fixed), b = place_of(moved);
    bool same = a >= 0 && b >= 0 && a % CLASSES_MOST == b % CLASSES_MOST;
    if (same) {
        const struct scripted *first = &script[a / CLASSES_MOST], *second = &script[b / CLASSES_MOST];
        const bool one_half = (first - second) % 2 == 0;
        same = first->wrong == second->wrong && (one_half || (!first->apart && !second->apart));
    }
    *ret_found = (struct likeness_found){.mean = same ? 0.95 : 0.2, .least = same ? 0.9 : 0, .agreement = 20};
    return STATUS_OK;
}

/* Follows a script. Returns what was decided. */
static struct several_decision decide(const struct scripted *starts, int count) {
    struct initial_images images = {
        .count = 3 * HELD, .box = BOX, .pixel_size = 10, .begin = {0, HELD, 2 * HELD, 3 * HELD}};
    const struct several_options options = {.images = &images,
                                            .starts = {.threads = 1, .diameter = 50, .classes = classes},
                                            .start_count = count,
                                            .order = 2,
                                            .coarse = 35,
                                            .fine = 30,
                                            .wanted = 35,
                                            .one = {one, one}};
    struct several *several = NULL;
    bool complete = false;
    script = starts;
    for (int i = 0; i < count; i++) {
        const double last = starts[i].least > 0 ? starts[i].least : 1.0 / classes;
        iterations[i] = 0;
        for (int k = 0; k < classes; k++) {
            shares[i][k] = k == classes - 1 ? last : (1 - last) / (classes - 1);
            for (int j = 0; j < VOXELS; j++)
                maps[i][k][j] = (float)(10 * i + k);
        }
    }
    assert_int_equal(several_create(&options, &several, NULL), STATUS_OK);
    while (!complete)
        assert_int_equal(several_work(several, &complete, NULL), STATUS_OK);
    const struct several_decision d = *several_decision(several);
    print_message("%s: %s; rival %.1f\n", several_test_name(d.failed), d.text, d.rival);
    if (d.failed == SEVERAL_ACCEPTED) {
        const int start = (int)several_map(several, 0)[0] / 10;
        assert_true(start == d.best[0] || start == d.best[1]);
        assert_false(starts[start].wrong);
    }
    several_destroy(&several);
    return d;
}

static int two_classes(void **state) {
    (void)state;
    classes = 2;
    at_once = 1;
    return 0;
}

/* Starts 0 and 1 are the best of all before they settle, and 4 and 3 are when they have. */
static void a_better_one_takes_the_place(void **state) {
    static const struct scripted starts[] = {{true, 12, 15, 0}, {true, 12, 15, 0}, {true, 10, 14, 0},
                                             {false, 8, 20, 0}, {false, 8, 20, 0}, {true, 9, 13, 0}};
    (void)state;
    for (at_once = 1; at_once <= 4; at_once += 3) {
        const struct several_decision d = decide(starts, 6);
        assert_int_equal(d.failed, SEVERAL_ACCEPTED);
        assert_int_equal(d.best[0], 4);
        assert_int_equal(d.best[1], 3);
        assert_false(d.rival < 3);
        for (int i = 1; i < 6; i++)
            assert_int_equal(iterations[i], iterations[0]);
    }
}

static void three_classes_are_found(void **state) {
    static const struct scripted starts[] = {
        {false, 8, 20, 0}, {false, 8, 19, 0}, {true, 12, 15, 0}, {true, 12, 15, 0}};
    (void)state;
    classes = 3;
    assert_int_equal(decide(starts, 4).failed, SEVERAL_ACCEPTED);
}

static void different_maps_that_explain_alike_are_refused(void **state) {
    static const struct scripted starts[] = {
        {false, 8, 20, 0}, {false, 8, 20, 0}, {true, 12, 19.9, 0}, {true, 12, 15, 0}};
    (void)state;
    const struct several_decision d = decide(starts, 4);
    assert_int_equal(d.failed, SEVERAL_RIVALS);
    assert_true(d.rival < 3);
}

/* The rival is clearly worse than the best of all, and no worse than the same maps in its own half. */
static void a_rival_is_compared_within_its_half(void **state) {
    static const struct scripted starts[] = {
        {false, 8, 20, 0}, {false, 8, 18, 0}, {true, 8, 15, 0}, {true, 8, 17.9, 0}};
    static const struct scripted better[] = {{false, 8, 20, 0}, {false, 8, 17, 0}, {true, 8, 15, 0}, {true, 8, 19, 0}};
    (void)state;
    assert_int_equal(decide(starts, 4).failed, SEVERAL_RIVALS);
    const struct several_decision d = decide(better, 4);
    assert_int_equal(d.failed, SEVERAL_RIVALS);
    assert_true(d.rival < -3);
}

/* The best of the other half is not like the best of all, but like its partner. */
static void the_same_maps_are_no_rival(void **state) {
    static const struct scripted starts[] = {
        {false, 8, 20, 0}, {false, 8, 19, 0, true}, {true, 8, 15, 0}, {false, 8, 18.9, 0}};
    (void)state;
    const struct several_decision d = decide(starts, 4);
    assert_int_equal(d.failed, SEVERAL_ACCEPTED);
    assert_int_equal(d.best[1], 3);
}

/* Both halves have the wrong maps, but the best of all has others, and nobody else has. */
static void halves_that_agree_on_worse_maps_are_refused(void **state) {
    static const struct scripted starts[] = {{true, 8, 15, 0}, {true, 8, 15, 0}, {false, 8, 20, 0}, {true, 8, 14, 0}};
    (void)state;
    const struct several_decision d = decide(starts, 4);
    assert_int_equal(d.failed, SEVERAL_AGREEMENT);
    assert_int_equal(d.best[0], 2);
}

static void lost_particles_refuse(void **state) {
    static const struct scripted both[] = {
        {false, 30, 60, 1e-3}, {false, 30, 60, 1e-3}, {false, 8, 25, 0}, {false, 8, 25, 0}};
    static const struct scripted half[] = {
        {false, 30, 30, 1e-3}, {false, 20, 25, 0}, {false, 8, 25, 0}, {false, 8, 25, 0}};
    static const struct scripted best[] = {
        {false, 30, 60, 1e-3}, {false, 20, 25, 0}, {false, 8, 20, 0}, {false, 8, 20, 0}};
    (void)state;
    assert_int_equal(decide(both, 4).failed, SEVERAL_EMPTY);
    assert_int_equal(iterations[0], EXPLORED); /* none is improved in vain */
    assert_int_equal(decide(half, 4).failed, SEVERAL_ACCEPTED);
    assert_int_equal(decide(best, 4).failed, SEVERAL_EMPTY);
    assert_true(iterations[0] > EXPLORED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_better_one_takes_the_place, two_classes),
        cmocka_unit_test_setup(three_classes_are_found, two_classes),
        cmocka_unit_test_setup(different_maps_that_explain_alike_are_refused, two_classes),
        cmocka_unit_test_setup(a_rival_is_compared_within_its_half, two_classes),
        cmocka_unit_test_setup(the_same_maps_are_no_rival, two_classes),
        cmocka_unit_test_setup(halves_that_agree_on_worse_maps_are_refused, two_classes),
        cmocka_unit_test_setup(lost_particles_refuse, two_classes),
    };
    return scratch_run("refiner_rivals", tests, sizeof tests / sizeof *tests);
}
