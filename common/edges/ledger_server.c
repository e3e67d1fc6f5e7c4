/* The connection to PostgreSQL, and its transactions. */
#include "common/edges/ledger_server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"

enum { LEAST_VERSION = 150000, LEAST_PAUSE_MS = 20, MOST_PAUSE_MS = 500, AWAY_PAUSE = 1 };

bool server_is_lost(const struct ledger *ledger) {
    return PQstatus(ledger->server->connection) != CONNECTION_OK;
}

int64_t server_lock(const struct ledger *ledger, const char *stage) {
    uint64_t hash = UINT64_C(14695981039346656037);
    const char *const texts[] = {ledger->server->address.schema, "/", stage};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (const char *at = texts[i]; *at != '\0'; at++)
            hash = (hash ^ (unsigned char)*at) * UINT64_C(1099511628211);
    return (int64_t)hash;
}

/* ---- Connecting ---- */

static void say_nothing(void *context, const char *message) {
    (void)context;
    (void)message;
}

/* Makes one line of what libpq says, which holds no passwords. */
static void one_line(const char *message, char *line, size_t size) {
    snprintf(line, size, "%s", message);
    size_t length = strlen(line);
    while (length > 0 && line[length - 1] == '\n')
        line[--length] = '\0';
    for (char *at = line; (at = strpbrk(at, "\n\t")) != NULL;)
        *at = ' ';
}

static enum status refuse(struct ledger *ledger, const char *message, struct err *err) {
    char line[400];
    one_line(message, line, sizeof line);
    bool of_tls = strstr(line, "SSL") != NULL || strstr(line, "certificate") != NULL;
    FAIL(err, STATUS_UNAVAILABLE, "%s: the server of the ledgers cannot be reached: %s (%s)",
         ledger->server->address.url.text, line,
         of_tls ? "beyond this machine it must prove the name in its address, with a certificate of an authority that "
                  "sslrootcert names, or else ~/.postgresql/root.crt"
                : "does it run there, and does it let this user in? a password comes from ~/.pgpass or a service file");
}

/* Beyond this machine the server must prove its name, and nobody may read along. */
static enum status dial(struct ledger *ledger, struct err *err) {
    struct ledger_server *server = ledger->server;
    bool far = !server->address.url.loopback;
    const char *const keys[] = {"connect_timeout",
                                "dbname",
                                "application_name",
                                "client_encoding",
                                "keepalives_idle",
                                "keepalives_interval",
                                "keepalives_count",
                                "tcp_user_timeout",
                                far ? "gssencmode" : NULL,
                                far ? "sslmode" : NULL,
                                NULL};
    const char *const values[] = {ledger->waits != NULL ? "2" : "5",
                                  server->address.url.text,
                                  server->name,
                                  "UTF8",
                                  "30",
                                  "10",
                                  "3",
                                  "30000",
                                  "disable",
                                  "verify-full",
                                  NULL};
    snprintf(server->name, sizeof server->name, "icestream %d %.8s.%u", (int)getpid(), server->token,
             server->generation + 1);
    PQfinish(server->connection);
    server->connection = PQconnectdbParams(keys, values, 1);
    server->generation++;
    server->queued = 0;
    server->walking = NULL;
    FAIL_IF(server->connection == NULL, err, STATUS_NO_MEMORY, "%s: no memory for a connection", ledger->path);
    if (server_is_lost(ledger)) return refuse(ledger, PQerrorMessage(server->connection), err);
    PQsetNoticeProcessor(server->connection, say_nothing, NULL);
    return STATUS_OK;
}

static enum status execute(struct ledger *ledger, const char *command, struct err *err) {
    PGresult *result = PQexec(ledger->server->connection, command);
    bool well = PQresultStatus(result) == PGRES_COMMAND_OK || PQresultStatus(result) == PGRES_TUPLES_OK;
    PQclear(result);
    if (well) return STATUS_OK;
    return refuse(ledger, PQerrorMessage(ledger->server->connection), err);
}

/* Returns one cell of an answer; "" where there is none. */
static void cell(struct ledger *ledger, const char *command, char *value, size_t size) {
    PGresult *result = PQexec(ledger->server->connection, command);
    bool well = PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1;
    snprintf(value, size, "%s", well ? PQgetvalue(result, 0, 0) : "");
    PQclear(result);
}

