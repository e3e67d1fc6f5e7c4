/* For every n, the n-th call that asks for memory, opens, reads, writes or syncs a file fails, once or for ever, while a
 * stage uses its ledger, or a ledger of version 1 is brought up to date. SQLite takes part. Each time
 *   - a function that fails has a message, and all memory and descriptors are given back;
 *   - the file passes SQLite's integrity check, and holds no half of a transaction;
 *   - the next process, undisturbed, brings the ledger to the rows that it has after an undisturbed life.
 *
 *   test_sweep_ledger          some n
 *   test_sweep_ledger whole    each n */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "common/edges/ledger.h"
#include "tests/common/scratch.h"
#include "tests/faults/nth_call.h"

enum { DENSE = 12, MOST = 40, ROWS_SIZE = 8192 };
static const double patience = 0.05; /* s */
static bool whole;

/* ---- Looking at the file ---- */

static int add_row(void *context, int count, char **values, char **names) {
    (void)names;
    char *rows = context;
    for (int i = 0; i < count; i++) {
        size_t length = strlen(rows);
        snprintf(rows + length, ROWS_SIZE - length, "%s%c", values[i] != NULL ? values[i] : "-",
                 i + 1 < count ? '|' : '\n');
    }
    return 0;
}

/* Writes what a statement returns into rows. A file without the tables has no rows. */
static void ask(const char *path, const char *sql, char rows[ROWS_SIZE]) {
    sqlite3 *db = NULL;
    rows[0] = '\0';
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, add_row, rows, NULL) != SQLITE_OK && strstr(sqlite3_errmsg(db), "no such table") == NULL)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    sqlite3_close(db);
}

/* Neither times nor numbers of attempts and parcels: a life that was cut short leaves those. */
static void dump(const char *path, char rows[ROWS_SIZE]) {
    ask(path,
        "SELECT source, id, state, reason, instance, item FROM items ORDER BY id, source;"
        "SELECT edge, source, id, item, acknowledged IS NULL, verdict FROM outbox ORDER BY edge, id, source;"
        "SELECT edge, run FROM ends ORDER BY edge; PRAGMA user_version;",
        rows);
}

/* ---- A life of a stage ---- */

static struct item *items[4]; /* a, b, c, and o, which begins here */
static const char edge[] = "picker.0>extractor";

struct finding {
    bool is_a;
    int64_t seq;
};

static enum status find_a(const struct ledger_waiting *parcel, void *context, bool *ret_stop, struct err *err) {
    struct finding *finding = context;
    (void)err;
    finding->is_a = strstr(parcel->item_text, "\"a\"") != NULL;
    finding->seq = parcel->seq;
    *ret_stop = finding->is_a;
    return STATUS_OK;
}

static enum status finish(struct ledger *ledger, const struct item *item, enum ledger_state state, const char *token,
                          struct err *err) {
    const struct ledger_send send = {edge, item};
    const struct ledger_finish what = {.key = item_key(item),
                                       .revision = item_revision(item),
                                       .state = state,
                                       .reason = state == LEDGER_DONE ? NULL : "it is broken",
                                       .item = state == LEDGER_DONE ? item : NULL,
                                       .run_token = token,
                                       .sends = &send,
                                       .send_count = state == LEDGER_DONE};
    bool late = false;
    return ledger_finish_items(ledger, &what, 1, &late, err);
}

static enum status acknowledge_a(struct ledger *ledger, struct err *err) {
    struct finding finding = {0};
    int64_t first = 0;
    TRY(ledger_each_waiting(ledger, edge, 0, find_a, &finding, err));
    if (!finding.is_a) return STATUS_OK;
    const struct ledger_verdict verdict = {finding.seq, "done"};
    return ledger_acknowledge_all(ledger, edge, &verdict, 1, &first, err);
}

/* Works in the ledger of an earlier life as in a new one. */
static enum status work(struct ledger *ledger, const char *token, struct err *err) {
    struct ledger_arrival arrivals[3] = {{.item = items[0]}, {.item = items[1]}, {.item = items[2]}};
    const struct ledger_send send = {edge, items[3]};
    const struct ledger_key failed = item_key(items[2]);
    bool flag = false;
    int64_t count = 0;
    int ended = 0;
    TRY(ledger_release_instance(ledger, 0, err));
    TRY(ledger_claim_items(ledger, arrivals, 3, 0, token, err));
    if (arrivals[0].claim != CLAIM_FINISHED) TRY(finish(ledger, items[0], LEDGER_DONE, token, err));
    if (arrivals[2].claim != CLAIM_FINISHED) TRY(finish(ledger, items[2], LEDGER_FAILED, token, err));
    TRY(ledger_originate(ledger, items[3], LEDGER_DONE, NULL, &send, 1, &flag, err));
    TRY(acknowledge_a(ledger, err));
    TRY(ledger_retry(ledger, &failed, &count, err));
    TRY(ledger_withdraw(ledger, ">extractor", item_key(items[0]), err));
    TRY(ledger_unacknowledged(ledger, edge, &count, err));
    FAIL_IF(count != 2, err, STATUS_BAD_STATE, "%lld parcels wait, not two", (long long)count);
    TRY(ledger_end_input(ledger, "watcher.0>picker", 1, err));
    TRY(ledger_end_output(ledger, 0, 1, err));
    return ledger_ended_inputs(ledger, 1, &ended, err);
}

