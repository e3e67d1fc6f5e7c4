/* What was sent, for those who count: the launcher's status and its check that the counts add up. */
#include <math.h>

#include "common/edges/ledger_private.h"

enum status ledger_each_parcel(struct ledger *ledger, ledger_parcel_visit *visit, void *context, struct err *err) {
    /* Prepared each time: this is asked once a second at most, and a reader must not hold a snapshot between. */
    static const char sql[] = "SELECT edge, seq, id, verdict, time_sent, acknowledged FROM outbox ORDER BY seq";
    sqlite3_stmt *statement = NULL;
    enum status status = STATUS_OK;
    ledger_hold(ledger);
    if (sqlite3_prepare_v2(ledger->db, sql, -1, &statement, NULL) != SQLITE_OK)
        status = ledger_fail(ledger, "read", err);
    for (bool row = true; status == STATUS_OK && row;) {
        status = ledger_step(ledger, statement, &row, err);
        if (status != STATUS_OK || !row) break;
        const struct ledger_parcel_row parcel = {.edge = (const char *)sqlite3_column_text(statement, 0),
                                                 .seq = sqlite3_column_int64(statement, 1),
                                                 .id = (const char *)sqlite3_column_text(statement, 2),
                                                 .verdict = (const char *)sqlite3_column_text(statement, 3),
                                                 .time_sent = sqlite3_column_double(statement, 4),
                                                 .time_acknowledged = sqlite3_column_type(statement, 5) == SQLITE_NULL
                                                                          ? (double)NAN
                                                                          : sqlite3_column_double(statement, 5)};
        status = visit(&parcel, context, err);
    }
    sqlite3_finalize(statement);
    ledger_let_go(ledger);
    return status;
}

/* The sender's ledger is read before the other one (SQLite begins with the database that was opened first), so that what
 * is acknowledged in the first is seen in the second, whatever goes on meanwhile. */
static enum status compare(struct ledger *ledger, const char *to, bool only_waiting, struct ledger_edge_counts *counts,
                           struct err *err) {
    /* Grouped by the index of ids, so that nothing is sorted, and held, on the way. */
    static const char all[] =
        "SELECT SUM(parcels), COUNT(*), SUM(waiting), SUM(CASE WHEN i.id IS NULL THEN waiting ELSE 0 END),"
        " SUM(waiting = 0 AND i.id IS NULL)"
        " FROM (SELECT id, COUNT(*) AS parcels, SUM(acknowledged IS NULL) AS waiting"
        "  FROM main.outbox WHERE substr(edge, instr(edge, '>') + 1) = ?1 GROUP BY id) AS o"
        " LEFT JOIN other.items i ON i.id = o.id";
    static const char waiting[] = "SELECT 0, 0, COUNT(*), SUM(i.id IS NULL), 0"
                                  " FROM main.outbox o LEFT JOIN other.items i ON i.id = o.id"
                                  " WHERE o.acknowledged IS NULL AND substr(o.edge, instr(o.edge, '>') + 1) = ?1";
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(ledger->db, only_waiting ? waiting : all, -1, &statement, NULL) != SQLITE_OK)
        return ledger_fail(ledger, "compared", err);
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
    if (sqlite3_prepare_v2(ledger->db, "ATTACH ?1 AS other", -1, &statement, NULL) != SQLITE_OK)
        return ledger_fail(ledger, "compared", err);
    ledger_bind_text(statement, 1, path);
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
        status = compare(ledger, to, only_waiting, &counts, err);
        sqlite3_exec(ledger->db, "DETACH other", NULL, NULL, NULL);
    }
    ledger_let_go(ledger);
    if (status == STATUS_OK) *ret_counts = counts;
    return status;
}

static enum status ask(struct ledger *ledger, const char *sql, const char *suffix, const char *id, int64_t *ret_number,
                       struct err *err) {
    sqlite3_stmt *statement = NULL;
    bool row = false;
    int64_t number = 0;
    ledger_hold(ledger);
    enum status status = sqlite3_prepare_v2(ledger->db, sql, -1, &statement, NULL) == SQLITE_OK
                             ? STATUS_OK
                             : ledger_fail(ledger, "read", err);
    if (status == STATUS_OK) {
        ledger_bind_text(statement, 1, suffix);
        if (id != NULL) ledger_bind_text(statement, 2, id);
        status = ledger_step(ledger, statement, &row, err);
    }
    if (row) number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    ledger_let_go(ledger);
    if (status == STATUS_OK) *ret_number = number;
    return status;
}

enum status ledger_count_unsent(struct ledger *ledger, const char *suffix, int64_t *ret_count, struct err *err) {
    return ask(ledger,
               "SELECT COUNT(*) FROM items WHERE state = 1"
               " AND EXISTS (SELECT 1 FROM outbox WHERE substr(edge, -length(?1)) = ?1)"
               " AND NOT EXISTS (SELECT 1 FROM outbox WHERE outbox.id = items.id AND substr(edge, -length(?1)) = ?1)",
               suffix, NULL, ret_count, err);
}

enum status ledger_was_sent(struct ledger *ledger, const char *suffix, const char *id, bool *ret_sent,
                            struct err *err) {
    int64_t count = 0;
    TRY(ask(ledger, "SELECT COUNT(*) FROM outbox WHERE id = ?2 AND substr(edge, -length(?1)) = ?1", suffix, id, &count,
            err));
    *ret_sent = count > 0;
    return STATUS_OK;
}
