/* Statements in PostgreSQL. A statement that returns no rows is queued: its result is waited for with that of the next
 * one that has rows, or with the COMMIT, so that a transaction costs few round trips. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/edges/ledger_server.h"

/* Types of PostgreSQL's catalogue. */
enum { TYPE_INT8 = 20, TYPE_TEXT = 25, TYPE_FLOAT8 = 701 };

struct value {
    Oid type;
    const char *text; /* NULL: SQL's NULL */
    char number[32];
    char *mended; /* a text that was not UTF-8 */
};

struct server_statement {
    struct sql_statement base;
    struct ledger *ledger;
    char *text;
    bool kept, running;
    unsigned number, generation; /* its name, and the connection that knows it */
    unsigned now;                /* parameters that are the clock */
    int count;
    struct value values[SERVER_PARAMETERS];
    PGresult *result;
    int row;
};

static struct server_statement *own(struct sql_statement *statement) {
    return (struct server_statement *)statement;
}

/* ---- Results ---- */

static bool begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

/* Returns STATUS_UNAVAILABLE for errors that pass by themselves: the server goes down, is full, or has ended an idle
 * transaction, or another session holds a lock for long. state: the SQLSTATE; NULL: the connection failed. */
static enum status status_of_state(const char *state) {
    static const char *const passing[] = {"08", "40", "53", "55", "57", "58", "25006", "25P03"};
    if (state == NULL) return STATUS_UNAVAILABLE; /* libpq's own: the connection */
    for (size_t i = 0; i < sizeof passing / sizeof *passing; i++)
        if (begins(state, passing[i])) return STATUS_UNAVAILABLE;
    return strcmp(state, "42P01") == 0 || strcmp(state, "3F000") == 0 ? STATUS_NOT_FOUND : STATUS_IO;
}

static void note(struct ledger_server *server, const PGresult *result) {
    if (server->failed != STATUS_OK) return;
    const char *message = result != NULL ? PQresultErrorMessage(result) : PQerrorMessage(server->connection);
    bool lost = PQstatus(server->connection) != CONNECTION_OK;
    server->failed =
        lost || result == NULL ? STATUS_UNAVAILABLE : status_of_state(PQresultErrorField(result, PG_DIAG_SQLSTATE));
    snprintf(server->reason, sizeof server->reason, "%s", message[0] != '\0' ? message : "the connection was lost");
    size_t length = strlen(server->reason);
    while (length > 0 && server->reason[length - 1] == '\n')
        server->reason[--length] = '\0';
    for (char *line = server->reason; (line = strchr(line, '\n')) != NULL;)
        *line = ' ';
}

enum status server_failure(struct ledger *ledger, struct err *err) {
    if (ledger->server->failed == STATUS_OK) return STATUS_OK;
    FAIL(err, ledger->server->failed, "%s: the ledger cannot be used: %s", ledger->path, ledger->server->reason);
}

