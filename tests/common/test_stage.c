/* Tests the harness in process: order, overlap, full → blocked → drained lanes, failures, rejections, flush, resume. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/harness/stage_private.h"
#include "tests/common/scratch.h"

enum { ITEMS = 20, TRACE_MAX = 4096 };

struct trace_params {
    int fail_at, reject_at, emit_at_end;
    double scale;
    char *text;
};

#define OFFSET(member) offsetof(struct trace_params, member)
static const struct param table[] = {
    {"fail_at", PARAM_INT, OFFSET(fail_at), "", "-1", 0, 0, NULL, 0, false, "number of the item whose load fails"},
    {"reject_at", PARAM_INT, OFFSET(reject_at), "", "-1", 0, 0, NULL, 0, false, "number of the item that is rejected"},
    {"emit_at_end", PARAM_INT, OFFSET(emit_at_end), "", "0", 0, 100, NULL, 0, false, "items that flush emits"},
    {"scale", PARAM_FLOAT, OFFSET(scale), "", "1", 0, 10, NULL, 0, false, "a number"},
    {"text", PARAM_STRING, OFFSET(text), "", NULL, 0, 0, NULL, 0, false, "a text"},
};

/* Records what the callbacks of the stage under test saw. One test runs at a time. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    char events[TRACE_MAX];
    enum status unreadable; /* status that resume returns for mic_04 */
    int loaded, processed, stored, flushed, resumed, summaries, reconfigured, inside, inside_max;
    bool hold_store, hold_first_load;
} trace = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void trace_reset(void) {
    pthread_mutex_lock(&trace.lock);
    trace.events[0] = '\0';
    trace.loaded = trace.processed = trace.stored = trace.flushed = trace.resumed = trace.summaries = 0;
    trace.reconfigured = trace.inside = trace.inside_max = 0;
    trace.hold_store = trace.hold_first_load = false;
    pthread_mutex_unlock(&trace.lock);
}

static void trace_event(int *counter, const char *what, const char *id) {
    pthread_mutex_lock(&trace.lock);
    (*counter)++;
    size_t used = strlen(trace.events);
    snprintf(trace.events + used, sizeof trace.events - used, "%s%s ", what, id);
    pthread_cond_broadcast(&trace.changed);
    pthread_mutex_unlock(&trace.lock);
}

static int number_of(const struct stage_lane *lane) {
    return (int)item_number(lane->item, "columns.number", -1);
}

static enum status trace_reconfigure(struct stage *stage, void *state, struct stage_lane *lane, struct err *err) {
    (void)stage, (void)state, (void)lane, (void)err;
    trace_event(&trace.reconfigured, "r", "");
    return STATUS_OK;
}

static enum status trace_load(struct stage *stage, void *state, struct stage_lane *lane, struct err *err) {
    (void)state;
    const struct trace_params *params = stage_params(stage);
    lane->shape[0] = number_of(lane) < ITEMS / 2 ? 1 : 2;
    pthread_mutex_lock(&trace.lock);
    trace.inside++;
    if (trace.inside > trace.inside_max) trace.inside_max = trace.inside;
    while (trace.hold_first_load && number_of(lane) == 0 && trace.loaded == 0)
        pthread_cond_wait(&trace.changed, &trace.lock);
    pthread_mutex_unlock(&trace.lock);
    trace_event(&trace.loaded, "l", item_id(lane->item));
    FAIL_IF(number_of(lane) == params->fail_at, err, STATUS_TRUNCATED, "item %d ends too early", params->fail_at);
    return STATUS_OK;
}

static enum status trace_process(struct stage *stage, void *state, struct stage_lane *lane, struct err *err) {
    (void)state;
    const struct trace_params *params = stage_params(stage);
    trace_event(&trace.processed, "p", item_id(lane->item));
    FAIL_IF(number_of(lane) == params->reject_at, err, STATUS_REJECTED, "item %d is not wanted", params->reject_at);
    return item_set_number(lane->item, "columns.quality", params->scale * number_of(lane), err);
}

