/* Tests leases in PostgreSQL: who may take one, who may publish, and what is fenced off. Beside the tests that renew,
 * no lease is renewed after it was taken, and the tests move the clocks: that of the holder is `moved`, and the server's
 * is moved by dating back when the lease was renewed. Runs beside private_postgresql.sh. */
#include <libpq-fe.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/edges/ledger.h"
#include "common/edges/ledger_address.h"
#include "common/edges/ledger_lease.h"
#include "common/process_mark.h"
#include "tests/common/scratch.h"

static _Atomic(int) moved; /* s */

static double clock_of_test(void) {
    return 1000 + atomic_load(&moved);
}

static const struct ledger_lease_terms still = {8, 6, 100000}, quick = {8, 6, 0.01};

/* A session of its own for each test. */
struct fixture {
    char path[PATH_SIZE], schema[64];
    PGconn *server;
};

static void begin(struct fixture *f, const char *session) {
    struct err err = {0};
    const char *url = getenv("ICESTREAM_TEST_POSTGRESQL");
    atomic_store(&moved, 0);
    assert_ok(ledger_address_print(url, session, "stage", f->path, sizeof f->path, &err));
    assert_ok(ledger_server_take(url, session, "/folder", "", &err));
    snprintf(f->schema, sizeof f->schema, "icestream_%s", session);
    f->server = PQconnectdb(url);
    assert_int_equal(PQstatus(f->server), CONNECTION_OK);
}

static void run(struct fixture *f, const char *what) {
    char text[512];
    snprintf(text, sizeof text, "UPDATE \"%s\".leases SET %s", f->schema, what);
    PGresult *result = PQexec(f->server, text);
    assert_int_equal(PQresultStatus(result), PGRES_COMMAND_OK);
    assert_string_equal(PQcmdTuples(result), "1");
    PQclear(result);
}

/* Without the mark nobody sees that the holder of a lease was this process. */
static void seem_another(struct fixture *f) {
    run(f, "process = 'another machine', host = 'elsewhere', pid = 77");
}

static enum status take(struct fixture *f, const struct ledger_lease_terms *terms, struct ledger_lease **ret_lease,
                        struct err *err) {
    const struct ledger_lease_wish wish = {
        .path = f->path, .name = "stage", .run = 3, .terms = terms, .clock = clock_of_test};
    return ledger_lease_take(&wish, ret_lease, err);
}

static struct ledger_lease *taken(struct fixture *f, const struct ledger_lease_terms *terms) {
    struct ledger_lease *lease = NULL;
    struct err err = {0};
    assert_ok(take(f, terms, &lease, &err));
    return lease;
}

static void a_lease_is_taken_and_given_back(void **state) {
    (void)state;
    struct fixture f;
    struct ledger_lease_holder holder = {.alive = true};
    struct err err = {0};
    begin(&f, "given");
    assert_ok(ledger_lease_look(f.path, "stage", &holder, &err));
    assert_false(holder.alive);
    struct ledger_lease *lease = taken(&f, &still);
    assert_true(ledger_lease_holds(lease));
    assert_int_equal(ledger_lease_number(lease), 1);
    assert_int_equal(ledger_lease_before(lease), 0);
    int64_t counts = -1;
    assert_ok(ledger_lease_counts(lease, &counts, &err));
    assert_int_equal(counts, 0);
    assert_ok(ledger_lease_count(lease, &err));
    assert_ok(ledger_lease_counts(lease, &counts, &err));
    assert_int_equal(counts, 1);
    assert_ok(ledger_lease_look(f.path, "stage", &holder, &err));
    assert_true(holder.alive);
    assert_int_equal(holder.pid, getpid());
    assert_int_equal(holder.run, 3);
    ledger_lease_give_back(&lease);
    assert_null(lease);
    assert_ok(ledger_lease_look(f.path, "stage", &holder, &err));
    assert_false(holder.alive);
    /* The next one takes it at once, and learns whose folder counts. */
    lease = taken(&f, &still);
    assert_int_equal(ledger_lease_number(lease), 2);
    assert_int_equal(ledger_lease_before(lease), 1);
    ledger_lease_give_back(&lease);
    /* Numbers 2 and 3 never count. */
    for (int i = 3; i < 5; i++) {
        lease = taken(&f, &still);
        assert_int_equal(ledger_lease_number(lease), i);
        assert_int_equal(ledger_lease_before(lease), 1);
        ledger_lease_give_back(&lease);
    }
    PQfinish(f.server);
}

