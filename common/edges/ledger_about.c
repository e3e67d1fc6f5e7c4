/* Says in a ledger to which stage of which session it belongs, so that a ledger that lies in the wrong place is
 * refused. */
#include <stdio.h>
#include <string.h>

#include "common/edges/ledger_private.h"

/* Copies the value of a key; "" when there is none. Ledgers of other programs, and of the first version, have no such
 * table. */
static void read_value(struct ledger *ledger, const char *key, char value[LEDGER_OWNER_SIZE]) {
    struct sql_statement *statement = NULL;
    value[0] = '\0';
    bool row = false;
    if (ledger_prepare_text(ledger, "SELECT value FROM about WHERE key = ?1", "read", &statement, NULL) == STATUS_OK) {
        sql_bind_text(statement, 1, key);
        const char *text = ledger_step(ledger, statement, &row, NULL) == STATUS_OK && row ? sql_text(statement, 0) : "";
        snprintf(value, LEDGER_OWNER_SIZE, "%s", text != NULL ? text : "");
    }
    sql_finalize(statement);
}

static enum status write_value(struct ledger *ledger, const char *key, const char *value, struct err *err) {
    struct sql_statement *statement = NULL;
    TRY(ledger_prepare_text(ledger, "INSERT INTO about (key, value) VALUES (?1, ?2) ON CONFLICT DO NOTHING", "written",
                            &statement, err));
    sql_bind_text(statement, 1, key);
    sql_bind_text(statement, 2, value);
    enum status status = ledger_run(ledger, statement, err);
    sql_finalize(statement);
    return status;
}

struct ledger_owner ledger_owner(struct ledger *ledger) {
    struct ledger_owner owner;
    ledger_hold(ledger);
    read_value(ledger, "stage", owner.stage);
    read_value(ledger, "session", owner.session);
    ledger_let_go(ledger);
    return owner;
}

enum status ledger_check_owner(struct ledger *ledger, const char *stage, const char *session, struct err *err) {
    struct ledger_owner owner = ledger_owner(ledger);
    FAIL_IF(
        owner.stage[0] != '\0' && strcmp(owner.stage, stage) != 0, err, STATUS_BAD_ARGUMENT,
        "%s is the ledger of the stage %s, and that of %s is expected here: was it swapped or copied? Put the right "
        "file back; if it is lost, move this one away and `icestream repair`",
        ledger->path, owner.stage, stage);
    bool foreign = session[0] != '\0' && owner.session[0] != '\0' && strcmp(owner.session, session) != 0;
    FAIL_IF(foreign, err, STATUS_BAD_ARGUMENT,
            "%s is the ledger of another session (%s; this one is %s): was it copied here? Put the right file back; if "
            "it is lost, move this one away and `icestream repair`",
            ledger->path, owner.session, session);
    return STATUS_OK;
}

enum status ledger_own(struct ledger *ledger, const char *stage, const char *session, struct err *err) {
    ledger_hold(ledger);
    enum status status = ledger_check_owner(ledger, stage, session, err);
    struct ledger_owner owner = ledger_owner(ledger);
    if (status == STATUS_OK) status = ledger_begin(ledger, false, err);
    if (status == STATUS_OK) {
        if (owner.stage[0] == '\0') status = write_value(ledger, "stage", stage, err);
        if (status == STATUS_OK && owner.session[0] == '\0' && session[0] != '\0')
            status = write_value(ledger, "session", session, err);
        status = ledger_end(ledger, status, err);
    }
    ledger_let_go(ledger);
    return status;
}
