/* Reports what was sent, for the launcher's status and its check that the counts add up. */
#include <math.h>

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

enum status ledger_compare(struct ledger *ledger, const char *to, const char *to_path, bool only_waiting,
                           struct ledger_edge_counts *ret_counts, struct err *err) {
    struct ledger_edge_counts counts = {0};
    ledger_hold(ledger);
    enum status status = ledger->driver->attach(ledger, to_path, err);
    if (status == STATUS_OK) {
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