static void a_holder_that_renews_is_named(void **state) {
    (void)state;
    struct fixture f;
    struct ledger_lease *lease, *other = NULL;
    struct err err = {0};
    begin(&f, "lives");
    lease = taken(&f, &quick);
    seem_another(&f);
    assert_int_equal(take(&f, &still, &other, &err), STATUS_BAD_STATE);
    assert_non_null(strstr(err.message, "process 77 on the host elsewhere"));
    assert_true(ledger_lease_holds(lease));
    ledger_lease_give_back(&lease);
    PQfinish(f.server);
}

struct waiter {
    struct fixture *f;
    int calls;
    bool on;
};

/* The one who waits looks again and again; after some looks the server's clock has gone on by 9 s. */
static bool let_pass(void *context) {
    struct waiter *waiter = context;
    if (++waiter->calls == 3) run(waiter->f, "renewed = renewed - interval '9 s'");
    return waiter->on;
}

static void only_the_clock_of_the_server_ends_a_lease(void **state) {
    (void)state;
    struct fixture f;
    struct err err = {0};
    begin(&f, "clock");
    struct waiter waiter = {.f = &f, .on = true};
    struct ledger_lease *lease = taken(&f, &still), *other = NULL;
    const struct ledger_lease_wish wish = {
        .path = f.path, .name = "stage", .terms = &still, .waits = let_pass, .context = &waiter};
    seem_another(&f);
    assert_ok(ledger_lease_take(&wish, &other, &err));
    assert_int_equal(waiter.calls, 3);
    assert_int_equal(ledger_lease_number(other), 2);
    /* The one before does not know yet, and gives back nothing of the other's. */
    ledger_lease_give_back(&lease);
    struct ledger_lease_holder holder;
    assert_ok(ledger_lease_look(f.path, "stage", &holder, &err));
    assert_true(holder.alive);
    ledger_lease_give_back(&other);
    PQfinish(f.server);
}

static void who_waits_gives_up_when_asked(void **state) {
    (void)state;
    struct fixture f;
    struct err err = {0};
    begin(&f, "asked");
    struct waiter waiter = {.f = &f};
    struct ledger_lease *lease = taken(&f, &still), *other = NULL;
    const struct ledger_lease_wish wish = {
        .path = f.path, .name = "stage", .terms = &still, .waits = let_pass, .context = &waiter};
    seem_another(&f);
    assert_int_equal(ledger_lease_take(&wish, &other, &err), STATUS_CANCELLED);
    ledger_lease_give_back(&lease);
    PQfinish(f.server);
}

/* A process that was killed on this machine need not be waited for. */
static void a_holder_that_has_ended_is_not_waited_for(void **state) {
    (void)state;
    struct fixture f;
    char mark[PROCESS_MARK_SIZE] = "", text[256];
    int end[2];
    struct err err = {0};
    begin(&f, "dead");
    struct ledger_lease *lease = taken(&f, &still);
    assert_int_equal(pipe(end), 0);
    pid_t child = fork();
    if (child == 0) {
        process_mark(mark);
        (void)!write(end[1], mark, sizeof mark);
        _exit(0);
    }
    assert_int_equal(read(end[0], mark, sizeof mark), sizeof mark);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(process_mark_has_ended(mark));
    snprintf(text, sizeof text, "process = '%s'", mark);
    run(&f, text);
    struct waiter waiter = {.f = &f};
    struct ledger_lease *other = NULL;
    const struct ledger_lease_wish wish = {
        .path = f.path, .name = "stage", .terms = &still, .waits = let_pass, .context = &waiter};
    assert_ok(ledger_lease_take(&wish, &other, &err));
    assert_int_equal(ledger_lease_number(other), 2);
    assert_int_equal(waiter.calls, 0);
    ledger_lease_give_back(&other);
    ledger_lease_give_back(&lease);
    close(end[0]);
    close(end[1]);
    PQfinish(f.server);
}

