/* Ledgers that lie still: those of a session that was copied to a medium which nobody can write to. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/edges/ledger_private.h"

bool ledger_still_name(const char *path, char *name, size_t size) {
    size_t used = (size_t)snprintf(name, size, "file:");
    for (const char *p = path; *p != '\0'; p++) {
        bool plain = *p == '/' || (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9');
        if (used + 16 >= size) return false;
        used += (size_t)snprintf(name + used, size - used, plain ? "%c" : "%%%02X", (unsigned char)*p);
    }
    snprintf(name + used, size - used, "?immutable=1");
    return true;
}

/* Returns whether everything is in the file itself, and nobody can add to it. */
static bool lies_still(const char *path) {
    char folder[PATH_SIZE], log[PATH_SIZE];
    struct stat info;
    if (path_folder(path, folder, sizeof folder, NULL) != STATUS_OK ||
        faccessat(AT_FDCWD, folder, W_OK, AT_EACCESS) == 0)
        return false;
    if ((size_t)snprintf(log, sizeof log, "%s-wal", path) >= sizeof log) return false;
    return stat(log, &info) != 0 ? errno == ENOENT : info.st_size == 0;
}

enum status ledger_open_still(struct ledger *ledger, bool *ret_can, struct err *err) {
    char name[3 * PATH_SIZE];
    if (!lies_still(ledger->path) || !ledger_still_name(ledger->path, name, sizeof name)) return STATUS_UNAVAILABLE;
    for (int i = 0; i < SQL_COUNT; i++) {
        sql_finalize(ledger->statements[i]);
        ledger->statements[i] = NULL;
    }
    for (int i = 0; i < SQL_TRANSACTIONS; i++) {
        sql_finalize(ledger->transactions[i]);
        ledger->transactions[i] = NULL;
    }
    sqlite3_close(ledger->db);
    ledger->db = NULL;
    if (err != NULL) *err = (struct err){0};
    if (sqlite3_open_v2(name, &ledger->db, SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL) !=
        SQLITE_OK)
        return ledger_fail(ledger, "opened", err);
    ledger->immutable = true;
    *ret_can = true;
    return STATUS_OK;
}
