/* Tests lanes. Callbacks that wait for each other show that the parts work at the same time; no test measures time. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/harness/stage_private.h"
#include "tests/common/scratch.h"

enum { ITEMS = 12, PATIENCE = 60 };

struct no_params {
    int unused;
};

static const struct param table[] = {
    {"unused", PARAM_INT, offsetof(struct no_params, unused), "", "0", 0, 0, NULL, 0, false, "nothing"}};

/* Shared by the callbacks of the stage under test. One test runs at a time. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool loading, processing, storing; /* item 2 has entered load, item 1 process, item 0 store */
    int stores, stores_most;           /* calls inside store now, and the most at once */
    int stored[ITEMS];                 /* 1: store has returned */
    int order[ITEMS], order_count;     /* item numbers in the order in which store was called */
} scene = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static int number_of(const struct stage_lane *lane) {
    return (int)item_number(lane->item, "columns.number", -1);
}

/* Call with the lock held. Returns false when nobody came for a minute, so that the test fails instead of hanging. */
static bool wait_for_others(void) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE;
    return pthread_cond_timedwait(&scene.changed, &scene.lock, &until) == 0;
}

/* Load of item 2, process of item 1 and store of item 0 stay inside until all three are there. */
static enum status meet(bool *inside, int number, int expected, struct err *err) {
    bool patient = true;
    if (number != expected) return STATUS_OK;
    pthread_mutex_lock(&scene.lock);
    *inside = true;
    pthread_cond_broadcast(&scene.changed);
    while (patient && !(scene.loading && scene.processing && scene.storing))
        patient = wait_for_others();
    pthread_mutex_unlock(&scene.lock);
    FAIL_IF(!patient, err, STATUS_BAD_STATE, "the others do not come while item %d is inside", number);
    return STATUS_OK;
}

static enum status meeting_load(struct stage *stage, void *state, struct stage_lane *lane, struct err *err) {
    (void)stage, (void)state;
    return meet(&scene.loading, number_of(lane), 2, err);
}

static enum status meeting_process(struct stage *stage, void *state, struct stage_lane *lane, struct err *err) {
    (void)stage, (void)state;
    return meet(&scene.processing, number_of(lane), 1, err);
}

static enum status meeting_store(struct stage *stage, void *state, struct stage_lane *lane, struct err *err) {
    (void)stage, (void)state;
    return meet(&scene.storing, number_of(lane), 0, err);
}

static const struct stage_descriptor plain = {
    .name = "lanes",
    .summary = "meets itself",
    .in = "columns",
    .out = "columns",
    .params = table,
    .param_count = 1,
    .params_size = sizeof(struct no_params),
    .load = meeting_load,
    .process = meeting_process,
    .store = meeting_store,
};

struct fixture {
    char folder[PATH_SIZE], ledger[PATH_SIZE + 32];
    struct item *items[ITEMS];
};

static int set_up(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    scratch_path("session", fixture->folder);
    snprintf(fixture->ledger, sizeof fixture->ledger, "%s/lanes.sqlite", fixture->folder);
    struct err err = {0};
    for (int i = 0; i < ITEMS; i++) {
        char id[32];
        snprintf(id, sizeof id, "mic_%02d", i);
        assert_ok(item_create(id, "micrograph", &fixture->items[i], &err));
        assert_ok(item_set_number(fixture->items[i], "columns.number", i, &err));
    }
    scene.loading = scene.processing = scene.storing = false;
    scene.stores = scene.stores_most = scene.order_count = 0;
    memset(scene.stored, 0, sizeof scene.stored);
    *state = fixture;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *fixture = *state;
    for (int i = 0; i < ITEMS; i++)
        item_destroy(&fixture->items[i]);
    free(fixture);
    return 0;
}

static struct stage_results run(const struct stage_descriptor *descriptor, struct fixture *fixture) {
    struct stage_results results = {0};
    struct err err = {0};
    assert_ok(stage_run_results(descriptor, fixture->folder, ":memory:", NULL, fixture->items, ITEMS, &results, &err));
    for (size_t i = 0; i < results.outcome_count; i++)
        if (results.outcomes[i].reason != NULL) fail_msg("%s", results.outcomes[i].reason);
    assert_int_equal(results.emitted_count, ITEMS);
    for (int i = 0; i < ITEMS; i++)
        assert_string_equal(item_id(results.emitted[i]), item_id(fixture->items[i]));
    return results;
}

static void reading_computing_and_writing_overlap(void **state) {
    struct stage_results results = run(&plain, *state);
    assert_true(scene.loading && scene.processing && scene.storing);
    stage_results_clear(&results);
}

static enum status note_store(struct stage *stage, void *state, struct stage_lane *lane, struct err *err) {
    (void)stage, (void)state, (void)err;
    pthread_mutex_lock(&scene.lock);
    scene.stores++;
    if (scene.stores > scene.stores_most) scene.stores_most = scene.stores;
    scene.order[scene.order_count++] = number_of(lane);
    scene.stores--;
    pthread_mutex_unlock(&scene.lock);
    return STATUS_OK;
}

