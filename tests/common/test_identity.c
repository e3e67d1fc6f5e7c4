/* Tests the identity of items: source and id in items, ledgers and outboxes, and ledgers from before there were
 * sources. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/edges/ledger.h"
#include "common/edges/message.h"
#include "common/memory.h"
#include "tests/common/scratch.h"

static struct item *make_item(const char *source, const char *id) {
    struct item *item = NULL;
    struct err err = {0};
    assert_ok(item_create(id, "micrograph", &item, &err));
    if (source != NULL) assert_ok(item_set_source(item, source, &err));
    return item;
}

static struct ledger_key key_of(const char *source, const char *id) {
    return (struct ledger_key){source, id};
}

static enum ledger_claim claim(struct ledger *ledger, const char *source, const char *id) {
    struct err err = {0};
    enum ledger_claim result = CLAIM_NEW;
    struct item *item = make_item(source, id);
    assert_ok(ledger_claim_item(ledger, item, 0, "t", &result, &err));
    item_destroy(&item);
    return result;
}

/* Returns whether the outcome counts. */
static bool finishes(struct ledger *ledger, const struct item *item, const char *edge) {
    struct err err = {0};
    const struct ledger_send send = {edge, item};
    const struct ledger_finish what = {.key = item_key(item),
                                       .revision = item_revision(item),
                                       .state = LEDGER_DONE,
                                       .item = item,
                                       .instance = 0,
                                       .run_token = "t",
                                       .sends = &send,
                                       .send_count = edge != NULL};
    bool late = true;
    assert_ok(ledger_finish_items(ledger, &what, 1, &late, &err));
    return !late;
}

static void finish(struct ledger *ledger, const char *source, const char *id, const char *edge) {
    struct item *item = make_item(source, id);
    assert_true(finishes(ledger, item, edge));
    item_destroy(&item);
}

static bool is_done(struct ledger *ledger, const char *source, const char *id) {
    struct err err = {0};
    bool known = false;
    enum ledger_state state = LEDGER_IN_FLIGHT;
    assert_ok(ledger_lookup(ledger, key_of(source, id), &known, &state, &err));
    return known && state == LEDGER_DONE;
}

static struct ledger *open_at(const char *path, const char *stage, bool read_only) {
    struct ledger *ledger = NULL;
    struct err err = {0};
    assert_ok(ledger_open(path, stage, read_only, &ledger, &err));
    return ledger;
}

static enum status parse(const char *text) {
    struct item *item = NULL;
    struct err err = {0};
    enum status status = item_parse(text, strlen(text), &item, &err);
    item_destroy(&item);
    return status;
}

static void sources_obey_the_rules_of_stage_names(void **state) {
    (void)state;
    struct err err = {0};
    struct item *item = NULL;
    const char whole[] = "{\"v\":1,\"id\":\"a\",\"kind\":\"micrograph\",\"source\":\"watcher-b\",\"revision\":3}";
    assert_ok(item_parse(whole, strlen(whole), &item, &err));
    assert_string_equal(item_source(item), "watcher-b");
    assert_int_equal(item_revision(item), 3);
    assert_int_equal(item_set_source(item, "../x", &err), STATUS_BAD_ARGUMENT);
    assert_string_equal(item_source(item), "watcher-b");
    item_destroy(&item);
    item = make_item(NULL, "a");
    assert_string_equal(item_source(item), "");
    assert_int_equal(item_revision(item), 0);
    item_destroy(&item);
    assert_int_equal(parse("{\"v\":1,\"id\":\"a\",\"kind\":\"k\",\"source\":\"\"}"), STATUS_OK);
    static const char *const bad[] = {"\"..\"", "\"a/b\"", "\"a b\"", "\"-a\"", "7", "null", "{}", "\"\\u00e4\""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[128];
        snprintf(text, sizeof text, "{\"v\":1,\"id\":\"a\",\"kind\":\"k\",\"source\":%s}", bad[i]);
        assert_int_equal(parse(text), STATUS_BAD_FORMAT);
    }
    assert_int_equal(parse("{\"v\":1,\"id\":\"a\",\"kind\":\"k\",\"revision\":-1}"), STATUS_BAD_FORMAT);
    assert_int_equal(parse("{\"v\":1,\"id\":\"a\",\"kind\":\"k\",\"revision\":1.5}"), STATUS_BAD_FORMAT);
}

