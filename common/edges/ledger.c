#include "common/edges/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/edges/ledger_private.h"
#include "common/files.h"
#include "common/memory.h"

enum { WAL_WAIT_MILLISECONDS = 5 };
enum { FIRST_PAUSE_NS = 50000, PAUSES = 6 };

/* The page cache is small and soon full, so that a stage's memory does not grow with the session. */
static const char writable[] = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -256;";
static const char small_cache[] = "PRAGMA cache_size = -256;";

#define SELECT_ROW                                                                                                     \
    "SELECT number, source, id, revision, reason, item, state, attempts, instance, time_seen, time_changed FROM items"
/* ?1 and ?2 are source and id. An unknown source matches any; the index begins with the id. */
#define COMPARED                                                                                                       \
    "SELECT 1 FROM compared AS i WHERE i.id = o.id AND (i.source = o.source OR i.source = '' OR o.source = '')"
#define THE_ITEM "id = ?2 AND (source = ?1 OR source = '' OR ?1 = '')"
static const char *const sql[SQL_COUNT] = {
    [SQL_BEGIN] = "BEGIN IMMEDIATE",
    [SQL_COMMIT] = "COMMIT",
    [SQL_ROLLBACK] = "ROLLBACK",
    [SQL_COUNTS] = "SELECT state, COUNT(*) FROM items GROUP BY state",
    /* An index alone answers both: the rows are long. */
    [SQL_OUTBOX_COUNTS] = "SELECT (SELECT COUNT(*) FROM outbox),"
                          " (SELECT COUNT(*) FROM outbox WHERE acknowledged IS NULL)",
    /* The row of this very source, else the one whose source is not known. */
    [SQL_FIND_ITEM] = "SELECT number, state, instance, token, source, revision FROM items WHERE " THE_ITEM
                      " ORDER BY source = ?1 DESC, number LIMIT 1",
    [SQL_ITEM_TEXT] = "SELECT item FROM items WHERE " THE_ITEM " ORDER BY source = ?1 DESC, number LIMIT 1",
    [SQL_INSERT_ITEM] = "INSERT INTO items (source, id, state, reason, attempts, crashes, instance, token, item,"
                        " time_seen, time_changed, revision) VALUES (?1, ?2, ?3, ?4, 1, 0, ?5, ?6, ?7, ?8, ?8, ?9)",
    /* A later revision has no attempts and no crashes behind it. */
    [SQL_CLAIM_ITEM] = "UPDATE items SET attempts = CASE WHEN revision < ?7 THEN 1 ELSE attempts + 1 END,"
                       " crashes = CASE WHEN revision < ?7 THEN 0 ELSE crashes END, revision = ?7, state = 0,"
                       " reason = NULL, instance = ?2, token = ?3, item = ?4, time_changed = ?5, source = ?6"
                       " WHERE number = ?1",
    [SQL_REPLACE_ITEM] = "UPDATE items SET state = ?2, reason = ?3, item = ?4, revision = ?5, time_changed = ?6"
                         " WHERE number = ?1",
    [SQL_NAME_SOURCE] = "UPDATE items SET source = ?2 WHERE number = ?1",
    [SQL_RELEASE] = "UPDATE items SET instance = -1, token = NULL WHERE state = 0 AND instance = ?1",
    [SQL_FINISH_ITEM] = "UPDATE items SET state = ?3, reason = ?4, item = COALESCE(?5, item), time_changed = ?6"
                        " WHERE " THE_ITEM " AND state = 0 AND instance = ?7 AND token = ?8"
                        " AND revision = ?9",
    [SQL_CRASH_ITEM] = "UPDATE items SET crashes = crashes + 1, time_changed = ?3 WHERE " THE_ITEM " AND state = 0",
    [SQL_SET_ASIDE] = "UPDATE items SET state = 3, reason = ?3, instance = -1, token = NULL, time_changed = ?4"
                      " WHERE " THE_ITEM " AND state = 0 AND crashes >= ?5",
    [SQL_RETRY_FORGET] = "DELETE FROM items WHERE state = 3 AND instance = -2 AND (?2 IS NULL OR (" THE_ITEM "))",
    [SQL_RETRY_ITEMS] = "UPDATE items SET state = 0, reason = NULL, crashes = 0, instance = -1, token = NULL,"
                        " time_changed = ?3 WHERE state = 3 AND (?2 IS NULL OR (" THE_ITEM "))",
    [SQL_NEXT_ROW] = SELECT_ROW " WHERE number > ?1 ORDER BY number LIMIT 1",
    /* The index of states finds the failed items without reading all the others. */
    [SQL_NEXT_IN_STATE] = SELECT_ROW " WHERE state = ?2 AND number > ?1 ORDER BY number LIMIT 1",
    [SQL_POST] = "INSERT INTO outbox (edge, source, id, item, time_sent) VALUES (?1, ?2, ?3, ?4, ?5)",
    [SQL_POSTED] =
        "SELECT 1 FROM outbox WHERE " THE_ITEM " AND COALESCE(json_extract(item, '$.revision'), 0) >= ?3 LIMIT 1",
    [SQL_NEXT_PARCEL] = "SELECT seq, id, item FROM outbox WHERE edge = ?1 AND acknowledged IS NULL AND seq > ?2"
                        " ORDER BY seq LIMIT 1",
    [SQL_EACH_WAITING] = "SELECT seq, id, item FROM outbox WHERE edge = ?1 AND acknowledged IS NULL AND seq > ?2"
                         " ORDER BY seq",
    [SQL_ACKNOWLEDGE] = "UPDATE outbox SET acknowledged = ?3, verdict = ?4 WHERE edge = ?1 AND seq = ?2"
                        " AND acknowledged IS NULL",
    [SQL_ACKNOWLEDGED] = "SELECT 1 FROM outbox WHERE edge = ?1 AND seq = ?2 AND acknowledged IS NOT NULL",
    [SQL_UNACKNOWLEDGED] = "SELECT COUNT(*) FROM outbox WHERE edge = ?1 AND acknowledged IS NULL",
    [SQL_POST_AGAIN] = "INSERT INTO outbox (edge, source, id, item, time_sent) SELECT edge, source, id, item, ?4"
                       " FROM outbox WHERE " THE_ITEM " AND substr(edge, -length(?3)) = ?3",
    [SQL_WITHDRAW] = "DELETE FROM outbox WHERE " THE_ITEM " AND substr(edge, -length(?3)) = ?3 AND seq <= ?4",
    /* The last parcel, if it is acknowledged. */
    [SQL_POST_REVISED] =
        "INSERT INTO outbox (edge, source, id, item, time_sent)"
        " SELECT edge, source, id, CASE WHEN ?6 > 0 THEN json_set(item, '$.revision', ?5, '$.again', ?6)"
        " ELSE json_set(item, '$.revision', ?5) END, ?4 FROM outbox WHERE " THE_ITEM
        " AND substr(edge, -length(?3)) = ?3 AND json_valid(item) AND NOT EXISTS (SELECT 1 FROM"
        " outbox WHERE " THE_ITEM " AND substr(edge, -length(?3)) = ?3 AND acknowledged IS NULL)"
        " ORDER BY seq DESC LIMIT 1",
    /* ?1: of the column. */
    [SQL_EACH_AGAIN] =
        "SELECT source, id, number FROM items WHERE number < ?4 AND state = 1 AND instance <> -2 AND json_valid(item)"
        " AND COALESCE(json_extract(item, ?1), 0) < ?2 AND COALESCE(json_extract(item, '$.again'), 0) < ?2"
        " ORDER BY number DESC LIMIT ?3",
    [SQL_TAKE_BACK] = "UPDATE outbox SET acknowledged = ?4, verdict = 'done' WHERE " THE_ITEM
                      " AND substr(edge, -length(?3)) = ?3 AND acknowledged IS NULL AND json_valid(item)"
                      " AND json_extract(item, '$.again') > 0",
    [SQL_LATEST_REVISION] = "SELECT MAX(COALESCE((SELECT MAX(revision) FROM items WHERE " THE_ITEM "), 0),"
                            " COALESCE((SELECT MAX(json_extract(item, '$.revision')) FROM outbox WHERE " THE_ITEM
                            " AND json_valid(item)), 0))",
    [SQL_WAITING_FOR] = "SELECT COUNT(*) FROM outbox WHERE acknowledged IS NULL AND substr(edge, -length(?1)) = ?1",
    [SQL_AWAITS] =
        "SELECT COUNT(*) FROM outbox WHERE " THE_ITEM " AND acknowledged IS NULL AND substr(edge, -length(?3)) = ?3",
    [SQL_END_INPUT] = "INSERT OR IGNORE INTO ends (edge, run) VALUES (?1, ?2)",
    [SQL_ENDED_INPUTS] = "SELECT COUNT(*) FROM ends WHERE run = ?1 AND edge NOT LIKE 'out %'",
    [SQL_OUTPUT_ENDED] = "SELECT 1 FROM ends WHERE edge = ?1 AND run = ?2",
    [SQL_PUT_FILE] = "INSERT OR REPLACE INTO files (source, id, product, path, revision, size, mtime_ns, digest)"
                     " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    [SQL_FORGET_FILES] = "DELETE FROM files WHERE source = ?1 AND id = ?2",
    [SQL_DROP_REMOVED] = "DELETE FROM files WHERE size < 0",
    [SQL_EACH_FILE] = "SELECT source, id, product, path, size, mtime_ns, digest FROM files ORDER BY rowid",
    [SQL_REDO_ITEM] = "UPDATE items SET state = 0, reason = NULL, crashes = 0, instance = -1, token = NULL,"
                      " time_changed = ?3 WHERE " THE_ITEM " AND state = 1 AND instance <> -2",
    [SQL_REDO_OUTBOX] = "DELETE FROM outbox WHERE " THE_ITEM,
    [SQL_FAIL_DONE] = "UPDATE items SET state = 3, reason = ?4, instance = -1, token = NULL, time_changed = ?3"
                      " WHERE " THE_ITEM " AND state = 1 AND instance <> -2",
    [SQL_FAIL_TOGETHER] = "UPDATE items SET state = 3, reason = ?4, instance = -3, token = NULL, time_changed = ?3"
                          " WHERE " THE_ITEM " AND state = 1 AND instance <> -2",
    [SQL_MEND_TOGETHER] = "UPDATE items SET state = 1, reason = NULL, instance = -1, time_changed = ?3"
                          " WHERE " THE_ITEM " AND state = 3 AND instance = -3",
    [SQL_EACH_PARCEL] = "SELECT edge, seq, source, id, verdict, time_sent, acknowledged FROM outbox ORDER BY seq",
    [SQL_ATTACH] = "ATTACH ?1 AS other",
    /* Grouped by the index of keys, so that nothing is sorted, and held, on the way. `compared` is the other ledger's
     * list of items. */
    [SQL_COMPARE_ALL] =
        "SELECT SUM(parcels), COUNT(*), SUM(waiting), SUM(CASE WHEN there THEN 0 ELSE waiting END),"
        " SUM(waiting = 0 AND NOT there)"
        " FROM (SELECT COUNT(*) AS parcels, SUM(acknowledged IS NULL) AS waiting, EXISTS(" COMPARED ") AS there"
        "  FROM outbox AS o WHERE substr(edge, instr(edge, '>') + 1) = ?1 GROUP BY o.id, o.source)",
    [SQL_COMPARE_WAITING] = "SELECT 0, 0, COUNT(*), SUM(NOT EXISTS(" COMPARED ")), 0"
                            " FROM outbox AS o"
                            " WHERE o.acknowledged IS NULL AND substr(o.edge, instr(o.edge, '>') + 1) = ?1",
    [SQL_COUNT_UNSENT] = "SELECT COUNT(*) FROM items WHERE state = 1"
                         " AND EXISTS (SELECT 1 FROM outbox WHERE substr(edge, -length(?1)) = ?1)"
                         " AND NOT EXISTS (SELECT 1 FROM outbox AS o WHERE o.id = items.id AND (o.source = items.source"
                         "  OR o.source = '' OR items.source = '') AND substr(edge, -length(?1)) = ?1)",
    [SQL_SUM] = "SELECT TOTAL(CASE WHEN json_valid(item) THEN json_extract(item, ?1) END) FROM items WHERE state = 1",
    [SQL_WAS_SENT] = "SELECT COUNT(*) FROM outbox WHERE " THE_ITEM " AND substr(edge, -length(?3)) = ?3",
};

