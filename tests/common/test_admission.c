/* Tests how items are admitted to a stage's memory: they wait for each other, give back what is not needed, and fail when
 * they can never fit. No test measures time, and nobody takes the memory that is spoken of. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/harness/stage_private.h"
#include "tests/common/scratch.h"

enum { ITEMS = 8, PATIENCE = 60, LANES = 3 };

struct no_params {
    int unused;
};

static const struct param table[] = {
    {"unused", PARAM_INT, offsetof(struct no_params, unused), "", "0", 0, 0, NULL, 0, false, "nothing"}};

/* Shared by the callbacks. The limit is 100 MB; needs are in MB. One test runs at a time. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int need[ITEMS];
    int shared;              /* need.shared of each item */
    int wanted_in_hand;      /* process of item 0 waits until so many are loaded and not stored; 0: until one waits */
    bool waited, in_hand_ok; /* it has seen that */
    int in_hand, in_hand_most, loads;
    int lane_releases, state_releases;
} scene = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static int number_of(const struct stage_lane *lane) {
    return (int)item_number(lane->item, "columns.number", -1);
}

static enum status need(struct stage *stage, void *state, const struct stage_lane *lane, struct stage_need *ret_need,
                        struct err *err) {
    (void)stage, (void)state;
    int mb = scene.need[number_of(lane)];
    FAIL_IF(mb < 0, err, STATUS_BAD_FORMAT, "a header that makes no sense");
    *ret_need = (struct stage_need){.lane = (size_t)mb * 1000000, .shared = (size_t)scene.shared * 1000000};
    return STATUS_OK;
}

static void release(struct stage *stage, void *state, struct stage_lane *lane) {
    (void)stage, (void)state;
    pthread_mutex_lock(&scene.lock);
    if (lane != NULL)
        scene.lane_releases++;
    else
        scene.state_releases++;
    pthread_mutex_unlock(&scene.lock);
}

static enum status load(struct stage *stage, void *state, struct stage_lane *lane, struct err *err) {
    (void)stage, (void)state, (void)lane, (void)err;
    pthread_mutex_lock(&scene.lock);
    scene.loads++;
    scene.in_hand++;
    if (scene.in_hand > scene.in_hand_most) scene.in_hand_most = scene.in_hand;
    pthread_cond_broadcast(&scene.changed);
    pthread_mutex_unlock(&scene.lock);
    return STATUS_OK;
}

static bool says_waits(struct stage *stage) {
    while (atomic_exchange(&stage->metrics.lock, 1))
        continue;
    bool says = strstr(stage->metrics.trouble, "waits: mic_") != NULL;
    atomic_store(&stage->metrics.lock, 0);
    return says;
}

static enum status process(struct stage *stage, void *state, struct stage_lane *lane, struct err *err) {
    (void)state, (void)err;
    if (number_of(lane) != 0) return STATUS_OK;
    pthread_mutex_lock(&scene.lock);
    for (int i = 0; i < 100 * PATIENCE && !scene.waited && !scene.in_hand_ok; i++) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 10000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&scene.changed, &scene.lock, &until);
        scene.waited = scene.wanted_in_hand == 0 && says_waits(stage);
        scene.in_hand_ok = scene.wanted_in_hand > 0 && scene.in_hand >= scene.wanted_in_hand;
    }
    pthread_mutex_unlock(&scene.lock);
    return STATUS_OK;
}

static enum status store(struct stage *stage, void *state, struct stage_lane *lane, struct err *err) {
    (void)stage, (void)state, (void)lane, (void)err;
    pthread_mutex_lock(&scene.lock);
    scene.in_hand--;
    pthread_mutex_unlock(&scene.lock);
    return STATUS_OK;
}

static const struct stage_descriptor stage_under_test = {
    .name = "admission",
    .summary = "takes no memory",
    .in = "columns",
    .out = "columns",
    .params = table,
    .param_count = 1,
    .params_size = sizeof(struct no_params),
    .lanes = LANES,
    .need = need,
    .release = release,
    .load = load,
    .process = process,
    .store = store,
};

