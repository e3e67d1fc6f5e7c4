/* Tests how many starts of a first map are made, and which of them go on, where the first ones do not agree. Starts, and
 * how alike maps are, follow a script (--wrap): a start has the true map or a wrong one of its own, and a level of
 * evidence. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/memory.h"
#include "stages/refiner/initial/initial.h"
#include "stages/refiner/initial/likeness.h"
#include "stages/refiner/initial/starts.h"
#include "stages/refiner/refiner_private.h"
#include "tests/common/scratch.h"

enum { BOX = 32, VOXELS = BOX * BOX * BOX, MOST = 48, HELD = 60, EXPLORED = 30, SETTLED = 12 };

/* A start: even ones are of half A. */
struct scripted {
    bool right;
    double evidence; /* of a particle with its map */
};
static const struct scripted *script;
static int scripted_count, made, iterations[MOST];
static float maps[MOST][VOXELS];

struct starts {
    int unused;
};
struct likeness {
    int unused;
};
enum status __wrap_initial_images_gather(struct refiner *r, int most, double finest, struct initial_images *ret_images,
                                         struct err *err);
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

enum status __wrap_initial_images_gather(struct refiner *r, int most, double finest, struct initial_images *ret_images,
                                         struct err *err) {
    (void)r, (void)most, (void)finest, (void)err;
    *ret_images = (struct initial_images){
        .count = 5 * HELD, .box = BOX, .pixel_size = 8, .begin = {0, 2 * HELD, 4 * HELD, 5 * HELD}};
    return STATUS_OK;
}

enum status __wrap_starts_create(const struct initial_images *images, const struct starts_options *options, int count,
                                 struct starts **ret_starts, struct err *err) {
    static struct starts starts;
    (void)images, (void)options, (void)err;
    assert_in_range(count, 1, MOST);
    made = count;
    *ret_starts = &starts;
    return STATUS_OK;
}

void __wrap_starts_destroy(struct starts **starts) {
    *starts = NULL;
}

int __wrap_starts_at_once(const struct starts *starts) {
    (void)starts;
    return 1;
}

enum status __wrap_starts_random(struct starts *starts, const int *which, int count, struct err *err) {
    (void)starts, (void)err;
    for (int i = 0; i < count; i++)
        assert_int_equal(iterations[which[i]], 0);
    return STATUS_OK;
}

enum status __wrap_starts_iterate(struct starts *starts, const int *which, int count, const struct starts_step *step,
                                  struct err *err) {
    (void)starts, (void)step, (void)err;
    for (int i = 0; i < count; i++) {
        assert_in_range(which[i], 0, made - 1);
        iterations[which[i]]++;
    }
    return STATUS_OK;
}

struct starts_state __wrap_starts_state(const struct starts *starts, int start) {
    (void)starts;
    return (struct starts_state){.half = start % 2, .map = maps[start]};
}

/* Starts beyond the script have wrong maps. */
static struct scripted scripted_start(int start) {
    return start < scripted_count ? script[start] : (struct scripted){false, 3};
}

/* Returns the start that a map is of; −1: it is another one. */
static int start_of(const float *map) {
    for (int i = 0; i < MOST; i++)
        if (map == maps[i]) return i;
    return -1;
}

