/* The SQL of the ledger: one text for SQLite and PostgreSQL, and the few statements that they must be told apart. */
#include "common/edges/ledger_private.h"

#define SELECT_ROW                                                                                                     \
    "SELECT number, source, id, revision, reason, item, state, attempts, instance, time_seen, time_changed FROM items"
/* ?1 and ?2 are source and id. An unknown source matches any; the index begins with the id. */
#define COMPARED                                                                                                       \
    "SELECT 1 FROM compared AS i WHERE i.id = o.id AND (i.source = o.source OR i.source = '' OR o.source = '')"
#define THE_ITEM "id = ?2 AND (source = ?1 OR source = '' OR ?1 = '')" /* +state beside it: never the index of states */
#define SQL_NUMBER_TEXT(number) #number
#define SQL_NUMBER(number) SQL_NUMBER_TEXT(number)
/* An edge that ends in a text. */
#define SENT_TO(suffix) "substr(edge, length(edge) - length(" suffix ") + 1) = " suffix
static const char *const texts[SQL_COUNT] = {
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
    [SQL_RELEASE_EARLIER] = "UPDATE items SET instance = -1, token = NULL WHERE state = 0 AND instance = ?1"
                            " AND substr(token, 1, 15) < ?2",
    [SQL_FINISH_ITEM] = "UPDATE items SET state = ?3, reason = ?4, item = COALESCE(?5, item), time_changed = ?6"
                        " WHERE " THE_ITEM " AND +state = 0 AND instance = ?7 AND token = ?8"
                        " AND revision = ?9",
    [SQL_CRASH_ITEM] = "UPDATE items SET crashes = crashes + 1, time_changed = ?3 WHERE " THE_ITEM " AND +state = 0",
    [SQL_SET_ASIDE] = "UPDATE items SET state = 3, reason = ?3, instance = -1, token = NULL, time_changed = ?4"
                      " WHERE " THE_ITEM " AND +state = 0 AND crashes >= ?5",
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
                       " FROM outbox WHERE " THE_ITEM " AND " SENT_TO("?3") "",
    [SQL_WITHDRAW] = "DELETE FROM outbox WHERE " THE_ITEM " AND " SENT_TO("?3") " AND seq <= ?4",
    /* The last parcel, if it is acknowledged. */
    [SQL_POST_REVISED] =
        "INSERT INTO outbox (edge, source, id, item, time_sent)"
        " SELECT edge, source, id, CASE WHEN ?6 > 0 THEN json_set(json_set(item, '$.revision', ?5), '$.again', ?6)"
        " ELSE json_set(item, '$.revision', ?5) END, ?4 FROM outbox WHERE " THE_ITEM
        " AND " SENT_TO("?3") " AND json_valid(item) AND NOT EXISTS (SELECT 1 FROM"
                              " outbox WHERE " THE_ITEM " AND " SENT_TO("?3") " AND acknowledged IS NULL)"
                                                                              " ORDER BY seq DESC LIMIT 1",
    /* ?1: of the column. */
    [SQL_EACH_AGAIN] =
        "SELECT source, id, number FROM items WHERE number < ?4 AND state = 1 AND instance <> -2 AND json_valid(item)"
        " AND COALESCE(json_extract(item, ?1), 0) < ?2 AND COALESCE(json_extract(item, '$.again'), 0) < ?2"
        " ORDER BY number DESC LIMIT ?3",
    [SQL_TAKE_BACK] = "UPDATE outbox SET acknowledged = ?4, verdict = 'done' WHERE " THE_ITEM
                      " AND " SENT_TO("?3") " AND acknowledged IS NULL AND json_valid(item)"
                                            " AND json_extract(item, '$.again') > 0",
    [SQL_LATEST_REVISION] = "SELECT MAX(COALESCE((SELECT MAX(revision) FROM items WHERE " THE_ITEM "), 0),"
                            " COALESCE((SELECT MAX(json_extract(item, '$.revision')) FROM outbox WHERE " THE_ITEM
                            " AND json_valid(item)), 0))",
    [SQL_WAITING_FOR] = "SELECT COUNT(*) FROM outbox WHERE acknowledged IS NULL AND " SENT_TO("?1") "",
    [SQL_AWAITS] = "SELECT COUNT(*) FROM outbox WHERE " THE_ITEM " AND acknowledged IS NULL AND " SENT_TO("?3") "",
    [SQL_END_INPUT] = "INSERT INTO ends (edge, run) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
    [SQL_ENDED_INPUTS] = "SELECT COUNT(*) FROM ends WHERE run = ?1 AND edge NOT LIKE 'out %'",
    [SQL_OUTPUT_ENDED] = "SELECT 1 FROM ends WHERE edge = ?1 AND run = ?2",
    [SQL_PUT_FILE] = "INSERT OR REPLACE INTO files (source, id, product, path, revision, size, mtime_ns, digest)"
                     " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    [SQL_FORGET_FILES] = "DELETE FROM files WHERE source = ?1 AND id = ?2",
    [SQL_DROP_REMOVED] = "DELETE FROM files WHERE size < 0",
    [SQL_EACH_FILE] = "SELECT source, id, product, path, size, mtime_ns, digest FROM files ORDER BY rowid",
    [SQL_REDO_ITEM] = "UPDATE items SET state = 0, reason = NULL, crashes = 0, instance = -1, token = NULL,"
                      " time_changed = ?3 WHERE " THE_ITEM " AND +state = 1 AND instance <> -2",
    [SQL_REDO_OUTBOX] = "DELETE FROM outbox WHERE " THE_ITEM,
    [SQL_FAIL_DONE] = "UPDATE items SET state = 3, reason = ?4, instance = -1, token = NULL, time_changed = ?3"
                      " WHERE " THE_ITEM " AND +state = 1 AND instance <> -2",
    [SQL_FAIL_TOGETHER] = "UPDATE items SET state = 3, reason = ?4, instance = -3, token = NULL, time_changed = ?3"
                          " WHERE " THE_ITEM " AND +state = 1 AND instance <> -2",
    [SQL_MEND_TOGETHER] = "UPDATE items SET state = 1, reason = NULL, instance = -1, time_changed = ?3"
                          " WHERE " THE_ITEM " AND +state = 3 AND instance = -3",
    [SQL_EACH_PARCEL] = "SELECT edge, seq, source, id, verdict, time_sent, acknowledged FROM outbox ORDER BY seq",
    /* Grouped by the index of keys, so that nothing is sorted, and held, on the way. `compared` is the other ledger's
     * list of items. */
    [SQL_COMPARE_ALL] =
        "SELECT SUM(parcels), COUNT(*), SUM(waiting), SUM(CASE WHEN there THEN 0 ELSE waiting END),"
        " SUM(CASE WHEN waiting = 0 AND NOT there THEN 1 ELSE 0 END)"
        " FROM (SELECT COUNT(*) AS parcels, SUM(CASE WHEN acknowledged IS NULL THEN 1 ELSE 0 END) AS waiting,"
        "  EXISTS(" COMPARED ") AS there"
        "  FROM outbox AS o WHERE substr(edge, instr(edge, '>') + 1) = ?1 GROUP BY o.id, o.source) AS sent",
    [SQL_COMPARE_WAITING] = "SELECT 0, 0, COUNT(*), SUM(CASE WHEN EXISTS(" COMPARED ") THEN 0 ELSE 1 END), 0"
                            " FROM outbox AS o"
                            " WHERE o.acknowledged IS NULL AND substr(o.edge, instr(o.edge, '>') + 1) = ?1",
    [SQL_COUNT_UNSENT] =
        "SELECT COUNT(*) FROM items WHERE state = 1"
        " AND EXISTS (SELECT 1 FROM outbox WHERE " SENT_TO(
            "?1") ")"
                  " AND NOT EXISTS (SELECT 1 FROM outbox AS o WHERE o.id = items.id AND (o.source = items.source"
                  "  OR o.source = '' OR items.source = '') AND " SENT_TO("?1") ")",
    [SQL_SUM] = "SELECT COALESCE(SUM(CASE WHEN json_valid(item) THEN json_extract(item, ?1) END), 0) FROM items WHERE "
                "state = 1",
    [SQL_WAS_SENT] = "SELECT COUNT(*) FROM outbox WHERE " THE_ITEM " AND " SENT_TO("?3") "",
};

