/* Tests the ledger: claims between replicas, whole and failed transactions, the outbox, crashes and retries. The same
 * tests run in SQLite and, beside private_postgresql.sh, in PostgreSQL. */
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/edges/ledger.h"
#include "common/edges/ledger_address.h"
#include "common/files.h"
#include "tests/common/scratch.h"

static struct item *make_item(const char *id) {
    struct item *item = NULL;
    struct err err = {0};
    assert_ok(item_create(id, "micrograph", &item, &err));
    return item;
}

static bool in_postgresql(void) {
    return getenv("ICESTREAM_TEST_POSTGRESQL") != NULL;
}

static struct ledger *open_fresh(char path[PATH_SIZE]) {
    struct ledger *ledger = NULL;
    struct err err = {0};
    static int number;
    char name[32];
    snprintf(name, sizeof name, in_postgresql() ? "stage-%d" : "ledger_%d.sqlite", number++);
    if (in_postgresql())
        assert_ok(ledger_address_print(getenv("ICESTREAM_TEST_POSTGRESQL"), "test", name, path, PATH_SIZE, &err));
    else
        scratch_path(name, path);
    assert_ok(ledger_open(path, "stage", false, &ledger, &err));
    return ledger;
}

/* Lets psql run "BEFORE table AFTER" with a table of the ledger. Returns whether it went well. */
static bool psql(const char *path, const char *before, const char *table, const char *after) {
    char shell[2048];
    struct ledger_address address;
    struct err err = {0};
    assert_ok(ledger_address_read(path, &address, &err));
    snprintf(shell, sizeof shell, "psql -q '%s' -c 'SET search_path TO %s; %s \"%s.%s\" %s' >/dev/null 2>&1",
             address.url.text, address.schema, before, address.stage, table, after);
    return system(shell) == 0;
}

static enum ledger_claim claim(struct ledger *ledger, const char *id, int instance, const char *token) {
    struct err err = {0};
    enum ledger_claim result = CLAIM_NEW;
    struct item *item = make_item(id);
    assert_ok(ledger_claim_item(ledger, item, instance, token, &result, &err));
    item_destroy(&item);
    return result;
}

static enum status finish(struct ledger *ledger, const char *id, enum ledger_state state, int instance,
                          const char *token, const char *edge) {
    struct err err = {0};
    struct item *item = make_item(id);
    struct ledger_send send = {edge, item};
    const struct ledger_finish what = {.key = {"", id},
                                       .state = state,
                                       .reason = state == LEDGER_DONE ? NULL : "because",
                                       .item = item,
                                       .instance = instance,
                                       .run_token = token,
                                       .sends = &send,
                                       .send_count = edge != NULL};
    bool late = false;
    enum status status = ledger_finish_items(ledger, &what, 1, &late, &err);
    item_destroy(&item);
    return late ? STATUS_BAD_STATE : status;
}

static bool is_first_acknowledgement(struct ledger *ledger, const char *edge, int64_t seq) {
    struct err err = {0};
    const struct ledger_verdict verdict = {seq, "done"};
    int64_t first = 0;
    assert_ok(ledger_acknowledge_all(ledger, edge, &verdict, 1, &first, &err));
    return first == 1;
}

static struct ledger_counts counts_of(struct ledger *ledger) {
    struct ledger_counts counts = {0};
    struct err err = {0};
    assert_ok(ledger_counts(ledger, &counts, &err));
    return counts;
}

