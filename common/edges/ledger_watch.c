#include "common/edges/ledger_watch.h"

#include <math.h>
#include <stdlib.h>

#include "common/edges/ledger_address.h"
#include "common/edges/ledger_private.h"
#include "common/memory.h"

enum { BLOCK = 1000 }; /* rows of one statement */

#define SELECT "SELECT number, source, id, revision, reason, item, state, attempts, time_seen, time_changed FROM items"
#define OUTLINES "SELECT number, source, id, revision, reason, '', state, attempts, time_seen, time_changed FROM items"
#define PARCELS "SELECT edge, seq, source, id, verdict, time_sent, acknowledged FROM outbox"

enum { VERSION, AFTER, IN_FLIGHT, ONE, OUTLINE, SENT, WAITING, ANSWERED, LAST, COUNTS, STATEMENTS };
static const char *const texts[STATEMENTS] = {
    [VERSION] = "PRAGMA data_version",
    [AFTER] = SELECT " WHERE number > ?1 ORDER BY number LIMIT 1000",
    [IN_FLIGHT] = SELECT " WHERE state = 0 AND number > ?1 ORDER BY number LIMIT 1000",
    [ONE] = SELECT " WHERE number = ?1",
    [OUTLINE] = OUTLINES " WHERE number > ?1 ORDER BY number LIMIT 1000",
    [SENT] = PARCELS " WHERE seq > ?1 ORDER BY seq LIMIT 1000",
    /* The partial index has the edge and the seq alone. */
    [WAITING] = PARCELS " WHERE acknowledged IS NULL",
    [ANSWERED] = "SELECT 1 FROM outbox WHERE seq = ?1 AND acknowledged IS NULL",
    [LAST] = "SELECT COALESCE(MAX(seq), 0) FROM outbox",
    [COUNTS] = "SELECT state, COUNT(*) FROM items GROUP BY state",
};

/* PostgreSQL has no such number: each transaction counts itself. */
static const char server_version[] = "SELECT COALESCE(SUM(number), 0) FROM commits";

struct ledger_watch {
    struct ledger *ledger;
    struct sql_statement *statements[STATEMENTS];
};

enum status ledger_watch_open(const char *path, const char *stage, const char *session, double patience,
                              struct ledger_watch **ret_watch, struct err *err) {
    struct ledger *ledger = NULL;
    if (!ledger_is_address(path) && !file_exists(path)) {
        *ret_watch = NULL;
        return STATUS_OK;
    }
    enum status status = ledger_open_patient(path, stage, true, patience, &ledger, err);
    if (status == STATUS_NOT_FOUND) {
        if (err != NULL) *err = (struct err){0};
        *ret_watch = NULL;
        return STATUS_OK;
    }
    if (status == STATUS_OK) status = ledger_check_owner(ledger, stage, session, err);
    struct ledger_watch *watch = status == STATUS_OK ? calloc(1, sizeof *watch) : NULL;
    if (status == STATUS_OK && watch == NULL)
        status = err_set(err, STATUS_NO_MEMORY, __FILE__, __LINE__, "%s: no memory to read it", path);
    if (status != STATUS_OK) {
        ledger_close(&ledger);
        return status;
    }
    watch->ledger = ledger;
    *ret_watch = watch;
    return STATUS_OK;
}

void ledger_watch_close(struct ledger_watch **watch) {
    if (*watch == NULL) return;
    for (int i = 0; i < STATEMENTS; i++)
        sql_finalize((*watch)->statements[i]);
    ledger_close(&(*watch)->ledger);
    mem_free(watch);
}

static enum status prepare(struct ledger_watch *watch, int which, struct sql_statement **ret_statement,
                           struct err *err) {
    struct sql_statement **statement = &watch->statements[which];
    struct ledger *ledger = watch->ledger;
    const char *text = which == VERSION && ledger->server != NULL ? server_version : texts[which];
    if (*statement == NULL) TRY(ledger->driver->prepare(ledger, text, "read", true, statement, err));
    sql_reset(*statement);
    sql_clear(*statement);
    *ret_statement = *statement;
    return STATUS_OK;
}

/* Reads one number; *ret_row: whether there is one. */
static enum status ask(struct ledger_watch *watch, int which, int64_t bound, bool *ret_row, int64_t *ret_number,
                       struct err *err) {
    struct sql_statement *statement = NULL;
    bool row = false;
    TRY(prepare(watch, which, &statement, err));
    if (which == ANSWERED) sql_bind_int(statement, 1, bound);
    TRY(ledger_step(watch->ledger, statement, &row, err));
    *ret_row = row;
    if (row) *ret_number = sql_int(statement, 0);
    sql_reset(statement);
    return STATUS_OK;
}

enum status ledger_watch_version(struct ledger_watch *watch, int64_t *ret_version, struct err *err) {
    bool row;
    return ask(watch, VERSION, 0, &row, ret_version, err);
}

enum status ledger_watch_last_seq(struct ledger_watch *watch, int64_t *ret_seq, struct err *err) {
    bool row;
    return ask(watch, LAST, 0, &row, ret_seq, err);
}

enum status ledger_watch_is_answered(struct ledger_watch *watch, int64_t seq, bool *ret_is, struct err *err) {
    bool waits;
    int64_t unused;
    TRY(ask(watch, ANSWERED, seq, &waits, &unused, err));
    *ret_is = !waits;
    return STATUS_OK;
}

