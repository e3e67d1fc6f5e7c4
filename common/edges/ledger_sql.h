/* Declares the statements and transactions of a database that the ledger uses. SQLite (ledger_sqlite.c) and PostgreSQL
 * (ledger_server.c) implement them, and one text of SQL (ledger_text.c) serves both. Parameters are ?1, ?2 …; columns
 * count from 0. A column's text is valid until the statement makes another step or is reset. */
#ifndef ICESTREAM_COMMON_EDGES_LEDGER_SQL_H
#define ICESTREAM_COMMON_EDGES_LEDGER_SQL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/status.h"

struct ledger;
struct sql_statement;

/* A kept statement is run again and again; one that is not kept leaves nothing behind in the database. `doing` is for
 * the message: "read". */
struct sql_driver {
    enum status (*prepare)(struct ledger *ledger, const char *text, const char *doing, bool kept,
                           struct sql_statement **ret_statement, struct err *err);
    void (*finalize)(struct sql_statement *statement);
    /* Ends a run; clear also forgets what was bound. */
    void (*reset)(struct sql_statement *statement);
    void (*clear)(struct sql_statement *statement);
    void (*bind_text)(struct sql_statement *statement, int index, const char *text);
    void (*bind_int)(struct sql_statement *statement, int index, int64_t value);
    void (*bind_double)(struct sql_statement *statement, int index, double value); /* NaN: NULL */
    void (*bind_now)(struct sql_statement *statement, int index);
    enum status (*step)(struct ledger *ledger, struct sql_statement *statement, bool *ret_row, struct err *err);
    enum status (*run)(struct ledger *ledger, struct sql_statement *statement, struct err *err);
    /* As run. *ret_changes, the number of rows that it changes, is there after `settle`, until which it must stay. */
    enum status (*run_counted)(struct ledger *ledger, struct sql_statement *statement, int64_t *ret_changes,
                               struct err *err);
    enum status (*settle)(struct ledger *ledger, struct err *err);
    const char *(*column_text)(struct sql_statement *statement, int column);
    int64_t (*column_int)(struct sql_statement *statement, int column);
    double (*column_double)(struct sql_statement *statement, int column);
    bool (*column_is_null)(struct sql_statement *statement, int column);
    int64_t (*changes)(struct ledger *ledger);
    int64_t (*total_changes)(struct ledger *ledger);
    int64_t (*last_number)(struct ledger *ledger);
    /* Lets numbers of new rows go on after those that were put in with their numbers. */
    enum status (*settle_numbers)(struct ledger *ledger, struct err *err);
    enum status (*set_durable)(struct ledger *ledger, bool durable, struct err *err);
    enum status (*begin)(struct ledger *ledger, struct err *err);
    /* Commits when status is OK, else rolls back and returns it. */
    enum status (*end)(struct ledger *ledger, enum status status, struct err *err);
    /* Begins (or ends) to read all of one moment. */
    enum status (*look)(struct ledger *ledger, bool begins, struct err *err);
    /* Makes another ledger readable as the tables of `other`, and its list of items as `compared`. */
    enum status (*attach)(struct ledger *ledger, const char *path, struct err *err);
    void (*detach)(struct ledger *ledger);
    void (*close)(struct ledger *ledger);
};

struct sql_statement {
    const struct sql_driver *driver;
};

/* Accepts NULL. */
static inline void sql_finalize(struct sql_statement *statement) {
    if (statement != NULL) statement->driver->finalize(statement);
}
static inline void sql_reset(struct sql_statement *statement) {
    statement->driver->reset(statement);
}
static inline void sql_clear(struct sql_statement *statement) {
    statement->driver->clear(statement);
}
/* The text must stay valid until the statement has run. NULL binds NULL. */
static inline void sql_bind_text(struct sql_statement *statement, int index, const char *text) {
    statement->driver->bind_text(statement, index, text);
}
static inline void sql_bind_int(struct sql_statement *statement, int index, int64_t value) {
    statement->driver->bind_int(statement, index, value);
}
static inline void sql_bind_double(struct sql_statement *statement, int index, double value) {
    statement->driver->bind_double(statement, index, value);
}
/* Binds the present time, s since 1970, by the clock of the database. */
static inline void sql_bind_now(struct sql_statement *statement, int index) {
    statement->driver->bind_now(statement, index);
}
/* Returns NULL for NULL. */
static inline const char *sql_text(struct sql_statement *statement, int column) {
    return statement->driver->column_text(statement, column);
}
static inline int64_t sql_int(struct sql_statement *statement, int column) {
    return statement->driver->column_int(statement, column);
}
static inline double sql_double(struct sql_statement *statement, int column) {
    return statement->driver->column_double(statement, column);
}
static inline bool sql_is_null(struct sql_statement *statement, int column) {
    return statement->driver->column_is_null(statement, column);
}

#endif
