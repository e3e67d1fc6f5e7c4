/* Reports what was sent, for the launcher's status and its check that the counts add up. */
#include <math.h>

#include "common/edges/ledger_address.h"
#include "common/edges/ledger_private.h"

enum status ledger_each_parcel(struct ledger *ledger, ledger_parcel_visit *visit, void *context, struct err *err) {
    struct sql_statement *statement = NULL;
    ledger_hold(ledger);
    enum status status = ledger_prepare_once(ledger, SQL_EACH_PARCEL, "read", &statement, err);
    for (bool row = true; status == STATUS_OK && row;) {
        status = ledger_step(ledger, statement, &row, err);
        if (status != STATUS_OK || !row) break;
        const struct ledger_parcel_row parcel = {
            .edge = sql_text(statement, 0),
            .seq = sql_int(statement, 1),
            .source = sql_text(statement, 2),
            .id = sql_text(statement, 3),
            .verdict = sql_text(statement, 4),
            .time_sent = sql_double(statement, 5),
            .time_acknowledged = sql_is_null(statement, 6) ? (double)NAN : sql_double(statement, 6)};
        status = visit(&parcel, context, err);
    }
    sql_finalize(statement);
    ledger_let_go(ledger);
    return status;
}

/* Compares two ledgers. SQLite reads the sender's ledger first (the database that was opened first), so whatever is
 * acknowledged in the first is visible in the second, even while both change. */
static enum status compare(struct ledger *ledger, const char *to, bool only_waiting, struct ledger_edge_counts *counts,
                           struct err *err) {
    struct sql_statement *statement = NULL;
    TRY(ledger_prepare_once(ledger, only_waiting ? SQL_COMPARE_WAITING : SQL_COMPARE_ALL, "compared", &statement, err));
    sql_bind_text(statement, 1, to);
    bool row = false;
    enum status status = ledger_step(ledger, statement, &row, err);
    if (status == STATUS_OK && row)
        *counts = (struct ledger_edge_counts){
            .sent = sql_int(statement, 0),
            .items = sql_int(statement, 1),
            .waiting = sql_int(statement, 2),
            .waiting_unseen = sql_int(statement, 3),
            .lost = sql_int(statement, 4),
        };
    sql_finalize(statement);
    return status;
}

/* A program of others keeps a file while ours are in PostgreSQL, or the other way round: each item is looked up. */
static enum status look_up(struct ledger *ledger, struct sql_statement *statement, struct ledger *other,
                           bool only_waiting, struct ledger_edge_counts *counts, struct err *err) {
    for (bool row = true;;) {
        TRY(ledger_step(ledger, statement, &row, err));
        if (!row) return STATUS_OK;
        const struct ledger_key key = {sql_text(statement, 0), sql_text(statement, 1)};
        int64_t parcels = sql_int(statement, 2), waiting = sql_int(statement, 3);
        bool there = false;
        FAIL_IF(key.source == NULL || key.id == NULL, err, STATUS_NO_MEMORY, "no memory for a row of the ledger");
        TRY(ledger_lookup(other, key, &there, NULL, err));
        counts->waiting += waiting;
        counts->waiting_unseen += there ? 0 : waiting;
        if (only_waiting) continue;
        counts->sent += parcels;
        counts->items++;
        counts->lost += waiting == 0 && !there;
    }
}

/* The sender is read first, and whole, so that whatever it knows to be acknowledged is there. */
static enum status compare_apart(struct ledger *ledger, const char *to, const char *to_path, bool only_waiting,
                                 struct ledger_edge_counts *counts, struct err *err) {
    static const char all[] =
        "SELECT source, id, COUNT(*), SUM(CASE WHEN acknowledged IS NULL THEN 1 ELSE 0 END) FROM outbox"
        " WHERE substr(edge, instr(edge, '>') + 1) = ?1 GROUP BY source, id";
    static const char waiting[] = "SELECT source, id, COUNT(*), COUNT(*) FROM outbox WHERE acknowledged IS NULL"
                                  " AND substr(edge, instr(edge, '>') + 1) = ?1 GROUP BY source, id";
    struct ledger *other = NULL;
    struct sql_statement *statement = NULL;
    TRY(ledger_open_patient(to_path, to, true, ledger->patience, &other, err));
    enum status status = ledger_prepare_text(ledger, only_waiting ? waiting : all, "compared", &statement, err);
    if (status == STATUS_OK) {
        sql_bind_text(statement, 1, to);
        status = look_up(ledger, statement, other, only_waiting, counts, err);
    }
    sql_finalize(statement);
    ledger_close(&other);
    return status;
}

enum status ledger_compare(struct ledger *ledger, const char *to, const char *to_path, bool only_waiting,
                           struct ledger_edge_counts *ret_counts, struct err *err) {
    struct ledger_edge_counts counts = {0};
    ledger_hold(ledger);
    bool apart = ledger_is_address(ledger->path) != ledger_is_address(to_path);
    enum status status = apart ? compare_apart(ledger, to, to_path, only_waiting, &counts, err)
                               : ledger->driver->attach(ledger, to_path, err);
    if (status == STATUS_OK && !apart) {
        status = compare(ledger, to, only_waiting, &counts, err);
        ledger->driver->detach(ledger);
    }
    ledger_let_go(ledger);
    if (status == STATUS_OK) *ret_counts = counts;
    return status;
}

static enum status ask(struct ledger *ledger, enum ledger_statement which, const char *suffix,
                       const struct ledger_key *key, int64_t *ret_number, struct err *err) {
    struct sql_statement *statement = NULL;
    bool row = false;
    int64_t number = 0;
    ledger_hold(ledger);
    enum status status = ledger_prepare_once(ledger, which, "read", &statement, err);
    if (status == STATUS_OK) {
        if (key != NULL) ledger_bind_key(statement, *key);
        sql_bind_text(statement, key != NULL ? 3 : 1, suffix);
        status = ledger_step(ledger, statement, &row, err);
    }
    if (row) number = sql_int(statement, 0);
    sql_finalize(statement);
    ledger_let_go(ledger);
    if (status == STATUS_OK) *ret_number = number;
    return status;
}

enum status ledger_count_unsent(struct ledger *ledger, const char *suffix, int64_t *ret_count, struct err *err) {
    return ask(ledger, SQL_COUNT_UNSENT, suffix, NULL, ret_count, err);
}

enum status ledger_sum(struct ledger *ledger, const char *number, int64_t *ret_sum, struct err *err) {
    return ask(ledger, SQL_SUM, number, NULL, ret_sum, err);
}

enum status ledger_was_sent(struct ledger *ledger, const char *suffix, struct ledger_key key, bool *ret_sent,
                            struct err *err) {
    int64_t count = 0;
    TRY(ask(ledger, SQL_WAS_SENT, suffix, &key, &count, err));
    *ret_sent = count > 0;
    return STATUS_OK;
}
