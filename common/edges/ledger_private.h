/* What the parts of the ledger share: the connection, its statements, transactions. */
#ifndef ICESTREAM_COMMON_EDGES_LEDGER_PRIVATE_H
#define ICESTREAM_COMMON_EDGES_LEDGER_PRIVATE_H

#include <pthread.h>
#include <sqlite3.h>

#include "common/edges/ledger.h"

/* Instances are counted from 0. */
enum { INSTANCE_NONE = -1, INSTANCE_ORIGIN = -2 }; /* ORIGIN: the item began here, nothing upstream can send it again */

enum ledger_statement {
    SQL_BEGIN,
    SQL_COMMIT,
    SQL_ROLLBACK,
    SQL_COUNTS,
    SQL_OUTBOX_COUNTS,
    SQL_FIND_ITEM,
    SQL_INSERT_ITEM,
    SQL_CLAIM_ITEM,
    SQL_RELEASE,
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
    SQL_WITHDRAW,
    SQL_END_INPUT,
    SQL_ENDED_INPUTS,
    SQL_OUTPUT_ENDED,
    SQL_COUNT
};

struct ledger {
    pthread_mutex_t lock; /* recursive: a visitor may ask the ledger */
    sqlite3 *db;
    sqlite3_stmt *statements[SQL_COUNT];
    char *path;
    bool durable; /* what PRAGMA synchronous is set to */
    bool read_only;
    double patience, busy_at; /* s to wait for another process, and since when one is waited for */
    /* Another connection, which sees what is committed while this one waits for the disk; NULL: not needed yet. */
    _Atomic(struct ledger *) reader;
};

enum status ledger_fail(struct ledger *ledger, const char *what, struct err *err);
/* What to read with: the reader, or the ledger itself. */
struct ledger *ledger_reading(struct ledger *ledger);
/* The statement, reset and with nothing bound. */
enum status ledger_prepare(struct ledger *ledger, enum ledger_statement which, sqlite3_stmt **ret_statement,
                           struct err *err);
/* The text is borrowed until the statement has run; NULL: NULL. */
void ledger_bind_text(sqlite3_stmt *statement, int index, const char *text);
/* Runs a statement that returns no rows. */
enum status ledger_run(struct ledger *ledger, sqlite3_stmt *statement, struct err *err);
/* One step; ret_row: whether it gave a row. */
enum status ledger_step(struct ledger *ledger, sqlite3_stmt *statement, bool *ret_row, struct err *err);
/* Whether commits from now on wait for the disk. */
enum status ledger_set_durable(struct ledger *ledger, bool durable, struct err *err);
/* durable: as above. On failure of what is between, ledger_end rolls back and returns status. */
enum status ledger_begin(struct ledger *ledger, bool durable, struct err *err);
enum status ledger_end(struct ledger *ledger, enum status status, struct err *err);
/* Inside a transaction: a row of the outbox for each send. `text` is what `printed` looks like as JSON, so that it is not
 * printed again; both may be NULL. */
enum status ledger_post(struct ledger *ledger, const struct ledger_send *sends, size_t count,
                        const struct item *printed, const char *text, struct err *err);

#endif
