/* Copies a ledger that is in use. */
#include <stdio.h>
#include <unistd.h>

#include "common/edges/ledger_private.h"
#include "common/files.h"

enum { PAGES = 256, PAUSE_MILLISECONDS = 5 }; /* of one step, after which writers may go on */

static enum status copy(struct ledger *ledger, sqlite3 *target, struct err *err) {
    sqlite3_backup *backup = sqlite3_backup_init(target, "main", ledger->db, "main");
    if (backup == NULL) FAIL(err, STATUS_IO, "%s: cannot be copied: %s", ledger->path, sqlite3_errmsg(target));
    int result;
    do {
        result = sqlite3_backup_step(backup, PAGES);
        if (result == SQLITE_BUSY || result == SQLITE_LOCKED) sqlite3_sleep(PAUSE_MILLISECONDS);
    } while (result == SQLITE_OK || result == SQLITE_BUSY || result == SQLITE_LOCKED);
    sqlite3_backup_finish(backup);
    FAIL_IF(result != SQLITE_DONE, err, result == SQLITE_FULL ? STATUS_UNAVAILABLE : STATUS_IO,
            "%s: cannot be copied: %s", ledger->path, sqlite3_errstr(result));
    return STATUS_OK;
}

/* Removes what belongs to the ledger that was at the path: its log would be applied to the new one, and its second copy
 * tells of another time. */
static enum status drop_companions(const char *path, struct err *err) {
    static const char *const endings[] = {"-wal", "-shm"};
    char name[PATH_SIZE];
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        FAIL_IF((size_t)snprintf(name, sizeof name, "%s%s", path, endings[i]) >= sizeof name, err, STATUS_BAD_ARGUMENT,
                "%s: too long a path", path);
        TRY(file_remove(name, err));
    }
    TRY(ledger_copy_path(path, name, err));
    return file_remove(name, err);
}

/* Copies pages: one read transaction for the whole copy. Writers go on, and the copy is of one moment. */
static enum status copy_file(struct ledger *ledger, const char *partial, struct err *err) {
    sqlite3 *target = NULL;
    enum status status = STATUS_OK;
    ledger_make_file(partial);
    if (sqlite3_open(partial, &target) != SQLITE_OK)
        status = err_set(err, STATUS_IO, __FILE__, __LINE__, "%s: cannot be made: %s", partial, sqlite3_errmsg(target));
    if (status == STATUS_OK && sqlite3_exec(ledger->db, "BEGIN", NULL, NULL, NULL) != SQLITE_OK)
        status = ledger_fail(ledger, "read", err);
    if (status == STATUS_OK) {
        status = copy(ledger, target, err);
        sqlite3_exec(ledger->db, "COMMIT", NULL, NULL, NULL);
    }
    if (sqlite3_close(target) != SQLITE_OK && status == STATUS_OK)
        status = err_set(err, STATUS_IO, __FILE__, __LINE__, "%s: cannot be finished", partial);
    return status;
}

/* Copies rows from PostgreSQL into a file, likewise of one moment. */
static enum status copy_server(struct ledger *ledger, const char *partial, struct err *err) {
    char path[PATH_SIZE];
    struct ledger target = {.path = path, .copy.descriptor = -1};
    snprintf(path, sizeof path, "%s", partial);
    enum status status = ledger_sqlite_new(&target, partial, err);
    if (status == STATUS_OK) status = ledger->driver->look(ledger, true, err);
    if (status == STATUS_OK) {
        status = ledger_transfer(ledger, &target, err);
        (void)ledger->driver->look(ledger, false, NULL);
    }
    if (target.db != NULL && status == STATUS_OK) status = target.driver->end(&target, status, err);
    if (target.driver != NULL) target.driver->close(&target);
    return status;
}

enum status ledger_backup(struct ledger *ledger, const char *path, struct err *err) {
    char partial[PATH_SIZE];
    FAIL_IF((size_t)snprintf(partial, sizeof partial, "%s.partial", path) >= sizeof partial, err, STATUS_BAD_ARGUMENT,
            "%s: too long a path", path);
    unlink(partial);
    ledger_hold(ledger);
    enum status status = ledger->server != NULL ? copy_server(ledger, partial, err) : copy_file(ledger, partial, err);
    ledger_let_go(ledger);
    if (status == STATUS_OK) status = drop_companions(path, err);
    if (status == STATUS_OK && rename(partial, path) != 0)
        status = err_set(err, STATUS_IO, __FILE__, __LINE__, "%s: cannot be put in place", path);
    if (status != STATUS_OK) unlink(partial);
    return status;
}