static void a_bad_source_makes_a_bad_frame(void **state) {
    (void)state;
    struct err err = {0};
    struct message message;
    const char text[] = "{\"v\":1,\"kind\":\"item\",\"edge\":\"w.0>p\",\"seq\":1,\"attempt\":1,"
                        "\"item\":{\"v\":1,\"id\":\"a\",\"kind\":\"k\",\"source\":\"../../etc\"}}";
    assert_int_equal(message_decode(text, strlen(text), &message, &err), STATUS_BAD_FORMAT);
    assert_non_null(strstr(err.message, "../../etc"));
}

static void marks_hold_both(void **state) {
    (void)state;
    char mark[ITEM_MARK_SIZE];
    item_mark(key_of("watcher", "g1/mic 1"), mark);
    assert_string_equal(item_key_of_mark(mark).source, "watcher");
    item_mark(key_of("watcher", "g1/mic 1"), mark);
    assert_string_equal(item_key_of_mark(mark).id, "g1/mic 1");
    item_mark(key_of("", "g1/mic 1"), mark);
    assert_string_equal(mark, "g1/mic 1");
    assert_string_equal(item_key_of_mark(mark).source, "");
}

/* Two grids may number their micrographs alike. */
static void equal_ids_of_two_sources_are_two_items(void **state) {
    (void)state;
    char path[PATH_SIZE], to[PATH_SIZE];
    struct err err = {0};
    scratch_path("two.sqlite", path);
    scratch_path("two_to.sqlite", to);
    struct ledger *ledger = open_at(path, "picker", false);
    assert_int_equal(claim(ledger, "grid-a", "m"), CLAIM_NEW);
    assert_int_equal(claim(ledger, "grid-b", "m"), CLAIM_NEW);
    assert_int_equal(claim(ledger, "grid-b", "m"), CLAIM_HERE);
    finish(ledger, "grid-a", "m", "picker.0>extractor");
    assert_true(is_done(ledger, "grid-a", "m"));
    assert_false(is_done(ledger, "grid-b", "m"));
    int64_t count = 0;
    bool sent = true, yes = false;
    assert_ok(ledger_was_sent(ledger, ">extractor", key_of("grid-b", "m"), &sent, &err));
    assert_false(sent);
    finish(ledger, "grid-b", "m", NULL);
    assert_ok(ledger_count_unsent(ledger, ">extractor", &count, &err));
    assert_int_equal(count, 1);
    /* Redone and sent again, each alone. */
    assert_ok(ledger_redo(ledger, key_of("grid-b", "m"), &yes, &err));
    assert_true(yes && is_done(ledger, "grid-a", "m"));
    assert_int_equal(claim(ledger, "grid-b", "m"), CLAIM_AGAIN);
    finish(ledger, "grid-b", "m", "picker.0>extractor");
    /* The receiver has one of the two. */
    struct ledger *receiver = open_at(to, "extractor", false);
    assert_int_equal(claim(receiver, "grid-b", "m"), CLAIM_NEW);
    finish(receiver, "grid-b", "m", NULL);
    struct ledger_edge_counts counts = {0};
    assert_ok(ledger_compare(ledger, "extractor", to, false, &counts, &err));
    assert_true(counts.sent == 2 && counts.items == 2 && counts.waiting == 2 && counts.waiting_unseen == 1);
    assert_ok(ledger_compare(ledger, "extractor", to, true, &counts, &err));
    assert_true(counts.waiting == 2 && counts.waiting_unseen == 1);
    struct ledger_verdict verdicts[2] = {{1, "done"}, {2, "done"}};
    assert_ok(ledger_acknowledge_all(ledger, "picker.0>extractor", verdicts, 2, &count, &err));
    assert_ok(ledger_compare(ledger, "extractor", to, false, &counts, &err));
    assert_int_equal(counts.lost, 1);
    assert_ok(ledger_withdraw(ledger, ">extractor", key_of("grid-a", "m"), &err));
    assert_ok(ledger_unacknowledged(ledger, "picker.0>extractor", &count, &err));
    assert_int_equal(count, 1);
    ledger_close(&receiver);
    ledger_close(&ledger);
}