static enum status trace_store(struct stage *stage, void *state, struct stage_lane *lane, struct err *err) {
    (void)state, (void)err;
    (void)stage;
    pthread_mutex_lock(&trace.lock);
    while (trace.hold_store)
        pthread_cond_wait(&trace.changed, &trace.lock);
    trace.inside--;
    pthread_mutex_unlock(&trace.lock);
    trace_event(&trace.stored, "s", item_id(lane->item));
    return STATUS_OK;
}

static enum status trace_flush(struct stage *stage, void *state, struct err *err) {
    (void)state;
    const struct trace_params *params = stage_params(stage);
    trace_event(&trace.flushed, "f", "");
    for (int i = 0; i < params->emit_at_end; i++) {
        char id[32];
        struct item *item;
        bool is_new;
        snprintf(id, sizeof id, "selection_%d", i / 2);
        TRY(item_create(id, "selection", &item, err));
        enum status status = stage_emit(stage, item, i % 4 < 2 ? &is_new : NULL, err);
        item_destroy(&item);
        TRY(status);
    }
    return STATUS_OK;
}

static enum status trace_resume(struct stage *stage, void *state, const struct item *item, struct err *err) {
    (void)stage, (void)state;
    trace_event(&trace.resumed, "R", item_id(item));
    FAIL_IF(trace.unreadable != STATUS_OK && strcmp(item_id(item), "mic_04") == 0, err, trace.unreadable,
            "mic_04.star is broken");
    return STATUS_OK;
}

static enum status trace_summarise(struct stage *stage, void *state, struct err *err) {
    (void)stage, (void)state, (void)err;
    trace_event(&trace.summaries, "S", "");
    return STATUS_OK;
}

static const struct stage_descriptor traced = {
    .name = "traced",
    .summary = "notes its calls",
    .in = "columns",
    .out = "columns",
    .params = table,
    .param_count = sizeof table / sizeof *table,
    .params_size = sizeof(struct trace_params),
    .lane_size = 16,
    .reconfigure = trace_reconfigure,
    .load = trace_load,
    .process = trace_process,
    .store = trace_store,
    .flush = trace_flush,
    .resume = trace_resume,
    .summarise = trace_summarise,
};

struct fixture {
    char folder[PATH_SIZE];
    struct item *items[ITEMS];
};