/* Statements that PostgreSQL needs in another text. */
static const char *const server_texts[SQL_COUNT] = {
    [SQL_LATEST_REVISION] = "SELECT GREATEST((SELECT MAX(revision) FROM items WHERE " THE_ITEM "),"
                            " (SELECT MAX(json_extract(item, '$.revision')) FROM outbox WHERE " THE_ITEM "), 0)",
    /* The same as FIND_ITEM for arrays of sources and ids, with the place of each. */
    [SQL_FIND_ITEMS] = "SELECT k.place, i.number, i.state, i.instance, i.token, i.source, i.revision"
                       " FROM unnest(?1::text[], ?2::text[]) WITH ORDINALITY AS k(source, id, place) CROSS JOIN LATERAL"
                       "  (SELECT * FROM items WHERE id = k.id AND (source = k.source OR source = '' OR k.source = '')"
                       "   ORDER BY source = k.source DESC, number LIMIT 1) AS i",
    [SQL_PUT_FILE] = "INSERT INTO files (source, id, product, path, revision, size, mtime_ns, digest)"
                     " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (source, id, product, path) DO UPDATE SET"
                     " number = excluded.number, revision = excluded.revision, size = excluded.size,"
                     " mtime_ns = excluded.mtime_ns, digest = excluded.digest",
    [SQL_EACH_FILE] = "SELECT source, id, product, path, size, mtime_ns, digest FROM files ORDER BY number",
    /* All rows of an answer come at once. */
    [SQL_EACH_WAITING] = "SELECT seq, id, item FROM outbox WHERE edge = ?1 AND acknowledged IS NULL AND seq > ?2"
                         " ORDER BY seq LIMIT " SQL_NUMBER(LEDGER_WAITING_ROWS),
};

