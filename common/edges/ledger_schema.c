/* The tables of a ledger, and those of earlier versions. */
#include <string.h>

#include "common/edges/ledger_private.h"

enum { SCHEMA_VERSION = 2 };

/* The key begins with the id, so that its index also finds items whose source is not known. */
#define ITEMS                                                                                                          \
    "(number INTEGER PRIMARY KEY AUTOINCREMENT, source TEXT NOT NULL DEFAULT '', id TEXT NOT NULL,"                    \
    "  revision INTEGER NOT NULL DEFAULT 0, state INTEGER NOT NULL, reason TEXT, attempts INTEGER NOT NULL,"           \
    "  crashes INTEGER NOT NULL, instance INTEGER NOT NULL, token TEXT, item TEXT NOT NULL, time_seen REAL NOT NULL,"  \
    "  time_changed REAL NOT NULL, UNIQUE (id, source));"
#define NEW_TABLES                                                                                                     \
    "CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT);"                                             \
    "CREATE TABLE IF NOT EXISTS files (source TEXT, id TEXT, product INTEGER, path TEXT, revision INTEGER, size "      \
    "INTEGER,"                                                                                                         \
    "  mtime_ns INTEGER, digest TEXT, PRIMARY KEY (source, id, product, path));"                                       \
    "CREATE TABLE IF NOT EXISTS warnings (stage TEXT, id TEXT, message TEXT, count INTEGER, first REAL, last REAL,"    \
    "  PRIMARY KEY (stage, id));"
#define NEW_IN_2                                                                                                       \
    "CREATE INDEX IF NOT EXISTS items_state ON items (state);"                                                         \
    "CREATE INDEX IF NOT EXISTS outbox_key ON outbox (id, source);" NEW_TABLES "PRAGMA user_version = 2;"

static const char schema[] =
    "CREATE TABLE items " ITEMS "CREATE TABLE outbox (seq INTEGER PRIMARY KEY AUTOINCREMENT, edge TEXT NOT NULL,"
    "  source TEXT NOT NULL DEFAULT '', id TEXT NOT NULL, item TEXT NOT NULL, time_sent REAL NOT NULL,"
    "  acknowledged REAL, verdict TEXT);"
    "CREATE INDEX outbox_waiting ON outbox (edge, seq) WHERE acknowledged IS NULL;"
    "CREATE TABLE ends (edge TEXT NOT NULL, run INTEGER NOT NULL, PRIMARY KEY (edge, run));" NEW_IN_2;

/* ---- From version 1, which knew items by their id alone ----
 *
 * An item that began here has this stage as its source. It is the stage of its edge ("watcher.0>picker"), or ?1, the
 * name that the opener knows. Items that came from elsewhere keep an unknown source, until their sender tells it. What
 * is sent on of them says explicitly that the source is not known, so that no receiver takes the sender for it. */

#define TOLD                                                                                                           \
    "CASE WHEN json_valid(item) THEN CASE WHEN json_type(item, '$.source') = 'text'"                                   \
    "  AND json_extract(item, '$.source') NOT GLOB '*[^A-Za-z0-9_-]*' AND length(json_extract(item, '$.source')) <= "  \
    "64"                                                                                                               \
    "  THEN json_extract(item, '$.source') END END"
#define SENDER "rtrim(rtrim(substr(o.edge, 1, instr(o.edge, '>') - 1), '0123456789'), '.')"

static const char move_items[] =
    "INSERT INTO items (number, source, id, state, reason, attempts, crashes, instance, token, item, time_seen,"
    "  time_changed)"
    " SELECT number, COALESCE(" TOLD ", CASE WHEN instance = -2 THEN COALESCE((SELECT " SENDER
    "   FROM outbox AS o WHERE o.id = i.id LIMIT 1), ?1) END, ''),"
    "  id, state, reason, attempts, crashes, instance, token, item, time_seen, time_changed FROM items_1 AS i";
static const char move_parcels[] =
    "UPDATE outbox AS o SET source = COALESCE(" TOLD ", (SELECT source FROM items AS i WHERE i.id = o.id), " SENDER ");"
    "UPDATE outbox SET item = json_set(item, '$.source', source) WHERE json_valid(item)"
    "  AND (source = '' OR json_type(item, '$.source') IS NOT NULL);"
    "UPDATE items SET item = json_set(item, '$.source', source) WHERE json_valid(item)"
    "  AND json_type(item, '$.source') IS NOT NULL;";

static enum status execute(struct ledger *ledger, const char *text, struct err *err) {
    return sqlite3_exec(ledger->db, text, NULL, NULL, NULL) == SQLITE_OK
               ? STATUS_OK
               : ledger_fail(ledger, "brought up to date", err);
}