static void a_mark_of_one_who_lives_is_alive(void **state) {
    (void)state;
    char mark[PROCESS_MARK_SIZE], other[PROCESS_MARK_SIZE];
    process_mark(mark);
    assert_true(strlen(mark) > 36);
    assert_false(process_mark_has_ended(mark));
    assert_false(process_mark_has_ended(""));
    /* The same number on another machine. */
    snprintf(other, sizeof other, "%s", mark);
    other[0] = other[0] == '0' ? '1' : '0';
    assert_false(process_mark_has_ended(other));
    /* The same number, given to another process. */
    snprintf(other, sizeof other, "%.*s 1", (int)(strrchr(mark, ' ') - mark), mark);
    assert_true(process_mark_has_ended(other));
}

static void note_loss(void *context) {
    _Atomic(int) *told = context;
    atomic_fetch_add(told, 1);
}

static void wait_until_lost(struct ledger_lease *lease, _Atomic(int) *told) {
    while (!ledger_lease_lost(lease) || atomic_load(told) == 0)
        usleep(1000);
}

static void one_whose_lease_was_taken_is_told(void **state) {
    (void)state;
    struct fixture f;
    _Atomic(int) told = 0;
    struct err err = {0};
    struct ledger_lease *lease = NULL;
    begin(&f, "told");
    const struct ledger_lease_wish wish = {
        .path = f.path, .name = "stage", .terms = &quick, .lost = note_loss, .context = &told};
    assert_ok(ledger_lease_take(&wish, &lease, &err));
    assert_ok(ledger_lease_void(f.path, "stage", NULL, &err));
    wait_until_lost(lease, &told);
    assert_false(ledger_lease_holds(lease));
    assert_int_equal(ledger_lease_check(lease, &err), STATUS_UNAVAILABLE);
    assert_int_equal(ledger_lease_count(lease, &err), STATUS_BAD_STATE);
    assert_int_equal(atomic_load(&told), 1);
    struct ledger_lease *other = taken(&f, &still);
    ledger_lease_give_back(&lease);
    assert_true(ledger_lease_holds(other));
    ledger_lease_give_back(&other);
    PQfinish(f.server);
}

/* A launcher that another has taken over from decides nothing any more. */
static void only_who_has_a_lease_makes_others_void(void **state) {
    (void)state;
    struct fixture f;
    struct err err = {0};
    struct ledger_lease *launcher = NULL;
    struct ledger_lease_holder holder;
    begin(&f, "void");
    const struct ledger_lease_wish wish = {.path = f.path, .name = "", .terms = &still};
    assert_ok(ledger_lease_take(&wish, &launcher, &err));
    char text[128];
    snprintf(text, sizeof text, "UPDATE \"%s\".leases SET token = 'of another'", f.schema);
    PQclear(PQexec(f.server, text));
    struct ledger_lease *lease = taken(&f, &still);
    assert_ok(ledger_lease_void(f.path, "stage", launcher, &err));
    assert_ok(ledger_lease_look(f.path, "stage", &holder, &err));
    assert_true(holder.alive);
    ledger_lease_give_back(&launcher);
    snprintf(text, sizeof text, "UPDATE \"%s\".leases SET renewed = '-infinity' WHERE name = ''", f.schema);
    PQclear(PQexec(f.server, text));
    assert_ok(ledger_lease_take(&wish, &launcher, &err));
    assert_ok(ledger_lease_void(f.path, "stage", launcher, &err));
    assert_ok(ledger_lease_look(f.path, "stage", &holder, &err));
    assert_false(holder.alive);
    ledger_lease_give_back(&launcher);
    ledger_lease_give_back(&lease);
    PQfinish(f.server);
}

static void nothing_is_published_without_renewal(void **state) {
    (void)state;
    struct fixture f;
    struct err err = {0};
    begin(&f, "rests");
    struct ledger_lease *lease = taken(&f, &still);
    atomic_store(&moved, 5);
    assert_true(ledger_lease_holds(lease));
    atomic_store(&moved, 7);
    assert_false(ledger_lease_holds(lease));
    assert_int_equal(ledger_lease_check(lease, &err), STATUS_UNAVAILABLE);
    assert_non_null(strstr(err.message, "could not be renewed for 6 s"));
    /* Nobody has taken it meanwhile. */
    assert_false(ledger_lease_lost(lease));
    ledger_lease_give_back(&lease);
    PQfinish(f.server);
}

static enum status send_one(struct ledger *ledger, const char *id, struct err *err) {
    struct item *item = NULL;
    bool is_new = false;
    assert_int_equal(item_create(id, "class", &item, err), STATUS_OK);
    struct ledger_send send = {"stage.0>next", item};
    enum status status = ledger_send_only(ledger, (struct ledger_key){"stage", id}, &send, 1, &is_new, err);
    item_destroy(&item);
    return status;
}

