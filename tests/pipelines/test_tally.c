/* Tests counts from the ledgers of a session that the test makes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipelines/launcher/tally.h"
#include "tests/common/scratch.h"

static struct session session;

static void put_text(const char *folder, const char *name, const char *text) {
    char path[PATH_SIZE];
    struct err err = {0};
    assert_ok(session_file(&session, folder, name, "", path, &err));
    assert_ok(file_make_parents(path, 0755, &err));
    assert_ok(file_write_whole(path, text, strlen(text), &err));
}

static struct ledger *make_ledger(const char *stage) {
    char path[PATH_SIZE];
    struct err err = {0};
    struct ledger *ledger;
    assert_ok(session_file(&session, "ledger", stage, ".sqlite", path, &err));
    assert_ok(file_make_parents(path, 0755, &err));
    assert_ok(ledger_open(path, NULL, false, &ledger, &err));
    return ledger;
}

static void make_session(const char *name) {
    session = (struct session){.lock = -1};
    scratch_path(name, session.path);
    put_text("log", "plan.json",
             "{\"run\": 1, \"stages\": ["
             "{\"name\": \"watcher\", \"from\": [], \"instances\": [\"watcher.0\"]},"
             "{\"name\": \"picker\", \"from\": [\"watcher\"], \"instances\": [\"picker.0\"]},"
             "{\"name\": \"stranger\", \"from\": [\"picker\"], \"instances\": [\"stranger.0\"]},"
             "{\"name\": \"extractor\", \"from\": [\"stranger\"], \"instances\": [\"extractor.0\"]},"
             "{\"name\": \"refiner\", \"from\": [\"extractor\"], \"left_out\": true}]}");
}

static void originate_as(struct ledger *ledger, const char *source, const char *id, enum ledger_state state,
                         const char *edge) {
    struct err err = {0};
    struct item *item;
    bool new;
    assert_ok(item_create(id, "micrograph", &item, &err));
    if (source[0] != '\0') assert_ok(item_set_source(item, source, &err));
    const struct ledger_send send = {.edge = edge, .item = item};
    assert_ok(ledger_originate(ledger, item, state, state == LEDGER_DONE ? NULL : "why not", &send,
                               state == LEDGER_DONE, &new, &err));
    assert_true(new);
    item_destroy(&item);
}

static void originate(struct ledger *ledger, const char *id, enum ledger_state state, const char *edge) {
    originate_as(ledger, "", id, state, edge);
}

/* Claims an item of a source, which may be "", and finishes it when state is a final state. */
static void work_on(struct ledger *ledger, const char *source, const char *id, enum ledger_state state,
                    const char *edge) {
    struct err err = {0};
    struct item *item;
    enum ledger_claim claim;
    assert_ok(item_create(id, "micrograph", &item, &err));
    if (source[0] != '\0') assert_ok(item_set_source(item, source, &err));
    assert_ok(ledger_claim_item(ledger, item, 0, "token", &claim, &err));
    const struct ledger_send send = {.edge = edge, .item = item};
    const struct ledger_finish finish = {.key = {source, id},
                                         .state = state,
                                         .reason = state == LEDGER_DONE ? NULL : "why not",
                                         .instance = 0,
                                         .run_token = "token",
                                         .sends = &send,
                                         .send_count = state == LEDGER_DONE && edge != NULL};
    bool late = false;
    if (state != LEDGER_IN_FLIGHT) assert_ok(ledger_finish_items(ledger, &finish, 1, &late, &err));
    assert_false(late);
    item_destroy(&item);
}

static void work(struct ledger *ledger, const char *id, enum ledger_state state, const char *edge) {
    work_on(ledger, "", id, state, edge);
}

static void acknowledge(struct ledger *ledger, const char *edge, int count, const char *verdict) {
    struct err err = {0};
    for (int64_t after = -1; count > 0; count--) {
        struct ledger_parcel parcel;
        bool found;
        int64_t first;
        assert_ok(ledger_next_parcel(ledger, edge, after, &parcel, &found, &err));
        assert_true(found);
        const struct ledger_verdict answer = {parcel.seq, verdict};
        assert_ok(ledger_acknowledge_all(ledger, edge, &answer, 1, &first, &err));
        after = parcel.seq;
        ledger_parcel_clear(&parcel);
    }
}

