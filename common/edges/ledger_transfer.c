/* Copies a ledger between a file of SQLite and PostgreSQL, whole. */
#include <math.h>

#include "common/edges/ledger_address.h"
#include "common/edges/ledger_private.h"

/* kinds: t(ext), i(nteger) or d(ouble) for each column. */
static const struct table {
    const char *select, *insert, *kinds;
} tables[] = {
    {"SELECT number, source, id, revision, state, reason, attempts, crashes, instance, token, item, time_seen,"
     " time_changed FROM items ORDER BY number",
     "INSERT INTO items (number, source, id, revision, state, reason, attempts, crashes, instance, token, item,"
     " time_seen, time_changed) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
     "ittiitiiittdd"},
    {"SELECT seq, edge, source, id, item, time_sent, acknowledged, verdict FROM outbox ORDER BY seq",
     "INSERT INTO outbox (seq, edge, source, id, item, time_sent, acknowledged, verdict)"
     " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
     "ittttddt"},
    {"SELECT edge, run FROM ends", "INSERT INTO ends (edge, run) VALUES (?1, ?2)", "ti"},
    {"SELECT key, value FROM about", "INSERT INTO about (key, value) VALUES (?1, ?2)", "tt"},
    {NULL,
     "INSERT INTO files (source, id, product, path, size, mtime_ns, digest, revision) VALUES (?1, ?2, ?3, ?4, ?5, ?6, "
     "?7,"
     " ?8)",
     "ttitiiti"},
    {"SELECT stage, id, message, count, first, last FROM warnings",
     "INSERT INTO warnings (stage, id, message, count, first, last) VALUES (?1, ?2, ?3, ?4, ?5, ?6)", "tttidd"},
};

static void bind(struct sql_statement *from, struct sql_statement *to, const char *kinds) {
    for (int i = 0; kinds[i] != '\0'; i++) {
        if (kinds[i] == 'i')
            sql_bind_int(to, i + 1, sql_int(from, i));
        else if (kinds[i] == 'd')
            sql_bind_double(to, i + 1, sql_is_null(from, i) ? (double)NAN : sql_double(from, i));
        else
            sql_bind_text(to, i + 1, sql_text(from, i));
    }
}

static enum status copy_rows(struct ledger *from, struct sql_statement *select, struct ledger *to,
                             struct sql_statement *insert, const char *kinds, struct err *err) {
    for (bool row = true;;) {
        TRY(ledger_step(from, select, &row, err));
        if (!row) return STATUS_OK;
        sql_clear(insert);
        bind(select, insert, kinds);
        TRY(ledger_run(to, insert, err));
    }
}

static enum status copy_table(struct ledger *from, struct ledger *to, const struct table *table, struct err *err) {
    static const char
        in_file[] = "SELECT source, id, product, path, size, mtime_ns, digest, revision FROM files ORDER BY rowid",
        in_server[] = "SELECT source, id, product, path, size, mtime_ns, digest, revision FROM files ORDER BY number";
    struct sql_statement *select = NULL, *insert = NULL;
    const char *text = table->select != NULL ? table->select : from->server != NULL ? in_server : in_file;
    enum status status = ledger_prepare_text(from, text, "copied", &select, err);
    if (status == STATUS_OK) status = to->driver->prepare(to, table->insert, "copied", true, &insert, err);
    if (status == STATUS_OK) status = copy_rows(from, select, to, insert, table->kinds, err);
    sql_finalize(select);
    sql_finalize(insert);
    return status;
}

enum status ledger_transfer(struct ledger *from, struct ledger *to, struct err *err) {
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        TRY(copy_table(from, to, &tables[i], err));
    return STATUS_OK;
}

enum status ledger_bring(const char *file, const char *stage, const char *address, struct err *err) {
    struct ledger *from = NULL, *to = NULL;
    TRY(ledger_open(file, stage, true, &from, err));
    enum status status = ledger_open(address, stage, false, &to, err);
    /* Whoever uses a ledger writes its owner into it first. */
    bool empty = status == STATUS_OK && ledger_owner(to).stage[0] == '\0';
    if (empty) status = ledger_begin(to, true, err);
    if (empty && status == STATUS_OK) {
        status = ledger_transfer(from, to, err);
        if (status == STATUS_OK) status = to->driver->settle_numbers(to, err);
        status = ledger_end(to, status, err);
    }
    ledger_close(&to);
    ledger_close(&from);
    return status;
}
