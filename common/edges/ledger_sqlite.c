/* The ledger in SQLite. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/edges/ledger_private.h"

enum { WAL_WAIT_MILLISECONDS = 5 };
enum { FIRST_PAUSE_NS = 50000, PAUSES = 6 };

/* The page cache is small and soon full, so that a stage's memory does not grow with the session. */
static const char writable[] = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -256;";
static const char small_cache[] = "PRAGMA cache_size = -256;";

struct lite_statement {
    struct sql_statement base;
    sqlite3_stmt *statement;
};

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

/* ---- Statements ---- */

static sqlite3_stmt *lite(struct sql_statement *statement) {
    return ((struct lite_statement *)statement)->statement;
}

static const struct sql_driver driver;

static enum status prepare(struct ledger *ledger, const char *text, const char *doing, bool kept,
                           struct sql_statement **ret_statement, struct err *err) {
    struct lite_statement *made = calloc(1, sizeof *made);
    FAIL_IF(made == NULL, err, STATUS_NO_MEMORY, "%s: no memory for a statement", ledger->path);
    made->base.driver = &driver;
    if (sqlite3_prepare_v3(ledger->db, text, -1, kept ? SQLITE_PREPARE_PERSISTENT : 0, &made->statement, NULL) !=
        SQLITE_OK) {
        free(made);
        return ledger_fail(ledger, doing, err);
    }
    *ret_statement = &made->base;
    return STATUS_OK;
}

static void finalize(struct sql_statement *statement) {
    sqlite3_finalize(lite(statement));
    free(statement);
}

static void reset(struct sql_statement *statement) {
    sqlite3_reset(lite(statement));
}

static void clear(struct sql_statement *statement) {
    sqlite3_clear_bindings(lite(statement));
}

static void bind_text(struct sql_statement *statement, int index, const char *text) {
    sqlite3_bind_text(lite(statement), index, text, -1, SQLITE_STATIC);
}

static void bind_int(struct sql_statement *statement, int index, int64_t value) {
    sqlite3_bind_int64(lite(statement), index, value);
}

static void bind_double(struct sql_statement *statement, int index, double value) {
    sqlite3_bind_double(lite(statement), index, value);
}

static void bind_now(struct sql_statement *statement, int index) {
    sqlite3_bind_double(lite(statement), index, clock_realtime());
}

static enum status step(struct ledger *ledger, struct sql_statement *statement, bool *ret_row, struct err *err) {
    int result = sqlite3_step(lite(statement));
    if (result != SQLITE_ROW) sqlite3_reset(lite(statement));
    if (result != SQLITE_ROW && result != SQLITE_DONE)
        return ledger_fail(ledger, sqlite3_stmt_readonly(lite(statement)) ? "read" : "written", err);
    *ret_row = result == SQLITE_ROW;
    return STATUS_OK;
}

static enum status run(struct ledger *ledger, struct sql_statement *statement, struct err *err) {
    bool row;
    enum status status = step(ledger, statement, &row, err);
    sqlite3_reset(lite(statement));
    return status;
}

static enum status run_counted(struct ledger *ledger, struct sql_statement *statement, int64_t *ret_changes,
                               struct err *err) {
    enum status status = run(ledger, statement, err);
    *ret_changes = status == STATUS_OK ? sqlite3_changes(ledger->db) : 0;
    return status;
}

/* Each run has settled itself. */
static enum status settle(struct ledger *ledger, struct err *err) {
    (void)ledger;
    (void)err;
    return STATUS_OK;
}

static const char *column_text(struct sql_statement *statement, int column) {
    return (const char *)sqlite3_column_text(lite(statement), column);
}

static int64_t column_int(struct sql_statement *statement, int column) {
    return sqlite3_column_int64(lite(statement), column);
}

static double column_double(struct sql_statement *statement, int column) {
    return sqlite3_column_double(lite(statement), column);
}

static bool column_is_null(struct sql_statement *statement, int column) {
    return sqlite3_column_type(lite(statement), column) == SQLITE_NULL;
}

static int64_t changes(struct ledger *ledger) {
    return sqlite3_changes(ledger->db);
}

static int64_t total_changes(struct ledger *ledger) {
    return sqlite3_total_changes(ledger->db);
}

static int64_t last_number(struct ledger *ledger) {
    return sqlite3_last_insert_rowid(ledger->db);
}

/* SQLite does so itself. */
static enum status settle_numbers(struct ledger *ledger, struct err *err) {
    (void)ledger;
    (void)err;
    return STATUS_OK;
}

/* ---- Transactions ---- */

static enum status set_durable(struct ledger *ledger, bool durable, struct err *err) {
    if (durable == ledger->durable) return STATUS_OK;
    const char *text = durable ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL";
    if (sqlite3_exec(ledger->db, text, NULL, NULL, NULL) != SQLITE_OK) return ledger_fail(ledger, "set up", err);
    ledger->durable = durable;
    return STATUS_OK;
}