/* Checks that the numbers are the same, however many items are listed. */
static void compare_depths(const struct tally *all, const struct tally *counted) {
    char one[256] = "", other[256] = "";
    assert_int_equal(all->count, counted->count);
    for (size_t i = 0; i < all->count; i++) {
        const struct tally_stage *a = &all->stages[i], *b = &counted->stages[i];
        assert_int_equal(a->seen, b->seen);
        assert_int_equal(a->done, b->done);
        assert_int_equal(a->rejected, b->rejected);
        assert_int_equal(a->failed, b->failed);
        assert_int_equal(a->in_flight, b->in_flight);
        assert_int_equal(a->waiting, b->waiting);
        assert_int_equal(a->lost, b->lost);
        assert_int_equal(a->stray, b->stray);
        assert_int_equal(a->upstream_known, b->upstream_known);
        assert_int_equal(a->has_ledger, b->has_ledger);
    }
    assert_int_equal(tally_adds_up(all, one, sizeof one), tally_adds_up(counted, other, sizeof other));
    assert_string_equal(one, other);
}

static void take(struct tally *tally) {
    struct err err = {0};
    struct tally counted;
    json_t *plan;
    assert_ok(session_read_plan(&session, &plan, &err));
    assert_ok(tally_take(&session, plan, TALLY_ITEMS, tally, &err));
    assert_ok(tally_take(&session, plan, TALLY_COUNTS, &counted, &err));
    compare_depths(tally, &counted);
    tally_clear(&counted);
    json_decref(plan);
}

static void take_live(struct tally *tally) {
    struct err err = {0};
    json_t *plan;
    assert_ok(session_read_plan(&session, &plan, &err));
    assert_ok(tally_take(&session, plan, TALLY_LIVE, tally, &err));
    json_decref(plan);
}

static void expect(const struct tally *tally, const char *name, const int64_t counts[5]) {
    const struct tally_stage *stage = tally_find(tally, name);
    assert_non_null(stage);
    const int64_t found[5] = {stage->seen, stage->done, stage->rejected, stage->failed, stage->in_flight};
    for (int i = 0; i < 5; i++)
        if (found[i] != counts[i])
            fail_msg("%s: count %d is %lld, not %lld", name, i, (long long)found[i], (long long)counts[i]);
    assert_int_equal(found[0], found[1] + found[2] + found[3] + found[4]);
}

static void test_on_their_way(void **state) {
    (void)state;
    char reason[256];
    struct tally tally;
    make_session("on-their-way");
    struct ledger *watcher = make_ledger("watcher"), *picker = make_ledger("picker");
    for (int i = 0; i < 5; i++)
        originate(watcher, (const char *[]){"a", "b", "c", "d", "e"}[i], LEDGER_DONE, "watcher.0>picker");
    originate(watcher, "broken", LEDGER_FAILED, NULL);
    work(picker, "a", LEDGER_DONE, "picker.0>stranger");
    work(picker, "b", LEDGER_REJECTED, NULL);
    work(picker, "c", LEDGER_IN_FLIGHT, NULL);
    acknowledge(watcher, "watcher.0>picker", 1, "done");
    take(&tally);
    expect(&tally, "watcher", (int64_t[]){6, 5, 0, 1, 0});
    expect(&tally, "picker", (int64_t[]){5, 1, 1, 0, 3}); /* c is in work; d and e are on their way to the stage */
    expect(&tally, "stranger", (int64_t[]){1, 0, 0, 0, 1});
    expect(&tally, "refiner", (int64_t[]){0, 0, 0, 0, 0});
    assert_false(tally_adds_up(&tally, reason, sizeof reason));
    assert_true(tally_has_failed(&tally));
    tally_clear(&tally);
    take_live(&tally);
    expect(&tally, "watcher", (int64_t[]){6, 5, 0, 1, 0});
    expect(&tally, "picker", (int64_t[]){5, 1, 1, 0, 3});
    expect(&tally, "stranger", (int64_t[]){1, 0, 0, 0, 1});
    assert_int_equal(tally_find(&tally, "picker")->item_count, 0);
    tally_clear(&tally);
    ledger_close(&watcher);
    ledger_close(&picker);
}

/* A stage has no ledger: the verdicts of its senders show its finished items, and the ledgers of its receivers show
 * the items that it sent. */