static enum status live(const char *path, struct err *err) {
    static int lives;
    char token[32];
    struct ledger *ledger = NULL;
    snprintf(token, sizeof token, "life-%d", ++lives);
    TRY(ledger_open_patient(path, "picker", false, patience, &ledger, err));
    enum status status = work(ledger, token, err);
    ledger_close(&ledger);
    return status;
}

static enum status open_only(const char *path, struct err *err) {
    struct ledger *ledger = NULL;
    TRY(ledger_open_patient(path, "picker", false, patience, &ledger, err));
    ledger_close(&ledger);
    return STATUS_OK;
}

/* ---- The sweep ---- */

struct subject {
    const char *name;
    void (*prepare)(const char *path);
    enum status (*run)(const char *path, struct err *err);
    const char *halves; /* returns no row as long as no transaction is there by half */
    char path[PATH_SIZE], calm[ROWS_SIZE];
};

static void remove_ledger(const char *path) {
    static const char *const endings[] = {"", "-wal", "-shm", "-journal"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        char name[PATH_SIZE + 16];
        snprintf(name, sizeof name, "%s%s", path, endings[i]);
        unlink(name);
    }
}

static void prepare(const struct subject *subject) {
    remove_ledger(subject->path);
    if (subject->prepare != NULL) subject->prepare(subject->path);
}

static long long disturb(const struct subject *subject, enum nth_kind kind, long long n, bool ever, struct err *err,
                         enum status *ret_status, long long *ret_blocks) {
    prepare(subject);
    long long before = nth_blocks();
    nth_begin(kind, n, ever);
    *ret_status = subject->run(subject->path, err);
    long long calls = nth_end();
    *ret_blocks = nth_blocks() - before;
    return calls;
}

static void check(const struct subject *subject, enum nth_kind kind, long long n, bool ever) {
    const char *when = ever ? " and all later ones" : "";
    char rows[ROWS_SIZE];
    struct err err = {0};
    enum status status;
    long long blocks;
    int descriptors = nth_descriptors();
    disturb(subject, kind, n, ever, &err, &status, &blocks);
    if (status != STATUS_OK && err.message[0] == '\0')
        fail_msg("%s: %s %lld%s failed, and there is no message", subject->name, nth_name(kind), n, when);
    /* A library may keep memory after its first failure: only memory that is lost again is a leak. */
    if (blocks > 0) disturb(subject, kind, n, ever, &err, &status, &blocks);
    if (blocks > 0 || nth_descriptors() != descriptors)
        fail_msg("%s: %s %lld%s failed, and %lld blocks of memory and %d files are left", subject->name, nth_name(kind),
                 n, when, blocks, nth_descriptors() - descriptors);
    ask(subject->path, "PRAGMA integrity_check", rows);
    if (strcmp(rows, "ok\n") != 0)
        fail_msg("%s: %s %lld%s failed, and the file is damaged: %s", subject->name, nth_name(kind), n, when, rows);
    ask(subject->path, subject->halves, rows);
    if (rows[0] != '\0')
        fail_msg("%s: %s %lld%s failed, and half a transaction is left: %s", subject->name, nth_name(kind), n, when,
                 rows);
    err = (struct err){0};
    if (subject->run(subject->path, &err) != STATUS_OK)
        fail_msg("%s: after %s %lld%s had failed: %s", subject->name, nth_name(kind), n, when, err.message);
    dump(subject->path, rows);
    if (strcmp(rows, subject->calm) != 0)
        fail_msg("%s: after %s %lld%s had failed, the ledger has\n%sinstead of\n%s", subject->name, nth_name(kind), n,
                 when, rows, subject->calm);
}

