/* Tests that a view of a long session is exact at once: after a retry, a redo, a later revision, a mark and a change of
 * parameters, its counts are those of a fresh tally, before whole ledgers were looked at again. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/edges/ledger_private.h"
#include "pipelines/launcher/mark.h"
#include "pipelines/launcher/retry.h"
#include "pipelines/launcher/view/view_private.h"
#include "tests/common/scratch.h"

enum { ROWS = 100000 };
static const double NOW = 1e9, AT_ONCE = 1; /* s of this thread */
static struct session session;
static struct ledger *watcher, *picker, *extractor;
static struct view *view;

static void run(struct ledger *ledger, const char *sql) {
    char *message = NULL;
    if (sqlite3_exec(ledger->db, sql, NULL, NULL, &message) != SQLITE_OK) fail_msg("%s", message);
}

static void put_text(const char *folder, const char *name, const char *text) {
    char path[PATH_SIZE];
    struct err err = {0};
    assert_ok(session_file(&session, folder, name, "", path, &err));
    assert_ok(file_make_parents(path, 0755, &err));
    assert_ok(file_write_whole(path, text, strlen(text), &err));
}

/* Makes a ledger of ROWS items; state, reason: expressions of SQL in x, the number. */
static struct ledger *make_ledger(const char *stage, const char *state, const char *reason, const char *edge) {
    char path[PATH_SIZE], sql[4096];
    struct err err = {0};
    struct ledger *ledger;
    assert_ok(session_file(&session, "ledger", stage, ".sqlite", path, &err));
    assert_ok(file_make_parents(path, 0755, &err));
    assert_ok(ledger_open(path, NULL, false, &ledger, &err));
    run(ledger, "PRAGMA synchronous = OFF");
    snprintf(
        sql, sizeof sql,
        "BEGIN; WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < %d) INSERT INTO items"
        " (source, id, state, reason, attempts, crashes, instance, item, time_seen, time_changed) SELECT 'watcher',"
        " printf('mic_%%06d', x), %s, %s, 1, 0, %d, printf('{\"id\": \"mic_%%06d\", \"kind\": \"micrograph\","
        " \"source\": \"watcher\", \"columns\": {\"rlnDefocusU\": %%d}}', x, x), x, x FROM n;",
        ROWS, state, reason, strcmp(stage, "watcher") == 0 ? -2 : -1);
    run(ledger, sql);
    if (edge != NULL) {
        snprintf(
            sql, sizeof sql,
            "INSERT INTO outbox (edge, source, id, item, time_sent, acknowledged, verdict) SELECT '%s', source, id,"
            " item, time_changed, time_changed, 'done' FROM items WHERE state = 1;",
            edge);
        run(ledger, sql);
    }
    run(ledger, "COMMIT");
    return ledger;
}

#define STAGE(name, from)                                                                                              \
    "{\"name\": \"" name "\", \"program\": \"/x/icestream-" name "\", \"from\": [" from "],"                           \
    " \"instances\": [\"" name ".0\"], \"cumulative\": false}"

static void begins(void **state) {
    struct err err = {0};
    unsigned changed;
    (void)state;
    session = (struct session){.lock = -1};
    scratch_path("long", session.path);
    put_text("log", "plan.json",
             "{\"run\": 1, \"stages\": [" STAGE("watcher", "") "," STAGE("picker", "\"watcher\"") "," STAGE(
                 "extractor", "\"picker\"") "]}");
    watcher = make_ledger("watcher", "1", "NULL", "watcher.0>picker");
    picker = make_ledger("picker", "CASE x % 100 WHEN 1 THEN 3 WHEN 2 THEN 2 ELSE 1 END",
                         "CASE x % 100 WHEN 1 THEN 'broken' WHEN 2 THEN 'too thick' END", "picker.0>extractor");
    extractor = make_ledger("extractor", "1", "NULL", NULL);
    run(extractor, "DELETE FROM items WHERE number % 100 IN (1, 2)");
    assert_ok(view_open(session.path, &view, &err));
    double before = view_cpu();
    assert_ok(view_poll(view, NOW, &changed, &err));
    printf("the first look took %.0f ms\n", 1000 * (view_cpu() - before));
    assert_int_equal(view_row_count(view), ROWS);
}

