/* Reports what was sent, for the launcher's status and its check that the counts add up. */
#include <math.h>

#include "common/edges/ledger_private.h"

enum status ledger_each_parcel(struct ledger *ledger, ledger_parcel_visit *visit, void *context, struct err *err) {
    sqlite3_stmt *statement = NULL;
    ledger_hold(ledger);
    enum status status = ledger_prepare_once(ledger, SQL_EACH_PARCEL, "read", &statement, err);
    for (bool row = true; status == STATUS_OK && row;) {
        status = ledger_step(ledger, statement, &row, err);
        if (status != STATUS_OK || !row) break;
        const struct ledger_parcel_row parcel = {.edge = (const char *)sqlite3_column_text(statement, 0),
                                                 .seq = sqlite3_column_int64(statement, 1),
                                                 .source = (const char *)sqlite3_column_text(statement, 2),
                                                 .id = (const char *)sqlite3_column_text(statement, 3),
                                                 .verdict = (const char *)sqlite3_column_text(statement, 4),
                                                 .time_sent = sqlite3_column_double(statement, 5),
                                                 .time_acknowledged = sqlite3_column_type(statement, 6) == SQLITE_NULL
                                                                          ? (double)NAN
                                                                          : sqlite3_column_double(statement, 6)};
        status = visit(&parcel, context, err);
    }
    sqlite3_finalize(statement);
    ledger_let_go(ledger);
    return status;
}

/* Compares two ledgers. SQLite reads the sender's ledger first (the database that was opened first), so whatever is
 * acknowledged in the first is visible in the second, even while both change. */
static enum status compare(struct ledger *ledger, const char *to, bool only_waiting, struct ledger_edge_counts *counts,
                           struct err *err) {
    sqlite3_stmt *statement = NULL;
    TRY(ledger_prepare_once(ledger, only_waiting ? SQL_COMPARE_WAITING : SQL_COMPARE_ALL, "compared", &statement, err));
    ledger_bind_text(statement, 1, to);
    bool row = false;
    enum status status = ledger_step(ledger, statement, &row, err);
    if (status == STATUS_OK && row)
        *counts = (struct ledger_edge_counts){
            .sent = sqlite3_column_int64(statement, 0),
            .items = sqlite3_column_int64(statement, 1),
            .waiting = sqlite3_column_int64(statement, 2),
            .waiting_unseen = sqlite3_column_int64(statement, 3),
            .lost = sqlite3_column_int64(statement, 4),
        };
    sqlite3_finalize(statement);
    return status;
}

static enum status attach(struct ledger *ledger, const char *path, struct err *err) {
    sqlite3_stmt *statement = NULL;
    char still[3 * PATH_SIZE];
    TRY(ledger_prepare_once(ledger, SQL_ATTACH, "compared", &statement, err));
    /* One that lies still has neighbours that do. */
    bool other = ledger->immutable && ledger_still_name(path, still, sizeof still);
    ledger_bind_text(statement, 1, other ? still : path);
    enum status status = ledger_run(ledger, statement, err);
    sqlite3_finalize(statement);
    sqlite3_exec(ledger->db, "PRAGMA other.cache_size = -256", NULL, NULL, NULL);
    return status;
}

enum status ledger_compare(struct ledger *ledger, const char *to, const char *to_path, bool only_waiting,
                           struct ledger_edge_counts *ret_counts, struct err *err) {
    struct ledger_edge_counts counts = {0};
    ledger_hold(ledger);
    enum status status = attach(ledger, to_path, err);
    if (status == STATUS_OK) {
        status = ledger_schema_compare(ledger, err);
        if (status == STATUS_OK) status = compare(ledger, to, only_waiting, &counts, err);
        ledger_schema_part(ledger);
    }
    ledger_let_go(ledger);
    if (status == STATUS_OK) *ret_counts = counts;
    return status;
}

static enum status ask(struct ledger *ledger, enum ledger_statement which, const char *suffix,
                       const struct ledger_key *key, int64_t *ret_number, struct err *err) {
    sqlite3_stmt *statement = NULL;
    bool row = false;
    int64_t number = 0;
    ledger_hold(ledger);
    enum status status = ledger_prepare_once(ledger, which, "read", &statement, err);
    if (status == STATUS_OK) {
        if (key != NULL) ledger_bind_key(statement, *key);
        ledger_bind_text(statement, key != NULL ? 3 : 1, suffix);
        status = ledger_step(ledger, statement, &row, err);
    }
    if (row) number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
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
