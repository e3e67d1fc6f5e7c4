/* What was written down as done and is not so any more: products are lost, files unreadable, or what was to be made of
 * several items failed. */
#include "common/clock.h"
#include "common/edges/ledger_private.h"

/* ?1: the id, ?2: now, ?3: the reason, or NULL. */
static enum status run_text(struct ledger *ledger, const char *sql, const char *id, const char *reason,
                            struct err *err) {
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(ledger->db, sql, -1, &statement, NULL) != SQLITE_OK) return ledger_fail(ledger, "used", err);
    ledger_bind_text(statement, 1, id);
    sqlite3_bind_double(statement, 2, clock_realtime());
    if (reason != NULL) ledger_bind_text(statement, 3, reason);
    enum status status = ledger_run(ledger, statement, err);
    sqlite3_finalize(statement);
    return status;
}

static enum status redo(struct ledger *ledger, const char *id, bool *redone, struct err *err) {
    TRY(run_text(
        ledger,
        "UPDATE items SET state = 0, reason = NULL, crashes = 0, instance = -1, token = NULL, time_changed = ?2"
        " WHERE id = ?1 AND state = 1 AND instance <> -2",
        id, NULL, err));
    *redone = sqlite3_changes(ledger->db) > 0;
    /* It is sent on anew when it is done; who has finished it already acknowledges it again. */
    return *redone ? run_text(ledger, "DELETE FROM outbox WHERE id = ?1 AND ?2 > 0", id, NULL, err) : STATUS_OK;
}

enum status ledger_redo(struct ledger *ledger, const char *id, bool *ret_redone, struct err *err) {
    bool redone = false;
    ledger_hold(ledger);
    enum status status = ledger_begin(ledger, true, err);
    if (status == STATUS_OK) status = ledger_end(ledger, redo(ledger, id, &redone, err), err);
    ledger_let_go(ledger);
    if (status == STATUS_OK) *ret_redone = redone;
    return status;
}

enum status ledger_fail_done(struct ledger *ledger, const char *id, const char *reason, struct err *err) {
    static const char sql[] = "UPDATE items SET state = 3, reason = ?3, instance = -1, token = NULL, time_changed = ?2"
                              " WHERE id = ?1 AND state = 1 AND instance <> -2";
    ledger_hold(ledger);
    enum status status = ledger_begin(ledger, true, err);
    if (status == STATUS_OK) status = ledger_end(ledger, run_text(ledger, sql, id, reason, err), err);
    ledger_let_go(ledger);
    return status;
}

static enum status revise(struct ledger *ledger, const char *const *ids, size_t count, const char *reason,
                          int64_t *changed, struct err *err) {
    static const char failed[] =
        "UPDATE items SET state = 3, reason = ?3, instance = -3, token = NULL, time_changed = ?2"
        " WHERE id = ?1 AND state = 1 AND instance <> -2";
    static const char mended[] = "UPDATE items SET state = 1, reason = NULL, instance = -1, time_changed = ?2"
                                 " WHERE id = ?1 AND state = 3 AND instance = -3";
    for (size_t i = 0; i < count; i++) {
        TRY(run_text(ledger, reason != NULL ? failed : mended, ids[i], reason, err));
        *changed += sqlite3_changes(ledger->db);
    }
    return STATUS_OK;
}

enum status ledger_revise(struct ledger *ledger, const char *const *ids, size_t count, const char *reason,
                          int64_t *ret_changed, struct err *err) {
    int64_t changed = 0;
    ledger_hold(ledger);
    enum status status = ledger_begin(ledger, true, err);
    if (status == STATUS_OK) status = ledger_end(ledger, revise(ledger, ids, count, reason, &changed, err), err);
    ledger_let_go(ledger);
    if (status == STATUS_OK) *ret_changed = changed;
    return status;
}