/* Each start fits every second particle better by a standard deviation or so than other starts do. */
enum status __wrap_starts_judge(struct starts *starts, const struct starts_judgement *judged, int count, int order,
                                double limit, struct err *err) {
    (void)starts, (void)order, (void)limit, (void)err;
    for (int i = 0; i < count; i++) {
        const int start = start_of(judged[i].map);
        assert_int_equal(judged[i].part, INITIAL_HELD_OUT);
        for (int p = 0; p < HELD; p++)
            judged[i].ret_gains[p] = start < 0 ? 0 : scripted_start(start).evidence + sin(p * (start + 2.7));
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
    const int a = start_of(fixed), b = start_of(moved);
    const bool same = a == b || (scripted_start(a).right && scripted_start(b).right);
    *ret_found = (struct likeness_found){
        .mean = same ? 0.9 : 0.6, .least = same ? 0.5 : 0.1, .agreement = 20, .correlation = same ? 0.95 : 0.6};
    return STATUS_OK;
}

/* Follows a script. Returns what was decided. */
static struct initial_decision decide(enum device_kind kind, int operators, const struct scripted *starts, int count) {
    struct refiner r = {.options = {.diameter = 160, .initial_lowpass = 60, .memory = 1, .classes = 1},
                        .context = {.threads = 1, .device = {.kind = kind}},
                        .symmetry = {.count = operators}};
    struct initial *attempt = NULL;
    double progress = 0;
    bool complete = false;
    script = starts;
    scripted_count = count;
    memset(iterations, 0, sizeof iterations);
    assert_int_equal(initial_create(&r, 1, &attempt, NULL), STATUS_OK);
    while (!complete) {
        assert_int_equal(initial_work(attempt, &complete, NULL), STATUS_OK);
        assert_true(initial_progress(attempt) >= progress);
        progress = initial_progress(attempt);
        assert_true(progress > 0 && progress <= 1);
    }
    const struct initial_decision d = *initial_decision(attempt);
    print_message("%d starts: %s (%s)\n", d.start_count, initial_test_name(d.failed), d.text);
    initial_destroy(&attempt);
    for (int i = 0; i < MOST; i++)
        assert_true(i < d.start_count ? (iterations[i] - EXPLORED) % SETTLED == 0 : iterations[i] == 0);
    return d;
}

static const struct scripted both[] = {{true, 8}, {true, 9}, {false, 4}, {false, 4}};
/* No start of half B finds the map. */
static const struct scripted astray[] = {{true, 8}, {false, 5}, {true, 9}, {false, 4}};

static void starts_that_agree_are_enough(void **state) {
    (void)state;
    const struct initial_decision d = decide(DEVICE_CPU, 1, both, 4);
    assert_int_equal(d.failed, INITIAL_ACCEPTED);
    assert_int_equal(d.start_count, 4);
    assert_true(d.rival > 3);
}

static void a_half_that_goes_astray_gets_more(void **state) {
    /* Once half B has found the map, that of start 1, which was the best before, is its rival. */
    static const struct scripted second[] = {{true, 8},  {false, 5}, {true, 9},  {false, 4},
                                             {false, 3}, {true, 7},  {false, 3}, {false, 3}};
    static const struct scripted third[] = {{true, 8},  {false, 5}, {true, 9},  {false, 4}, {false, 3}, {false, 3},
                                            {false, 3}, {false, 3}, {false, 3}, {false, 3}, {false, 3}, {true, 7}};
    (void)state;
    struct initial_decision d = decide(DEVICE_CPU, 1, second, 8);
    assert_int_equal(d.failed, INITIAL_ACCEPTED);
    assert_int_equal(d.start_count, 8);
    assert_int_equal(d.best[0], 2);
    assert_int_equal(d.best[1], 5);
    assert_true(d.rival > 3);
    /* All that are compared have gone on as far. */
    for (int i = 0; i < 3; i++)
        assert_int_equal(iterations[((const int[]){1, 2, 5})[i]], EXPLORED + 2 * SETTLED);
    d = decide(DEVICE_CPU, 1, third, 12);
    assert_int_equal(d.failed, INITIAL_ACCEPTED);
    assert_int_equal(d.start_count, 12);
    assert_int_equal(d.best[1], 11);
    assert_int_equal(iterations[11], EXPLORED + 3 * SETTLED);
}

static void rounds_end(void **state) {
    (void)state;
    struct initial_decision d = decide(DEVICE_CPU, 1, astray, 4);
    assert_int_equal(d.failed, INITIAL_AGREEMENT);
    assert_int_equal(d.start_count, 12);
    d = decide(DEVICE_CPU, 4, astray, 4);
    assert_int_equal(d.start_count, 24);
    d = decide(DEVICE_CPU, 24, astray, 4);
    assert_int_equal(d.start_count, 36);
    /* A device makes as many as it ever makes at once, and improves the best. */
    d = decide(DEVICE_CUDA, 1, astray, 4);
    assert_int_equal(d.failed, INITIAL_AGREEMENT);
    assert_int_equal(d.start_count, 12);
    assert_int_equal(iterations[2], EXPLORED + 3 * SETTLED);
    assert_int_equal(iterations[0], EXPLORED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_that_agree_are_enough),
        cmocka_unit_test(a_half_that_goes_astray_gets_more),
        cmocka_unit_test(rounds_end),
    };
    return scratch_run("refiner_rounds", tests, sizeof tests / sizeof *tests);
}