static void test_stranger(void **state) {
    (void)state;
    char reason[256] = "";
    struct tally tally;
    make_session("stranger");
    struct ledger *watcher = make_ledger("watcher"), *picker = make_ledger("picker"),
                  *extractor = make_ledger("extractor");
    for (int i = 0; i < 3; i++) {
        const char *id = (const char *[]){"a", "b", "c"}[i];
        originate(watcher, id, LEDGER_DONE, "watcher.0>picker");
        work(picker, id, LEDGER_DONE, "picker.0>stranger");
    }
    acknowledge(watcher, "watcher.0>picker", 3, "done");
    acknowledge(picker, "picker.0>stranger", 1, "done");
    acknowledge(picker, "picker.0>stranger", 1, "rejected");
    work(extractor, "a", LEDGER_DONE, NULL);
    take(&tally);
    expect(&tally, "picker", (int64_t[]){3, 3, 0, 0, 0});
    expect(&tally, "stranger", (int64_t[]){3, 1, 1, 0, 1});
    expect(&tally, "extractor", (int64_t[]){1, 1, 0, 0, 0});
    assert_false(tally_adds_up(&tally, reason, sizeof reason));
    tally_clear(&tally);
    acknowledge(picker, "picker.0>stranger", 1, "failed");
    take(&tally);
    expect(&tally, "stranger", (int64_t[]){3, 1, 1, 1, 0});
    if (!tally_adds_up(&tally, reason, sizeof reason)) fail_msg("%s", reason);
    tally_clear(&tally);
    ledger_close(&watcher);
    ledger_close(&picker);
    ledger_close(&extractor);
}

static void test_what_does_not_add_up(void **state) {
    (void)state;
    char reason[256];
    struct tally tally;
    make_session("lost");
    struct ledger *watcher = make_ledger("watcher"), *picker = make_ledger("picker");
    originate(watcher, "a", LEDGER_DONE, "watcher.0>picker");
    acknowledge(watcher, "watcher.0>picker", 1, "done");
    take(&tally);
    assert_false(tally_adds_up(&tally, reason, sizeof reason));
    assert_non_null(strstr(reason, "picker: 1 items were acknowledged but are not in its ledger"));
    tally_clear(&tally);
    work(picker, "a", LEDGER_DONE, NULL);
    take(&tally);
    assert_true(tally_adds_up(&tally, reason, sizeof reason));
    tally_clear(&tally);
    work(picker, "from nowhere", LEDGER_DONE, NULL);
    take(&tally);
    assert_false(tally_adds_up(&tally, reason, sizeof reason));
    assert_non_null(strstr(reason, "nobody sent"));
    tally_clear(&tally);
    ledger_close(&watcher);
    ledger_close(&picker);
}

/* In a long session only items that went wrong are listed, unless all are asked for. */
static void test_counts_list_what_went_wrong(void **state) {
    (void)state;
    struct err err = {0};
    struct tally tally;
    json_t *plan;
    make_session("long");
    struct ledger *watcher = make_ledger("watcher"), *picker = make_ledger("picker");
    for (int i = 0; i < 60; i++) {
        char id[16];
        snprintf(id, sizeof id, "m%03d", i);
        originate(watcher, id, LEDGER_DONE, "watcher.0>picker");
        work(picker, id, i % 20 == 7 ? LEDGER_FAILED : i % 20 == 8 ? LEDGER_REJECTED : LEDGER_DONE, NULL);
    }
    take(&tally);
    expect(&tally, "picker", (int64_t[]){60, 54, 3, 3, 0});
    tally_clear(&tally);
    assert_ok(session_read_plan(&session, &plan, &err));
    assert_ok(tally_take(&session, plan, TALLY_COUNTS, &tally, &err));
    const struct tally_stage *stage = tally_find(&tally, "picker");
    assert_int_equal(stage->item_count, 6);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(stage->items[i].state, i < 3 ? LEDGER_REJECTED : LEDGER_FAILED);
    assert_string_equal(stage->items[3].id, "m007");
    tally_clear(&tally);
    json_decref(plan);
    ledger_close(&watcher);
    ledger_close(&picker);
}

/* The counts reconcile, whatever is in work. An item that is done upstream but was not sent on is found. */
static void test_reconciles(void **state) {
    (void)state;
    char reason[256] = "";
    struct tally tally;
    make_session("reconciles");
    struct ledger *watcher = make_ledger("watcher"), *picker = make_ledger("picker");
    originate(watcher, "a", LEDGER_DONE, "watcher.0>picker");
    originate(watcher, "b", LEDGER_DONE, "watcher.0>picker");
    originate(watcher, "broken", LEDGER_FAILED, NULL);
    work(picker, "a", LEDGER_IN_FLIGHT, NULL);
    take(&tally);
    assert_true(tally_reconciles(&tally, reason, sizeof reason));
    assert_false(tally_adds_up(&tally, reason, sizeof reason));
    tally_clear(&tally);
    originate(watcher, "forgotten", LEDGER_DONE, "watcher.0>another");
    take(&tally);
    assert_false(tally_reconciles(&tally, reason, sizeof reason));
    assert_string_equal(reason, "picker: 1 items are done upstream but were not sent to it");
    tally_clear(&tally);
    ledger_close(&watcher);
    ledger_close(&picker);
}