static void ends(void **state) {
    (void)state;
    view_close(&view);
    ledger_close(&watcher);
    ledger_close(&picker);
    ledger_close(&extractor);
}

/* Looks as a program does whose seldom work is not due. */
static unsigned glance(void) {
    struct err err = {0};
    unsigned changed = 0;
    view->due = view->files_due = 0;
    view->check_due = view->suspect_due = view->compare_due = view->reread_due = view->exact_due = INFINITY;
    double before = view_cpu();
    assert_ok(view_poll(view, NOW, &changed, &err));
    double used = view_cpu() - before;
    assert_true(used < AT_ONCE);
    printf("a look took %.0f ms\n", 1000 * used);
    return changed;
}

static void assert_exact(void) {
    struct err err = {0};
    struct tally exact;
    assert_ok(view_tally_now(view, TALLY_COUNTS, &exact, &err));
    assert_int_equal(view_tally(view)->count, exact.count);
    for (size_t i = 0; i < exact.count; i++) {
        const struct tally_stage *a = &view_tally(view)->stages[i], *b = &exact.stages[i];
        assert_int_equal(a->seen, b->seen);
        assert_int_equal(a->done, b->done);
        assert_int_equal(a->rejected, b->rejected);
        assert_int_equal(a->failed, b->failed);
        assert_int_equal(a->in_flight, b->in_flight);
        assert_int_equal(a->waiting, b->waiting);
    }
    tally_clear(&exact);
}

static const struct view_row *row_of(const char *id) {
    int64_t row = view_find_item(view, "watcher", id);
    assert_true(row >= 0);
    return view_row(view, (size_t)row);
}

/* The picker takes an item and finishes it, and its sender hears of it. */
static void pick(const char *id, int64_t revision, enum ledger_state state, const char *reason) {
    struct err err = {0};
    struct item *item;
    enum ledger_claim claim;
    bool late;
    struct ledger_parcel parcel;
    bool found;
    int64_t first;
    assert_ok(item_create(id, "micrograph", &item, &err));
    assert_ok(item_set_source(item, "watcher", &err));
    if (revision > 0) assert_ok(item_set_revision(item, revision, &err));
    assert_ok(ledger_claim_item(picker, item, 0, "token", &claim, &err));
    const struct ledger_finish finish = {.key = {"watcher", id},
                                         .revision = revision,
                                         .state = state,
                                         .reason = reason,
                                         .item = item,
                                         .instance = 0,
                                         .run_token = "token"};
    assert_ok(ledger_finish_items(picker, &finish, 1, &late, &err));
    assert_false(late);
    assert_ok(ledger_next_parcel(watcher, "watcher.0>picker", -1, &parcel, &found, &err));
    assert_true(found);
    const struct ledger_verdict answer = {parcel.seq, ledger_state_name(state)};
    assert_ok(ledger_acknowledge_all(watcher, "watcher.0>picker", &answer, 1, &first, &err));
    ledger_parcel_clear(&parcel);
    item_destroy(&item);
}

static void shows_a_retry(void **state) {
    (void)state;
    struct err err = {0};
    const char *const names[] = {"mic_000101", "mic_000201"};
    FILE *nowhere = fopen("/dev/null", "w");
    const struct retry_request request = {.names = names, .name_count = 2, .out = nowhere};
    struct retry_outcome outcome;
    assert_ok(retry_items(&session, &request, &outcome, &err));
    fclose(nowhere);
    assert_int_equal(outcome.total, 2);
    assert_true(glance() & VIEW_COUNTS);
    assert_int_equal(row_of("mic_000101")->state, LEDGER_IN_FLIGHT);
    assert_exact();
    pick("mic_000101", 0, LEDGER_REJECTED, "too thin");
    pick("mic_000201", 0, LEDGER_FAILED, "broken again");
    assert_true(glance() & VIEW_COUNTS);
    assert_int_equal(row_of("mic_000101")->state, LEDGER_REJECTED);
    assert_string_equal(row_of("mic_000201")->reason, "broken again");
    assert_int_equal(row_of("mic_000201")->attempts, 2);
    assert_exact();
}