static int set_up(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    scratch_path("session", fixture->folder);
    struct err err = {0};
    for (int i = 0; i < ITEMS; i++) {
        char id[32];
        snprintf(id, sizeof id, "mic_%02d", i);
        assert_int_equal(item_create(id, "micrograph", &fixture->items[i], &err), STATUS_OK);
        assert_int_equal(item_set_number(fixture->items[i], "columns.number", i, &err), STATUS_OK);
    }
    trace_reset();
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

static struct stage_results run(const struct stage_descriptor *descriptor, struct fixture *fixture,
                                const char *const *key_values) {
    struct stage_results results = {0};
    struct err err = {0};
    enum status status =
        stage_run_results(descriptor, fixture->folder, ":memory:", key_values, fixture->items, ITEMS, &results, &err);
    if (status != STATUS_OK) fail_msg("%s", err.message);
    return results;
}

static void items_pass_in_order(void **state) {
    const char *const parameters[] = {"scale", "2", "lanes", "4", NULL};
    /* The first item is slow to read. The others wait for their turn. */
    trace.hold_first_load = true;
    struct stage_results results = run(&traced, *state, parameters);
    assert_int_equal(results.emitted_count, ITEMS);
    for (int i = 0; i < ITEMS; i++) {
        char id[32];
        snprintf(id, sizeof id, "mic_%02d", i);
        assert_string_equal(item_id(results.emitted[i]), id);
        assert_float_equal(item_number(results.emitted[i], "columns.quality", -1), 2 * i, 0);
    }
    assert_int_equal(trace.flushed, 1);
    assert_true(trace.summaries >= 1);
    assert_int_equal(trace.reconfigured, 2);
    assert_true(strstr(trace.events, "lmic_01") < strstr(trace.events, "lmic_00"));
    assert_true(strstr(trace.events, "pmic_00") < strstr(trace.events, "pmic_01"));
    /* Flush comes after the last item, and the last summary after the flush. */
    const char *flush = strstr(trace.events, "f ");
    assert_non_null(flush);
    assert_null(strstr(flush, "smic"));
    assert_non_null(strstr(flush, "S "));
    stage_results_clear(&results);
}

static void *let_go(void *argument) {
    int *lanes = argument;
    pthread_mutex_lock(&trace.lock);
    /* Every lane is full, and the first item waits before its store. By then the next items must be read and computed,
     * but no more of them than there are lanes. */
    while (trace.processed < *lanes)
        pthread_cond_wait(&trace.changed, &trace.lock);
    assert_int_equal(trace.stored, 0);
    assert_int_equal(trace.loaded, *lanes);
    trace.hold_store = false;
    pthread_cond_broadcast(&trace.changed);
    pthread_mutex_unlock(&trace.lock);
    return NULL;
}

static void full_lanes_block_and_drain(void **state) {
    int lanes = 3;
    pthread_t thread;
    trace.hold_store = true;
    assert_int_equal(pthread_create(&thread, NULL, let_go, &lanes), 0);
    const char *const parameters[] = {"lanes", "3", NULL};
    struct stage_results results = run(&traced, *state, parameters);
    pthread_join(thread, NULL);
    assert_int_equal(results.emitted_count, ITEMS);
    assert_int_equal(trace.inside_max, lanes);
    stage_results_clear(&results);
}

static const struct stage_outcome *outcome_of(const struct stage_results *results, const char *id) {
    for (size_t i = 0; i < results->outcome_count; i++)
        if (strcmp(results->outcomes[i].id, id) == 0) return &results->outcomes[i];
    return NULL;
}

static void bad_items_do_not_stop_the_stream(void **state) {
    const char *const parameters[] = {"fail_at", "5", "reject_at", "7", "reject-if", "number >= 18,quality == 2", NULL};
    struct stage_results results = run(&traced, *state, parameters);
    assert_int_equal(results.emitted_count, ITEMS - 5);
    const struct stage_outcome *failed = outcome_of(&results, "mic_05"), *rejected = outcome_of(&results, "mic_07"),
                               *early = outcome_of(&results, "mic_18"), *late = outcome_of(&results, "mic_02");
    assert_int_equal(failed->state, LEDGER_FAILED);
    assert_string_equal(failed->reason, "item 5 ends too early");
    assert_int_equal(rejected->state, LEDGER_REJECTED);
    assert_string_equal(rejected->reason, "item 7 is not wanted");
    assert_int_equal(early->state, LEDGER_REJECTED);
    assert_string_equal(early->reason, "number 18 >= 18 (reject_if)");
    assert_null(strstr(trace.events, "lmic_18"));
    assert_int_equal(late->state, LEDGER_REJECTED);
    assert_string_equal(late->reason, "quality 2 == 2 (reject_if)");
    assert_null(strstr(trace.events, "smic_02"));
    stage_results_clear(&results);
}

static enum status every_other_shape(struct stage *stage, void *state, struct stage_lane *lane, struct err *err) {
    (void)stage, (void)state, (void)err;
    lane->shape[0] = 1 + number_of(lane) % 2;
    return STATUS_OK;
}

static enum status only_the_first_shape(struct stage *stage, void *state, struct stage_lane *lane, struct err *err) {
    TRY(trace_reconfigure(stage, state, lane, err));
    FAIL_IF(lane->shape[0] != 1, err, STATUS_UNSUPPORTED, "this shape does not do");
    return STATUS_OK;
}

static void a_shape_that_failed_leaves_nothing_set_up(void **state) {
    struct stage_descriptor fickle = traced;
    fickle.load = every_other_shape;
    fickle.reconfigure = only_the_first_shape;
    fickle.store = NULL;
    struct stage_results results = run(&fickle, *state, NULL);
    assert_int_equal(results.emitted_count, ITEMS / 2);
    assert_int_equal(trace.reconfigured, ITEMS);
    stage_results_clear(&results);
}

static void an_item_without_what_is_needed_fails(void **state) {
    struct fixture *fixture = *state;
    struct stage_descriptor picky = traced;
    picky.in = "micrograph|columns picks";
    struct stage_results results = run(&picky, fixture, NULL);
    assert_int_equal(results.emitted_count, 0);
    assert_int_equal(results.outcomes[0].state, LEDGER_FAILED);
    assert_string_equal(results.outcomes[0].reason, "the item has no 'picks', which traced needs");
    stage_results_clear(&results);
}

static void what_a_cumulative_stage_emits_goes_on_instead_of_items(void **state) {
    struct stage_descriptor cumulative = traced;
    cumulative.cumulative = true;
    const char *const parameters[] = {"emit_at_end", "6", NULL};
    struct stage_results results = run(&cumulative, *state, parameters);
    assert_int_equal(results.emitted_count, 6);
    assert_string_equal(item_id(results.emitted[0]), "selection_0");
    stage_results_clear(&results);
}

static void a_stage_without_process_passes_items(void **state) {
    struct stage_descriptor direct = traced;
    direct.process = NULL;
    direct.reconfigure = NULL;
    struct stage_results results = run(&direct, *state, NULL);
    assert_int_equal(results.emitted_count, ITEMS);
    assert_int_equal(trace.processed, 0);
    stage_results_clear(&results);
}

static void a_second_run_resumes_from_the_ledger(void **state) {
    struct fixture *fixture = *state;
    char ledger[PATH_SIZE + 32];
    snprintf(ledger, sizeof ledger, "%s/traced.sqlite", fixture->folder);
    struct stage_results results = {0};
    struct err err = {0};
    const char *const parameters[] = {"fail_at", "3", NULL};
    assert_int_equal(stage_run_results(&traced, fixture->folder, ledger, parameters, fixture->items, 8, &results, &err),
                     STATUS_OK);
    assert_int_equal(results.emitted_count, 7);
    stage_results_clear(&results);
    trace_reset();
    assert_int_equal(stage_run_results(&traced, fixture->folder, ledger, NULL, fixture->items, 12, &results, &err),
                     STATUS_OK);
    assert_int_equal(trace.resumed, 7);
    assert_int_equal(results.emitted_count, 4);
    assert_string_equal(item_id(results.emitted[0]), "mic_08");
    assert_true(strncmp(trace.events, "Rmic_00 ", 8) == 0);
    stage_results_clear(&results);
}

/* An unreadable product makes its item fail, and the others resume. A fault of the machine fails the start instead, and
 * changes nothing else. */
static void what_was_done_and_cannot_be_read_again_has_failed(void **state) {
    struct fixture *fixture = *state;
    char path[PATH_SIZE + 32];
    snprintf(path, sizeof path, "%s/unreadable.sqlite", fixture->folder);
    struct stage_results results = {0};
    struct err err = {0};
    assert_int_equal(stage_run_results(&traced, fixture->folder, path, NULL, fixture->items, 8, &results, &err),
                     STATUS_OK);
    stage_results_clear(&results);
    trace_reset();
    trace.unreadable = STATUS_UNAVAILABLE;
    assert_int_equal(stage_run_results(&traced, fixture->folder, path, NULL, fixture->items, 8, &results, &err),
                     STATUS_UNAVAILABLE);
    for (int again = 0; again < 2; again++) {
        trace_reset();
        trace.unreadable = STATUS_BAD_FORMAT;
        assert_int_equal(stage_run_results(&traced, fixture->folder, path, NULL, fixture->items, 8, &results, &err),
                         STATUS_OK);
        assert_int_equal(trace.resumed, again ? 7 : 8);
        stage_results_clear(&results);
    }
    trace.unreadable = STATUS_OK;
    struct ledger *ledger = NULL;
    struct ledger_counts counts;
    assert_int_equal(ledger_open(path, "stage", false, &ledger, &err), STATUS_OK);
    assert_int_equal(ledger_counts(ledger, &counts, &err), STATUS_OK);
    assert_int_equal(counts.done, 7);
    assert_int_equal(counts.failed, 1);
    int64_t count = 0;
    assert_int_equal(ledger_retry(ledger, &(struct ledger_key){"", "mic_04"}, &count, &err), STATUS_OK);
    assert_int_equal(count, 1);
    ledger_close(&ledger);
}

static const struct ledger_key together[] = {
    {"", "mic_02"}, {"", "mic_05"}, {"", "mic_03"}}; /* mic_05 fails by itself */
static const char *revision = "no map of them";

/* The last item is still being stored when it is revised. It stays there for a while, because the revision must wait
 * for it. */
static enum status store_until_revised(struct stage *stage, void *state, struct stage_lane *lane, struct err *err) {
    TRY(trace_store(stage, state, lane, err));
    if (strcmp(item_id(lane->item), "mic_03") != 0) return STATUS_OK;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1;
    pthread_mutex_lock(&trace.lock);
    for (int late = 0; late == 0 && strstr(trace.events, "revised") == NULL;)
        late = pthread_cond_timedwait(&trace.changed, &trace.lock, &until);
    pthread_mutex_unlock(&trace.lock);
    return STATUS_OK;
}

static enum status revise_when_stored(struct stage *stage, void *state, enum stage_work *ret_work, struct err *err) {
    bool *revised = state;
    *ret_work = STAGE_WORK_NONE;
    pthread_mutex_lock(&trace.lock);
    bool now = strstr(trace.events, "smic_03") != NULL && !*revised;
    pthread_mutex_unlock(&trace.lock);
    if (!now) return STATUS_OK;
    *revised = true;
    TRY(stage_revise(stage, together, 3, revision, err));
    int count = 0;
    trace_event(&count, "revised", "");
    return STATUS_OK;
}

static enum status revise_at_the_end(struct stage *stage, void *state, struct err *err) {
    enum stage_work work;
    TRY(revise_when_stored(stage, state, &work, err));
    return *(bool *)state ? STATUS_OK : stage_revise(stage, together, 3, revision, err);
}

static enum status resume_failed(struct stage *stage, void *state, const struct item *item, struct err *err) {
    (void)stage, (void)state, (void)err;
    trace_event(&trace.resumed, "F", item_id(item));
    return STATUS_OK;
}

static struct stage_results run_together(struct fixture *fixture, int items) {
    struct stage_descriptor joint = traced;
    joint.cumulative = true;
    joint.state_size = sizeof(bool);
    joint.store = store_until_revised;
    joint.idle = revise_when_stored;
    joint.flush = revise_at_the_end;
    joint.resume_failed = resume_failed;
    char path[PATH_SIZE + 32];
    struct stage_results results = {0};
    struct err err = {0};
    const char *const parameters[] = {"fail_at", "5", NULL};
    snprintf(path, sizeof path, "%s/together.sqlite", fixture->folder);
    trace_reset();
    if (stage_run_results(&joint, fixture->folder, path, parameters, fixture->items, (size_t)items, &results, &err))
        fail_msg("%s", err.message);
    return results;
}

static void items_may_fail_together_and_be_mended(void **state) {
    revision = "no map of them";
    struct stage_results results = run_together(*state, 8);
    assert_int_equal(results.outcome_count, 8);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(outcome_of(&results, together[2 * i].id)->state, LEDGER_FAILED);
        assert_string_equal(outcome_of(&results, together[2 * i].id)->reason, "no map of them");
    }
    assert_string_equal(outcome_of(&results, "mic_05")->reason, "item 5 ends too early");
    assert_int_equal(outcome_of(&results, "mic_04")->state, LEDGER_DONE);
    stage_results_clear(&results);
    for (int again = 0; again < 2; again++) {
        revision = NULL;
        results = run_together(*state, 9);
        /* Now they are done like the rest. */
        assert_true((strstr(trace.events, "Rmic_07 Fmic_02 Fmic_03 ") != NULL) == (again == 0));
        assert_true((strstr(trace.events, "Rmic_02 ") != NULL) == (again == 1));
        assert_null(strstr(trace.events, "Fmic_05"));
        assert_int_equal(results.outcome_count, again == 0 ? 1 : 0);
        stage_results_clear(&results);
    }
}

