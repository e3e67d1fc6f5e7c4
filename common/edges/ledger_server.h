/* The ledger in PostgreSQL: its connection (ledger_server.c), statements (ledger_server_sql.c) and tables
 * (ledger_server_tables.c).
 *
 * Each transaction takes a lock of its stage, so that one connection writes at a time, as in SQLite: numbers then
 * become visible in their order. It also writes its own number beside the token of the connection (`commits`): where
 * the answer to a COMMIT is lost, the row says after the next connection whether it was committed. */
#ifndef ICESTREAM_COMMON_EDGES_LEDGER_SERVER_H
#define ICESTREAM_COMMON_EDGES_LEDGER_SERVER_H

#include <libpq-fe.h>

#include "common/edges/ledger_address.h"
#include "common/edges/ledger_private.h"

/* QUEUE: what is queued at most, so that neither side blocks on writing to the other. */
enum { SERVER_QUEUE = 128 };
/* A transaction may stand still for so long, ms. The taker of a lease waits for one of the holder before. */
enum { SERVER_IDLE = 4000 };
enum { SERVER_TEXT = 4096, SERVER_PARAMETERS = 16, TOKEN_SIZE = 33, NAME_SIZE = 64 };

struct ledger_server {
    PGconn *connection;
    struct ledger_address address;
    char other[LEDGER_STAGE_MAX + 1]; /* the stage that is attached; "": none */
    char token[TOKEN_SIZE];           /* of this ledger in `commits` */
    char name[NAME_SIZE];             /* of the present connection, in pg_stat_activity */
    unsigned generation;              /* counts connections: statements are prepared anew on each */
    unsigned statements;              /* counts names of statements */
    int64_t number, changes, total;   /* of transactions; rows of the last run, and of all */
    bool inside;                      /* a transaction has begun */
    bool unknown;                     /* a thread waits to learn what became of its COMMIT */
    double away_until;                /* nobody tries to connect before */
    char away[512];                   /* why */
    size_t queued;                    /* commands without their results */
    int64_t *counted[SERVER_QUEUE];   /* where the rows that they change are wanted, or NULL */
    enum status failed;               /* of a command in the queue; until the transaction ends */
    char reason[512];
    struct server_statement *walking; /* whose rows come one by one */
    char fence[160];                  /* the command that checks the lease in each transaction; "": none */
};

/* ---- ledger_server.c ---- */

extern const struct sql_driver ledger_server_driver;
/* Makes the connection of the address in `path`. */
enum status server_make(struct ledger *ledger, struct err *err);
/* Connects once. */
enum status server_connect(struct ledger *ledger, struct err *err);
/* Connects anew, for as long as the ledger's patience, or in a stage for LEDGER_AWAY s. */
enum status server_reconnect(struct ledger *ledger, struct err *err);
/* Returns STATUS_UNAVAILABLE while another thread waits to learn what became of its COMMIT. */
enum status server_known(const struct ledger *ledger, struct err *err);
bool server_is_lost(const struct ledger *ledger);
/* Returns the number of the lock of the stage, or of the whole session (stage ""). */
int64_t server_lock(const struct ledger *ledger, const char *stage);
/* Runs a command with one text as its parameter, or none. *ret_result: NULL when it is not wanted. */
enum status server_ask(struct ledger *ledger, const char *command, const char *parameter, PGresult **ret_result,
                       struct err *err);
enum status server_begin(struct ledger *ledger, struct err *err);
enum status server_end(struct ledger *ledger, enum status status, struct err *err);

/* ---- ledger_server_sql.c ---- */

enum status server_prepare(struct ledger *ledger, const char *text, const char *doing, bool kept,
                           struct sql_statement **ret_statement, struct err *err);
void server_finalize(struct sql_statement *statement);
void server_reset(struct sql_statement *statement);
void server_clear(struct sql_statement *statement);
void server_bind_text(struct sql_statement *statement, int index, const char *text);
void server_bind_int(struct sql_statement *statement, int index, int64_t value);
void server_bind_double(struct sql_statement *statement, int index, double value);
void server_bind_now(struct sql_statement *statement, int index);
enum status server_step(struct ledger *ledger, struct sql_statement *statement, bool *ret_row, struct err *err);
enum status server_run(struct ledger *ledger, struct sql_statement *statement, struct err *err);
enum status server_run_counted(struct ledger *ledger, struct sql_statement *statement, int64_t *ret_changes,
                               struct err *err);
enum status server_settle(struct ledger *ledger, struct err *err);
const char *server_column_text(struct sql_statement *statement, int column);
int64_t server_column_int(struct sql_statement *statement, int column);
double server_column_double(struct sql_statement *statement, int column);
bool server_column_is_null(struct sql_statement *statement, int column);
/* Queues a command, whose result comes with server_collect. */
enum status server_queue(struct ledger *ledger, const char *command, struct err *err);
/* Waits for the results of what is queued. *ret_last: the last one, which the caller clears; NULL: not wanted. Sets and
 * returns `failed`. */
enum status server_collect(struct ledger *ledger, PGresult **ret_last, struct err *err);
/* Returns the failure of the transaction as a status with its message. */
enum status server_failure(struct ledger *ledger, struct err *err);

/* ---- ledger_server_text.c ---- */

/* Writes SQL of the ledger as PostgreSQL's: tables with the names of the stage's, or of the other's, $1 for ?1, and the
 * clock of the server for parameters in the set `now` (bit i: ?i). */
enum status server_translate(const struct ledger_server *server, const char *text, unsigned now,
                             char translated[SERVER_TEXT], struct err *err);

/* ---- ledger_server_tables.c ---- */

/* Makes the tables of the stage that are missing; for reading, returns NOT_FOUND where they are. BAD_STATE: there is no
 * schema, which ledger_server_take makes. */
enum status server_tables(struct ledger *ledger, struct err *err);
/* Opens a connection without tables, in the caller's struct, which server_hang_up accepts even after a failure. */
enum status server_dial(const char *path, bool read_only, struct ledger *ret_ledger, struct err *err);
void server_hang_up(struct ledger *ledger);

#endif