static void crashes_count_against_one_of_two(void **state) {
    (void)state;
    char path[PATH_SIZE];
    struct err err = {0};
    bool aside = false;
    scratch_path("crash.sqlite", path);
    struct ledger *ledger = open_at(path, "picker", false);
    claim(ledger, "grid-a", "m");
    claim(ledger, "grid-b", "m");
    assert_ok(ledger_crashed(ledger, key_of("grid-a", "m"), 1, "died on it", &aside, &err));
    assert_true(aside);
    struct ledger_counts counts;
    assert_ok(ledger_counts(ledger, &counts, &err));
    assert_true(counts.failed == 1 && counts.in_flight == 1);
    int64_t count = 0;
    assert_ok(ledger_retry(ledger, &(struct ledger_key){"grid-b", "m"}, &count, &err));
    assert_int_equal(count, 0);
    assert_ok(ledger_retry(ledger, &(struct ledger_key){"grid-a", "m"}, &count, &err));
    assert_int_equal(count, 1);
    ledger_close(&ledger);
}

static void execute(const char *path, const char *sql) {
    sqlite3 *db;
    char *message = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK) fail_msg("%s: %s", sql, message);
    sqlite3_close(db);
}

static int64_t ask(const char *path, const char *sql) {
    sqlite3 *db;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int64_t number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return number;
}

/* The tables as version 1 had them. */
static const char tables_1[] =
    "PRAGMA journal_mode = WAL;"
    "CREATE TABLE items (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, state INTEGER NOT NULL,"
    "  reason TEXT, attempts INTEGER NOT NULL, crashes INTEGER NOT NULL, instance INTEGER NOT NULL, token TEXT,"
    "  item TEXT NOT NULL, time_seen REAL NOT NULL, time_changed REAL NOT NULL);"
    "CREATE INDEX items_state ON items (state);"
    "CREATE TABLE outbox (seq INTEGER PRIMARY KEY AUTOINCREMENT, edge TEXT NOT NULL, id TEXT NOT NULL,"
    "  item TEXT NOT NULL, time_sent REAL NOT NULL, acknowledged REAL, verdict TEXT);"
    "CREATE INDEX outbox_waiting ON outbox (edge, seq) WHERE acknowledged IS NULL;"
    "CREATE INDEX outbox_id ON outbox (id);"
    "CREATE TABLE ends (edge TEXT NOT NULL, run INTEGER NOT NULL, PRIMARY KEY (edge, run));"
    "PRAGMA user_version = 1;";

#define ITEM_1(id) "'{\"v\":1,\"id\":\"" id "\",\"kind\":\"micrograph\",\"time\":1732170000.25}'"

static void make_old_source(const char *path) {
    execute(path, tables_1);
    execute(path, "INSERT INTO items VALUES (7, 'a', 1, NULL, 1, 0, -2, NULL, " ITEM_1(
                      "a") ", 1, 2);"
                           "INSERT INTO items VALUES (8, 'bad', 3, 'broken', 1, 0, -2, NULL, " ITEM_1(
                               "bad") ", 1, 2);"
                                      "INSERT INTO outbox VALUES (41, 'watcher.0>picker', 'a', " ITEM_1(
                                          "a") ", 1, NULL, NULL);"
                                               "INSERT INTO outbox VALUES (42, 'watcher.0>picker', 'x', " ITEM_1(
                                                   "x") ", 1, 2, 'done');"
                                                        "DELETE FROM outbox WHERE seq = 42;");
}

static void make_old_picker(const char *path) {
    execute(path, tables_1);
    execute(path,
            "INSERT INTO items VALUES (1, 'a', 1, NULL, 1, 0, 0, 't', " ITEM_1(
                "a") ", 1, 2);"
                     "INSERT INTO items VALUES (2, 'b', 0, NULL, 1, 0, 0, 'gone', " ITEM_1(
                         "b") ", 1, 2);"
                              "INSERT INTO items VALUES (3, 'odd', 1, NULL, 1, 0, 0, 't',"
                              "  '{\"v\":1,\"id\":\"odd\",\"kind\":\"k\",\"source\":{\"of\":\"a stranger\"}}', 1, 2);"
                              "INSERT INTO outbox VALUES (5, 'picker.0>extractor', 'a', " ITEM_1(
                                  "a") ", 1, NULL, NULL);"
                                       "INSERT INTO outbox VALUES (6, 'picker.0>extractor', 'own', " ITEM_1(
                                           "own") ", 1, NULL, NULL);");
}