static void sweep(struct subject *subject) {
    struct err err = {0};
    char again[ROWS_SIZE];
    prepare(subject);
    assert_ok(subject->run(subject->path, &err));
    dump(subject->path, subject->calm);
    assert_ok(subject->run(subject->path, &err));
    dump(subject->path, again);
    assert_string_equal(again, subject->calm);
    for (int kind = 0; kind < NTH_KINDS; kind++) {
        enum status status;
        long long blocks, calls = disturb(subject, (enum nth_kind)kind, 0, false, &err, &status, &blocks);
        assert_int_equal(status, STATUS_OK);
        print_message("%s: %lld calls of %s\n", subject->name, calls, nth_name((enum nth_kind)kind));
        long long stride = whole || calls <= MOST ? 1 : calls / MOST;
        for (long long n = 1; n <= calls; n += n < DENSE ? 1 : stride)
            for (int ever = 0; ever < 2; ever++)
                check(subject, (enum nth_kind)kind, n, ever);
    }
}

static void a_life(void **state) {
    (void)state;
    /* An item is done if and only if what follows from it was posted. */
    static struct subject subject = {
        .name = "life",
        .run = live,
        .halves = "SELECT 'done', id FROM items WHERE state = 1 AND id NOT IN (SELECT id FROM outbox);"
                  "SELECT 'posted', id FROM outbox WHERE id NOT IN (SELECT id FROM items WHERE state = 1);"
                  "SELECT 'twice', id FROM outbox GROUP BY id HAVING COUNT(*) > 1"};
    static const char *const ids[] = {"a", "b", "c", "o"};
    struct err err = {0};
    for (int i = 0; i < 4; i++) {
        assert_ok(item_create(ids[i], "micrograph", &items[i], &err));
        assert_ok(item_set_source(items[i], i < 3 ? "watcher" : "picker", &err));
    }
    scratch_path("life.sqlite", subject.path);
    sweep(&subject);
    for (int i = 0; i < 4; i++)
        item_destroy(&items[i]);
}

static void make_version_1(const char *path) {
    static const char text[] =
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;"
        "CREATE TABLE items (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, state INTEGER NOT NULL,"
        "  reason TEXT, attempts INTEGER NOT NULL, crashes INTEGER NOT NULL, instance INTEGER NOT NULL, token TEXT,"
        "  item TEXT NOT NULL, time_seen REAL NOT NULL, time_changed REAL NOT NULL);"
        "CREATE INDEX items_state ON items (state);"
        "CREATE TABLE outbox (seq INTEGER PRIMARY KEY AUTOINCREMENT, edge TEXT NOT NULL, id TEXT NOT NULL,"
        "  item TEXT NOT NULL, time_sent REAL NOT NULL, acknowledged REAL, verdict TEXT);"
        "CREATE INDEX outbox_waiting ON outbox (edge, seq) WHERE acknowledged IS NULL;"
        "CREATE INDEX outbox_id ON outbox (id);"
        "CREATE TABLE ends (edge TEXT NOT NULL, run INTEGER NOT NULL, PRIMARY KEY (edge, run));"
        "PRAGMA user_version = 1;"
        "INSERT INTO items VALUES (1, 'a', 1, NULL, 1, 0, 0, 't', '{\"v\":1,\"id\":\"a\",\"kind\":\"k\"}', 1, 2);"
        "INSERT INTO items VALUES (2, 'b', 0, NULL, 1, 0, 0, 'gone', '{\"v\":1,\"id\":\"b\",\"kind\":\"k\"}', 1, 2);"
        "INSERT INTO outbox VALUES (5, 'picker.0>extractor', 'a', '{\"v\":1,\"id\":\"a\",\"kind\":\"k\"}', 1, NULL, "
        "NULL);";
    char rows[ROWS_SIZE];
    ask(path, text, rows);
}

static void a_ledger_of_version_1(void **state) {
    (void)state;
    static struct subject subject = {
        .name = "version 1",
        .prepare = make_version_1,
        .run = open_only,
        .halves = "SELECT 'rows', COUNT(*) FROM items HAVING COUNT(*) <> 2;"
                  "SELECT 'parcels', COUNT(*) FROM outbox HAVING COUNT(*) <> 1;"
                  "SELECT 'left over', name FROM sqlite_master WHERE name = 'items_1';"
                  "SELECT 'version', user_version FROM pragma_user_version WHERE user_version - 1 <>"
                  " (SELECT COUNT(*) FROM pragma_table_info('items') WHERE name = 'source')"};
    scratch_path("old.sqlite", subject.path);
    sweep(&subject);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_life), cmocka_unit_test(a_ledger_of_version_1)};
    whole = argc > 1 && strcmp(argv[1], "whole") == 0;
    return scratch_run("sweep-ledger", tests, 2);
}
