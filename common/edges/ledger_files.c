/* The files of items in the ledger: what each item read and wrote, with size, time and digest. `icestream verify`
 * compares them with the disk. */
#include "common/edges/ledger_private.h"

static enum status put(struct ledger *ledger, struct ledger_key key, int64_t revision, const struct ledger_file *file,
                       struct err *err) {
    sqlite3_stmt *statement = NULL;
    TRY(ledger_prepare(ledger, SQL_PUT_FILE, &statement, err));
    ledger_bind_key(statement, key);
    sqlite3_bind_int(statement, 3, file->product);
    ledger_bind_text(statement, 4, file->path);
    sqlite3_bind_int64(statement, 5, revision);
    sqlite3_bind_int64(statement, 6, file->size);
    sqlite3_bind_int64(statement, 7, file->mtime_ns);
    ledger_bind_text(statement, 8, file->digest);
    TRY(ledger_run(ledger, statement, err));
    if (file->size >= 0) return STATUS_OK;
    /* The row goes in first, so that the second copy learns of it too. */
    TRY(ledger_prepare(ledger, SQL_DROP_REMOVED, &statement, err));
    return ledger_run(ledger, statement, err);
}

enum status ledger_put_files(struct ledger *ledger, struct ledger_key key, int64_t revision,
                             const struct ledger_file *files, size_t count, struct err *err) {
    sqlite3_stmt *statement = NULL;
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
    sqlite3_stmt *statement = NULL;
    const char *text = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'files'";
    bool has = sqlite3_prepare_v2(ledger->db, text, -1, &statement, NULL) == SQLITE_OK &&
               sqlite3_step(statement) == SQLITE_ROW;
    sqlite3_finalize(statement);
    return has;
}

static enum status walk(struct ledger *ledger, sqlite3_stmt *statement, ledger_file_visit *visit, void *context,
                        struct err *err) {
    for (bool row = true;;) {
        TRY(ledger_step(ledger, statement, &row, err));
        if (!row) return STATUS_OK;
        const char *digest = (const char *)sqlite3_column_text(statement, 6);
        const struct ledger_file_row file = {
            .source = (const char *)sqlite3_column_text(statement, 0),
            .id = (const char *)sqlite3_column_text(statement, 1),
            .file = {.product = sqlite3_column_int(statement, 2) != 0,
                     .path = (const char *)sqlite3_column_text(statement, 3),
                     .size = sqlite3_column_int64(statement, 4),
                     .mtime_ns = sqlite3_column_int64(statement, 5),
                     .digest = digest != NULL ? digest : ""},
        };
        FAIL_IF(file.source == NULL || file.id == NULL || file.file.path == NULL, err, STATUS_NO_MEMORY,
                "no memory for a row of the ledger");
        TRY(visit(&file, context, err));
    }
}

enum status ledger_each_file(struct ledger *ledger, ledger_file_visit *visit, void *context, struct err *err) {
    sqlite3_stmt *statement = NULL;
    ledger_hold(ledger);
    enum status status = STATUS_OK;
    /* A ledger of the first version has no such table. */
    if (has_files(ledger)) {
        status = ledger_prepare_once(ledger, SQL_EACH_FILE, "read", &statement, err);
        if (status == STATUS_OK) status = walk(ledger, statement, visit, context, err);
        sqlite3_finalize(statement);
    }
    ledger_let_go(ledger);
    return status;
}