static const char *text_of(const struct ledger *ledger, enum ledger_statement which) {
    return ledger->server != NULL && server_texts[which] != NULL ? server_texts[which] : texts[which];
}

enum status ledger_prepare(struct ledger *ledger, enum ledger_statement which, struct sql_statement **ret_statement,
                           struct err *err) {
    struct sql_statement **statement = &ledger->statements[which];
    if (*statement == NULL) TRY(ledger->driver->prepare(ledger, text_of(ledger, which), "used", true, statement, err));
    sql_clear(*statement);
    *ret_statement = *statement;
    return STATUS_OK;
}

enum status ledger_prepare_once(struct ledger *ledger, enum ledger_statement which, const char *doing,
                                struct sql_statement **ret_statement, struct err *err) {
    return ledger_prepare_text(ledger, text_of(ledger, which), doing, ret_statement, err);
}

enum status ledger_prepare_text(struct ledger *ledger, const char *text, const char *doing,
                                struct sql_statement **ret_statement, struct err *err) {
    return ledger->driver->prepare(ledger, text, doing, false, ret_statement, err);
}

void ledger_bind_key(struct sql_statement *statement, struct ledger_key key) {
    sql_bind_text(statement, 1, key.source);
    sql_bind_text(statement, 2, key.id);
}

enum status ledger_step(struct ledger *ledger, struct sql_statement *statement, bool *ret_row, struct err *err) {
    return ledger->driver->step(ledger, statement, ret_row, err);
}

enum status ledger_run(struct ledger *ledger, struct sql_statement *statement, struct err *err) {
    return ledger->driver->run(ledger, statement, err);
}

int64_t ledger_changes(struct ledger *ledger) {
    return ledger->driver->changes(ledger);
}

int64_t ledger_total_changes(struct ledger *ledger) {
    return ledger->driver->total_changes(ledger);
}

int64_t ledger_last_number(struct ledger *ledger) {
    return ledger->driver->last_number(ledger);
}

enum status ledger_set_durable(struct ledger *ledger, bool durable, struct err *err) {
    return ledger->driver->set_durable(ledger, durable, err);
}

enum status ledger_begin(struct ledger *ledger, bool durable, struct err *err) {
    TRY(ledger->driver->set_durable(ledger, durable, err));
    return ledger->driver->begin(ledger, err);
}

enum status ledger_end(struct ledger *ledger, enum status status, struct err *err) {
    status = ledger->driver->end(ledger, status, err);
    ledger_copy_end(ledger, status == STATUS_OK);
    return status;
}