/* A name of this machine may lead elsewhere: hostaddr of a service, or the environment. */
static bool is_elsewhere(struct ledger *ledger) {
    const char *address = PQhostaddr(ledger->server->connection), *host = PQhost(ledger->server->connection);
    if (!ledger->server->address.url.loopback || (host != NULL && host[0] == '/')) return false;
    return address != NULL && address[0] != '\0' && strncmp(address, "127.", 4) != 0 && strcmp(address, "::1") != 0;
}

static enum status examine(struct ledger *ledger, struct err *err) {
    char value[64];
    int version = PQserverVersion(ledger->server->connection);
    FAIL_IF(is_elsewhere(ledger), err, STATUS_UNSUPPORTED,
            "%s: its host is this machine, but the connection led to %s: name that host (PGHOSTADDR?)", ledger->path,
            PQhostaddr(ledger->server->connection));
    FAIL_IF(version < LEAST_VERSION, err, STATUS_UNSUPPORTED,
            "%s: the server is PostgreSQL %d, and 15 or later is expected", ledger->path, version / 10000);
    cell(ledger, "SHOW fsync", value, sizeof value);
    FAIL_IF(strcmp(value, "on") != 0, err, STATUS_UNSUPPORTED,
            "%s: the server's setting fsync is %s, so that a power cut may lose what was committed: set fsync = on",
            ledger->path, value);
    cell(ledger, "SHOW server_encoding", value, sizeof value);
    FAIL_IF(strcmp(value, "UTF8") != 0, err, STATUS_UNSUPPORTED,
            "%s: the database has the encoding %s, and UTF8 is expected: createdb --encoding UTF8 --template template0",
            ledger->path, value);
    return STATUS_OK;
}

/* A stage that stands still in a transaction loses its connection, so that its replicas go on. Plans are made while
 * tables are small: without scans of whole tables they stay right. */
static enum status set_up(struct ledger *ledger, struct err *err) {
    char text[768], commits[32];
    int patience = (int)(1000 * ledger->patience);
    cell(ledger, "SHOW synchronous_commit", commits, sizeof commits);
    snprintf(text, sizeof text,
             "SET search_path TO \"%s\"; SET lock_timeout TO %d; SET idle_in_transaction_session_timeout TO %d;"
             " SET statement_timeout TO 0; SET synchronous_commit TO %s; SET enable_seqscan TO off; SET jit TO off;"
             " SET max_parallel_workers_per_gather TO 0;"
             " SET plan_cache_mode TO force_generic_plan; SET default_transaction_isolation TO 'read committed';"
             " SET default_transaction_read_only TO %s; SET standard_conforming_strings TO on;"
             " SET extra_float_digits TO 1",
             ledger->server->address.schema, patience > 0 ? patience : 1, SERVER_IDLE,
             strcmp(commits, "remote_apply") == 0 ? commits : "on", ledger->read_only ? "on" : "off");
    TRY(execute(ledger, text, err));
    FAIL_IF(PQenterPipelineMode(ledger->server->connection) != 1, err, STATUS_UNSUPPORTED,
            "%s: libpq cannot pipeline commands", ledger->path);
    return STATUS_OK;
}

enum status server_connect(struct ledger *ledger, struct err *err) {
    enum status status = dial(ledger, err);
    if (status == STATUS_OK) status = examine(ledger, err);
    if (status == STATUS_OK) status = set_up(ledger, err);
    if (status == STATUS_OK || ledger->server->connection == NULL) return status;
    /* Half a connection is none. */
    PQfinish(ledger->server->connection);
    ledger->server->connection = NULL;
    return status;
}

static void pause_ms(int *milliseconds) {
    const struct timespec time = {*milliseconds / 1000, *milliseconds % 1000 * 1000000L};
    nanosleep(&time, NULL);
    *milliseconds = 2 * *milliseconds < MOST_PAUSE_MS ? 2 * *milliseconds : MOST_PAUSE_MS;
}

enum status server_known(const struct ledger *ledger, struct err *err) {
    FAIL_IF(ledger->server->unknown, err, STATUS_UNAVAILABLE,
            "%s: the connection to the server was lost while it committed; the stage waits to learn whether it has",
            ledger->path);
    return STATUS_OK;
}