static void expect_input(const struct tally *tally, size_t number, const char *from, const int64_t counts[4]) {
    const struct tally_stage *stage = tally_find(tally, "picker");
    assert_true(number < stage->input_count);
    const struct tally_input *input = &stage->inputs[number];
    const int64_t found[4] = {input->sent, input->seen, input->waiting, input->lost};
    assert_string_equal(input->from, from);
    assert_true(input->known);
    for (int i = 0; i < 4; i++)
        if (found[i] != counts[i])
            fail_msg("%s: count %d is %lld, not %lld", from, i, (long long)found[i], (long long)counts[i]);
}

static void make_join(const char *name) {
    make_session(name);
    put_text("log", "plan.json",
             "{\"run\": 1, \"stages\": ["
             "{\"name\": \"watcher\", \"from\": [], \"instances\": [\"watcher.0\"]},"
             "{\"name\": \"other\", \"from\": [], \"instances\": [\"other.0\"]},"
             "{\"name\": \"picker\", \"from\": [\"watcher\", \"other\"], \"instances\": [\"picker.0\"]}]}");
}

/* Each input is counted by itself. An item that the stage did for one input is not there for the other. */
static void test_inputs(void **state) {
    (void)state;
    char reason[256] = "";
    struct tally tally;
    make_join("inputs");
    struct ledger *watcher = make_ledger("watcher"), *other = make_ledger("other"), *picker = make_ledger("picker");
    for (int i = 0; i < 3; i++) {
        originate(watcher, (const char *[]){"a", "b", "c"}[i], LEDGER_DONE, "watcher.0>picker");
        originate(other, (const char *[]){"x", "y", "a"}[i], LEDGER_DONE, "other.0>picker");
    }
    work(picker, "a", LEDGER_DONE, NULL);
    work(picker, "x", LEDGER_DONE, NULL);
    acknowledge(watcher, "watcher.0>picker", 1, "done");
    take(&tally);
    expect(&tally, "picker", (int64_t[]){6, 2, 0, 0, 4});
    expect_input(&tally, 0, "watcher", (int64_t[]){3, 1, 2, 0});
    expect_input(&tally, 1, "other", (int64_t[]){3, 1, 3, 0});
    assert_true(tally_reconciles(&tally, reason, sizeof reason));
    tally_clear(&tally);
    acknowledge(other, "other.0>picker", 3, "done");
    take(&tally);
    expect_input(&tally, 1, "other", (int64_t[]){3, 1, 0, 2});
    assert_false(tally_reconciles(&tally, reason, sizeof reason));
    assert_string_equal(reason, "picker: 2 items were acknowledged but are not in its ledger");
    tally_clear(&tally);
    work(picker, "y", LEDGER_DONE, NULL);
    take(&tally);
    expect_input(&tally, 1, "other", (int64_t[]){3, 2, 0, 1});
    tally_clear(&tally);
    ledger_close(&watcher);
    ledger_close(&other);
    ledger_close(&picker);
}