static void version_1_can_be_read(void **state) {
    (void)state;
    char path[PATH_SIZE], to[PATH_SIZE];
    struct err err = {0};
    scratch_path("read_1.sqlite", path);
    scratch_path("read_1_to.sqlite", to);
    make_old_source(path);
    make_old_picker(to);
    struct ledger *ledger = open_at(path, NULL, true);
    struct ledger_counts counts;
    assert_ok(ledger_counts(ledger, &counts, &err));
    assert_true(counts.done == 1 && counts.failed == 1 && counts.outbox == 1);
    assert_true(is_done(ledger, "watcher", "a") && is_done(ledger, "", "a"));
    struct ledger_edge_counts edge = {0};
    assert_ok(ledger_compare(ledger, "picker", to, false, &edge, &err));
    assert_true(edge.sent == 1 && edge.waiting == 1 && edge.waiting_unseen == 0);
    ledger_close(&ledger);
    assert_int_equal(ask(path, "PRAGMA user_version"), 1);
}

static void version_1_becomes_version_2(void **state) {
    (void)state;
    char path[PATH_SIZE];
    struct err err = {0};
    struct ledger_parcel parcel;
    bool found = false;
    scratch_path("source_1.sqlite", path);
    make_old_source(path);
    struct ledger *ledger = open_at(path, "watcher-old", false);
    assert_int_equal(ask(path, "PRAGMA user_version"), 2);
    assert_int_equal(ask(path, "SELECT COUNT(*) FROM about, files"), 0);
    /* The edge tells the source, otherwise the opener does. */
    assert_int_equal(ask(path, "SELECT number FROM items WHERE source = 'watcher' AND id = 'a'"), 7);
    assert_int_equal(ask(path, "SELECT number FROM items WHERE source = 'watcher-old' AND id = 'bad'"), 8);
    assert_int_equal(ask(path, "SELECT seq FROM outbox WHERE source = 'watcher' AND id = 'a'"), 41);
    /* The sender's name is the source, so the message says nothing. */
    assert_ok(ledger_next_parcel(ledger, "watcher.0>picker", 0, &parcel, &found, &err));
    assert_true(found && strstr(parcel.item_text, "source") == NULL);
    ledger_parcel_clear(&parcel);
    /* Numbers are never used twice. */
    struct item *next = make_item("watcher", "next");
    const struct ledger_send send = {"watcher.0>picker", next};
    bool is_new = false;
    assert_ok(ledger_originate(ledger, next, LEDGER_DONE, NULL, &send, 1, &is_new, &err));
    assert_int_equal(ask(path, "SELECT seq FROM outbox WHERE id = 'next'"), 43);
    item_destroy(&next);
    ledger_close(&ledger);
    /* Whoever opens it again finds it as it is. */
    ledger = open_at(path, "watcher", false);
    ledger_close(&ledger);
    assert_int_equal(ask(path, "SELECT COUNT(*) FROM items"), 3);
}

static void old_items_take_the_source_that_comes(void **state) {
    (void)state;
    char path[PATH_SIZE];
    struct err err = {0};
    struct ledger_parcel parcel;
    bool found = false;
    scratch_path("picker_1.sqlite", path);
    make_old_picker(path);
    struct ledger *ledger = open_at(path, "picker", false);
    /* Finished items stay finished, whoever sends them. */
    assert_int_equal(claim(ledger, "watcher", "a"), CLAIM_FINISHED);
    assert_int_equal(ask(path, "SELECT COUNT(*) FROM items WHERE source = 'watcher' AND id = 'a'"), 1);
    assert_int_equal(claim(ledger, "", "a"), CLAIM_FINISHED);
    /* From now on the source is known, so that another source's item is another item. */
    assert_int_equal(claim(ledger, "watcher-b", "a"), CLAIM_NEW);
    assert_int_equal(claim(ledger, "watcher", "b"), CLAIM_AGAIN);
    finish(ledger, "watcher", "b", NULL);
    assert_int_equal(ask(path, "SELECT COUNT(*) FROM items"), 4);
    assert_int_equal(ask(path, "SELECT json_extract(item, '$.source') = '' FROM items WHERE id = 'odd'"), 1);
    /* No receiver may take this stage for the source of what only passed through it. */
    assert_ok(ledger_next_parcel(ledger, "picker.0>extractor", 0, &parcel, &found, &err));
    assert_true(found && strstr(parcel.item_text, "\"source\":\"\"") != NULL);
    assert_non_null(strstr(parcel.item_text, "1732170000.25"));
    ledger_parcel_clear(&parcel);
    assert_int_equal(ask(path, "SELECT seq FROM outbox WHERE source = 'picker' AND id = 'own'"), 6);
    ledger_close(&ledger);
}

