/* The warnings of a stage in its ledger: one row for each kind, which all replicas count together. */
#include "common/edges/ledger_private.h"

static const char put_text[] =
    "INSERT INTO warnings (stage, id, message, count, first, last) VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
    " ON CONFLICT (stage, id) DO UPDATE SET"
    "  message = CASE WHEN excluded.last >= warnings.last THEN excluded.message ELSE warnings.message END,"
    "  count = warnings.count + excluded.count,"
    "  first = CASE WHEN excluded.first < warnings.first THEN excluded.first ELSE warnings.first END,"
    "  last = CASE WHEN excluded.last > warnings.last THEN excluded.last ELSE warnings.last END";
static const char each_text[] = "SELECT stage, id, message, count, first, last FROM warnings ORDER BY first, stage, id";

static enum status put_all(struct ledger *ledger, struct sql_statement *statement,
                           const struct ledger_warning *warnings, size_t count, struct err *err) {
    for (size_t i = 0; i < count; i++) {
        sql_bind_text(statement, 1, warnings[i].stage);
        sql_bind_text(statement, 2, warnings[i].id);
        sql_bind_text(statement, 3, warnings[i].message);
        sql_bind_int(statement, 4, warnings[i].count);
        sql_bind_double(statement, 5, warnings[i].first);
        sql_bind_double(statement, 6, warnings[i].last);
        TRY(ledger_run(ledger, statement, err));
    }
    return STATUS_OK;
}

static enum status put(struct ledger *ledger, const struct ledger_warning *warnings, size_t count, struct err *err) {
    struct sql_statement *statement = NULL;
    TRY(ledger_prepare_text(ledger, put_text, "written", &statement, err));
    enum status status = put_all(ledger, statement, warnings, count, err);
    sql_finalize(statement);
    return status;
}

enum status ledger_warn(struct ledger *ledger, const struct ledger_warning *warnings, size_t count, struct err *err) {
    ledger_hold(ledger);
    enum status status = ledger_begin(ledger, false, err);
    if (status == STATUS_OK) status = ledger_end(ledger, put(ledger, warnings, count, err), err);
    ledger_let_go(ledger);
    return status;
}

static enum status walk(struct ledger *ledger, struct sql_statement *statement, ledger_warning_visit *visit,
                        void *context, struct err *err) {
    for (bool row = true;;) {
        TRY(ledger_step(ledger, statement, &row, err));
        if (!row) return STATUS_OK;
        const struct ledger_warning warning = {.stage = sql_text(statement, 0),
                                               .id = sql_text(statement, 1),
                                               .message = sql_text(statement, 2),
                                               .count = sql_int(statement, 3),
                                               .first = sql_double(statement, 4),
                                               .last = sql_double(statement, 5)};
        FAIL_IF(warning.stage == NULL || warning.id == NULL || warning.message == NULL, err, STATUS_BAD_FORMAT,
                "%s: a warning in the ledger has no stage, id or message", ledger->path);
        TRY(visit(&warning, context, err));
    }
}

/* A ledger of an earlier version, or of a program of others, has no such table. */
static bool has_warnings(struct ledger *ledger) {
    struct sql_statement *statement = NULL;
    const char *text = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'warnings'";
    bool has = false;
    if (ledger->server != NULL) return true;
    if (ledger_prepare_text(ledger, text, "read", &statement, NULL) == STATUS_OK)
        (void)ledger_step(ledger, statement, &has, NULL);
    sql_finalize(statement);
    return has;
}

enum status ledger_each_warning(struct ledger *ledger, ledger_warning_visit *visit, void *context, struct err *err) {
    struct sql_statement *statement = NULL;
    enum status status = STATUS_OK;
    ledger_hold(ledger);
    if (has_warnings(ledger)) {
        status = ledger_prepare_text(ledger, each_text, "read", &statement, err);
        if (status == STATUS_OK) status = walk(ledger, statement, visit, context, err);
        sql_finalize(statement);
    }
    ledger_let_go(ledger);
    return status;
}