/* Runs the items; needs: in MB. */
static struct stage_results run(const int needs[ITEMS], int shared, int wanted_in_hand) {
    static const char *const parameters[] = {"memory_limit", "0.1", "min_free_memory", "0", NULL};
    struct stage_results results = {0};
    struct item *items[ITEMS] = {NULL};
    struct err err = {0};
    char folder[PATH_SIZE];
    scratch_path("session", folder);
    memcpy(scene.need, needs, sizeof scene.need);
    scene.shared = shared;
    scene.wanted_in_hand = wanted_in_hand;
    scene.waited = scene.in_hand_ok = false;
    scene.in_hand = scene.in_hand_most = scene.loads = scene.lane_releases = scene.state_releases = 0;
    for (int i = 0; i < ITEMS; i++) {
        char id[32];
        snprintf(id, sizeof id, "mic_%02d", i);
        assert_ok(item_create(id, "micrograph", &items[i], &err));
        assert_ok(item_set_number(items[i], "columns.number", i, &err));
    }
    assert_ok(stage_run_results(&stage_under_test, folder, ":memory:", parameters, items, ITEMS, &results, &err));
    for (int i = 0; i < ITEMS; i++)
        item_destroy(&items[i]);
    assert_int_equal(results.outcome_count, ITEMS);
    return results;
}

static void large_items_go_one_after_the_other(void **state) {
    (void)state;
    struct stage_results results = run((const int[ITEMS]){60, 60, 60, 60, 60, 60, 60, 60}, 0, 0);
    assert_true(scene.waited);
    assert_int_equal(scene.in_hand_most, 1);
    assert_int_equal(results.emitted_count, ITEMS);
    stage_results_clear(&results);
}

static void small_items_go_side_by_side(void **state) {
    (void)state;
    struct stage_results results = run((const int[ITEMS]){30, 30, 30, 30, 30, 30, 30, 30}, 0, LANES);
    assert_true(scene.in_hand_ok);
    assert_int_equal(scene.in_hand_most, LANES);
    assert_int_equal(scene.lane_releases, 0);
    stage_results_clear(&results);
}

static void shared_memory_counts_once(void **state) {
    (void)state;
    struct stage_results results = run((const int[ITEMS]){10, 10, 10, 10, 10, 10, 10, 10}, 60, LANES);
    assert_true(scene.in_hand_ok);
    stage_results_clear(&results);
    results = run((const int[ITEMS]){30, 30, 30, 30, 30, 30, 30, 30}, 60, 0);
    assert_true(scene.waited);
    assert_int_equal(scene.in_hand_most, 1);
    stage_results_clear(&results);
}

static void what_never_fits_fails(void **state) {
    (void)state;
    struct stage_results results = run((const int[ITEMS]){30, 101, 30, 30, 100000, 30, 30, 30}, 0, 2);
    assert_int_equal(results.emitted_count, ITEMS - 2);
    assert_int_equal(scene.loads, ITEMS - 2);
    for (int i = 0; i < ITEMS; i++) {
        const struct stage_outcome *outcome = &results.outcomes[i];
        bool large = strcmp(outcome->id, "mic_01") == 0 || strcmp(outcome->id, "mic_04") == 0;
        assert_int_equal(outcome->reason != NULL, large);
        if (large) assert_non_null(strstr(outcome->reason, "may use 0.1 GB (memory_limit)"));
    }
    stage_results_clear(&results);
}

/* Three lanes hold 30 MB each, of which the large items leave no room. */
static void lanes_give_back_their_buffers(void **state) {
    (void)state;
    struct stage_results results = run((const int[ITEMS]){30, 30, 30, 90, 90, 30, 30, 30}, 0, LANES);
    assert_true(scene.in_hand_ok);
    assert_int_equal(results.emitted_count, ITEMS);
    assert_in_range(scene.lane_releases, 2, 2 * ITEMS);
    stage_results_clear(&results);
}

static void a_wrong_header_fails_before_load(void **state) {
    (void)state;
    struct stage_results results = run((const int[ITEMS]){30, -1, 30, 30, 30, 30, 30, -1}, 0, 2);
    assert_int_equal(scene.loads, ITEMS - 2);
    assert_int_equal(results.emitted_count, ITEMS - 2);
    stage_results_clear(&results);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_items_go_one_after_the_other), cmocka_unit_test(small_items_go_side_by_side),
        cmocka_unit_test(shared_memory_counts_once),          cmocka_unit_test(what_never_fits_fails),
        cmocka_unit_test(lanes_give_back_their_buffers),      cmocka_unit_test(a_wrong_header_fails_before_load),
    };
    return scratch_run("admission", tests, sizeof tests / sizeof *tests);
}