static void claims_are_held_by_the_living(void **state) {
    (void)state;
    char path[PATH_SIZE];
    struct err err = {0};
    struct ledger *ledger = open_fresh(path);
    assert_int_equal(claim(ledger, "a", 0, "t0"), CLAIM_NEW);
    assert_int_equal(claim(ledger, "a", 0, "t0"), CLAIM_HERE);
    assert_int_equal(claim(ledger, "a", 1, "u0"), CLAIM_ELSEWHERE);
    /* The same instance with another token: the earlier process is dead. */
    assert_int_equal(claim(ledger, "a", 0, "t1"), CLAIM_AGAIN);
    assert_int_equal(finish(ledger, "a", LEDGER_DONE, 0, "t0", NULL), STATUS_BAD_STATE);
    assert_ok(ledger_release_instance(ledger, 0, &err));
    assert_int_equal(claim(ledger, "a", 1, "u0"), CLAIM_AGAIN);
    assert_int_equal(finish(ledger, "a", LEDGER_DONE, 0, "t1", "s.0>x"), STATUS_BAD_STATE);
    assert_int_equal(counts_of(ledger).outbox, 0);
    assert_int_equal(finish(ledger, "a", LEDGER_DONE, 1, "u0", "s.1>x"), STATUS_OK);
    assert_int_equal(claim(ledger, "a", 0, "t2"), CLAIM_FINISHED);
    struct ledger_counts counts = counts_of(ledger);
    assert_true(counts.seen == 1 && counts.done == 1 && counts.in_flight == 0 && counts.outbox == 1);
    ledger_close(&ledger);
    ledger_close(&ledger);
}

static void two_processes_share_the_work(void **state) {
    (void)state;
    enum { ITEMS = 60 };
    char path[PATH_SIZE];
    struct ledger *ledger = open_fresh(path);
    ledger_close(&ledger);
    pid_t children[2];
    for (int instance = 0; instance < 2; instance++) {
        children[instance] = fork();
        assert_true(children[instance] >= 0);
        if (children[instance] > 0) continue;
        struct err err = {0};
        int claimed = 0;
        if (ledger_open(path, "stage", false, &ledger, &err) != STATUS_OK) _exit(255);
        for (int i = 0; i < ITEMS; i++) {
            char id[16];
            struct item *item = NULL;
            enum ledger_claim result;
            snprintf(id, sizeof id, "m%d", i);
            if (item_create(id, "micrograph", &item, &err) != STATUS_OK ||
                ledger_claim_item(ledger, item, instance, "t", &result, &err) != STATUS_OK)
                _exit(255);
            item_destroy(&item);
            if (result == CLAIM_NEW) {
                claimed++;
                if (finish(ledger, id, LEDGER_DONE, instance, "t", "s>x") != STATUS_OK) _exit(255);
            }
        }
        ledger_close(&ledger);
        _exit(claimed);
    }
    int total = 0;
    for (int i = 0; i < 2; i++) {
        int result;
        assert_int_equal(waitpid(children[i], &result, 0), children[i]);
        assert_true(WIFEXITED(result) && WEXITSTATUS(result) <= ITEMS);
        total += WEXITSTATUS(result);
    }
    assert_int_equal(total, ITEMS);
    struct err err = {0};
    assert_ok(ledger_open(path, "stage", true, &ledger, &err));
    assert_int_equal(counts_of(ledger).done, ITEMS);
    assert_int_equal(counts_of(ledger).outbox, ITEMS);
    ledger_close(&ledger);
}

static void die_in_sqlite(const char *path) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        sqlite3 *db;
        if (sqlite3_open(path, &db) != SQLITE_OK ||
            sqlite3_exec(db, "BEGIN IMMEDIATE; UPDATE items SET state = 1 WHERE id = 'a';", NULL, NULL, NULL) !=
                SQLITE_OK)
            _exit(1);
        raise(SIGKILL);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFSIGNALED(result));
}

/* A process that dies between the two halves of a transaction leaves neither. */
static void a_death_inside_a_transaction_leaves_nothing(void **state) {
    (void)state;
    char path[PATH_SIZE];
    struct ledger *ledger = open_fresh(path);
    assert_int_equal(claim(ledger, "a", 0, "t0"), CLAIM_NEW);
    ledger_close(&ledger);
    if (in_postgresql())
        assert_false(
            psql(path, "BEGIN; UPDATE", "items", "SET state = 1; SELECT pg_terminate_backend(pg_backend_pid())"));
    else
        die_in_sqlite(path);
    struct err err = {0};
    assert_ok(ledger_open(path, "stage", false, &ledger, &err));
    assert_true(counts_of(ledger).in_flight == 1 && counts_of(ledger).done == 0);
    assert_int_equal(claim(ledger, "a", 0, "t1"), CLAIM_AGAIN);
    ledger_close(&ledger);
}

