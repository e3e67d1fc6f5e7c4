/* Takes back that items are done: because products are lost, files are unreadable, or a product of several items
 * failed. */
#include <stdio.h>

#include "common/clock.h"
#include "common/edges/ledger_private.h"

/* Runs a statement that takes the key as ?1 and ?2, the present time as ?3 if it has one, and the reason as ?4 if
 * there is one. */
static enum status change(struct ledger *ledger, enum ledger_statement which, struct ledger_key key, const char *reason,
                          struct err *err) {
    struct sql_statement *statement = NULL;
    TRY(ledger_prepare_once(ledger, which, "used", &statement, err));
    ledger_bind_key(statement, key);
    if (which != SQL_REDO_OUTBOX) sql_bind_now(statement, 3);
    if (reason != NULL) sql_bind_text(statement, 4, reason);
    enum status status = ledger_run(ledger, statement, err);
    sql_finalize(statement);
    return status;
}

static enum status redo(struct ledger *ledger, struct ledger_key key, bool *redone, struct err *err) {
    TRY(change(ledger, SQL_REDO_ITEM, key, NULL, err));
    *redone = ledger_changes(ledger) > 0;
    /* The item is sent on anew when it is done; a receiver that has finished it already acknowledges it again. */
    return *redone ? change(ledger, SQL_REDO_OUTBOX, key, NULL, err) : STATUS_OK;
}

enum status ledger_redo(struct ledger *ledger, struct ledger_key key, bool *ret_redone, struct err *err) {
    bool redone = false;
    ledger_hold(ledger);
    enum status status = ledger_begin(ledger, true, err);
    if (status == STATUS_OK) status = ledger_end(ledger, redo(ledger, key, &redone, err), err);
    ledger_let_go(ledger);
    if (status == STATUS_OK) *ret_redone = redone;
    return status;
}

static enum status send_revised(struct ledger *ledger, const char *edge_suffix, struct ledger_key key, int64_t revision,
                                int again, bool *sent, struct err *err) {
    struct sql_statement *statement = NULL;
    TRY(ledger_prepare_once(ledger, SQL_POST_REVISED, "used", &statement, err));
    ledger_bind_key(statement, key);
    sql_bind_text(statement, 3, edge_suffix);
    sql_bind_now(statement, 4);
    sql_bind_int(statement, 5, revision);
    sql_bind_int(statement, 6, again);
    enum status status = ledger_run(ledger, statement, err);
    sql_finalize(statement);
    TRY(status);
    *sent = ledger_changes(ledger) > 0;
    if (!*sent) return STATUS_OK;
    int64_t posted = ledger_last_number(ledger);
    TRY(ledger_prepare_once(ledger, SQL_WITHDRAW, "used", &statement, err));
    ledger_bind_key(statement, key);
    sql_bind_text(statement, 3, edge_suffix);
    sql_bind_int(statement, 4, posted - 1);
    status = ledger_run(ledger, statement, err);
    sql_finalize(statement);
    return status;
}

enum status ledger_send_revised(struct ledger *ledger, const char *edge_suffix, struct ledger_key key, int64_t revision,
                                int again, bool *ret_sent, struct err *err) {
    bool sent = false;
    ledger_hold(ledger);
    enum status status = ledger_begin(ledger, true, err);
    if (status == STATUS_OK)
        status = ledger_end(ledger, send_revised(ledger, edge_suffix, key, revision, again, &sent, err), err);
    ledger_let_go(ledger);
    if (status == STATUS_OK) *ret_sent = sent;
    return status;
}

static enum status take_back(struct ledger *ledger, const char *edge_suffix, struct ledger_key key, struct err *err) {
    struct sql_statement *statement = NULL;
    TRY(ledger_prepare_once(ledger, SQL_TAKE_BACK, "used", &statement, err));
    ledger_bind_key(statement, key);
    sql_bind_text(statement, 3, edge_suffix);
    sql_bind_now(statement, 4);
    enum status status = ledger_run(ledger, statement, err);
    sql_finalize(statement);
    return status;
}

enum status ledger_take_back(struct ledger *ledger, const char *edge_suffix, struct ledger_key key, struct err *err) {
    ledger_hold(ledger);
    enum status status = ledger_begin(ledger, true, err);
    if (status == STATUS_OK) status = ledger_end(ledger, take_back(ledger, edge_suffix, key, err), err);
    ledger_let_go(ledger);
    return status;
}

