#include "common/edges/ledger_lease.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/edges/ledger_server.h"
#include "common/memory.h"
#include "common/process_mark.h"

const struct ledger_lease_terms ledger_lease_usual = {8, 6, 2};

enum { RENEWED_SIZE = 64, HOST_SIZE = sizeof((struct ledger_lease_holder *)NULL)->host };
static const double retry_pause = 0.1, failure_pause = 0.25;

struct ledger_lease {
    struct ledger server; /* a connection of its own; its thread's, once that runs */
    struct ledger_lease_terms terms;
    char name[LEDGER_STAGE_MAX + 1], token[TOKEN_SIZE];
    int64_t number, before;
    double (*clock)(void);
    void (*told)(void *context);
    void *context;
    pthread_t thread;
    bool running;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* `ending`; with the monotonic clock */
    double renewed;         /* by `clock`: a moment before the server last renewed it */
    bool lost, ending;
};

/* ---- The table ---- */

static const char *const tables[] = {
    "CREATE TABLE IF NOT EXISTS leases (name text PRIMARY KEY, number bigint NOT NULL, counts bigint NOT NULL,"
    " token text NOT NULL, host text NOT NULL, pid bigint NOT NULL, process text NOT NULL, run bigint NOT NULL,"
    " seconds float8 NOT NULL, renewed timestamptz NOT NULL) WITH (fillfactor = 50)",
    /* The taker of a lease locks its row FOR UPDATE, and so waits for transactions that have passed this check.
     * Renewing waits for nobody. */
    "CREATE OR REPLACE FUNCTION lease_check(wanted text, own text) RETURNS void LANGUAGE plpgsql AS $$"
    " BEGIN PERFORM 1 FROM leases WHERE name = wanted AND token = own"
    "  AND renewed + make_interval(secs => seconds) > clock_timestamp() FOR KEY SHARE;"
    " IF NOT FOUND THEN RAISE EXCEPTION 'the lease is over, or another has taken it' USING ERRCODE = '55000';"
    " END IF; END $$",
};

static void roll_back(struct ledger *server) {
    server->server->failed = STATUS_OK;
    if (!server_is_lost(server)) (void)server_ask(server, "ROLLBACK", NULL, NULL, NULL);
    server->server->failed = STATUS_OK;
}

static enum status make_tables(struct ledger *server, struct err *err) {
    char lock[96];
    snprintf(lock, sizeof lock, "SELECT pg_advisory_xact_lock(%lld)", (long long)server_lock(server, ""));
    TRY(server_ask(server, "BEGIN", NULL, NULL, err));
    TRY(server_ask(server, lock, NULL, NULL, err));
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        TRY(server_ask(server, tables[i], NULL, NULL, err));
    return server_ask(server, "COMMIT", NULL, NULL, err);
}

static enum status have_tables(struct ledger *server, bool *ret_there, struct err *err) {
    char name[LEDGER_SCHEMA_SIZE + 16];
    PGresult *result = NULL;
    snprintf(name, sizeof name, "\"%s\".leases", server->server->address.schema);
    TRY(server_ask(server, "SELECT to_regclass($1) IS NOT NULL", name, &result, err));
    *ret_there = PQntuples(result) == 1 && PQgetvalue(result, 0, 0)[0] == 't';
    PQclear(result);
    return STATUS_OK;
}

struct row {
    bool there, alive;
    struct ledger_lease_holder holder;
    char token[TOKEN_SIZE], process[PROCESS_MARK_SIZE], renewed[RENEWED_SIZE];
};

static void copy_text(const PGresult *result, int column, char *text, size_t size) {
    snprintf(text, size, "%s", PQgetvalue(result, 0, column));
}

static void read_columns(const PGresult *result, struct row *row) {
    *row = (struct row){.there = true};
    row->holder.number = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    row->holder.counts = strtoll(PQgetvalue(result, 0, 1), NULL, 10);
    copy_text(result, 2, row->token, sizeof row->token);
    copy_text(result, 3, row->holder.host, sizeof row->holder.host);
    row->holder.pid = strtoll(PQgetvalue(result, 0, 4), NULL, 10);
    copy_text(result, 5, row->process, sizeof row->process);
    row->holder.run = (int)strtol(PQgetvalue(result, 0, 6), NULL, 10);
    copy_text(result, 7, row->renewed, sizeof row->renewed);
    row->holder.age = strtod(PQgetvalue(result, 0, 8), NULL);
    row->alive = row->holder.alive = PQgetvalue(result, 0, 9)[0] == 't';
}