static int64_t sent(struct ledger *ledger) {
    struct ledger_counts counts;
    struct err err = {0};
    assert_ok(ledger_counts(ledger, &counts, &err));
    return counts.outbox;
}

/* By the server's clock, in the transaction itself: whatever the holder believes. */
static void a_late_holder_writes_nothing_into_the_ledger(void **state) {
    (void)state;
    struct fixture f;
    struct err err = {0};
    struct ledger *ledger = NULL;
    begin(&f, "fence");
    struct ledger_lease *lease = taken(&f, &still);
    assert_ok(ledger_open(f.path, "stage", false, &ledger, &err));
    ledger_fence(ledger, lease);
    assert_ok(send_one(ledger, "a", &err));
    run(&f, "renewed = renewed - interval '9 s'");
    assert_true(ledger_lease_holds(lease));
    assert_int_equal(send_one(ledger, "b", &err), STATUS_UNAVAILABLE);
    assert_non_null(strstr(err.message, "the lease is over"));
    /* The server was late, not the holder: it goes on. */
    run(&f, "renewed = clock_timestamp()");
    assert_ok(send_one(ledger, "b", &err));
    run(&f, "token = 'of another'");
    assert_int_equal(send_one(ledger, "c", &err), STATUS_UNAVAILABLE);
    assert_int_equal(sent(ledger), 2);
    ledger_close(&ledger);
    ledger_lease_give_back(&lease);
    PQfinish(f.server);
}

struct taker {
    struct fixture *f;
    struct ledger_lease *lease;
    _Atomic(bool) done;
};

static void *take_aside(void *context) {
    struct taker *taker = context;
    taker->lease = taken(taker->f, &still);
    atomic_store(&taker->done, true);
    return NULL;
}

/* Returns how many sessions of the server wait for a lock. */
static int waiting(PGconn *server) {
    PGresult *result = PQexec(server, "SELECT count(*) FROM pg_locks WHERE NOT granted");
    int count = atoi(PQgetvalue(result, 0, 0));
    PQclear(result);
    return count;
}

/* A transaction that has passed the check is over before another has the lease. */
static void a_taker_waits_for_what_was_begun(void **state) {
    (void)state;
    struct fixture f;
    struct taker taker = {.f = &f};
    pthread_t thread;
    char text[256];
    begin(&f, "begun");
    struct ledger_lease *lease = taken(&f, &still);
    snprintf(text, sizeof text,
             "SET search_path TO \"%s\"; BEGIN; SELECT lease_check(name, token) FROM leases WHERE name = 'stage'",
             f.schema);
    PGconn *other = PQconnectdb(getenv("ICESTREAM_TEST_POSTGRESQL"));
    PQclear(PQexec(other, text));
    run(&f, "renewed = '-infinity'"); /* renewing, and making void, wait for nobody */
    assert_int_equal(pthread_create(&thread, NULL, take_aside, &taker), 0);
    while (waiting(f.server) == 0 && !atomic_load(&taker.done))
        usleep(1000);
    assert_false(atomic_load(&taker.done));
    PQclear(PQexec(other, "COMMIT"));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(ledger_lease_number(taker.lease), 2);
    ledger_lease_give_back(&taker.lease);
    ledger_lease_give_back(&lease);
    PQfinish(other);
    PQfinish(f.server);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lease_is_taken_and_given_back),
        cmocka_unit_test(a_holder_that_renews_is_named),
        cmocka_unit_test(only_the_clock_of_the_server_ends_a_lease),
        cmocka_unit_test(who_waits_gives_up_when_asked),
        cmocka_unit_test(a_holder_that_has_ended_is_not_waited_for),
        cmocka_unit_test(a_mark_of_one_who_lives_is_alive),
        cmocka_unit_test(one_whose_lease_was_taken_is_told),
        cmocka_unit_test(only_who_has_a_lease_makes_others_void),
        cmocka_unit_test(nothing_is_published_without_renewal),
        cmocka_unit_test(a_late_holder_writes_nothing_into_the_ledger),
        cmocka_unit_test(a_taker_waits_for_what_was_begun),
    };
    return scratch_run("ledger_lease", tests, sizeof tests / sizeof *tests);
}