static enum status execute_for(struct ledger *ledger, const char *text, const char *stage, struct err *err) {
    struct sql_statement *statement = NULL;
    TRY(ledger_prepare_text(ledger, text, "brought up to date", &statement, err));
    sql_bind_text(statement, 1, stage);
    enum status status = ledger_run(ledger, statement, err);
    sql_finalize(statement);
    return status;
}

static enum status ask_number(struct ledger *ledger, const char *text, int *ret_number, struct err *err) {
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(ledger->db, text, -1, &statement, NULL) != SQLITE_OK)
        return ledger_fail(ledger, "read (is it a ledger?)", err);
    int result = sqlite3_step(statement);
    int number = result == SQLITE_ROW ? sqlite3_column_int(statement, 0) : 0;
    sqlite3_finalize(statement);
    if (result != SQLITE_ROW) return ledger_fail(ledger, "read (is it a ledger?)", err);
    *ret_number = number;
    return STATUS_OK;
}

/* The numbers of parcels go on where they were, because a number stands for one message for ever. */
static enum status migrate(struct ledger *ledger, const char *stage, struct err *err) {
    int has_source = 0;
    TRY(ask_number(ledger, "SELECT COUNT(*) FROM pragma_table_info('items') WHERE name = 'source'", &has_source, err));
    /* Another program may make its tables anew under the old number. */
    if (has_source) return execute(ledger, NEW_IN_2, err);
    TRY(execute(ledger,
                "ALTER TABLE items RENAME TO items_1; DROP INDEX IF EXISTS items_state;"
                "DROP INDEX IF EXISTS outbox_id;"
                "CREATE TABLE items " ITEMS "ALTER TABLE outbox ADD COLUMN source TEXT NOT NULL DEFAULT '';",
                err));
    TRY(execute_for(ledger, move_items, stage, err));
    TRY(execute(ledger, move_parcels, err));
    return execute(ledger, "DROP TABLE items_1;" NEW_IN_2, err);
}

static enum status refuse_later(struct ledger *ledger, int version, struct err *err) {
    FAIL_IF(version < 0 || version > SCHEMA_VERSION, err, STATUS_UNSUPPORTED,
            "%s: the ledger has version %d, and this program reads up to %d: a later icestream wrote it; use that one, "
            "or begin a new session in another folder",
            ledger->path, version, SCHEMA_VERSION);
    return STATUS_OK;
}

/* A program of others may make the tables of docs/protocol.md alone, and an earlier version knew no warnings. */
static enum status add_tables(struct ledger *ledger, struct err *err) {
    int count = 0;
    TRY(ask_number(ledger, "SELECT COUNT(*) FROM sqlite_master WHERE name IN ('about', 'files', 'warnings')", &count,
                   err));
    return count < 3 ? execute(ledger, NEW_TABLES, err) : STATUS_OK;
}

enum status ledger_schema_write(struct ledger *ledger, const char *stage, struct err *err) {
    int version = 0;
    TRY(ask_number(ledger, "PRAGMA user_version", &version, err));
    TRY(refuse_later(ledger, version, err));
    if (version == 0 && sqlite3_exec(ledger->db, schema, NULL, NULL, NULL) != SQLITE_OK)
        return ledger_fail(ledger, "set up", err);
    if (version == SCHEMA_VERSION) return add_tables(ledger, err);
    return version == 1 ? migrate(ledger, stage, err) : STATUS_OK;
}

enum status ledger_schema_read(struct ledger *ledger, struct err *err) {
    int version = 0;
    TRY(ask_number(ledger, "PRAGMA user_version", &version, err));
    FAIL_IF(version == 0, err, STATUS_NOT_FOUND, "%s: there is no ledger in it yet", ledger->path);
    TRY(refuse_later(ledger, version, err));
    if (version == SCHEMA_VERSION) return STATUS_OK;
    /* A view in the database of temporary things hides the table of the same name. */
    return execute(ledger,
                   "CREATE TEMP VIEW items AS SELECT number, '' AS source, id, 0 AS revision, state, reason, attempts,"
                   "  crashes, instance, token, item, time_seen, time_changed FROM main.items;"
                   "CREATE TEMP VIEW outbox AS SELECT seq, edge, '' AS source, id, item, time_sent, acknowledged,"
                   "  verdict FROM main.outbox;",
                   err);
}

enum status ledger_schema_compare(struct ledger *ledger, struct err *err) {
    int version = 0;
    TRY(ask_number(ledger, "PRAGMA other.user_version", &version, err));
    return execute(ledger,
                   version < SCHEMA_VERSION ? "CREATE TEMP VIEW compared AS SELECT '' AS source, id FROM other.items"
                                            : "CREATE TEMP VIEW compared AS SELECT source, id FROM other.items",
                   err);
}

void ledger_schema_part(struct ledger *ledger) {
    sqlite3_exec(ledger->db, "DROP VIEW IF EXISTS temp.compared", NULL, NULL, NULL);
    sqlite3_exec(ledger->db, "DETACH other", NULL, NULL, NULL);
}