static enum status device_gone(struct stage *stage, void *state, struct stage_lane *lane, struct err *err) {
    (void)stage, (void)state, (void)lane;
    FAIL(err, STATUS_DEVICE, "the device fell off the bus");
}

static void a_lost_device_ends_the_stage(void **state) {
    struct fixture *fixture = *state;
    struct stage_descriptor lost = traced;
    lost.process = device_gone;
    struct stage_results results = {0};
    struct err err = {0};
    assert_int_equal(stage_run_results(&lost, fixture->folder, ":memory:", NULL, fixture->items, ITEMS, &results, &err),
                     STATUS_DEVICE);
    assert_string_equal(err.message, "the device fell off the bus");
}

static enum status produce_some(struct stage *stage, void *state, struct err *err) {
    (void)state;
    for (int i = 0; i < 6; i++) {
        struct item *item = NULL;
        char id[32];
        bool is_new = false, known = false;
        snprintf(id, sizeof id, "mic_%d", i % 5);
        int was = -1;
        TRY(stage_lookup(stage, id, &known, &was, err));
        FAIL_IF(known != (i == 5) || (was == LEDGER_REJECTED) != known, err, STATUS_BAD_STATE,
                "%s is known too early or not at all", id);
        TRY(item_create(id, "micrograph", &item, err));
        TRY(item_set_number(item, "columns.quality", i, err));
        TRY(stage_emit(stage, item, &is_new, err));
        item_destroy(&item);
        FAIL_IF(is_new != (i < 5), err, STATUS_BAD_STATE, "%s is new twice", id);
    }
    return STATUS_OK;
}