static enum status run_simple(struct ledger *ledger, enum ledger_transaction which, struct err *err) {
    static const char *const texts[] = {"BEGIN IMMEDIATE", "COMMIT", "ROLLBACK"};
    struct sql_statement **statement = &ledger->transactions[which];
    if (*statement == NULL) TRY(prepare(ledger, texts[which], "used", true, statement, err));
    return run(ledger, *statement, err);
}

static enum status begin(struct ledger *ledger, struct err *err) {
    return run_simple(ledger, SQL_BEGIN, err);
}

static enum status end(struct ledger *ledger, enum status status, struct err *err) {
    if (status == STATUS_OK) status = run_simple(ledger, SQL_COMMIT, err);
    if (status != STATUS_OK && !sqlite3_get_autocommit(ledger->db)) run_simple(ledger, SQL_ROLLBACK, NULL);
    return status;
}

static enum status look(struct ledger *ledger, bool begins, struct err *err) {
    if (sqlite3_exec(ledger->db, begins ? "BEGIN" : "COMMIT", NULL, NULL, NULL) == SQLITE_OK) return STATUS_OK;
    return ledger_fail(ledger, "read", err);
}

static enum status attach_file(struct ledger *ledger, const char *path, struct err *err) {
    struct sql_statement *statement = NULL;
    char still[3 * PATH_SIZE];
    TRY(prepare(ledger, "ATTACH ?1 AS other", "compared", false, &statement, err));
    /* One that lies still has neighbours that do. */
    bool other = ledger->immutable && ledger_still_name(path, still, sizeof still);
    bind_text(statement, 1, other ? still : path);
    enum status status = run(ledger, statement, err);
    finalize(statement);
    return status;
}

static void detach(struct ledger *ledger) {
    ledger_schema_part(ledger);
}

static enum status attach(struct ledger *ledger, const char *path, struct err *err) {
    TRY(attach_file(ledger, path, err));
    sqlite3_exec(ledger->db, "PRAGMA other.cache_size = -256", NULL, NULL, NULL);
    enum status status = ledger_schema_compare(ledger, err);
    if (status != STATUS_OK) detach(ledger);
    return status;
}

static void close_db(struct ledger *ledger) {
    for (int i = 0; i < SQL_TRANSACTIONS; i++)
        sql_finalize(ledger->transactions[i]);
    sqlite3_close(ledger->db);
}

static const struct sql_driver driver = {.prepare = prepare,
                                         .finalize = finalize,
                                         .reset = reset,
                                         .clear = clear,
                                         .bind_text = bind_text,
                                         .bind_int = bind_int,
                                         .bind_double = bind_double,
                                         .bind_now = bind_now,
                                         .step = step,
                                         .run = run,
                                         .run_counted = run_counted,
                                         .settle = settle,
                                         .column_text = column_text,
                                         .column_int = column_int,
                                         .column_double = column_double,
                                         .column_is_null = column_is_null,
                                         .changes = changes,
                                         .total_changes = total_changes,
                                         .last_number = last_number,
                                         .settle_numbers = settle_numbers,
                                         .set_durable = set_durable,
                                         .begin = begin,
                                         .end = end,
                                         .look = look,
                                         .attach = attach,
                                         .detach = detach,
                                         .close = close_db};

/* ---- Opening ---- */

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

enum status ledger_sqlite_open(struct ledger *ledger, const char *stage, struct err *err) {
    bool read_only = ledger->read_only, still = false;
    int flags = SQLITE_OPEN_NOMUTEX | (read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    ledger->driver = &driver;
    if (!read_only && strcmp(ledger->path, ":memory:") != 0) ledger_make_file(ledger->path);
    enum status status = STATUS_OK;
    if (sqlite3_open_v2(ledger->path, &ledger->db, flags, NULL) != SQLITE_OK)
        status = ledger_fail(ledger, "opened", err);
    if (status == STATUS_OK) status = set_up(ledger, stage, read_only, err);
    if (status == STATUS_UNAVAILABLE && read_only) status = ledger_open_still(ledger, &still, err);
    if (still && status == STATUS_OK) status = set_up(ledger, stage, read_only, err);
    return status;
}

enum status ledger_sqlite_new(struct ledger *ledger, const char *path, struct err *err) {
    ledger->driver = &driver;
    ledger_make_file(path);
    if (sqlite3_open_v2(path, &ledger->db, SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
        return ledger_fail(ledger, "made", err);
    TRY(begin(ledger, err));
    return ledger_schema_write(ledger, NULL, err);
}

pid_t ledger_sqlite_writer(const char *path) {
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