static bool is_well(const PGresult *result) {
    ExecStatusType status = PQresultStatus(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_SINGLE_TUPLE ||
           status == PGRES_PIPELINE_SYNC;
}

/* Takes what is left of the results of one command. */
static void drain(struct ledger_server *server) {
    for (PGresult *result; (result = PQgetResult(server->connection)) != NULL;) {
        if (!is_well(result) && PQresultStatus(result) != PGRES_PIPELINE_ABORTED) note(server, result);
        PQclear(result);
        if (PQstatus(server->connection) != CONNECTION_OK) return;
    }
}

/* Takes the result that ends the queue. */
static void take_sync(struct ledger_server *server) {
    PGresult *result = PQgetResult(server->connection);
    if (result == NULL || PQresultStatus(result) != PGRES_PIPELINE_SYNC) note(server, result);
    PQclear(result);
    server->queued = 0;
}

static enum status take_result(struct ledger_server *server, PGresult **ret_last, int64_t *ret_changes) {
    PGresult *result = PQgetResult(server->connection);
    if (result == NULL || !is_well(result)) {
        note(server, result);
        PQclear(result);
    } else {
        const char *rows = PQcmdTuples(result);
        if (*rows != '\0') server->changes = strtoll(rows, NULL, 10);
        if (ret_changes != NULL) *ret_changes = *rows != '\0' ? server->changes : 0;
        if (PQresultStatus(result) == PGRES_COMMAND_OK && *rows != '\0') server->total += server->changes;
        if (ret_last != NULL)
            *ret_last = result;
        else
            PQclear(result);
    }
    if (PQstatus(server->connection) == CONNECTION_OK) drain(server);
    return PQstatus(server->connection) == CONNECTION_OK ? STATUS_OK : STATUS_UNAVAILABLE;
}

enum status server_collect(struct ledger *ledger, PGresult **ret_last, struct err *err) {
    struct ledger_server *server = ledger->server;
    if (ret_last != NULL) *ret_last = NULL;
    if (server->queued == 0) return server_failure(ledger, err);
    bool well = PQpipelineSync(server->connection) == 1;
    for (size_t i = 0; well && i < server->queued; i++)
        well = take_result(server, i + 1 == server->queued ? ret_last : NULL, server->counted[i]) == STATUS_OK;
    if (well)
        take_sync(server);
    else
        note(server, NULL);
    server->queued = 0;
    if (server->failed != STATUS_OK && ret_last != NULL) {
        PQclear(*ret_last);
        *ret_last = NULL;
    }
    return server_failure(ledger, err);
}

/* ---- Sending ---- */

static enum status queued(struct ledger *ledger, int sent, struct err *err) {
    struct ledger_server *server = ledger->server;
    if (sent != 1) {
        note(server, NULL);
        return server_failure(ledger, err);
    }
    server->counted[server->queued++] = NULL;
    return STATUS_OK;
}

/* Makes room for one more command: its own result must not be taken with those before it. */
static enum status make_room(struct ledger *ledger, struct err *err) {
    return ledger->server->queued < SERVER_QUEUE ? server_failure(ledger, err) : server_collect(ledger, NULL, err);
}

enum status server_queue(struct ledger *ledger, const char *command, struct err *err) {
    TRY(make_room(ledger, err));
    return queued(ledger, PQsendQueryParams(ledger->server->connection, command, 0, NULL, NULL, NULL, NULL, 0), err);
}

/* PostgreSQL refuses a text that is not UTF-8, such as a message with the name of a file. The text loses what is not
 * ASCII. */
static enum status mend(struct value *value, struct err *err) {
    if (value->type != TYPE_TEXT || value->text == NULL || item_text_fits(value->text)) return STATUS_OK;
    free(value->mended);
    value->mended = strdup(value->text);
    FAIL_IF(value->mended == NULL, err, STATUS_NO_MEMORY, "no memory for a text of the ledger");
    for (char *at = value->mended; *at != '\0'; at++)
        if ((unsigned char)*at >= 0x80) *at = '?';
    value->text = value->mended;
    return STATUS_OK;
}

static enum status make_known(struct ledger *ledger, struct server_statement *statement, const char *name,
                              const char *text, const Oid *types, struct err *err) {
    if (!statement->kept || statement->generation == ledger->server->generation) return STATUS_OK;
    TRY(server_collect(ledger, NULL, err));
    TRY(queued(ledger, PQsendPrepare(ledger->server->connection, name, text, statement->count, types), err));
    TRY(server_collect(ledger, NULL, err));
    statement->generation = ledger->server->generation;
    return STATUS_OK;
}

static enum status send(struct ledger *ledger, struct server_statement *statement, struct err *err) {
    struct ledger_server *server = ledger->server;
    const char *values[SERVER_PARAMETERS];
    Oid types[SERVER_PARAMETERS];
    char name[24], text[SERVER_TEXT] = "";
    FAIL_IF(server->walking != NULL, err, STATUS_BAD_STATE, "%s: it is used while its rows are visited", ledger->path);
    TRY(make_room(ledger, err));
    for (int i = 0; i < statement->count; i++) {
        TRY(mend(&statement->values[i], err));
        values[i] = statement->values[i].text;
        types[i] = statement->values[i].type;
    }
    bool known = statement->kept && statement->generation == server->generation;
    if (!known) TRY(server_translate(server, statement->text, statement->now, text, err));
    snprintf(name, sizeof name, "s%u", statement->number);
    TRY(make_known(ledger, statement, name, text, types, err));
    int sent = statement->kept
                   ? PQsendQueryPrepared(server->connection, name, statement->count, values, NULL, NULL, 0)
                   : PQsendQueryParams(server->connection, text, statement->count, types, values, NULL, NULL, 0);
    return queued(ledger, sent, err);
}

/* ---- Rows ---- */

/* Rows of a statement that is not kept may be many: they come one by one. */
static enum status begin_walk(struct ledger *ledger, struct server_statement *statement, struct err *err) {
    struct ledger_server *server = ledger->server;
    if (PQpipelineSync(server->connection) != 1 || PQsetSingleRowMode(server->connection) != 1) {
        note(server, NULL);
        server->queued = 0;
        return server_failure(ledger, err);
    }
    server->walking = statement;
    return STATUS_OK;
}

static void end_walk(struct ledger_server *server) {
    if (server->walking == NULL) return;
    server->walking = NULL;
    if (PQstatus(server->connection) == CONNECTION_OK) drain(server);
    if (PQstatus(server->connection) == CONNECTION_OK) take_sync(server);
    server->queued = 0;
}

static enum status walk(struct ledger *ledger, struct server_statement *statement, bool *ret_row, struct err *err) {
    struct ledger_server *server = ledger->server;
    PQclear(statement->result);
    statement->row = 0;
    statement->result = PQgetResult(server->connection);
    *ret_row = statement->result != NULL && PQresultStatus(statement->result) == PGRES_SINGLE_TUPLE;
    if (*ret_row) return STATUS_OK;
    if (statement->result == NULL || !is_well(statement->result)) note(server, statement->result);
    end_walk(server);
    statement->running = false;
    return server_failure(ledger, err);
}

static enum status begin_rows(struct ledger *ledger, struct server_statement *statement, struct err *err) {
    if (!statement->kept) TRY(server_collect(ledger, NULL, err));
    TRY(send(ledger, statement, err));
    statement->running = true;
    statement->row = -1;
    if (!statement->kept) return begin_walk(ledger, statement, err);
    enum status status = server_collect(ledger, &statement->result, err);
    statement->running = status == STATUS_OK;
    return status;
}

/* Forgets the failure of a statement outside of transactions. Returns whether to send it again, on a new connection:
 * there statements only read. */
static bool may_repeat(struct ledger *ledger, enum status status) {
    if (ledger->server->inside) return false;
    bool lost = status == STATUS_UNAVAILABLE && server_is_lost(ledger);
    ledger->server->failed = STATUS_OK;
    return lost && server_reconnect(ledger, NULL) == STATUS_OK;
}

enum status server_step(struct ledger *ledger, struct sql_statement *base, bool *ret_row, struct err *err) {
    struct server_statement *statement = own(base);
    if (!statement->running) {
        struct err first = {0};
        TRY(server_known(ledger, err));
        server_reset(base);
        enum status status = begin_rows(ledger, statement, &first);
        if (status != STATUS_OK && may_repeat(ledger, status)) {
            server_reset(base);
            status = begin_rows(ledger, statement, &first);
            if (status != STATUS_OK) (void)may_repeat(ledger, STATUS_OK);
        }
        if (status != STATUS_OK) {
            if (err != NULL) *err = first;
            return status;
        }
    }
    if (ledger->server->walking == statement) {
        enum status status = walk(ledger, statement, ret_row, err);
        if (status != STATUS_OK && !ledger->server->inside) ledger->server->failed = STATUS_OK;
        return status;
    }
    *ret_row = ++statement->row < PQntuples(statement->result);
    if (!*ret_row) server_reset(base);
    return STATUS_OK;
}

enum status server_run(struct ledger *ledger, struct sql_statement *base, struct err *err) {
    if (ledger->server->inside) return send(ledger, own(base), err);
    bool row;
    enum status status = server_step(ledger, base, &row, err);
    server_reset(base);
    return status;
}

enum status server_run_counted(struct ledger *ledger, struct sql_statement *base, int64_t *ret_changes,
                               struct err *err) {
    struct ledger_server *server = ledger->server;
    *ret_changes = 0;
    TRY(server_run(ledger, base, err));
    if (server->queued > 0) server->counted[server->queued - 1] = ret_changes;
    return STATUS_OK;
}

enum status server_settle(struct ledger *ledger, struct err *err) {
    return server_collect(ledger, NULL, err);
}

static const char *cell(const struct server_statement *statement, int column) {
    bool there = statement->result != NULL && statement->row >= 0 && statement->row < PQntuples(statement->result) &&
                 column < PQnfields(statement->result);
    if (!there || PQgetisnull(statement->result, statement->row, column)) return NULL;
    return PQgetvalue(statement->result, statement->row, column);
}

const char *server_column_text(struct sql_statement *statement, int column) {
    return cell(own(statement), column);
}

int64_t server_column_int(struct sql_statement *statement, int column) {
    const char *text = cell(own(statement), column);
    if (text == NULL) return 0;
    if (strpbrk(text, ".eE") == NULL) return strtoll(text, NULL, 10);
    double value = strtod(text, NULL);
    return value > -9e18 && value < 9e18 ? (int64_t)value : 0;
}

double server_column_double(struct sql_statement *statement, int column) {
    const char *text = cell(own(statement), column);
    return text != NULL ? strtod(text, NULL) : 0;
}

bool server_column_is_null(struct sql_statement *statement, int column) {
    return cell(own(statement), column) == NULL;
}

/* ---- A statement ---- */

enum status server_prepare(struct ledger *ledger, const char *text, const char *doing, bool kept,
                           struct sql_statement **ret_statement, struct err *err) {
    (void)doing;
    struct server_statement *statement = calloc(1, sizeof *statement);
    if (statement != NULL) statement->text = strdup(text);
    if (statement == NULL || statement->text == NULL) {
        free(statement);
        FAIL(err, STATUS_NO_MEMORY, "%s: no memory for a statement", ledger->path);
    }
    statement->base.driver = &ledger_server_driver;
    statement->ledger = ledger;
    statement->kept = kept;
    statement->number = ledger->server->statements++;
    *ret_statement = &statement->base;
    return STATUS_OK;
}

void server_reset(struct sql_statement *base) {
    struct server_statement *statement = own(base);
    if (statement->ledger->server->walking == statement) end_walk(statement->ledger->server);
    PQclear(statement->result);
    statement->result = NULL;
    statement->running = false;
}

void server_clear(struct sql_statement *base) {
    struct server_statement *statement = own(base);
    for (int i = 0; i < statement->count; i++)
        statement->values[i].text = NULL;
}

void server_finalize(struct sql_statement *base) {
    struct server_statement *statement = own(base);
    server_reset(base);
    for (int i = 0; i < SERVER_PARAMETERS; i++)
        free(statement->values[i].mended);
    free(statement->text);
    free(statement);
}

static struct value *value_of(struct sql_statement *base, int index, Oid type) {
    struct server_statement *statement = own(base);
    if (index > statement->count) {
        /* One that is never bound is NULL. */
        for (int i = statement->count; i < index; i++)
            statement->values[i].type = TYPE_TEXT;
        statement->count = index;
    }
    statement->values[index - 1].type = type;
    return &statement->values[index - 1];
}

void server_bind_text(struct sql_statement *statement, int index, const char *text) {
    value_of(statement, index, TYPE_TEXT)->text = text;
}

void server_bind_int(struct sql_statement *statement, int index, int64_t number) {
    struct value *value = value_of(statement, index, TYPE_INT8);
    snprintf(value->number, sizeof value->number, "%lld", (long long)number);
    value->text = value->number;
}

void server_bind_double(struct sql_statement *statement, int index, double number) {
    struct value *value = value_of(statement, index, TYPE_FLOAT8);
    snprintf(value->number, sizeof value->number, "%.17g", number);
    value->text = isnan(number) ? NULL : value->number;
}

void server_bind_now(struct sql_statement *statement, int index) {
    value_of(statement, index, TYPE_FLOAT8)->text = NULL;
    own(statement)->now |= 1u << index;
}