/* An item that does not know its source is the one that the ledger knows. */
static void an_unknown_source_is_taken_from_the_ledger(void **state) {
    (void)state;
    char path[PATH_SIZE];
    struct err err = {0};
    scratch_path("unknown.sqlite", path);
    struct ledger *ledger = open_at(path, "picker", false);
    assert_int_equal(claim(ledger, "watcher", "a"), CLAIM_NEW);
    assert_ok(ledger_release_instance(ledger, 0, &err));
    struct item *item = make_item("", "a");
    struct ledger_arrival arrival = {.item = item};
    assert_ok(ledger_claim_items(ledger, &arrival, 1, 0, "t", &err));
    assert_int_equal(arrival.claim, CLAIM_AGAIN);
    assert_string_equal(arrival.source, "watcher");
    item_destroy(&item);
    ledger_close(&ledger);
}

static void later_versions_are_refused(void **state) {
    (void)state;
    char path[PATH_SIZE];
    struct err err = {0};
    scratch_path("later.sqlite", path);
    struct ledger *ledger = open_at(path, "picker", false);
    ledger_close(&ledger);
    execute(path, "PRAGMA user_version = 3");
    for (int read_only = 0; read_only < 2; read_only++) {
        assert_int_equal(ledger_open(path, "picker", read_only, &ledger, &err), STATUS_UNSUPPORTED);
        assert_non_null(strstr(err.message, "a later icestream wrote it; use that one"));
        assert_non_null(strstr(err.message, path));
    }
}

/* A program of another kind may write its tables anew under the old number. */
static void tables_that_are_new_already_stay(void **state) {
    (void)state;
    char path[PATH_SIZE];
    scratch_path("foreign.sqlite", path);
    struct ledger *ledger = open_at(path, "stranger", false);
    assert_int_equal(claim(ledger, "watcher", "a"), CLAIM_NEW);
    ledger_close(&ledger);
    execute(path, "PRAGMA user_version = 1");
    ledger = open_at(path, "stranger", false);
    ledger_close(&ledger);
    assert_int_equal(ask(path, "SELECT COUNT(*) FROM items WHERE source = 'watcher'"), 1);
    assert_int_equal(ask(path, "PRAGMA user_version"), 2);
}

/* ---- Revisions ---- */

static struct item *make_revision(int64_t revision) {
    struct err err = {0};
    struct item *item = make_item("watcher", "m");
    assert_ok(item_set_revision(item, revision, &err));
    return item;
}

static struct ledger_arrival arrive(struct ledger *ledger, int64_t revision, int instance) {
    struct err err = {0};
    struct item *item = make_revision(revision);
    struct ledger_arrival arrival = {.item = item};
    assert_ok(ledger_claim_items(ledger, &arrival, 1, instance, "t", &err));
    item_destroy(&item);
    return arrival;
}

static bool finishes_revision(struct ledger *ledger, int64_t revision) {
    struct item *item = make_revision(revision);
    bool counts = finishes(ledger, item, NULL);
    item_destroy(&item);
    return counts;
}

/* An instance that seemed to hang lost its claim, and took the later revision when it woke. Its work on the earlier one
 * goes on meanwhile. */
static void an_outcome_of_an_earlier_revision_is_late(void **state) {
    (void)state;
    char path[PATH_SIZE];
    struct err err = {0};
    scratch_path("woken.sqlite", path);
    struct ledger *ledger = open_at(path, "picker", false);
    assert_int_equal(arrive(ledger, 0, 0).claim, CLAIM_NEW);
    assert_ok(ledger_release_instance(ledger, 0, &err));
    assert_int_equal(arrive(ledger, 1, 0).claim, CLAIM_AGAIN);
    assert_false(finishes_revision(ledger, 0));
    assert_false(is_done(ledger, "watcher", "m"));
    assert_true(finishes_revision(ledger, 1));
    assert_true(is_done(ledger, "watcher", "m"));
    ledger_close(&ledger);
}