static void refuse_sends(const char *path, bool refuse) {
    if (in_postgresql()) {
        assert_true(psql(path, "ALTER TABLE", "outbox",
                         refuse ? "ADD CONSTRAINT refuse CHECK (false) NOT VALID" : "DROP CONSTRAINT refuse"));
        return;
    }
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    const char *text = refuse
                           ? "CREATE TRIGGER refuse BEFORE INSERT ON outbox BEGIN SELECT RAISE(ABORT, 'refused'); END"
                           : "DROP TRIGGER refuse";
    assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

/* A transaction whose second half fails takes back its first. */
static void what_cannot_be_sent_is_not_done(void **state) {
    (void)state;
    char path[PATH_SIZE];
    struct ledger *ledger = open_fresh(path);
    assert_int_equal(claim(ledger, "a", 0, "t"), CLAIM_NEW);
    refuse_sends(path, true);
    assert_int_equal(finish(ledger, "a", LEDGER_DONE, 0, "t", "s>x"), STATUS_IO);
    assert_int_equal(counts_of(ledger).in_flight, 1);
    refuse_sends(path, false);
    assert_int_equal(finish(ledger, "a", LEDGER_DONE, 0, "t", "s>x"), STATUS_OK);
    ledger_close(&ledger);
}

static void the_outbox_keeps_until_acknowledged(void **state) {
    (void)state;
    char path[PATH_SIZE];
    struct err err = {0};
    bool found, is_new;
    int64_t count;
    struct ledger *ledger = open_fresh(path);
    struct ledger_parcel one = {0}, two = {0};
    for (int i = 0; i < 2; i++) {
        struct item *item = make_item(i == 0 ? "a" : "b");
        const struct ledger_send sends[] = {{"w.0>p", item}, {"w.0>q", item}};
        assert_ok(ledger_originate(ledger, item, LEDGER_DONE, NULL, sends, 2, &is_new, &err));
        assert_true(is_new);
        assert_ok(ledger_originate(ledger, item, LEDGER_DONE, NULL, sends, 2, &is_new, &err));
        assert_false(is_new);
        item_destroy(&item);
    }
    assert_int_equal(counts_of(ledger).outbox, 4);
    assert_ok(ledger_next_parcel(ledger, "w.0>p", 0, &one, &found, &err));
    assert_true(found);
    assert_string_equal(one.id, "a");
    assert_ok(ledger_next_parcel(ledger, "w.0>p", one.seq, &two, &found, &err));
    assert_string_equal(two.id, "b");
    assert_true(is_first_acknowledgement(ledger, "w.0>p", one.seq));
    assert_false(is_first_acknowledgement(ledger, "w.0>p", one.seq));
    assert_false(is_first_acknowledgement(ledger, "w.0>q", one.seq));
    assert_ok(ledger_unacknowledged(ledger, "w.0>p", &count, &err));
    assert_int_equal(count, 1);
    ledger_parcel_clear(&two);
    assert_ok(ledger_next_parcel(ledger, "w.0>p", 0, &two, &found, &err));
    assert_string_equal(two.id, "b");
    assert_ok(ledger_withdraw(ledger, ">p", (struct ledger_key){"", "a"}, &err));
    assert_ok(ledger_unacknowledged(ledger, "w.0>p", &count, &err));
    assert_int_equal(count, 2);
    assert_ok(ledger_unacknowledged(ledger, "w.0>q", &count, &err));
    assert_int_equal(count, 2);
    ledger_parcel_clear(&one);
    ledger_parcel_clear(&two);
    ledger_close(&ledger);
}

static enum status gather(const struct ledger_waiting *parcel, void *context, bool *ret_stop, struct err *err) {
    struct item *item = NULL;
    TRY(item_parse(parcel->item_text, strlen(parcel->item_text), &item, err));
    strcat(context, item_id(item));
    item_destroy(&item);
    *ret_stop = strlen(context) == 3;
    return STATUS_OK;
}

struct numbers {
    int64_t last;
    int count, most;
    bool in_order;
};

static enum status count_in_order(const struct ledger_waiting *parcel, void *context, bool *ret_stop, struct err *err) {
    struct numbers *numbers = context;
    (void)err;
    numbers->in_order = numbers->in_order && parcel->seq > numbers->last;
    numbers->last = parcel->seq;
    *ret_stop = ++numbers->count == numbers->most;
    return STATUS_OK;
}

/* More wait than a server gives at a time. */
static void all_that_waits_is_visited(void **state) {
    (void)state;
    enum { PARCELS = 150 };
    char path[PATH_SIZE];
    struct err err = {0};
    struct ledger *ledger = open_fresh(path);
    struct item *item = make_item("a");
    struct ledger_send sends[PARCELS];
    bool is_new;
    for (int i = 0; i < PARCELS; i++)
        sends[i] = (struct ledger_send){i % 3 == 2 ? "w.0>q" : "w.0>p", item};
    assert_ok(ledger_send_only(ledger, item_key(item), sends, PARCELS, &is_new, &err));
    for (int most = 63; most <= 101; most++) {
        struct numbers numbers = {.most = most, .in_order = true};
        assert_ok(ledger_each_waiting(ledger, "w.0>p", 0, count_in_order, &numbers, &err));
        assert_int_equal(numbers.count, most < 100 ? most : 100);
        assert_true(numbers.in_order);
    }
    item_destroy(&item);
    ledger_close(&ledger);
}

/* Functions for many items must have the same effect on each item as functions for one. */
static void many_in_one_transaction(void **state) {
    (void)state;
    char path[PATH_SIZE], other_path[PATH_SIZE], text[16] = "";
    struct err err = {0};
    struct ledger *ledger = open_fresh(path), *other = open_fresh(other_path);
    struct item *items[5];
    struct ledger_send sends[5];
    struct ledger_origin origins[6];
    struct ledger_arrival arrivals[4];
    bool is_new[6];
    for (int i = 0; i < 5; i++) {
        items[i] = make_item((const char *[]){"a", "b", "c", "d", "e"}[i]);
        sends[i] = (struct ledger_send){"w.0>p", items[i]};
        origins[i] = (struct ledger_origin){items[i], LEDGER_DONE, NULL, &sends[i], 1};
    }
    origins[5] = origins[1];
    assert_ok(ledger_originate_items(ledger, origins, 6, is_new, &err));
    for (int i = 0; i < 6; i++)
        assert_int_equal(is_new[i], i < 5);
    assert_int_equal(counts_of(ledger).outbox, 5);
    assert_ok(ledger_each_waiting(ledger, "w.0>p", 0, gather, text, &err));
    assert_string_equal(text, "abc");
    /* An item that stands twice in a batch is claimed once. The ledger distinguishes items of other instances from
     * finished items. */
    assert_int_equal(claim(other, "c", 1, "u"), CLAIM_NEW);
    assert_int_equal(claim(other, "d", 0, "t"), CLAIM_NEW);
    assert_int_equal(finish(other, "d", LEDGER_REJECTED, 0, "t", NULL), STATUS_OK);
    for (int i = 0; i < 4; i++)
        arrivals[i] = (struct ledger_arrival){.item = items[(int[]){0, 0, 2, 3}[i]]};
    assert_ok(ledger_claim_items(other, arrivals, 4, 0, "t", &err));
    assert_int_equal(arrivals[0].claim, CLAIM_NEW);
    assert_int_equal(arrivals[1].claim, CLAIM_HERE);
    assert_int_equal(arrivals[2].claim, CLAIM_ELSEWHERE);
    assert_int_equal(arrivals[3].claim, CLAIM_FINISHED);
    assert_int_equal(arrivals[3].state, LEDGER_REJECTED);
    /* Each message is struck off once, in whatever order. A number that was never sent changes nothing. */
    const struct ledger_verdict verdicts[] = {{2, "done"}, {1, "failed"}, {2, "done"}, {99, "done"}};
    int64_t first = 0;
    assert_ok(ledger_acknowledge_all(ledger, "w.0>p", verdicts, 4, &first, &err));
    assert_int_equal(first, 2);
    struct ledger_edge_counts counts;
    assert_ok(ledger_compare(ledger, "p", other_path, false, &counts, &err));
    assert_int_equal(counts.sent, 5);
    assert_int_equal(counts.items, 5);
    assert_int_equal(counts.waiting, 3);
    assert_int_equal(counts.waiting_unseen, 1); /* e */
    assert_int_equal(counts.lost, 1);           /* b */
    for (int i = 0; i < 5; i++)
        item_destroy(&items[i]);
    ledger_close(&ledger);
    ledger_close(&other);
}

/* More than a server is sent at once, whatever stands last in its queue. */
static void very_many_in_one_transaction(void **state) {
    (void)state;
    enum { MOST = 140 };
    char path[PATH_SIZE], id[16];
    struct err err = {0};
    struct ledger *ledger = open_fresh(path);
    struct item *items[MOST];
    struct ledger_send sends[MOST];
    struct ledger_origin origins[MOST];
    struct ledger_verdict verdicts[MOST];
    bool is_new[MOST];
    int64_t first = 0, all = 0;
    for (int i = 0; i < MOST; i++) {
        snprintf(id, sizeof id, "m%d", i);
        items[i] = make_item(id);
        sends[i] = (struct ledger_send){"w.0>p", items[i]};
        origins[i] = (struct ledger_origin){items[i], LEDGER_DONE, NULL, &sends[i], 1};
        verdicts[i] = (struct ledger_verdict){i + 1, "done"};
    }
    for (int i = 60, from = 0; from < MOST; from += i, i = i == 60 ? 61 : i == 61 ? 1 : 18) {
        assert_ok(ledger_originate_items(ledger, origins + from, (size_t)i, is_new, &err));
        assert_true(is_new[0] && is_new[i - 1]);
        assert_ok(ledger_acknowledge_all(ledger, "w.0>p", verdicts + from, (size_t)i, &first, &err));
        assert_int_equal(first, i);
        all += i;
    }
    assert_int_equal(all, MOST);
    assert_int_equal(counts_of(ledger).done, MOST);
    assert_int_equal(counts_of(ledger).outbox_unacknowledged, 0);
    assert_ok(ledger_originate_items(ledger, origins, MOST, is_new, &err));
    assert_true(!is_new[0] && !is_new[MOST - 1]);
    for (int i = 0; i < MOST; i++)
        item_destroy(&items[i]);
    ledger_close(&ledger);
}

static enum status collect(const struct ledger_row *row, void *context, struct err *err) {
    (void)err;
    char *text = context;
    snprintf(text + strlen(text), 256 - strlen(text), "%s:%s:%s ", row->id, ledger_state_name(row->state),
             row->reason != NULL ? row->reason : "");
    return STATUS_OK;
}

static void crashes_count_and_retries_forgive(void **state) {
    (void)state;
    char path[PATH_SIZE], text[256] = "";
    struct err err = {0};
    bool aside = true, is_new, known;
    int64_t count;
    struct ledger *ledger = open_fresh(path);
    for (int death = 1; death <= 3; death++) {
        claim(ledger, "killer", 0, death == 1 ? "t1" : death == 2 ? "t2" : "t3");
        assert_ok(ledger_crashed(ledger, (struct ledger_key){"", "killer"}, 3, "killed its stage three times (SIGSEGV)",
                                 &aside, &err));
        assert_int_equal(aside, death == 3);
    }
    assert_int_equal(claim(ledger, "killer", 0, "t4"), CLAIM_FINISHED);
    struct item *item = make_item("half");
    assert_ok(ledger_originate(ledger, item, LEDGER_FAILED, "incomplete", NULL, 0, &is_new, &err));
    item_destroy(&item);
    assert_ok(ledger_each(ledger, -1, collect, text, &err));
    assert_string_equal(text, "killer:failed:killed its stage three times (SIGSEGV) half:failed:incomplete ");
    assert_ok(ledger_retry(ledger, &(struct ledger_key){"", "killer"}, &count, &err));
    assert_int_equal(count, 1);
    assert_int_equal(claim(ledger, "killer", 0, "t5"), CLAIM_AGAIN);
    assert_ok(ledger_crashed(ledger, (struct ledger_key){"", "killer"}, 3, "again", &aside, &err));
    assert_false(aside);
    assert_ok(ledger_retry(ledger, NULL, &count, &err));
    assert_int_equal(count, 1);
    assert_ok(ledger_lookup(ledger, (struct ledger_key){"", "half"}, &known, NULL, &err));
    assert_false(known);
    ledger_close(&ledger);
}

static void ends_belong_to_a_run(void **state) {
    (void)state;
    char path[PATH_SIZE];
    struct err err = {0};
    int count;
    bool ended;
    struct ledger *ledger = open_fresh(path);
    assert_ok(ledger_end_input(ledger, "w.0>p", 1, &err));
    assert_ok(ledger_end_input(ledger, "w.0>p", 1, &err));
    assert_ok(ledger_end_input(ledger, "w.1>p", 1, &err));
    assert_ok(ledger_end_output(ledger, 0, 1, &err));
    assert_ok(ledger_ended_inputs(ledger, 1, &count, &err));
    assert_int_equal(count, 2);
    assert_ok(ledger_ended_inputs(ledger, 2, &count, &err));
    assert_int_equal(count, 0);
    assert_ok(ledger_output_ended(ledger, 0, 1, &ended, &err));
    assert_true(ended);
    assert_ok(ledger_output_ended(ledger, 0, 2, &ended, &err));
    assert_false(ended);
    ledger_close(&ledger);
}

/* A process with other duties must not wait as long as a stage does. */
static void patience_with_other_processes_ends(void **state) {
    (void)state;
    char path[PATH_SIZE];
    struct err err = {0};
    struct ledger *ledger = open_fresh(path), *other = NULL;
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    double begin = clock_monotonic();
    assert_int_equal(ledger_open_patient(path, "stage", false, 0.2, &other, &err), STATUS_UNAVAILABLE);
    assert_null(other);
    double waited = clock_monotonic() - begin;
    assert_true(waited >= 0.2);
    assert_true(waited < LEDGER_PATIENCE / 2.);
    /* A reader never waits. */
    assert_ok(ledger_open_patient(path, "stage", true, 0.2, &other, &err));
    ledger_close(&other);
    assert_int_equal(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    assert_ok(ledger_open_patient(path, "stage", false, 0.2, &other, &err));
    ledger_close(&other);
    sqlite3_close(db);
    ledger_close(&ledger);
}

static void what_is_no_ledger_is_refused(void **state) {
    (void)state;
    char path[PATH_SIZE];
    struct err err = {0};
    struct ledger *ledger = NULL;
    scratch_path("absent.sqlite", path);
    assert_int_equal(ledger_open(path, "stage", true, &ledger, &err), STATUS_UNAVAILABLE);
    assert_false(file_exists(path));
    /* The file was just created, and its stage has not made the tables yet. */
    scratch_path("empty.sqlite", path);
    assert_ok(file_write_whole(path, "", 0, &err));
    assert_int_equal(ledger_open(path, "stage", true, &ledger, &err), STATUS_NOT_FOUND);
    scratch_path("text.sqlite", path);
    assert_ok(file_write_whole(path, "this is no database, but long enough to be looked at as one....", 60, &err));
    assert_int_equal(ledger_open(path, "stage", false, &ledger, &err), STATUS_IO);
    assert_non_null(strstr(err.message, "text.sqlite"));
    ledger = open_fresh(path);
    ledger_close(&ledger);
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA user_version = 9", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    assert_int_equal(ledger_open(path, "stage", false, &ledger, &err), STATUS_UNSUPPORTED);
    assert_int_equal(ledger_open(path, "stage", true, &ledger, &err), STATUS_UNSUPPORTED);
    assert_null(ledger);
}

/* Overwrites the beginning of the last line about an item, so that the line cannot be read. */
static void damage_last_item(const char *path) {
    static const char begin[] = "{\"k\":\"item\"";
    struct err err = {0};
    char *text = NULL, *last = NULL;
    size_t length = 0;
    assert_ok(file_read_whole(path, 1 << 20, &text, &length, &err));
    for (char *at = text; (at = strstr(at, begin)) != NULL; at++)
        last = at;
    assert_non_null(last);
    *last = '#';
    assert_ok(file_write_whole(path, text, length, &err));
    free(text);
}

/* A line of the copy about what was sent leaves the item out if the line before has it. When that one is damaged, the
 * item of an earlier line must not take its place. */
static void a_damaged_line_gives_no_other_item(void **state) {
    (void)state;
    char path[PATH_SIZE], copy[PATH_SIZE];
    struct err err = {0};
    struct ledger *ledger = open_fresh(path);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(claim(ledger, i == 0 ? "a" : "b", 0, "token"), CLAIM_NEW);
        assert_ok(finish(ledger, i == 0 ? "a" : "b", LEDGER_DONE, 0, "token", "stage.0>next"));
    }
    ledger_close(&ledger);
    snprintf(copy, sizeof copy, "%.*s.jsonl", (int)(strlen(path) - strlen(".sqlite")), path);
    damage_last_item(copy);
    assert_int_equal(unlink(path), 0);
    assert_ok(ledger_open(path, "stage", false, &ledger, &err));
    struct ledger_mended mended = {0};
    assert_ok(ledger_restore(ledger, &(struct ledger_owner){.stage = "stage"}, &mended, &err));
    assert_int_equal(mended.bad_lines, 1);
    struct ledger_parcel parcel = {0};
    bool found = false;
    assert_ok(ledger_next_parcel(ledger, "stage.0>next", 0, &parcel, &found, &err));
    assert_true(found);
    assert_string_equal(parcel.id, "a");
    int64_t seq = parcel.seq;
    ledger_parcel_clear(&parcel);
    assert_ok(ledger_next_parcel(ledger, "stage.0>next", seq, &parcel, &found, &err));
    assert_false(found);
    ledger_close(&ledger);
}

/* In a batch, too, each item has its line, its files and what it sends in this order, and what is sent leaves out the
 * text of the item. */
static void the_second_copy_goes_item_by_item(void **state) {
    (void)state;
    char path[PATH_SIZE], copy[PATH_SIZE], *text = NULL;
    static const char *const ids[] = {"a", "b"};
    static const char *const lines[] = {"{\"k\":\"item\",", "{\"k\":\"file\",", "{\"k\":\"send\","};
    struct err err = {0};
    struct ledger *ledger = open_fresh(path);
    const struct ledger_file file = {.path = "stage/a.mrc", .product = true};
    struct item *items[2];
    struct ledger_send sends[2];
    struct ledger_finish what[2];
    bool late[2];
    size_t length = 0, before = 0;
    snprintf(copy, sizeof copy, "%.*s.jsonl", (int)(strlen(path) - strlen(".sqlite")), path);
    for (int i = 0; i < 2; i++) {
        items[i] = make_item(ids[i]);
        assert_int_equal(claim(ledger, ids[i], 0, "token"), CLAIM_NEW);
        sends[i] = (struct ledger_send){"stage.0>next", items[i]};
        what[i] = (struct ledger_finish){.key = {"", ids[i]},
                                         .state = LEDGER_DONE,
                                         .item = items[i],
                                         .run_token = "token",
                                         .files = &file,
                                         .file_count = 1,
                                         .sends = &sends[i],
                                         .send_count = 1};
    }
    assert_ok(file_read_whole(copy, 1 << 20, &text, &before, &err));
    free(text);
    assert_ok(ledger_finish_items(ledger, what, 2, late, &err));
    ledger_close(&ledger);
    assert_ok(file_read_whole(copy, 1 << 20, &text, &length, &err));
    char *save = NULL, *line = strtok_r(text + before, "\n", &save);
    for (int i = 0; i < 6; i++, line = strtok_r(NULL, "\n", &save)) {
        assert_non_null(line);
        assert_int_equal(strncmp(line, lines[i % 3], strlen(lines[i % 3])), 0);
        assert_true(i % 3 == 1 || strstr(line, i < 3 ? "\"id\":\"a\"" : "\"id\":\"b\"") != NULL);
        assert_int_equal(strstr(line, ",\"item\":") != NULL, i % 3 == 0);
    }
    free(text);
    for (int i = 0; i < 2; i++)
        item_destroy(&items[i]);
}

static void copy_file(const char *from, const char *to) {
    struct err err = {0};
    size_t length = 0;
    char *bytes = NULL;
    assert_ok(file_read_whole(from, 1 << 26, &bytes, &length, &err));
    assert_ok(file_write_whole(to, bytes, length, &err));
    free(bytes);
}

/* A log that another ledger has left at the path must not be applied to the copy. */
static void a_backup_replaces_all_of_an_older_one(void **state) {
    (void)state;
    struct err err = {0};
    char path[PATH_SIZE], other[PATH_SIZE], target[PATH_SIZE], from[PATH_SIZE + 8], to[PATH_SIZE + 8];
    struct ledger *ledger = open_fresh(path), *used = open_fresh(other), *copy = NULL;
    for (int i = 0; i < 40; i++) {
        char id[16];
        snprintf(id, sizeof id, "used_%d", i);
        claim(used, id, 0, "token");
        assert_int_equal(finish(used, id, LEDGER_DONE, 0, "token", NULL), STATUS_OK);
    }
    claim(ledger, "one", 0, "token");
    assert_int_equal(finish(ledger, "one", LEDGER_DONE, 0, "token", NULL), STATUS_OK);
    scratch_path("backup.sqlite", target);
    static const char *const endings[] = {"", "-wal"};
    for (int i = 0; i < 2; i++) {
        snprintf(from, sizeof from, "%s%s", other, endings[i]);
        snprintf(to, sizeof to, "%s%s", target, endings[i]);
        copy_file(from, to);
    }
    assert_ok(ledger_backup(ledger, target, &err));
    assert_ok(ledger_open(target, "stage", false, &copy, &err));
    struct ledger_counts counts = counts_of(copy);
    assert_int_equal(counts.seen, 1);
    assert_int_equal(counts.done, 1);
    ledger_close(&copy);
    ledger_close(&used);
    ledger_close(&ledger);
}

/* A file that its writer has removed is forgotten. */
static enum status count_file(const struct ledger_file_row *row, void *context, struct err *err) {
    (void)err;
    assert_string_equal(row->file.path, "kept");
    ++*(int *)context;
    return STATUS_OK;
}

static void removed_files_are_forgotten(void **state) {
    (void)state;
    struct err err = {0};
    char path[PATH_SIZE];
    struct ledger *ledger = open_fresh(path);
    int count = 0;
    const struct ledger_file files[] = {{.path = "old", .digest = "1", .product = true, .size = 5, .mtime_ns = 1},
                                        {.path = "kept", .digest = "2", .product = true, .size = 6, .mtime_ns = 2},
                                        {.path = "old", .digest = "", .product = true, .size = -1}};
    assert_ok(ledger_add_files(ledger, files, 2, &err));
    assert_ok(ledger_add_files(ledger, files + 2, 1, &err));
    assert_ok(ledger_each_file(ledger, count_file, &count, &err));
    assert_int_equal(count, 1);
    ledger_close(&ledger);
}

int main(void) {
    enum { OF_FILES = 5 }; /* the last tests, which are of SQLite alone */
    const struct CMUnitTest tests[] = {cmocka_unit_test(claims_are_held_by_the_living),
                                       cmocka_unit_test(two_processes_share_the_work),
                                       cmocka_unit_test(a_death_inside_a_transaction_leaves_nothing),
                                       cmocka_unit_test(what_cannot_be_sent_is_not_done),
                                       cmocka_unit_test(the_outbox_keeps_until_acknowledged),
                                       cmocka_unit_test(all_that_waits_is_visited),
                                       cmocka_unit_test(many_in_one_transaction),
                                       cmocka_unit_test(very_many_in_one_transaction),
                                       cmocka_unit_test(crashes_count_and_retries_forgive),
                                       cmocka_unit_test(ends_belong_to_a_run),
                                       cmocka_unit_test(removed_files_are_forgotten),
                                       cmocka_unit_test(patience_with_other_processes_ends),
                                       cmocka_unit_test(what_is_no_ledger_is_refused),
                                       cmocka_unit_test(a_damaged_line_gives_no_other_item),
                                       cmocka_unit_test(the_second_copy_goes_item_by_item),
                                       cmocka_unit_test(a_backup_replaces_all_of_an_older_one)};
    const size_t count = sizeof tests / sizeof *tests;
    const char *server = getenv("ICESTREAM_TEST_POSTGRESQL");
    if (server == NULL) return scratch_run("ledger", tests, count);
    if (ledger_server_take(server, "test", "/folder", "", NULL) != STATUS_OK) return 1;
    return scratch_run("ledger_postgresql", tests, count - OF_FILES);
}