static enum status read_row(struct ledger *server, const char *name, bool lock, struct row *ret_row, struct err *err) {
    char text[512];
    PGresult *result = NULL;
    *ret_row = (struct row){0};
    snprintf(text, sizeof text,
             "SELECT number, counts, token, host, pid, process, run, renewed,"
             " CASE WHEN isfinite(renewed) THEN extract(epoch FROM clock_timestamp() - renewed) ELSE 0 END,"
             " renewed + make_interval(secs => seconds) > clock_timestamp() FROM leases WHERE name = $1%s",
             lock ? " FOR UPDATE" : "");
    TRY(server_ask(server, text, name, &result, err));
    if (PQntuples(result) == 1) read_columns(result, ret_row);
    PQclear(result);
    return STATUS_OK;
}

/* ---- Taking ---- */

/* Host names hold letters, digits, '-' and '.'; anything else would need quotes in SQL. */
static void own_host(char host[HOST_SIZE]) {
    if (gethostname(host, HOST_SIZE) != 0) host[0] = '\0';
    host[HOST_SIZE - 1] = '\0';
    for (char *at = host; *at != '\0'; at++) {
        bool plain =
            (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9') || *at == '.';
        if (!plain) *at = '-';
    }
}

static int64_t next_number(const struct ledger_lease_wish *wish, const struct row *row) {
    return (row->holder.number > wish->above ? row->holder.number : wish->above) + 1;
}

static enum status write_row(struct ledger_lease *lease, const struct ledger_lease_wish *wish, const struct row *row,
                             struct err *err) {
    char text[1024], host[HOST_SIZE], process[PROCESS_MARK_SIZE];
    own_host(host);
    process_mark(process);
    snprintf(text, sizeof text,
             "INSERT INTO leases (name, number, counts, token, host, pid, process, run, seconds, renewed) VALUES ($1,"
             " %lld, %lld, '%s', '%s', %ld, '%s', %d, %.17g, clock_timestamp()) ON CONFLICT (name) DO UPDATE SET number"
             " = excluded.number, token = excluded.token, host = excluded.host, pid = excluded.pid, process ="
             " excluded.process, run = excluded.run, seconds = excluded.seconds, renewed = excluded.renewed",
             (long long)next_number(wish, row), (long long)row->holder.counts, lease->token, host, (long)getpid(),
             process, wish->run, lease->terms.length);
    return server_ask(&lease->server, text, wish->name, NULL, err);
}

static void became_holder(struct ledger_lease *lease, int64_t number, int64_t before, double since) {
    lease->number = number;
    lease->before = before;
    lease->renewed = since;
}

/* One try in one transaction. *ret_row: who had it before. The answer to a COMMIT may get lost: the next try then finds
 * this lease's own token. */
static enum status try_take(struct ledger_lease *lease, const struct ledger_lease_wish *wish, struct row *ret_row,
                            bool *ret_taken, struct err *err) {
    struct ledger *server = &lease->server;
    double since = lease->clock();
    *ret_taken = false;
    /* Locks nothing as long as another holds it. */
    TRY(read_row(server, wish->name, false, ret_row, err));
    if (ret_row->there && strcmp(ret_row->token, lease->token) == 0) {
        became_holder(lease, ret_row->holder.number, ret_row->holder.counts, since - ret_row->holder.age);
        *ret_taken = true;
        return STATUS_OK;
    }
    if (ret_row->alive && !process_mark_has_ended(ret_row->process)) return STATUS_OK;
    char lock[96];
    /* So that of two who make the row, one waits. */
    snprintf(lock, sizeof lock, "SELECT pg_advisory_xact_lock(%lld)", (long long)server_lock(server, ""));
    TRY(server_ask(server, "BEGIN", NULL, NULL, err));
    TRY(server_ask(server, "SET LOCAL lock_timeout TO 1000", NULL, NULL, err));
    TRY(server_ask(server, lock, NULL, NULL, err));
    TRY(read_row(server, wish->name, true, ret_row, err));
    if (ret_row->alive && !process_mark_has_ended(ret_row->process))
        return server_ask(server, "ROLLBACK", NULL, NULL, err);
    since = lease->clock();
    TRY(write_row(lease, wish, ret_row, err));
    TRY(server_ask(server, "COMMIT", NULL, NULL, err));
    became_holder(lease, next_number(wish, ret_row), ret_row->holder.counts, since);
    *ret_taken = true;
    return STATUS_OK;
}

static enum status refuse(const struct ledger_lease *lease, const struct row *row, struct err *err) {
    const char *host = row->holder.host;
    long long pid = (long long)row->holder.pid;
    if (lease->name[0] == '\0')
        FAIL(err, STATUS_BAD_STATE,
             "another icestream is running this session: process %lld on the host %s; wait for it, or end it with "
             "Ctrl-C",
             pid, host);
    FAIL(err, STATUS_BAD_STATE, "the stage %s is at work already: process %lld on the host %s", lease->name, pid, host);
}

/* A lease that was renewed since this one began to wait has a holder who lives. */
static enum status take(struct ledger_lease *lease, const struct ledger_lease_wish *wish, struct err *err) {
    double begin = clock_monotonic();
    struct row first = {0}, row = {0};
    for (bool taken = false;;) {
        struct err own = {0};
        enum status status = server_is_lost(&lease->server) ? server_connect(&lease->server, &own) : STATUS_OK;
        if (status == STATUS_OK) status = try_take(lease, wish, &row, &taken, &own);
        if (status != STATUS_OK) roll_back(&lease->server);
        if (status == STATUS_OK && taken) return STATUS_OK;
        double waited = clock_monotonic() - begin;
        if (status == STATUS_OK) {
            if (first.renewed[0] == '\0') first = row;
            if (strcmp(first.renewed, row.renewed) != 0 && waited >= wish->patience) return refuse(lease, &row, err);
        } else if (status != STATUS_UNAVAILABLE || waited > wish->patience + lease->terms.length)
            FAIL(err, status, "%s", own.message);
        FAIL_IF(wish->waits != NULL && !wish->waits(wish->context), err, STATUS_CANCELLED, "asked to stop");
        clock_pause(retry_pause);
    }
}

/* ---- Renewing ---- */

static void forget_connection(struct ledger *server) {
    PQfinish(server->server->connection);
    server->server->connection = NULL;
}

/* Sends a command and waits for its result, until `deadline` (clock_monotonic) at most. Returns NULL, without a
 * connection, when none has come. */
static PGresult *ask_until(struct ledger *server, const char *command, double deadline) {
    PGconn *connection = server->server->connection;
    bool well = PQsendQuery(connection, command) == 1;
    while (well && PQisBusy(connection)) {
        struct pollfd wait = {PQsocket(connection), POLLIN, 0};
        int left = (int)(1000 * (deadline - clock_monotonic()));
        well = left > 0 && poll(&wait, 1, left) >= 0 && PQconsumeInput(connection) == 1;
    }
    PGresult *result = well ? PQgetResult(connection) : NULL;
    for (PGresult *more; result != NULL && (more = PQgetResult(connection)) != NULL;)
        PQclear(more);
    if (result == NULL) forget_connection(server);
    return result;
}

static bool connect_anew(struct ledger *server) {
    if (!server_is_lost(server)) return true;
    return server_connect(server, NULL) == STATUS_OK && PQexitPipelineMode(server->server->connection) == 1;
}

/* Returns whether the server has answered. */
static bool renew(struct ledger_lease *lease) {
    char text[256];
    double since = lease->clock(), limit = lease->terms.rest - lease->terms.pause;
    if (!connect_anew(&lease->server)) return false;
    snprintf(text, sizeof text,
             "UPDATE leases SET renewed = clock_timestamp() WHERE name = '%s' AND token = '%s' AND isfinite(renewed)",
             lease->name, lease->token);
    PGresult *result = ask_until(&lease->server, text, clock_monotonic() + limit);
    bool answered = PQresultStatus(result) == PGRES_COMMAND_OK,
         ours = answered && strcmp(PQcmdTuples(result), "1") == 0;
    PQclear(result);
    pthread_mutex_lock(&lease->lock);
    if (ours) lease->renewed = since;
    if (answered && !ours) lease->lost = true;
    pthread_mutex_unlock(&lease->lock);
    return answered;
}

/* Waits so many seconds, or until the lease is given back; returns whether it is. */
static bool wait_for_end(struct ledger_lease *lease, double seconds) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)seconds;
    until.tv_nsec += (long)(1e9 * (seconds - (double)(time_t)seconds));
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&lease->lock);
    while (!lease->ending && pthread_cond_timedwait(&lease->changed, &lease->lock, &until) == 0)
        ;
    bool ending = lease->ending;
    pthread_mutex_unlock(&lease->lock);
    return ending;
}