static enum status visit_again(struct ledger *ledger, struct sql_statement *statement, ledger_again_visit *visit,
                               void *context, struct err *err) {
    for (bool row = true;;) {
        TRY(ledger_step(ledger, statement, &row, err));
        if (!row) return STATUS_OK;
        const struct ledger_key key = {sql_text(statement, 0), sql_text(statement, 1)};
        FAIL_IF(key.source == NULL || key.id == NULL, err, STATUS_NO_MEMORY, "no memory for a row of the ledger");
        TRY(visit(key, sql_int(statement, 2), context, err));
    }
}

enum status ledger_each_again(struct ledger *ledger, const char *column, int number, int64_t before, int most,
                              ledger_again_visit *visit, void *context, struct err *err) {
    char path[128];
    struct sql_statement *statement = NULL;
    snprintf(path, sizeof path, "$.columns.%.100s", column);
    ledger_hold(ledger);
    enum status status = ledger_prepare_once(ledger, SQL_EACH_AGAIN, "read", &statement, err);
    if (status == STATUS_OK) {
        sql_bind_text(statement, 1, path);
        sql_bind_int(statement, 2, number);
        sql_bind_int(statement, 3, most);
        sql_bind_int(statement, 4, before > 0 ? before : INT64_MAX);
        status = visit_again(ledger, statement, visit, context, err);
        sql_finalize(statement);
    }
    ledger_let_go(ledger);
    return status;
}

static enum status ask(struct ledger *ledger, enum ledger_statement which, const struct ledger_key *key,
                       const char *suffix, int64_t *ret_number, struct err *err) {
    struct sql_statement *statement = NULL;
    bool row = false;
    ledger_hold(ledger);
    enum status status = ledger_prepare_once(ledger, which, "read", &statement, err);
    if (status == STATUS_OK) {
        if (key != NULL) ledger_bind_key(statement, *key);
        if (suffix != NULL) sql_bind_text(statement, key != NULL ? 3 : 1, suffix);
        status = ledger_step(ledger, statement, &row, err);
        if (row) *ret_number = sql_int(statement, 0);
        sql_finalize(statement);
    }
    ledger_let_go(ledger);
    return status;
}

enum status ledger_latest_revision(struct ledger *ledger, struct ledger_key key, int64_t *ret_revision,
                                   struct err *err) {
    return ask(ledger, SQL_LATEST_REVISION, &key, NULL, ret_revision, err);
}

enum status ledger_waiting_for(struct ledger *ledger, const char *edge_suffix, int64_t *ret_count, struct err *err) {
    return ask(ledger, SQL_WAITING_FOR, NULL, edge_suffix, ret_count, err);
}

enum status ledger_awaits(struct ledger *ledger, const char *edge_suffix, struct ledger_key key, bool *ret_awaits,
                          struct err *err) {
    int64_t count = 0;
    TRY(ask(ledger, SQL_AWAITS, &key, edge_suffix, &count, err));
    *ret_awaits = count > 0;
    return STATUS_OK;
}

enum status ledger_fail_done(struct ledger *ledger, struct ledger_key key, const char *reason, struct err *err) {
    ledger_hold(ledger);
    enum status status = ledger_begin(ledger, true, err);
    if (status == STATUS_OK) status = ledger_end(ledger, change(ledger, SQL_FAIL_DONE, key, reason, err), err);
    ledger_let_go(ledger);
    return status;
}

static enum status revise(struct ledger *ledger, const struct ledger_key *keys, size_t count, const char *reason,
                          int64_t *changed, struct err *err) {
    const enum ledger_statement which = reason != NULL ? SQL_FAIL_TOGETHER : SQL_MEND_TOGETHER;
    int64_t before = ledger_total_changes(ledger);
    for (size_t i = 0; i < count; i++)
        TRY(change(ledger, which, keys[i], reason, err));
    *changed = ledger_total_changes(ledger) - before;
    return STATUS_OK;
}

enum status ledger_revise(struct ledger *ledger, const struct ledger_key *keys, size_t count, const char *reason,
                          int64_t *ret_changed, struct err *err) {
    int64_t changed = 0;
    ledger_hold(ledger);
    enum status status = ledger_begin(ledger, true, err);
    if (status == STATUS_OK) status = ledger_end(ledger, revise(ledger, keys, count, reason, &changed, err), err);
    ledger_let_go(ledger);
    if (status == STATUS_OK) *ret_changed = changed;
    return status;
}