static void a_source_produces(void **state) {
    struct fixture *fixture = *state;
    struct stage_descriptor source = {.name = "source",
                                      .summary = "",
                                      .in = "",
                                      .out = "micrograph",
                                      .params = table,
                                      .param_count = sizeof table / sizeof *table,
                                      .params_size = sizeof(struct trace_params),
                                      .produce = produce_some,
                                      .summarise = trace_summarise};
    struct stage_results results = {0};
    struct err err = {0};
    const char *const parameters[] = {"reject_if", "quality < 1", NULL};
    enum status status = stage_run_results(&source, fixture->folder, ":memory:", parameters, NULL, 0, &results, &err);
    if (status != STATUS_OK) fail_msg("%s", err.message);
    assert_int_equal(results.emitted_count, 4);
    assert_string_equal(outcome_of(&results, "mic_0")->reason, "quality 0 < 1 (reject_if)");
    assert_int_equal(trace.summaries, 1);
    stage_results_clear(&results);
}

static void wrong_parameters_are_refused(void **state) {
    struct fixture *fixture = *state;
    static const char *const wrong[][3] = {
        {"fail-att", "1", NULL}, {"scale", "11", NULL}, {"lanes", "0", NULL}, {"reject_if", "quality", NULL}};
    static const char *const messages[] = {"parameters: traced has no parameter 'fail-att': did you mean 'fail_at'?",
                                           "parameters: scale is 11; it must be 0 to 10",
                                           "parameters: lanes is 0; it must be 1 to 32",
                                           "reject_if: 'quality' is not a rule; it must be COLUMN < NUMBER, with one "
                                           "of < <= > >= == !="};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct stage_results results;
        struct err err = {0};
        assert_int_equal(
            stage_run_results(&traced, fixture->folder, ":memory:", wrong[i], fixture->items, 1, &results, &err),
            STATUS_BAD_ARGUMENT);
        assert_string_equal(err.message, messages[i]);
    }
}