enum status ledger_watch_counts(struct ledger_watch *watch, int64_t ret_counts[LEDGER_FAILED + 1], struct err *err) {
    struct sql_statement *statement = NULL;
    int64_t counts[LEDGER_FAILED + 1] = {0};
    TRY(prepare(watch, COUNTS, &statement, err));
    for (bool row = true;;) {
        TRY(ledger_step(watch->ledger, statement, &row, err));
        if (!row) break;
        int state = (int)sql_int(statement, 0);
        counts[state >= 0 && state < LEDGER_FAILED ? state : LEDGER_FAILED] += sql_int(statement, 1);
    }
    for (int i = 0; i <= LEDGER_FAILED; i++)
        ret_counts[i] = counts[i];
    return STATUS_OK;
}

static const char *text_of(struct sql_statement *statement, int column) {
    return sql_text(statement, column);
}

/* Visits what a statement finds; *ret_last, *ret_count: the last number and how many. */
static enum status visit_rows(struct ledger_watch *watch, struct sql_statement *statement, ledger_watch_visit *visit,
                              void *context, int64_t *ret_last, size_t *ret_count, struct err *err) {
    size_t count = 0;
    for (bool found = true;; count++) {
        TRY(ledger_step(watch->ledger, statement, &found, err));
        if (!found) break;
        int state = (int)sql_int(statement, 6);
        const struct ledger_row row = {.source = text_of(statement, 1),
                                       .id = text_of(statement, 2),
                                       .revision = sql_int(statement, 3),
                                       .reason = text_of(statement, 4),
                                       .item_text = text_of(statement, 5),
                                       .state = state >= 0 && state < LEDGER_FAILED ? (enum ledger_state)state
                                                                                    : LEDGER_FAILED,
                                       .attempts = (int)sql_int(statement, 7),
                                       .time_seen = sql_double(statement, 8),
                                       .time_changed = sql_double(statement, 9)};
        *ret_last = sql_int(statement, 0);
        enum status status = STATUS_OK;
        if (row.source == NULL || row.id == NULL || row.item_text == NULL)
            status = err_set(err, STATUS_NO_MEMORY, __FILE__, __LINE__, "no memory for a row of the ledger");
        if (status == STATUS_OK) status = visit(*ret_last, &row, context, err);
        if (status != STATUS_OK) {
            sql_reset(statement);
            return status;
        }
    }
    *ret_count = count;
    return STATUS_OK;
}

/* Runs a statement that begins after a number, block by block. */
static enum status visit_blocks(struct ledger_watch *watch, int which, int64_t number, ledger_watch_visit *visit,
                                void *context, struct err *err) {
    for (size_t count = BLOCK; count == BLOCK;) {
        struct sql_statement *statement = NULL;
        TRY(prepare(watch, which, &statement, err));
        sql_bind_int(statement, 1, number);
        TRY(visit_rows(watch, statement, visit, context, &number, &count, err));
    }
    return STATUS_OK;
}

enum status ledger_watch_rows(struct ledger_watch *watch, enum ledger_look what, int64_t number,
                              ledger_watch_visit *visit, void *context, struct err *err) {
    static const int which[] = {
        [LEDGER_LOOK_AFTER] = AFTER, [LEDGER_LOOK_IN_FLIGHT] = IN_FLIGHT, [LEDGER_LOOK_ONE] = ONE};
    return visit_blocks(watch, which[what], number, visit, context, err);
}

enum status ledger_watch_outlines(struct ledger_watch *watch, ledger_watch_visit *visit, void *context,
                                  struct err *err) {
    return visit_blocks(watch, OUTLINE, 0, visit, context, err);
}

static enum status visit_parcels(struct ledger_watch *watch, struct sql_statement *statement,
                                 ledger_parcel_visit *visit, void *context, int64_t *ret_last, size_t *ret_count,
                                 struct err *err) {
    size_t count = 0;
    for (bool found = true;; count++) {
        TRY(ledger_step(watch->ledger, statement, &found, err));
        if (!found) break;
        bool waits = sql_is_null(statement, 6);
        const struct ledger_parcel_row parcel = {.edge = text_of(statement, 0),
                                                 .seq = sql_int(statement, 1),
                                                 .source = text_of(statement, 2),
                                                 .id = text_of(statement, 3),
                                                 .verdict = text_of(statement, 4),
                                                 .time_sent = sql_double(statement, 5),
                                                 .time_acknowledged = waits ? (double)NAN : sql_double(statement, 6)};
        *ret_last = parcel.seq;
        enum status status = STATUS_OK;
        if (parcel.edge == NULL || parcel.source == NULL || parcel.id == NULL)
            status = err_set(err, STATUS_NO_MEMORY, __FILE__, __LINE__, "no memory for a row of the ledger");
        if (status == STATUS_OK) status = visit(&parcel, context, err);
        if (status != STATUS_OK) {
            sql_reset(statement);
            return status;
        }
    }
    *ret_count = count;
    return STATUS_OK;
}

enum status ledger_watch_parcels(struct ledger_watch *watch, enum ledger_parcels what, int64_t seq,
                                 ledger_parcel_visit *visit, void *context, struct err *err) {
    for (size_t count = BLOCK; count == BLOCK;) {
        struct sql_statement *statement = NULL;
        TRY(prepare(watch, what == LEDGER_PARCELS_AFTER ? SENT : WAITING, &statement, err));
        if (what == LEDGER_PARCELS_AFTER) sql_bind_int(statement, 1, seq);
        TRY(visit_parcels(watch, statement, visit, context, &seq, &count, err));
        if (what == LEDGER_PARCELS_WAITING) break;
    }
    return STATUS_OK;
}
