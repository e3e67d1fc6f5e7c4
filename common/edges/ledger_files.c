/* The files of items in the ledger: what each item read and wrote, with size, time and digest. `icestream verify`
 * compares them with the disk. */
#include "common/edges/ledger_private.h"

static enum status put(struct ledger *ledger, struct ledger_key key, int64_t revision, const struct ledger_file *file,
                       struct err *err) {
    struct sql_statement *statement = NULL;
    TRY(ledger_prepare(ledger, SQL_PUT_FILE, &statement, err));
    ledger_bind_key(statement, key);
    sql_bind_int(statement, 3, file->product);
    sql_bind_text(statement, 4, file->path);
    sql_bind_int(statement, 5, revision);
    sql_bind_int(statement, 6, file->size);
    sql_bind_int(statement, 7, file->mtime_ns);
    sql_bind_text(statement, 8, file->digest);
    TRY(ledger_run(ledger, statement, err));
    if (file->size >= 0) return STATUS_OK;
    /* The row goes in first, so that the second copy learns of it too. */
    TRY(ledger_prepare(ledger, SQL_DROP_REMOVED, &statement, err));
    return ledger_run(ledger, statement, err);
}

enum status ledger_put_files(struct ledger *ledger, struct ledger_key key, int64_t revision,
                             const struct ledger_file *files, size_t count, struct err *err) {
    struct sql_statement *statement = NULL;
    TRY(ledger_prepare(ledger, SQL_FORGET_FILES, &statement, err));
    ledger_bind_key(statement, key);
    TRY(ledger_run(ledger, statement, err));
    for (size_t i = 0; i < count; i++)
        TRY(put(ledger, key, revision, &files[i], err));
    return STATUS_OK;
}

/* Need not survive a power cut: what was written shortly before is then written again. */
enum status ledger_add_files(struct ledger *ledger, const struct ledger_file *files, size_t count, struct err *err) {
    ledger_hold(ledger);
    enum status status = ledger_begin(ledger, false, err);
    if (status == STATUS_OK) {
        for (size_t i = 0; i < count && status == STATUS_OK; i++)
            status = put(ledger, (struct ledger_key){"", ""}, 0, &files[i], err);
        status = ledger_end(ledger, status, err);
    }
    ledger_let_go(ledger);
    return status;
}

static bool has_files(struct ledger *ledger) {
    struct sql_statement *statement = NULL;
    const char *text = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'files'";
    bool has = false;
    if (ledger->server != NULL) return true;
    if (ledger_prepare_text(ledger, text, "read", &statement, NULL) == STATUS_OK)
        (void)ledger_step(ledger, statement, &has, NULL);
    sql_finalize(statement);
    return has;
}

static enum status walk(struct ledger *ledger, struct sql_statement *statement, ledger_file_visit *visit, void *context,
                        struct err *err) {
    for (bool row = true;;) {
        TRY(ledger_step(ledger, statement, &row, err));
        if (!row) return STATUS_OK;
        const char *digest = sql_text(statement, 6);
        const struct ledger_file_row file = {
            .source = sql_text(statement, 0),
            .id = sql_text(statement, 1),
            .file = {.product = (int)sql_int(statement, 2) != 0,
                     .path = sql_text(statement, 3),
                     .size = sql_int(statement, 4),
                     .mtime_ns = sql_int(statement, 5),
                     .digest = digest != NULL ? digest : ""},
        };
        FAIL_IF(file.source == NULL || file.id == NULL || file.file.path == NULL, err, STATUS_NO_MEMORY,
                "no memory for a row of the ledger");
        TRY(visit(&file, context, err));
    }
}

enum status ledger_each_file(struct ledger *ledger, ledger_file_visit *visit, void *context, struct err *err) {
    struct sql_statement *statement = NULL;
    ledger_hold(ledger);
    enum status status = STATUS_OK;
    /* A ledger of the first version has no such table. */
    if (has_files(ledger)) {
        status = ledger_prepare_once(ledger, SQL_EACH_FILE, "read", &statement, err);
        if (status == STATUS_OK) status = walk(ledger, statement, visit, context, err);
        sql_finalize(statement);
    }
    ledger_let_go(ledger);
    return status;
}