/* As redo_items does it; and its work is done before anybody looks. */
static void shows_a_redo(void **state) {
    (void)state;
    struct err err = {0};
    bool sent;
    const struct ledger_key key = {"watcher", "mic_000301"};
    assert_ok(ledger_send_revised(watcher, ">picker", key, 1, 0, &sent, &err));
    assert_true(sent);
    glance();
    pick(key.id, 1, LEDGER_FAILED, "no other result");
    glance();
    assert_string_equal(row_of(key.id)->reason, "no other result");
    assert_ok(ledger_send_revised(watcher, ">picker", key, 2, 0, &sent, &err));
    pick(key.id, 2, LEDGER_REJECTED, "flat");
    assert_true(glance() & VIEW_COUNTS);
    assert_int_equal(row_of(key.id)->item_revision, 2);
    assert_int_equal(row_of(key.id)->state, LEDGER_REJECTED);
    assert_exact();
}

/* A later revision of a file goes through two stages. */
static void shows_a_revision(void **state) {
    (void)state;
    struct err err = {0};
    struct item *item;
    bool new;
    assert_ok(item_create("mic_000402", "micrograph", &item, &err));
    assert_ok(item_set_source(item, "watcher", &err));
    assert_ok(item_set_revision(item, 1, &err));
    const struct ledger_send send = {.edge = "watcher.0>picker", .item = item};
    assert_ok(ledger_originate(watcher, item, LEDGER_DONE, NULL, &send, 1, &new, &err));
    assert_true(new);
    item_destroy(&item);
    glance();
    assert_int_equal(row_of("mic_000402")->item_revision, 1);
    pick("mic_000402", 1, LEDGER_REJECTED, "still too thick");
    glance();
    assert_string_equal(row_of("mic_000402")->reason, "still too thick");
    assert_exact();
}

static void shows_a_mark_and_a_change(void **state) {
    (void)state;
    struct err err = {0};
    struct mark_result result;
    const struct ledger_key key = {"watcher", "mic_000003"};
    const struct mark_author author = {.why = "ice"};
    assert_ok(mark_items(&session, &key, 1, CHOICE_REJECT, &author, &result, &err));
    assert_int_equal(result.changed, 1);
    assert_true(glance() & VIEW_CHANGES);
    put_text(
        "changes", "0002.json",
        "{\"v\": 1, \"number\": 2, \"time\": 1, \"user\": \"u\", \"host\": \"h\", \"by\": \"set\", \"whole\": false,"
        " \"changes\": []}");
    assert_true(glance() & VIEW_CHANGES);
    assert_exact();
}

/* A reason changed by hand is found when whole ledgers are compared, which is due at once in a session at rest. */
static void shows_what_was_changed_by_hand(void **state) {
    (void)state;
    struct err err = {0};
    unsigned changed;
    for (size_t i = 0; i < view->stage_count; i++) {
        view->due = view->compare_due = 0;
        view->exact_due = INFINITY;
        assert_ok(view_poll(view, NOW, &changed, &err));
    }
    uint64_t revision = view_revision(view);
    run(picker, "UPDATE items SET reason = 'by hand' WHERE id = 'mic_050001'");
    view->due = view->compare_due = 0;
    view->exact_due = INFINITY;
    double before = view_cpu();
    assert_ok(view_poll(view, NOW, &changed, &err));
    double used = view_cpu() - before;
    assert_true(used < AT_ONCE);
    assert_string_equal(row_of("mic_050001")->reason, "by hand");
    assert_true(view_rows_since(view, revision, 0) == view_find_item(view, "watcher", "mic_050001"));
    assert_true(view->compare_due <= view_clock() + 300);
    printf("comparing a ledger took %.0f ms\n", 1000 * used);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(begins),
        cmocka_unit_test(shows_a_retry),
        cmocka_unit_test(shows_a_redo),
        cmocka_unit_test(shows_a_revision),
        cmocka_unit_test(shows_a_mark_and_a_change),
        cmocka_unit_test(shows_what_was_changed_by_hand),
        cmocka_unit_test(ends),
    };
    return scratch_run("view-long", tests, sizeof tests / sizeof tests[0]);
}