static void *keep(void *context) {
    struct ledger_lease *lease = context;
    for (bool answered = true; !wait_for_end(lease, answered ? lease->terms.pause : failure_pause);) {
        answered = renew(lease);
        if (!ledger_lease_lost(lease)) continue;
        if (lease->told != NULL) lease->told(lease->context);
        break;
    }
    return NULL;
}

/* Signals are for the threads that expect them. */
static int start_thread(struct ledger_lease *lease) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int reason = pthread_create(&lease->thread, NULL, keep, lease);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return reason;
}

static enum status begin(struct ledger_lease *lease, const struct ledger_lease_wish *wish, struct err *err) {
    bool there = false;
    TRY(server_dial(wish->path, false, &lease->server, err));
    memcpy(lease->token, lease->server.server->token, sizeof lease->token);
    TRY(have_tables(&lease->server, &there, err));
    enum status status = there ? STATUS_OK : make_tables(&lease->server, err);
    if (status != STATUS_OK) roll_back(&lease->server);
    TRY(status);
    TRY(take(lease, wish, err));
    if (PQexitPipelineMode(lease->server.server->connection) != 1) forget_connection(&lease->server);
    int reason = start_thread(lease);
    FAIL_IF(reason != 0, err, STATUS_UNAVAILABLE, "no thread for a lease: %s", strerror(reason));
    lease->running = true;
    return STATUS_OK;
}