const char *ledger_state_name(enum ledger_state state) {
    static const char *const names[] = {"in_flight", "done", "rejected", "failed"};
    return state <= LEDGER_FAILED ? names[state] : "unknown";
}

void ledger_hold(struct ledger *ledger) {
    pthread_mutex_lock(&ledger->lock);
}

void ledger_let_go(struct ledger *ledger) {
    pthread_mutex_unlock(&ledger->lock);
}

/* A disk that is full, read-only or away may come back: callers that can wait, wait. The failed transaction has left
 * nothing. */
static enum status status_of_sqlite(int code) {
    switch (code & 0xff) {
    case SQLITE_NOMEM:
        return STATUS_NO_MEMORY;
    case SQLITE_IOERR:
        return code == SQLITE_IOERR_NOMEM ? STATUS_NO_MEMORY : STATUS_UNAVAILABLE;
    case SQLITE_FULL:
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_PROTOCOL:
    case SQLITE_LOCKED:
    case SQLITE_BUSY:
        return STATUS_UNAVAILABLE;
    default:
        return STATUS_IO;
    }
}

enum status ledger_fail(struct ledger *ledger, const char *what, struct err *err) {
    int reason = sqlite3_system_errno(ledger->db), code = sqlite3_extended_errcode(ledger->db);
    /* SQLite does not keep the reason of each failed write; with a limit on the size of files, that is the likely
     * one. */
    if (reason == 0 && (code & 0xff) == SQLITE_IOERR && status_of_writing(EFBIG) == STATUS_UNAVAILABLE) reason = EFBIG;
    bool broken = (code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB;
    FAIL(err, status_of_sqlite(code), "%s: the ledger cannot be %s: %s%s%s%s%s", ledger->path, what,
         sqlite3_errmsg(ledger->db), reason != 0 ? " (" : "", reason != 0 ? status_reason(reason) : "",
         reason != 0 ? ")" : "",
         broken ? ": its disk has lost data; `icestream repair --session DIR` rebuilds it" : "");
}

enum status ledger_prepare(struct ledger *ledger, enum ledger_statement which, sqlite3_stmt **ret_statement,
                           struct err *err) {
    sqlite3_stmt **statement = &ledger->statements[which];
    if (*statement == NULL &&
        sqlite3_prepare_v3(ledger->db, sql[which], -1, SQLITE_PREPARE_PERSISTENT, statement, NULL) != SQLITE_OK)
        return ledger_fail(ledger, "used", err);
    sqlite3_clear_bindings(*statement);
    *ret_statement = *statement;
    return STATUS_OK;
}

enum status ledger_prepare_once(struct ledger *ledger, enum ledger_statement which, const char *doing,
                                sqlite3_stmt **ret_statement, struct err *err) {
    if (sqlite3_prepare_v2(ledger->db, sql[which], -1, ret_statement, NULL) != SQLITE_OK)
        return ledger_fail(ledger, doing, err);
    return STATUS_OK;
}

void ledger_bind_text(sqlite3_stmt *statement, int index, const char *text) {
    sqlite3_bind_text(statement, index, text, -1, SQLITE_STATIC);
}

void ledger_bind_key(sqlite3_stmt *statement, struct ledger_key key) {
    ledger_bind_text(statement, 1, key.source);
    ledger_bind_text(statement, 2, key.id);
}

enum status ledger_step(struct ledger *ledger, sqlite3_stmt *statement, bool *ret_row, struct err *err) {
    int result = sqlite3_step(statement);
    if (result != SQLITE_ROW) sqlite3_reset(statement);
    if (result != SQLITE_ROW && result != SQLITE_DONE)
        return ledger_fail(ledger, sqlite3_stmt_readonly(statement) ? "read" : "written", err);
    *ret_row = result == SQLITE_ROW;
    return STATUS_OK;
}

enum status ledger_run(struct ledger *ledger, sqlite3_stmt *statement, struct err *err) {
    bool row;
    enum status status = ledger_step(ledger, statement, &row, err);
    sqlite3_reset(statement);
    return status;
}

static enum status run_simple(struct ledger *ledger, enum ledger_statement which, struct err *err) {
    sqlite3_stmt *statement = NULL;
    TRY(ledger_prepare(ledger, which, &statement, err));
    return ledger_run(ledger, statement, err);
}

pid_t ledger_writer(const char *path) {
    enum { WAL_WRITE_LOCK = 120 }; /* byte of the wal-index: sqlite.org/walformat.html, "WAL Locks" */
    char index[PATH_SIZE];
    if ((size_t)snprintf(index, sizeof index, "%s-shm", path) >= sizeof index) return 0;
    int descriptor = open(index, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return 0;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = WAL_WRITE_LOCK, .l_len = 1};
    bool held = fcntl(descriptor, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
    close(descriptor);
    return held ? lock.l_pid : 0;
}

enum status ledger_set_durable(struct ledger *ledger, bool durable, struct err *err) {
    if (durable == ledger->durable) return STATUS_OK;
    const char *text = durable ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL";
    if (sqlite3_exec(ledger->db, text, NULL, NULL, NULL) != SQLITE_OK) return ledger_fail(ledger, "set up", err);
    ledger->durable = durable;
    return STATUS_OK;
}

enum status ledger_begin(struct ledger *ledger, bool durable, struct err *err) {
    TRY(ledger_set_durable(ledger, durable, err));
    return run_simple(ledger, SQL_BEGIN, err);
}

enum status ledger_end(struct ledger *ledger, enum status status, struct err *err) {
    if (status == STATUS_OK) status = run_simple(ledger, SQL_COMMIT, err);
    if (status != STATUS_OK && !sqlite3_get_autocommit(ledger->db)) run_simple(ledger, SQL_ROLLBACK, NULL);
    ledger_copy_end(ledger, status == STATUS_OK);
    return status;
}

/* Replicas may create a ledger at the same moment, and SQLite does not always wait when the journal mode changes. */
static enum status use_wal(struct ledger *ledger, struct err *err) {
    double begin = clock_monotonic();
    int result = sqlite3_exec(ledger->db, writable, NULL, NULL, NULL);
    while (result == SQLITE_BUSY && clock_monotonic() - begin < ledger->patience) {
        sqlite3_sleep(WAL_WAIT_MILLISECONDS);
        result = sqlite3_exec(ledger->db, writable, NULL, NULL, NULL);
    }
    return result == SQLITE_OK ? STATUS_OK : ledger_fail(ledger, "opened for writing", err);
}

/* Other replicas hold the ledger for one transaction, mostly less than a millisecond. SQLite's own pauses grow to 100
 * ms, in which many replicas would stand still while the disk rests. */
static int wait_for_others(void *context, int tries) {
    struct ledger *ledger = context;
    double now = clock_monotonic();
    if (tries == 0) ledger->busy_at = now;
    if (now - ledger->busy_at > ledger->patience) return 0;
    long pause = tries < PAUSES ? FIRST_PAUSE_NS << tries : FIRST_PAUSE_NS << PAUSES;
    /* Spreads the waiters, so that not all of them try at the same moment. */
    const struct timespec time = {0, pause + (long)((unsigned long)(1e9 * now) % (unsigned long)pause)};
    nanosleep(&time, NULL);
    return 1;
}

static enum status set_up(struct ledger *ledger, const char *stage, bool read_only, struct err *err) {
    sqlite3_busy_handler(ledger->db, wait_for_others, ledger);
    if (read_only) {
        if (sqlite3_exec(ledger->db, small_cache, NULL, NULL, NULL) != SQLITE_OK)
            return ledger_fail(ledger, "set up", err);
        return ledger_schema_read(ledger, err);
    }
    TRY(use_wal(ledger, err));
    /* Several replicas may open a new ledger at once: the first one makes the tables. */
    TRY(ledger_begin(ledger, false, err));
    enum status status = ledger_schema_write(ledger, stage, err);
    if (status == STATUS_OK) status = ledger_copy_open(ledger, err);
    return ledger_end(ledger, status, err);
}

/* SQLite would make the file with mode 0644. Its companions get the mode of the file. */
void ledger_make_file(const char *path) {
    int descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0) close(descriptor); /* SQLite reports what is wrong */
}

enum status ledger_open_patient(const char *path, const char *stage, bool read_only, double patience,
                                struct ledger **ret_ledger, struct err *err) {
    struct ledger *ledger = calloc(1, sizeof *ledger);
    FAIL_IF(ledger == NULL, err, STATUS_NO_MEMORY, "no memory for a ledger");
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&ledger->lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
    ledger->path = strdup(path);
    ledger->read_only = read_only;
    ledger->copy.descriptor = -1;
    ledger->patience = patience;
    int flags = SQLITE_OPEN_NOMUTEX | (read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    enum status status = STATUS_OK;
    if (ledger->path == NULL)
        status = err_set(err, STATUS_NO_MEMORY, __FILE__, __LINE__, "no memory for a ledger");
    else if (!read_only && strcmp(path, ":memory:") != 0)
        ledger_make_file(path);
    if (status == STATUS_OK && sqlite3_open_v2(path, &ledger->db, flags, NULL) != SQLITE_OK)
        status = ledger_fail(ledger, "opened", err);
    if (status == STATUS_OK) status = set_up(ledger, stage, read_only, err);
    bool still = false;
    if (status == STATUS_UNAVAILABLE && read_only) status = ledger_open_still(ledger, &still, err);
    if (still && status == STATUS_OK) status = set_up(ledger, stage, read_only, err);
    if (status != STATUS_OK) {
        ledger_close(&ledger);
        return status;
    }
    *ret_ledger = ledger;
    return STATUS_OK;
}

enum status ledger_open(const char *path, const char *stage, bool read_only, struct ledger **ret_ledger,
                        struct err *err) {
    return ledger_open_patient(path, stage, read_only, LEDGER_PATIENCE, ret_ledger, err);
}

struct ledger *ledger_reading(struct ledger *ledger) {
    struct ledger *reader = atomic_load(&ledger->reader);
    if (reader != NULL || ledger->read_only || strcmp(ledger->path, ":memory:") == 0) return reader ? reader : ledger;
    ledger_hold(ledger);
    reader = atomic_load(&ledger->reader);
    if (reader == NULL && ledger_open_patient(ledger->path, NULL, true, ledger->patience, &reader, NULL) == STATUS_OK)
        atomic_store(&ledger->reader, reader);
    ledger_let_go(ledger);
    return reader != NULL ? reader : ledger;
}

void ledger_close(struct ledger **ledger) {
    if (*ledger == NULL) return;
    struct ledger *reader = atomic_load(&(*ledger)->reader);
    ledger_close(&reader);
    for (int i = 0; i < SQL_COUNT; i++)
        sqlite3_finalize((*ledger)->statements[i]);
    sqlite3_close((*ledger)->db);
    ledger_copy_close(*ledger);
    pthread_mutex_destroy(&(*ledger)->lock);
    free((*ledger)->path);
    mem_free(ledger);
}

static enum status count_all(struct ledger *ledger, struct ledger_counts *counts, struct err *err) {
    sqlite3_stmt *statement = NULL;
    TRY(ledger_prepare(ledger, SQL_COUNTS, &statement, err));
    bool row;
    for (;;) {
        TRY(ledger_step(ledger, statement, &row, err));
        if (!row) break;
        int64_t count = sqlite3_column_int64(statement, 1);
        switch (sqlite3_column_int(statement, 0)) {
        case LEDGER_IN_FLIGHT:
            counts->in_flight = count;
            break;
        case LEDGER_DONE:
            counts->done = count;
            break;
        case LEDGER_REJECTED:
            counts->rejected = count;
            break;
        case LEDGER_FAILED:
            counts->failed = count;
            break;
        default:
            break;
        }
        counts->seen += count;
    }
    TRY(ledger_prepare(ledger, SQL_OUTBOX_COUNTS, &statement, err));
    TRY(ledger_step(ledger, statement, &row, err));
    counts->outbox = sqlite3_column_int64(statement, 0);
    counts->outbox_unacknowledged = sqlite3_column_int64(statement, 1);
    sqlite3_reset(statement);
    return STATUS_OK;
}

enum status ledger_counts(struct ledger *ledger, struct ledger_counts *ret_counts, struct err *err) {
    struct ledger_counts counts = {0};
    ledger_hold(ledger);
    enum status status = count_all(ledger, &counts, err);
    ledger_let_go(ledger);
    if (status == STATUS_OK) *ret_counts = counts;
    return status;
}