static void a_later_revision_is_done_anew(void **state) {
    (void)state;
    char path[PATH_SIZE];
    struct err err = {0};
    bool aside = false, known = false;
    int64_t revision = -1;
    scratch_path("revision.sqlite", path);
    struct ledger *ledger = open_at(path, "picker", false);
    assert_int_equal(arrive(ledger, 0, 0).claim, CLAIM_NEW);
    assert_ok(ledger_crashed(ledger, key_of("watcher", "m"), 3, "died", &aside, &err));
    /* While the first is in work, nobody begins the second, here or elsewhere. */
    assert_int_equal(arrive(ledger, 1, 0).claim, CLAIM_ELSEWHERE);
    assert_int_equal(arrive(ledger, 1, 1).claim, CLAIM_ELSEWHERE);
    assert_int_equal(arrive(ledger, 0, 0).claim, CLAIM_HERE);
    finish(ledger, "watcher", "m", NULL);
    struct ledger_arrival second = arrive(ledger, 1, 0);
    assert_true(second.claim == CLAIM_AGAIN && second.replaces);
    assert_false(is_done(ledger, "watcher", "m"));
    assert_int_equal(ask(path, "SELECT crashes FROM items WHERE revision = 1 AND attempts = 1"), 0);
    /* The first comes once more: it does nothing, whatever becomes of the second. */
    struct ledger_arrival first = arrive(ledger, 0, 0);
    assert_true(first.claim == CLAIM_FINISHED && first.state == LEDGER_DONE);
    assert_int_equal(arrive(ledger, 1, 0).claim, CLAIM_HERE);
    /* The process dies, and the next one does the second, which replaces nothing that this one has counted. */
    assert_ok(ledger_release_instance(ledger, 0, &err));
    second = arrive(ledger, 1, 0);
    assert_true(second.claim == CLAIM_AGAIN && !second.replaces);
    assert_true(finishes_revision(ledger, 1));
    assert_int_equal(arrive(ledger, 0, 0).claim, CLAIM_FINISHED);
    assert_int_equal(arrive(ledger, 1, 0).claim, CLAIM_FINISHED);
    assert_ok(ledger_revision(ledger, key_of("watcher", "m"), &known, &revision, &err));
    assert_true(known && revision == 1);
    assert_int_equal(ask(path, "SELECT COUNT(*) FROM items"), 1);
    ledger_close(&ledger);
}

static void a_source_replaces_what_it_emitted(void **state) {
    (void)state;
    char path[PATH_SIZE];
    struct err err = {0};
    scratch_path("origin.sqlite", path);
    struct ledger *ledger = open_at(path, "watcher", false);
    static const int64_t revisions[] = {0, 2, 1, 2, 3};
    static const bool expected[] = {true, true, false, false, true};
    for (int i = 0; i < 5; i++) {
        struct item *item = make_revision(revisions[i]);
        const struct ledger_send send = {"watcher.0>picker", item};
        bool is_new = false;
        assert_ok(ledger_originate(ledger, item, LEDGER_DONE, NULL, &send, 1, &is_new, &err));
        assert_int_equal(is_new, expected[i]);
        item_destroy(&item);
    }
    assert_int_equal(ask(path, "SELECT COUNT(*) FROM items"), 1);
    assert_int_equal(ask(path, "SELECT revision FROM items"), 3);
    assert_int_equal(ask(path, "SELECT COUNT(*) FROM outbox"), 3);
    /* So does a stage with what it made of many items. */
    struct item *item = make_item("refiner", "it001");
    const struct ledger_send sends[] = {{"refiner.0>next", item}};
    bool is_new = false;
    assert_ok(ledger_send_only(ledger, item_key(item), sends, 1, &is_new, &err));
    assert_true(is_new);
    assert_ok(ledger_send_only(ledger, item_key(item), sends, 1, &is_new, &err));
    assert_false(is_new);
    assert_ok(item_set_revision(item, 1, &err));
    assert_ok(ledger_send_only(ledger, item_key(item), sends, 1, &is_new, &err));
    assert_true(is_new);
    item_destroy(&item);
    ledger_close(&ledger);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sources_obey_the_rules_of_stage_names),
        cmocka_unit_test(a_bad_source_makes_a_bad_frame),
        cmocka_unit_test(marks_hold_both),
        cmocka_unit_test(equal_ids_of_two_sources_are_two_items),
        cmocka_unit_test(crashes_count_against_one_of_two),
        cmocka_unit_test(version_1_can_be_read),
        cmocka_unit_test(version_1_becomes_version_2),
        cmocka_unit_test(old_items_take_the_source_that_comes),
        cmocka_unit_test(an_unknown_source_is_taken_from_the_ledger),
        cmocka_unit_test(later_versions_are_refused),
        cmocka_unit_test(tables_that_are_new_already_stay),
        cmocka_unit_test(a_later_revision_is_done_anew),
        cmocka_unit_test(an_outcome_of_an_earlier_revision_is_late),
        cmocka_unit_test(a_source_replaces_what_it_emitted),
    };
    return scratch_run("identity", tests, sizeof tests / sizeof *tests);
}