enum status ledger_lease_take(const struct ledger_lease_wish *wish, struct ledger_lease **ret_lease, struct err *err) {
    struct ledger_lease *lease = calloc(1, sizeof *lease);
    pthread_condattr_t attributes;
    FAIL_IF(lease == NULL, err, STATUS_NO_MEMORY, "no memory for a lease");
    lease->terms = wish->terms != NULL ? *wish->terms : ledger_lease_usual;
    lease->clock = wish->clock != NULL ? wish->clock : clock_monotonic;
    lease->told = wish->lost;
    lease->context = wish->context;
    snprintf(lease->name, sizeof lease->name, "%s", wish->name);
    pthread_mutex_init(&lease->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&lease->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    enum status status = begin(lease, wish, err);
    if (status == STATUS_OK)
        *ret_lease = lease;
    else
        ledger_lease_give_back(&lease);
    return status;
}

/* ---- Its holder ---- */

bool ledger_lease_holds(struct ledger_lease *lease) {
    pthread_mutex_lock(&lease->lock);
    bool holds = !lease->lost && lease->clock() - lease->renewed < lease->terms.rest;
    pthread_mutex_unlock(&lease->lock);
    return holds;
}

bool ledger_lease_lost(struct ledger_lease *lease) {
    pthread_mutex_lock(&lease->lock);
    bool lost = lease->lost;
    pthread_mutex_unlock(&lease->lock);
    return lost;
}

enum status ledger_lease_check(struct ledger_lease *lease, struct err *err) {
    FAIL_IF(!ledger_lease_holds(lease), err, STATUS_UNAVAILABLE,
            "%s: the lease of %s could not be renewed for %g s, so that nothing is published: is the server away?",
            lease->server.path, lease->name[0] != '\0' ? lease->name : "the session", lease->terms.rest);
    return STATUS_OK;
}

int64_t ledger_lease_number(const struct ledger_lease *lease) {
    return lease->number;
}

int64_t ledger_lease_before(const struct ledger_lease *lease) {
    return lease->before;
}

/* The connection of the lease is its thread's: this one uses another. */
enum status ledger_lease_count(struct ledger_lease *lease, struct err *err) {
    struct ledger server;
    char text[256];
    PGresult *result = NULL;
    snprintf(text, sizeof text,
             "UPDATE leases SET counts = number WHERE name = $1 AND token = '%s' AND"
             " renewed + make_interval(secs => seconds) > clock_timestamp() RETURNING 1",
             lease->token);
    enum status status = server_dial(lease->server.path, false, &server, err);
    if (status == STATUS_OK) status = server_ask(&server, text, lease->name, &result, err);
    if (status == STATUS_OK && PQntuples(result) != 1)
        status = err_set(err, STATUS_BAD_STATE, __FILE__, __LINE__,
                         "%s: the lease of %s is over, or another has taken it", lease->server.path, lease->name);
    PQclear(result);
    server_hang_up(&server);
    return status;
}

enum status ledger_lease_counts(struct ledger_lease *lease, int64_t *ret_number, struct err *err) {
    struct ledger_lease_holder holder = {0};
    TRY(ledger_lease_look(lease->server.path, lease->name, &holder, err));
    *ret_number = holder.counts;
    return STATUS_OK;
}

static void let_go(struct ledger_lease *lease) {
    char text[192];
    if (lease->lost || !connect_anew(&lease->server)) return;
    snprintf(text, sizeof text, "UPDATE leases SET renewed = '-infinity' WHERE name = '%s' AND token = '%s'",
             lease->name, lease->token);
    PQclear(ask_until(&lease->server, text, clock_monotonic() + lease->terms.rest));
}

void ledger_lease_give_back(struct ledger_lease **lease_pointer) {
    struct ledger_lease *lease = *lease_pointer;
    if (lease == NULL) return;
    pthread_mutex_lock(&lease->lock);
    lease->ending = true;
    pthread_cond_signal(&lease->changed);
    pthread_mutex_unlock(&lease->lock);
    if (lease->running) {
        pthread_join(lease->thread, NULL);
        let_go(lease);
    }
    server_hang_up(&lease->server);
    pthread_cond_destroy(&lease->changed);
    pthread_mutex_destroy(&lease->lock);
    mem_free(lease_pointer);
}

/* ---- Others ---- */

void ledger_fence(struct ledger *ledger, const struct ledger_lease *lease) {
    if (ledger->server == NULL) return;
    ledger_hold(ledger);
    snprintf(ledger->server->fence, sizeof ledger->server->fence, "SELECT lease_check('%s', '%s')", lease->name,
             lease->token);
    ledger_let_go(ledger);
}

enum status ledger_lease_look(const char *path, const char *name, struct ledger_lease_holder *ret_holder,
                              struct err *err) {
    struct ledger server;
    struct row row = {0};
    bool there = false;
    enum status status = server_dial(path, true, &server, err);
    if (status == STATUS_OK) status = have_tables(&server, &there, err);
    if (status == STATUS_OK && there) status = read_row(&server, name, false, &row, err);
    server_hang_up(&server);
    if (status != STATUS_OK) return status;
    row.holder.alive = row.holder.alive && !process_mark_has_ended(row.process);
    *ret_holder = row.holder;
    return STATUS_OK;
}

enum status ledger_lease_void(const char *path, const char *name, const struct ledger_lease *by, struct err *err) {
    struct ledger server;
    char text[512];
    bool there = false;
    int used = snprintf(text, sizeof text, "UPDATE leases SET renewed = '-infinity' WHERE name = $1");
    if (by != NULL)
        snprintf(text + used, sizeof text - (size_t)used,
                 " AND EXISTS (SELECT 1 FROM leases AS l WHERE l.name = '%s' AND l.token = '%s'"
                 " AND l.renewed + make_interval(secs => l.seconds) > clock_timestamp())",
                 by->name, by->token);
    enum status status = server_dial(path, false, &server, err);
    if (status == STATUS_OK) status = have_tables(&server, &there, err);
    if (status == STATUS_OK && there) status = server_ask(&server, text, name, NULL, err);
    server_hang_up(&server);
    return status;
}