/* Threads of a stage that wait for the server take turns: after one has tried, the others do not try at once. */
enum status server_reconnect(struct ledger *ledger, struct err *err) {
    double begin = clock_monotonic(), patience = ledger->waits != NULL ? LEDGER_AWAY : ledger->patience;
    int pause = LEAST_PAUSE_MS;
    FAIL_IF(ledger->waits != NULL && begin < ledger->server->away_until, err, STATUS_UNAVAILABLE, "%s",
            ledger->server->away);
    for (;;) {
        struct err own = {0};
        enum status status = server_connect(ledger, &own);
        ledger->server->failed = STATUS_OK;
        if (status == STATUS_OK) return STATUS_OK;
        if (status != STATUS_UNAVAILABLE || clock_monotonic() - begin > patience) {
            ledger->server->away_until = clock_monotonic() + AWAY_PAUSE;
            snprintf(ledger->server->away, sizeof ledger->server->away, "%s", own.message);
            if (err != NULL) *err = own;
            return status;
        }
        pause_ms(&pause);
    }
}

/* ---- Transactions ---- */

enum status server_ask(struct ledger *ledger, const char *command, const char *parameter, PGresult **ret_result,
                       struct err *err) {
    TRY(server_collect(ledger, NULL, err));
    const char *const values[] = {parameter};
    int sent = PQsendQueryParams(ledger->server->connection, command, parameter != NULL, NULL, values, NULL, NULL, 0);
    ledger->server->counted[0] = NULL;
    ledger->server->queued = sent == 1;
    if (sent != 1) {
        ledger->server->failed = STATUS_UNAVAILABLE;
        snprintf(ledger->server->reason, sizeof ledger->server->reason, "the connection was lost");
    }
    return server_collect(ledger, ret_result, err);
}

static void roll_back(struct ledger *ledger) {
    struct ledger_server *server = ledger->server;
    /* Nobody waits for these numbers any more. */
    memset(server->counted, 0, sizeof server->counted);
    if (!server_is_lost(ledger)) (void)server_collect(ledger, NULL, NULL);
    server->failed = STATUS_OK;
    if (!server_is_lost(ledger)) (void)server_ask(ledger, "ROLLBACK", NULL, NULL, NULL);
    server->failed = STATUS_OK;
    server->inside = false;
}

/* The row of `commits` holds the number of the last transaction of this ledger that was committed. */
static enum status begin_once(struct ledger *ledger, struct err *err) {
    struct ledger_server *server = ledger->server;
    char lock[96], number[256];
    snprintf(lock, sizeof lock, "SELECT pg_advisory_xact_lock(%lld)",
             (long long)server_lock(ledger, server->address.stage));
    snprintf(number, sizeof number,
             "INSERT INTO \"%s.commits\" AS c (token, number) VALUES ('%s', %lld)"
             " ON CONFLICT (token) DO UPDATE SET number = excluded.number",
             server->address.stage, server->token, (long long)++server->number);
    TRY(server_queue(ledger, "BEGIN", err));
    TRY(server_queue(ledger, lock, err));
    if (server->fence[0] != '\0') TRY(server_queue(ledger, server->fence, err));
    return server_queue(ledger, number, err);
}

