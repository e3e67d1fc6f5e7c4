/* Declares for the files of the ledger: the connection, its statements, transactions. */
#ifndef ICESTREAM_COMMON_EDGES_LEDGER_PRIVATE_H
#define ICESTREAM_COMMON_EDGES_LEDGER_PRIVATE_H

#include <pthread.h>
#include <sqlite3.h>

#include "common/edges/ledger.h"
#include "common/edges/ledger_sql.h"
#include "common/files.h"

/* Values of `instance` in the ledger beside the numbers of real instances, which begin at 0. */
enum {
    INSTANCE_NONE = -1,
    INSTANCE_ORIGIN = -2, /* the item began here, so nothing upstream can send it again */
};

enum ledger_statement {
    SQL_COUNTS,
    SQL_OUTBOX_COUNTS,
    SQL_FIND_ITEM,
    SQL_FIND_ITEMS,
    SQL_ITEM_TEXT,
    SQL_INSERT_ITEM,
    SQL_CLAIM_ITEM,
    SQL_REPLACE_ITEM,
    SQL_NAME_SOURCE,
    SQL_RELEASE,
    SQL_RELEASE_EARLIER,
    SQL_FINISH_ITEM,
    SQL_CRASH_ITEM,
    SQL_SET_ASIDE,
    SQL_RETRY_FORGET,
    SQL_RETRY_ITEMS,
    SQL_NEXT_ROW,
    SQL_NEXT_IN_STATE,
    SQL_POST,
    SQL_POSTED,
    SQL_NEXT_PARCEL,
    SQL_EACH_WAITING,
    SQL_ACKNOWLEDGE,
    SQL_ACKNOWLEDGED,
    SQL_UNACKNOWLEDGED,
    SQL_POST_AGAIN,
    SQL_WITHDRAW,
    SQL_POST_REVISED,
    SQL_EACH_AGAIN,
    SQL_TAKE_BACK,
    SQL_LATEST_REVISION,
    SQL_WAITING_FOR,
    SQL_AWAITS,
    SQL_END_INPUT,
    SQL_ENDED_INPUTS,
    SQL_OUTPUT_ENDED,
    SQL_PUT_FILE,
    SQL_FORGET_FILES,
    SQL_DROP_REMOVED,
    /* Once at a time, with ledger_prepare_once. */
    SQL_REDO_ITEM,
    SQL_REDO_OUTBOX,
    SQL_FAIL_DONE,
    SQL_FAIL_TOGETHER,
    SQL_MEND_TOGETHER,
    SQL_EACH_PARCEL,
    SQL_COMPARE_ALL,
    SQL_COMPARE_WAITING,
    SQL_COUNT_UNSENT,
    SQL_SUM,
    SQL_WAS_SENT,
    SQL_EACH_FILE,
    SQL_COUNT
};

/* The most waiting parcels that one statement fetches from PostgreSQL. */
#define LEDGER_WAITING_ROWS 64

enum ledger_transaction { SQL_BEGIN, SQL_COMMIT, SQL_ROLLBACK, SQL_TRANSACTIONS };

/* Lines for the second copy (ledger_copy.c). */
struct ledger_copy {
    int descriptor; /* −1: none */
    char *buffer;
    size_t used, room;
    size_t kept;                 /* bytes of earlier transactions that wait for the disk */
    size_t item_at, item_length; /* the last item in the buffer */
    bool dumping;                /* all tables are being copied */
};

struct ledger {
    pthread_mutex_t lock; /* recursive: who holds the ledger calls its functions */
    int depth;            /* how often the thread that has the lock has taken it */
    ledger_waits *waits;  /* NULL: not in a stage */
    void *waits_context;
    const struct sql_driver *driver;
    sqlite3 *db;                  /* NULL: the ledger is in PostgreSQL */
    struct ledger_server *server; /* NULL: it is in SQLite */
    struct sql_statement *statements[SQL_COUNT], *transactions[SQL_TRANSACTIONS];
    char *path;                /* in PostgreSQL: its address (ledger_address.h) */
    bool durable;              /* the present setting of PRAGMA synchronous */
    bool read_only, immutable; /* immutable: on a medium that cannot be written, so nobody changes it */
    double patience, busy_at;  /* s to wait for another process, and the time since which this one waits */
    /* A second connection, which sees what is committed while this one waits for the disk; NULL: not needed yet. */
    _Atomic(struct ledger *) reader;
    struct ledger_copy copy;
};