/* Two sources have items of one name. Each counts by itself, and only SOURCE/ID names one. */
static void test_sources(void **state) {
    (void)state;
    char reason[256] = "";
    struct err err = {0};
    struct tally tally;
    struct tally_choice choice;
    make_join("sources");
    struct ledger *watcher = make_ledger("watcher"), *other = make_ledger("other"), *picker = make_ledger("picker");
    for (int i = 0; i < 2; i++) {
        originate_as(watcher, "watcher", (const char *[]){"a", "b"}[i], LEDGER_DONE, "watcher.0>picker");
        originate_as(other, "other", (const char *[]){"a", "c"}[i], LEDGER_DONE, "other.0>picker");
    }
    acknowledge(watcher, "watcher.0>picker", 2, "done");
    acknowledge(other, "other.0>picker", 2, "done");
    work_on(picker, "watcher", "a", LEDGER_DONE, NULL);
    work_on(picker, "watcher", "b", LEDGER_DONE, NULL);
    work_on(picker, "other", "c", LEDGER_DONE, NULL);
    take(&tally);
    expect(&tally, "picker", (int64_t[]){4, 3, 0, 0, 1});
    expect_input(&tally, 0, "watcher", (int64_t[]){2, 2, 0, 0});
    expect_input(&tally, 1, "other", (int64_t[]){2, 1, 0, 1});
    assert_false(tally_reconciles(&tally, reason, sizeof reason));
    tally_clear(&tally);
    work_on(picker, "other", "a", LEDGER_FAILED, NULL);
    take(&tally);
    expect(&tally, "picker", (int64_t[]){4, 3, 0, 1, 0});
    expect_input(&tally, 1, "other", (int64_t[]){2, 2, 0, 0});
    assert_true(tally_adds_up(&tally, reason, sizeof reason));
    assert_int_equal(tally_choose(&tally, (const char *[]){"b", "a"}, 2, &choice, &err), STATUS_BAD_ARGUMENT);
    assert_string_equal(err.message, "a is the name of several items: watcher/a and other/a; give one of these names");
    assert_ok(tally_choose(&tally, (const char *[]){"other/a", "b", "nobody"}, 3, &choice, &err));
    assert_true(tally_is_chosen(&choice, (struct ledger_key){"other", "a"}));
    assert_true(tally_is_chosen(&choice, (struct ledger_key){"watcher", "b"}));
    assert_true(tally_is_chosen(&choice, (struct ledger_key){"", "a"}));
    assert_false(tally_is_chosen(&choice, (struct ledger_key){"watcher", "a"}));
    assert_false(tally_is_chosen(&choice, (struct ledger_key){"other", "c"}));
    assert_null(choice.items[2]);
    assert_string_equal(choice.items[0]->name, "other/a");
    tally_choice_clear(&choice);
    tally_clear(&tally);
    ledger_close(&watcher);
    ledger_close(&other);
    ledger_close(&picker);
}

/* An item that its sender does once more was sent before, and will be again: it is no stray. */
static void test_taken_back(void **state) {
    (void)state;
    char reason[256] = "";
    struct err err = {0};
    struct tally tally;
    bool redone = false;
    make_session("taken-back");
    struct ledger *picker = make_ledger("picker"), *extractor = make_ledger("extractor");
    put_text("log", "plan.json",
             "{\"run\": 1, \"stages\": [{\"name\": \"picker\", \"from\": [], \"instances\": [\"picker.0\"]},"
             "{\"name\": \"extractor\", \"from\": [\"picker\"], \"instances\": [\"extractor.0\"]}]}");
    for (int i = 0; i < 2; i++) {
        work(picker, (const char *[]){"a", "b"}[i], LEDGER_DONE, "picker.0>extractor");
        work(extractor, (const char *[]){"a", "b"}[i], LEDGER_DONE, NULL);
    }
    acknowledge(picker, "picker.0>extractor", 2, "done");
    assert_ok(ledger_redo(picker, (struct ledger_key){"", "a"}, &redone, &err));
    assert_true(redone);
    take(&tally);
    expect(&tally, "extractor", (int64_t[]){2, 2, 0, 0, 0});
    if (!tally_reconciles(&tally, reason, sizeof reason)) fail_msg("%s", reason);
    tally_clear(&tally);
    /* This time it fails. */
    work(picker, "a", LEDGER_FAILED, NULL);
    take(&tally);
    if (!tally_reconciles(&tally, reason, sizeof reason)) fail_msg("%s", reason);
    tally_clear(&tally);
    work(extractor, "from nowhere", LEDGER_DONE, NULL);
    take(&tally);
    assert_false(tally_reconciles(&tally, reason, sizeof reason));
    assert_string_equal(reason, "extractor: 1 items are in its ledger but nobody sent them");
    tally_clear(&tally);
    ledger_close(&picker);
    ledger_close(&extractor);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_list_what_went_wrong),
        cmocka_unit_test(test_on_their_way),
        cmocka_unit_test(test_stranger),
        cmocka_unit_test(test_what_does_not_add_up),
        cmocka_unit_test(test_reconciles),
        cmocka_unit_test(test_inputs),
        cmocka_unit_test(test_sources),
        cmocka_unit_test(test_taken_back),
    };
    return scratch_run("tally", tests, sizeof tests / sizeof tests[0]);
}