/* Returns whether the server has ended the connection while nobody used it. */
static bool has_ended(const struct ledger *ledger) {
    char byte;
    if (server_is_lost(ledger)) return true;
    ssize_t length = recv(PQsocket(ledger->server->connection), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return length >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

/* Waits for nothing: the beginning travels with the first command. */
enum status server_begin(struct ledger *ledger, struct err *err) {
    struct ledger_server *server = ledger->server;
    if (server->inside) FAIL(err, STATUS_BAD_STATE, "%s: a transaction within another", ledger->path);
    FAIL_IF(server->walking != NULL, err, STATUS_BAD_STATE, "%s: it is used while its rows are visited", ledger->path);
    TRY(server_known(ledger, err));
    server->failed = STATUS_OK;
    if (has_ended(ledger)) TRY(server_reconnect(ledger, err));
    enum status status = begin_once(ledger, err);
    if (status == STATUS_UNAVAILABLE && server_is_lost(ledger)) {
        TRY(server_reconnect(ledger, err));
        status = begin_once(ledger, err);
    }
    server->inside = status == STATUS_OK;
    if (status != STATUS_OK) roll_back(ledger);
    return status;
}

/* Ends the connection that was lost on this side alone, with what it had begun, and asks whether it had committed. */
static enum status ask_committed(struct ledger *ledger, const char *before, bool *ret_committed, struct err *err) {
    struct ledger_server *server = ledger->server;
    char text[192];
    PGresult *result = NULL;
    TRY(server_ask(ledger, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1", before,
                   NULL, err));
    snprintf(text, sizeof text, "SELECT pg_advisory_xact_lock(%lld)",
             (long long)server_lock(ledger, server->address.stage));
    TRY(server_ask(ledger, "BEGIN", NULL, NULL, err));
    TRY(server_ask(ledger, text, NULL, NULL, err));
    snprintf(text, sizeof text, "SELECT number FROM \"%s.commits\" WHERE token = $1", server->address.stage);
    TRY(server_ask(ledger, text, server->token, &result, err));
    *ret_committed = PQntuples(result) == 1 && strtoll(PQgetvalue(result, 0, 0), NULL, 10) == server->number;
    PQclear(result);
    return server_ask(ledger, "COMMIT", NULL, NULL, err);
}

/* Waits a little, without the ledger, and says so to the stage. Returns whether to wait on. */
static bool wait_without(struct ledger *ledger, int *pause) {
    struct ledger_server *server = ledger->server;
    ledger_waits *waits = ledger->waits;
    void *context = ledger->waits_context;
    if (waits == NULL) {
        pause_ms(pause);
        return true;
    }
    server->unknown = true;
    int depth = ledger_leave(ledger);
    pause_ms(pause);
    bool on = waits(context);
    ledger_come_back(ledger, depth);
    server->unknown = false;
    return on;
}

/* The answer to a COMMIT was lost. Nothing may be repeated before it is known what became of it; a stage waits for that
 * as long as the server is away. */
static enum status resolve(struct ledger *ledger, struct err *err) {
    struct ledger_server *server = ledger->server;
    char before[NAME_SIZE];
    double begin = clock_monotonic();
    int pause = LEAST_PAUSE_MS;
    snprintf(before, sizeof before, "%s", server->name);
    for (;;) {
        bool committed = false;
        struct err own = {0};
        enum status status = server_connect(ledger, &own);
        server->failed = STATUS_OK;
        if (status == STATUS_OK) status = ask_committed(ledger, before, &committed, &own);
        server->failed = STATUS_OK;
        if (status == STATUS_OK && committed) {
            if (err != NULL) *err = (struct err){0};
            return STATUS_OK;
        }
        FAIL_IF(status == STATUS_OK, err, STATUS_UNAVAILABLE,
                "%s: the connection to the server was lost, and nothing was written", ledger->path);
        if (status != STATUS_UNAVAILABLE) {
            if (err != NULL) *err = own;
            return status;
        }
        bool late = ledger->waits == NULL && clock_monotonic() - begin > ledger->patience;
        FAIL_IF(late || !wait_without(ledger, &pause), err, STATUS_UNAVAILABLE,
                "%s: the connection to the server was lost while it committed, and it is not known whether it has: "
                "look when it is back",
                ledger->path);
    }
}

static enum status commit(struct ledger *ledger, struct err *err) {
    struct ledger_server *server = ledger->server;
    PGresult *result = NULL;
    enum status status = server_queue(ledger, "COMMIT", err);
    if (status == STATUS_OK) status = server_collect(ledger, &result, err);
    bool well = status == STATUS_OK && strcmp(PQcmdStatus(result), "COMMIT") == 0;
    PQclear(result);
    if (well) {
        server->inside = false;
        return STATUS_OK;
    }
    if (server_is_lost(ledger)) {
        server->inside = false;
        server->failed = STATUS_OK;
        return resolve(ledger, err);
    }
    FAIL_IF(status == STATUS_OK, err, STATUS_UNAVAILABLE, "%s: the server did not commit", ledger->path);
    return status;
}

enum status server_end(struct ledger *ledger, enum status status, struct err *err) {
    if (status == STATUS_OK) status = commit(ledger, err);
    if (status != STATUS_OK && ledger->server->inside) roll_back(ledger);
    return status;
}

static int64_t changes(struct ledger *ledger) {
    (void)server_collect(ledger, NULL, NULL);
    return ledger->server->failed == STATUS_OK ? ledger->server->changes : 0;
}

static int64_t total_changes(struct ledger *ledger) {
    (void)server_collect(ledger, NULL, NULL);
    return ledger->server->total;
}

static int64_t last_number(struct ledger *ledger) {
    PGresult *result = NULL;
    int64_t number = 0, rows = changes(ledger);
    if (server_ask(ledger, "SELECT lastval()", NULL, &result, NULL) == STATUS_OK && PQntuples(result) == 1)
        number = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    ledger->server->changes = rows;
    return number;
}

static enum status settle_numbers(struct ledger *ledger, struct err *err) {
    static const char *const columns[][2] = {{"items", "number"}, {"outbox", "seq"}, {"files", "number"}};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        const char *stage = ledger->server->address.stage, *table = columns[i][0], *column = columns[i][1];
        char text[512];
        snprintf(text, sizeof text,
                 "SELECT setval(pg_get_serial_sequence('\"%s.%s\"', '%s'), (SELECT COALESCE(MAX(%s), 0) + 1 FROM"
                 " \"%s.%s\"), false)",
                 stage, table, column, column, stage, table);
        TRY(server_ask(ledger, text, NULL, NULL, err));
    }
    return STATUS_OK;
}

/* Each commit waits for the disk: a server that fails does not take its clients with it, and they rely on what they
 * were told. */
static enum status set_durable(struct ledger *ledger, bool durable, struct err *err) {
    (void)err;
    ledger->durable = durable;
    return STATUS_OK;
}

static enum status look(struct ledger *ledger, bool begins, struct err *err) {
    struct ledger_server *server = ledger->server;
    if (begins) {
        TRY(server_known(ledger, err));
        if (server_is_lost(ledger)) TRY(server_reconnect(ledger, err));
        TRY(server_ask(ledger, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", NULL, NULL, err));
        server->inside = true;
        return STATUS_OK;
    }
    roll_back(ledger);
    return STATUS_OK;
}

/* ---- Another ledger ---- */

static enum status attach(struct ledger *ledger, const char *path, struct err *err) {
    struct ledger_server *server = ledger->server;
    struct ledger_address other;
    FAIL_IF(!ledger_is_address(path), err, STATUS_UNSUPPORTED,
            "%s is a file, and %s is in PostgreSQL: they cannot be compared", path, ledger->path);
    TRY(ledger_address_read(path, &other, err));
    FAIL_IF(strcmp(other.url.text, server->address.url.text) != 0 || strcmp(other.schema, server->address.schema) != 0,
            err, STATUS_BAD_ARGUMENT, "%s and %s are ledgers of different sessions", path, ledger->path);
    snprintf(server->other, sizeof server->other, "%s", other.stage);
    return STATUS_OK;
}

static void detach(struct ledger *ledger) {
    ledger->server->other[0] = '\0';
}

/* ---- Opening ---- */

static void close_connection(struct ledger *ledger) {
    PQfinish(ledger->server->connection);
    free(ledger->server);
    ledger->server = NULL;
}

const struct sql_driver ledger_server_driver = {.prepare = server_prepare,
                                                .finalize = server_finalize,
                                                .reset = server_reset,
                                                .clear = server_clear,
                                                .bind_text = server_bind_text,
                                                .bind_int = server_bind_int,
                                                .bind_double = server_bind_double,
                                                .bind_now = server_bind_now,
                                                .step = server_step,
                                                .run = server_run,
                                                .run_counted = server_run_counted,
                                                .settle = server_settle,
                                                .column_text = server_column_text,
                                                .column_int = server_column_int,
                                                .column_double = server_column_double,
                                                .column_is_null = server_column_is_null,
                                                .changes = changes,
                                                .total_changes = total_changes,
                                                .last_number = last_number,
                                                .settle_numbers = settle_numbers,
                                                .set_durable = set_durable,
                                                .begin = server_begin,
                                                .end = server_end,
                                                .look = look,
                                                .attach = attach,
                                                .detach = detach,
                                                .close = close_connection};

enum status server_make(struct ledger *ledger, struct err *err) {
    unsigned char bytes[16];
    struct ledger_address address;
    TRY(ledger_address_read(ledger->path, &address, err));
    FAIL_IF(getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes, err, STATUS_IO, "there are no random numbers");
    ledger->server = calloc(1, sizeof *ledger->server);
    FAIL_IF(ledger->server == NULL, err, STATUS_NO_MEMORY, "no memory for a ledger");
    ledger->driver = &ledger_server_driver;
    ledger->server->address = address;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(ledger->server->token + 2 * i, 3, "%02x", bytes[i]);
    return server_connect(ledger, err);
}

enum status ledger_server_open(struct ledger *ledger, struct err *err) {
    TRY(server_make(ledger, err));
    return server_tables(ledger, err);
}

bool ledger_server_built(void) {
    return true;
}