/* A long list of items gives its memory back, also that of an item which comes twice. */
static void items_that_were_taken_leave_their_list(void **state) {
    const struct fixture *fixture = *state;
    struct stage *stage = NULL;
    struct stage_results results = {0};
    struct err err = {0};
    struct item *items[ITEMS + 1];
    for (int i = 0; i <= ITEMS; i++)
        assert_ok(item_clone(fixture->items[i % ITEMS], &items[i], &err));
    assert_ok(stage_create(&traced, &stage, &err));
    stage->mode = STAGE_IN_PROCESS;
    stage->results = &results;
    assert_ok(stage_place(stage, fixture->folder, &err));
    assert_ok(stage_configure(stage, "parameters", &err));
    assert_ok(log_open(NULL, stage->name, LOG_ERROR, &stage->log, &err));
    assert_ok(ledger_open(":memory:", stage->name, false, &stage->ledger, &err));
    assert_ok(stage_begin(stage, &err));
    assert_ok(stage_run_items(stage, items, ITEMS + 1, &err));
    stage_destroy(&stage);
    assert_int_equal(trace.stored, ITEMS);
    for (int i = 0; i <= ITEMS; i++)
        assert_null(items[i]);
    stage_results_clear(&results);
}

/* The CPU is one device, however many are visible. */
static void devices_are_those_that_there_are(void **state) {
    (void)state;
    struct device found[2] = {{DEVICE_CUDA, 7}, {DEVICE_CUDA, 7}};
    struct err err = {0};
    struct stage stage = {.device = {DEVICE_CPU, 0}};
    for (int mode = 0; mode < 2; mode++)
        for (int wanted = 0; wanted < 2; wanted++) {
            int count = 0;
            stage.mode = mode == 0 ? STAGE_IN_PIPELINE : STAGE_ON_FILES;
            assert_int_equal(stage_devices(&stage, wanted, 2, found, &count, &err), STATUS_OK);
            assert_int_equal(count, 1);
            assert_int_equal(found[0].kind, DEVICE_CPU);
            assert_int_equal(found[1].index, 7);
        }
    int count = -1;
    assert_int_equal(stage_devices(&stage, 2, 2, found, &count, &err), STATUS_BAD_ARGUMENT);
    assert_string_equal(err.message, "devices: 2 are wanted, but there is 1");
    assert_int_equal(stage_devices(&stage, 1, 0, found, &count, &err), STATUS_BAD_ARGUMENT);
    assert_int_equal(count, -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_those_that_there_are),
        cmocka_unit_test_setup_teardown(items_pass_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(items_that_were_taken_leave_their_list, set_up, tear_down),
        cmocka_unit_test_setup_teardown(full_lanes_block_and_drain, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bad_items_do_not_stop_the_stream, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_shape_that_failed_leaves_nothing_set_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_item_without_what_is_needed_fails, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_a_cumulative_stage_emits_goes_on_instead_of_items, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_stage_without_process_passes_items, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_second_run_resumes_from_the_ledger, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_was_done_and_cannot_be_read_again_has_failed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(items_may_fail_together_and_be_mended, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_lost_device_ends_the_stage, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_source_produces, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_parameters_are_refused, set_up, tear_down),
    };
    return scratch_run("stage", tests, sizeof tests / sizeof *tests);
}