/* The first load ends after six others. Items would then reach store in the wrong order if the harness did not sort
 * them. */
static enum status late_first_load(struct stage *stage, void *state, struct stage_lane *lane, struct err *err) {
    (void)stage, (void)state;
    bool patient = true;
    pthread_mutex_lock(&scene.lock);
    while (number_of(lane) == 0 && scene.stored[6] == 0 && patient)
        patient = wait_for_others();
    scene.stored[number_of(lane)] = 1;
    pthread_cond_broadcast(&scene.changed);
    pthread_mutex_unlock(&scene.lock);
    FAIL_IF(!patient, err, STATUS_BAD_STATE, "items are not loaded beside item 0");
    return STATUS_OK;
}

static void one_store_at_a_time_in_order_unless_said(void **state) {
    struct stage_descriptor ordered = plain;
    ordered.lanes = 8;
    ordered.load = late_first_load;
    ordered.process = NULL;
    ordered.store = note_store;
    struct stage_results results = run(&ordered, *state);
    assert_int_equal(scene.stores_most, 1);
    for (int i = 0; i < ITEMS; i++)
        assert_int_equal(scene.order[i], i);
    stage_results_clear(&results);
}

/* Items 0, 1 and 2 leave store in reverse. */
static enum status reverse_store(struct stage *stage, void *state, struct stage_lane *lane, struct err *err) {
    (void)stage, (void)state;
    int number = number_of(lane);
    bool patient = true;
    pthread_mutex_lock(&scene.lock);
    scene.stores++;
    if (scene.stores > scene.stores_most) scene.stores_most = scene.stores;
    pthread_cond_broadcast(&scene.changed);
    while (patient && ((number < 2 && scene.stored[number + 1] == 0) || (number == 2 && scene.stores_most < 3)))
        patient = wait_for_others();
    scene.stored[number] = 1;
    scene.stores--;
    pthread_cond_broadcast(&scene.changed);
    pthread_mutex_unlock(&scene.lock);
    FAIL_IF(!patient, err, STATUS_BAD_STATE, "item %d waits in store for the one after it", number);
    return STATUS_OK;
}

static void several_stores_run_at_once_and_outcomes_stay_in_order(void **state) {
    struct stage_descriptor wide = plain;
    wide.store_threads = 3;
    wide.load = NULL;
    wide.process = NULL;
    wide.store = reverse_store;
    struct stage_results results = run(&wide, *state);
    assert_int_equal(scene.stores_most, 3);
    for (int i = 0; i < ITEMS; i++)
        assert_string_equal(results.outcomes[i].id, item_id(((struct fixture *)*state)->items[i]));
    stage_results_clear(&results);
}

/* Nothing can be committed from the first store to the last. */
static enum status hold_ledger_store(struct stage *stage, void *state, struct stage_lane *lane, struct err *err) {
    (void)state, (void)err;
    if (number_of(lane) == 0) ledger_hold(stage->ledger);
    if (number_of(lane) == ITEMS - 1) ledger_let_go(stage->ledger);
    return STATUS_OK;
}

static enum status claim_ahead(struct stage *stage, void *state, struct err *err) {
    (void)state, (void)err;
    stage->ahead = ITEMS;
    return STATUS_OK;
}

/* One lane must serve all items while the ledger has none of them yet; otherwise this test would wait for ever. */
static void a_lane_does_not_wait_for_the_ledger(void **state) {
    struct stage_descriptor narrow = plain;
    narrow.lanes = 1;
    narrow.init = claim_ahead;
    narrow.load = narrow.process = NULL;
    narrow.store = hold_ledger_store;
    struct stage_results results = run(&narrow, *state);
    stage_results_clear(&results);
}

static enum status emit_twice(struct stage *stage, struct item *item, struct err *err) {
    bool first = false, second = true, known = false;
    int was = -1;
    TRY(stage_lookup(stage, item_id(item), &known, &was, err));
    FAIL_IF(known, err, STATUS_BAD_STATE, "%s is known too early", item_id(item));
    TRY(stage_emit(stage, item, &first, err));
    TRY(stage_emit(stage, item, &second, err));
    TRY(stage_lookup(stage, item_id(item), &known, &was, err));
    FAIL_IF(!first || second || !known || was != LEDGER_DONE, err, STATUS_BAD_STATE, "%s is not known at once",
            item_id(item));
    return STATUS_OK;
}

/* No emitted item can be written to the ledger while the test holds it. */
static enum status produce_under_hold(struct stage *stage, void *state, struct err *err) {
    (void)state;
    enum status status = STATUS_OK;
    for (int i = 0; i < 2 * ITEMS && status == STATUS_OK; i++) {
        char id[32];
        struct item *item = NULL;
        snprintf(id, sizeof id, "mic_%02d", i);
        TRY(item_create(id, "micrograph", &item, err));
        if (i % ITEMS == 0) ledger_hold(stage->ledger);
        status = emit_twice(stage, item, err);
        if (i % ITEMS == ITEMS - 1 || status != STATUS_OK) ledger_let_go(stage->ledger);
        item_destroy(&item);
    }
    return status;
}