/* Lets other threads have the ledger for a while, however often this one holds it, and takes it back as it was. */
int ledger_leave(struct ledger *ledger);
void ledger_come_back(struct ledger *ledger, int depth);
/* ledger_sqlite.c: opens the file. */
enum status ledger_sqlite_open(struct ledger *ledger, const char *stage, struct err *err);
/* Makes a file with the tables, and begins a transaction in it; for one use by one thread, without a second copy. */
enum status ledger_sqlite_new(struct ledger *ledger, const char *path, struct err *err);
/* ledger_transfer.c: copies all tables into empty ones. */
enum status ledger_transfer(struct ledger *from, struct ledger *to, struct err *err);
pid_t ledger_sqlite_writer(const char *path);
/* ledger_server.c, or ledger_server_none.c without libpq: opens the ledger at an address of PostgreSQL. */
enum status ledger_server_open(struct ledger *ledger, struct err *err);
pid_t ledger_server_writer(const char *path);
enum status ledger_server_exists(const char *path, bool *ret_exists, struct err *err);
/* Fills err with the reason of SQLite and returns the status that fits the reason; what: what was being done. */
enum status ledger_fail(struct ledger *ledger, const char *what, struct err *err);
/* Returns the connection to read with: the reader, or the ledger itself. */
struct ledger *ledger_reading(struct ledger *ledger);
/* ledger_text.c: returns the statement, reset and with nothing bound. */
enum status ledger_prepare(struct ledger *ledger, enum ledger_statement which, struct sql_statement **ret_statement,
                           struct err *err);
/* Prepares a statement that the caller finalizes: for what is rare, or names a database that is attached for a while.
 * The ledger then keeps nothing between two calls, such as a reader's snapshot. `doing` is for the message: "read". */
enum status ledger_prepare_once(struct ledger *ledger, enum ledger_statement which, const char *doing,
                                struct sql_statement **ret_statement, struct err *err);
enum status ledger_prepare_text(struct ledger *ledger, const char *text, const char *doing,
                                struct sql_statement **ret_statement, struct err *err);
/* Binds source and id as ?1 and ?2. */
void ledger_bind_key(struct sql_statement *statement, struct ledger_key key);
/* Runs a statement that returns no rows. */
enum status ledger_run(struct ledger *ledger, struct sql_statement *statement, struct err *err);
/* Makes one step; ret_row: whether it returned a row. */
enum status ledger_step(struct ledger *ledger, struct sql_statement *statement, bool *ret_row, struct err *err);
/* Returns how many rows the last run changed, and the number of the row that was inserted last. */
int64_t ledger_changes(struct ledger *ledger);
int64_t ledger_total_changes(struct ledger *ledger); /* of all runs so far */
int64_t ledger_last_number(struct ledger *ledger);
/* Sets whether commits from now on wait for the disk. PostgreSQL's always do. */
enum status ledger_set_durable(struct ledger *ledger, bool durable, struct err *err);
/* Begins a transaction, in which nobody else writes; durable: as above. ledger_end commits, or rolls back and returns
 * `status` when it is not OK. */
enum status ledger_begin(struct ledger *ledger, bool durable, struct err *err);
enum status ledger_end(struct ledger *ledger, enum status status, struct err *err);
/* Adds a row to the outbox for each send, inside a transaction. `text` is `printed` as JSON, so that it need not be
 * printed again; both may be NULL. */
enum status ledger_post(struct ledger *ledger, const struct ledger_send *sends, size_t count,
                        const struct item *printed, const char *text, struct err *err);

/* Makes an empty file for a ledger if there is none, with the mode that the umask leaves of 0666. */
void ledger_make_file(const char *path);
/* ledger_still.c: opens a ledger that lies still, on a medium where SQLite cannot make the files that it needs beside a
 * database with a log. *ret_can: whether it is one; the connection before is closed then. */
enum status ledger_open_still(struct ledger *ledger, bool *ret_can, struct err *err);
/* Writes the name under which a ledger that lies still is attached; false: it is too long. */
bool ledger_still_name(const char *path, char *name, size_t size);
/* ledger_schema.c: checks the version of a ledger that is only read, and makes one of version 1 look like one of
 * version 2, with empty sources. */
enum status ledger_schema_read(struct ledger *ledger, struct err *err);
/* Makes the tables, or brings those of version 1 up to date; stage: as in ledger_open. Runs inside a transaction. */
enum status ledger_schema_write(struct ledger *ledger, const char *stage, struct err *err);
/* Makes the view `compared` of the items in the ledger that is attached as `other`, and removes it. */
enum status ledger_schema_compare(struct ledger *ledger, struct err *err);
void ledger_schema_part(struct ledger *ledger);
/* ledger_copy.c: opens the second copy and writes all into a new one, inside a transaction; names it. */
enum status ledger_copy_open(struct ledger *ledger, struct err *err);
enum status ledger_copy_path(const char *ledger_path, char path[PATH_SIZE], struct err *err);
/* Ends a transaction: appends its lines to the copy, or drops them. */
void ledger_copy_end(struct ledger *ledger, bool committed);
void ledger_copy_close(struct ledger *ledger);
/* ledger_files.c: replaces the files of an item, inside a transaction. */
enum status ledger_put_files(struct ledger *ledger, struct ledger_key key, int64_t revision,
                             const struct ledger_file *files, size_t count, struct err *err);

#endif
