/* What was sent, for those who count: the launcher's status and its check that the counts add up. */
#include <math.h>

#include "common/ledger_private.h"

enum status ledger_each_parcel(struct ledger *ledger, ledger_parcel_visit *visit, void *context, struct err *err) {
    /* Prepared each time: this is asked once a second at most, and a reader must not hold a snapshot between. */
    static const char sql[] = "SELECT edge, seq, id, verdict, time_sent, acknowledged FROM outbox ORDER BY seq";
    sqlite3_stmt *statement = NULL;
    enum status status = STATUS_OK;
    ledger_lock(ledger);
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
    ledger_unlock(ledger);
    return status;
}
