/* The warnings of a stage in its ledger: one row for each kind, which all replicas count together. */
#include "common/edges/ledger_private.h"

static const char put_text[] =
    "INSERT INTO warnings (stage, id, message, count, first, last) VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
    " ON CONFLICT (stage, id) DO UPDATE SET message = CASE WHEN excluded.last >= last THEN excluded.message"
    "  ELSE message END, count = count + excluded.count, first = MIN(first, excluded.first),"
    " last = MAX(last, excluded.last)";
static const char each_text[] = "SELECT stage, id, message, count, first, last FROM warnings ORDER BY first, stage, id";

static enum status put_all(struct ledger *ledger, sqlite3_stmt *statement, const struct ledger_warning *warnings,
                           size_t count, struct err *err) {
    for (size_t i = 0; i < count; i++) {
        ledger_bind_text(statement, 1, warnings[i].stage);
        ledger_bind_text(statement, 2, warnings[i].id);
        ledger_bind_text(statement, 3, warnings[i].message);
        sqlite3_bind_int64(statement, 4, warnings[i].count);
        sqlite3_bind_double(statement, 5, warnings[i].first);
        sqlite3_bind_double(statement, 6, warnings[i].last);
        TRY(ledger_run(ledger, statement, err));
    }
    return STATUS_OK;
}

static enum status put(struct ledger *ledger, const struct ledger_warning *warnings, size_t count, struct err *err) {
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(ledger->db, put_text, -1, &statement, NULL) != SQLITE_OK)
        return ledger_fail(ledger, "written", err);
    enum status status = put_all(ledger, statement, warnings, count, err);
    sqlite3_finalize(statement);
    return status;
}

enum status ledger_warn(struct ledger *ledger, const struct ledger_warning *warnings, size_t count, struct err *err) {
    ledger_hold(ledger);
    enum status status = ledger_begin(ledger, false, err);
    if (status == STATUS_OK) status = ledger_end(ledger, put(ledger, warnings, count, err), err);
    ledger_let_go(ledger);
    return status;
}

static enum status walk(struct ledger *ledger, sqlite3_stmt *statement, ledger_warning_visit *visit, void *context,
                        struct err *err) {
    for (bool row = true;;) {
        TRY(ledger_step(ledger, statement, &row, err));
        if (!row) return STATUS_OK;
        const struct ledger_warning warning = {.stage = (const char *)sqlite3_column_text(statement, 0),
                                               .id = (const char *)sqlite3_column_text(statement, 1),
                                               .message = (const char *)sqlite3_column_text(statement, 2),
                                               .count = sqlite3_column_int64(statement, 3),
                                               .first = sqlite3_column_double(statement, 4),
                                               .last = sqlite3_column_double(statement, 5)};
        FAIL_IF(warning.stage == NULL || warning.id == NULL || warning.message == NULL, err, STATUS_BAD_FORMAT,
                "%s: a warning in the ledger has no stage, id or message", ledger->path);
        TRY(visit(&warning, context, err));
    }
}

/* A ledger of an earlier version, or of a program of others, has no such table. */
static bool has_warnings(struct ledger *ledger) {
    sqlite3_stmt *statement = NULL;
    const char *text = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'warnings'";
    bool has = sqlite3_prepare_v2(ledger->db, text, -1, &statement, NULL) == SQLITE_OK &&
               sqlite3_step(statement) == SQLITE_ROW;
    sqlite3_finalize(statement);
    return has;
}

enum status ledger_each_warning(struct ledger *ledger, ledger_warning_visit *visit, void *context, struct err *err) {
    sqlite3_stmt *statement = NULL;
    enum status status = STATUS_OK;
    ledger_hold(ledger);
    if (has_warnings(ledger)) {
        if (sqlite3_prepare_v2(ledger->db, each_text, -1, &statement, NULL) != SQLITE_OK)
            status = ledger_fail(ledger, "read", err);
        if (status == STATUS_OK) status = walk(ledger, statement, visit, context, err);
        sqlite3_finalize(statement);
    }
    ledger_let_go(ledger);
    return status;
}