static void what_a_source_emits_is_known_before_it_is_written_down(void **state) {
    struct fixture *fixture = *state;
    struct stage_descriptor source = plain;
    source.in = "";
    source.load = source.process = source.store = NULL;
    source.produce = produce_under_hold;
    struct stage_results results = {0};
    struct err err = {0};
    if (stage_run_results(&source, fixture->folder, ":memory:", NULL, NULL, 0, &results, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    assert_int_equal(results.emitted_count, 2 * ITEMS);
    for (int i = 0; i < 2 * ITEMS; i++) {
        char id[32];
        snprintf(id, sizeof id, "mic_%02d", i);
        assert_string_equal(item_id(results.emitted[i]), id);
    }
    stage_results_clear(&results);
}

static enum status lose_device(struct stage *stage, void *state, struct stage_lane *lane, struct err *err) {
    (void)stage, (void)state;
    FAIL_IF(number_of(lane) == 3, err, STATUS_DEVICE, "the device fell off the bus");
    return STATUS_OK;
}

/* Whichever callback notices the loss, the stage ends. Earlier items are done. The item itself and later items come
 * again. */
static void a_lost_device_ends_the_stage_from_every_callback(void **state) {
    struct fixture *fixture = *state;
    for (int where = 0; where < 4; where++) {
        struct stage_descriptor lost = plain;
        lost.store_threads = where == 3 ? 3 : 1;
        lost.load = where == 0 ? lose_device : NULL;
        lost.process = where == 1 ? lose_device : NULL;
        lost.store = where >= 2 ? lose_device : NULL;
        struct stage_results results = {0};
        struct err err = {0};
        struct ledger *ledger = NULL;
        struct ledger_counts counts = {0};
        char path[PATH_SIZE + 64];
        snprintf(path, sizeof path, "%s.%d", fixture->ledger, where);
        assert_int_equal(stage_run_results(&lost, fixture->folder, path, NULL, fixture->items, ITEMS, &results, &err),
                         STATUS_DEVICE);
        assert_string_equal(err.message, "the device fell off the bus");
        assert_ok(ledger_open(path, "stage", false, &ledger, &err));
        bool known = false;
        enum ledger_state is = LEDGER_DONE;
        assert_ok(ledger_lookup(ledger, (struct ledger_key){"", "mic_03"}, &known, &is, &err));
        assert_true(known);
        assert_int_equal(is, LEDGER_IN_FLIGHT);
        assert_ok(ledger_counts(ledger, &counts, &err));
        assert_int_equal(counts.failed + counts.rejected, 0);
        ledger_close(&ledger);
        /* The next run has a working device and does all items. */
        struct stage_descriptor well = plain;
        well.load = well.process = well.store = NULL;
        assert_ok(stage_run_results(&well, fixture->folder, path, NULL, fixture->items, ITEMS, &results, &err));
        stage_results_clear(&results);
        assert_ok(ledger_open(path, "stage", true, &ledger, &err));
        assert_ok(ledger_counts(ledger, &counts, &err));
        assert_int_equal(counts.done, ITEMS);
        ledger_close(&ledger);
    }
}

static void there_are_lanes_for_the_threads_beside_a_device(void **state) {
    (void)state;
    const struct device cpu = {DEVICE_CPU, 0}, gpu = {DEVICE_CUDA, 1};
    struct stage_descriptor descriptor = plain;
    struct lane_plan plan = lanes_plan(&descriptor, &cpu, 0);
    assert_int_equal(plan.lanes, 3);
    assert_int_equal(plan.load_threads, 2);
    assert_int_equal(plan.store_threads, 1);
    /* A stage without CUDA kernels gets the same lanes on every device. */
    assert_int_equal(lanes_plan(&descriptor, &gpu, 0).lanes, 3);
    descriptor.cuda = true;
    descriptor.store_threads = 4;
    assert_int_equal(lanes_plan(&descriptor, &cpu, 0).lanes, 3);
    assert_int_equal(lanes_plan(&descriptor, &gpu, 0).lanes, 11);
    assert_int_equal(lanes_plan(&descriptor, &gpu, 0).load_threads, 3);
    /* A number that the user sets wins. */
    assert_int_equal(lanes_plan(&descriptor, &gpu, 2).lanes, 2);
    descriptor.lanes = 1000;
    descriptor.store_threads = 1000;
    assert_int_equal(lanes_plan(&descriptor, &cpu, 0).lanes, LANES_MAX);
    assert_int_equal(lanes_plan(&descriptor, &cpu, 0).store_threads, IO_THREADS_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reading_computing_and_writing_overlap, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_store_at_a_time_in_order_unless_said, set_up, tear_down),
        cmocka_unit_test_setup_teardown(several_stores_run_at_once_and_outcomes_stay_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_lane_does_not_wait_for_the_ledger, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_a_source_emits_is_known_before_it_is_written_down, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_lost_device_ends_the_stage_from_every_callback, set_up, tear_down),
        cmocka_unit_test(there_are_lanes_for_the_threads_beside_a_device),
    };
    return scratch_run("lanes", tests, sizeof tests / sizeof *tests);
}
