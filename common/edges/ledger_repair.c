/* Rebuilds a ledger that is lost or older than it should be: from its copy (ledger_copy.c), and from what the stages
 * before and behind it know. Nothing may run meanwhile. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/edges/ledger_private.h"
#include "common/files.h"
#include "common/memory.h"

static const char tables[] =
    "CREATE TEMP TABLE copied_items (source, id, revision, state, reason, instance, seen, changed, item,"
    "  PRIMARY KEY (id, source));"
    "CREATE TEMP TABLE copied_sends (edge, seq, source, id, sent, item, PRIMARY KEY (id, source, edge));"
    "CREATE TEMP TABLE copied_files (source, id, product, path, revision, size, mtime_ns, digest,"
    "  PRIMARY KEY (source, id, product, path));";

#define REVISION(row) "COALESCE(json_extract(" row ".item, '$.revision'), 0)"
/* The later state wins. An item that begins again, or was forgotten, is not brought back. */
static const char restore_items[] =
    "DELETE FROM main.items AS i WHERE EXISTS (SELECT 1 FROM copied_items AS c WHERE c.id = i.id AND"
    "  c.source = i.source AND c.state = -1 AND c.changed >= i.time_changed AND i.state <> 0)";
static const char update_items[] =
    "UPDATE main.items AS i SET state = c.state, revision = c.revision, reason = c.reason, instance ="
    "  CASE WHEN c.instance < -1 THEN c.instance ELSE -1 END, token = NULL, item = c.item, time_changed = c.changed"
    " FROM copied_items AS c WHERE c.id = i.id AND c.source = i.source AND c.state >= 0"
    "  AND (c.state <> i.state OR c.revision <> i.revision) AND c.changed > i.time_changed + 0.000001";
static const char insert_items[] =
    "INSERT INTO main.items (source, id, revision, state, reason, attempts, crashes, instance, item, time_seen,"
    "  time_changed)"
    " SELECT source, id, revision, state, reason, 1, 0, CASE WHEN instance < -1 THEN instance ELSE -1 END, item, seen,"
    "  changed FROM copied_items AS c WHERE c.state > 0"
    "  AND NOT EXISTS (SELECT 1 FROM main.items AS i WHERE i.id = c.id AND"
    "   (i.source = c.source OR i.source = '' OR c.source = '')) ORDER BY seen";
/* A number stands for one message for ever; where it is taken, the message gets a new one. */
static const char insert_sends[] =
    "INSERT INTO main.outbox (seq, edge, source, id, item, time_sent)"
    " SELECT CASE WHEN EXISTS (SELECT 1 FROM main.outbox AS o WHERE o.seq = s.seq) THEN NULL ELSE s.seq END, edge,"
    "  source, id, item, sent FROM copied_sends AS s WHERE NOT EXISTS"
    "  (SELECT 1 FROM main.outbox AS o WHERE o.id = s.id AND o.source = s.source AND o.edge = s.edge"
    "   AND " REVISION("o") " >= " REVISION("s") ") ORDER BY s.seq";
static const char insert_files[] =
    "INSERT OR REPLACE INTO main.files (source, id, product, path, revision, size, mtime_ns, digest)"
    " SELECT source, id, product, path, revision, size, mtime_ns, digest FROM copied_files AS c WHERE c.size >= 0 AND "
    "NOT EXISTS"
    "  (SELECT 1 FROM main.files AS f WHERE f.source = c.source AND f.id = c.id AND f.product = c.product"
    "   AND f.path = c.path AND f.mtime_ns >= c.mtime_ns)";

/* Binds members of a line, in the order of `names`, to ?1 and so on. */
static enum status put(struct ledger *ledger, const char *sql, const json_t *line, const char *const *names,
                       const char *item, struct err *err) {
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(ledger->db, sql, -1, &statement, NULL) != SQLITE_OK)
        return ledger_fail(ledger, "rebuilt", err);
    int at = 1;
    for (; *names != NULL; names++, at++) {
        const json_t *value = json_object_get(line, *names);
        if (json_is_string(value))
            sqlite3_bind_text(statement, at, json_string_value(value), -1, SQLITE_STATIC);
        else if (json_is_integer(value))
            sqlite3_bind_int64(statement, at, json_integer_value(value));
        else if (json_is_real(value))
            sqlite3_bind_double(statement, at, json_real_value(value));
    }
    if (item != NULL) sqlite3_bind_text(statement, at, item, -1, SQLITE_STATIC);
    bool well = sqlite3_step(statement) == SQLITE_DONE;
    enum status status = well ? STATUS_OK : ledger_fail(ledger, "rebuilt", err);
    sqlite3_finalize(statement);
    return status;
}

struct reading {
    struct ledger *ledger;
    char *item; /* of the last line that had one; NULL after a damaged line, which may have had the next one */
};

static enum status take_item(struct reading *reading, const json_t *line, struct err *err) {
    static const char *const names[] = {"source",   "id",   "revision", "state", "reason",
                                        "instance", "seen", "changed",  NULL};
    static const char *const key[] = {"source", "id", NULL};
    TRY(put(reading->ledger, "DELETE FROM copied_files WHERE source = ?1 AND id = ?2", line, key, NULL, err));
    return put(reading->ledger, "INSERT OR REPLACE INTO copied_items VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)", line,
               names, reading->item, err);
}

static enum status take_line(struct reading *reading, const json_t *line, struct err *err) {
    static const char *const sent[] = {"edge", "seq", "source", "id", "sent", NULL},
                             *const unsent[] = {"edge", "source", "id", NULL}, *const file[] = {"source",   "id",
                                                                                                "product",  "path",
                                                                                                "revision", "size",
                                                                                                "mtime_ns", "digest",
                                                                                                NULL};
    const char *kind = json_string_value(json_object_get(line, "k"));
    const json_t *item = json_object_get(line, "item");
    if (kind == NULL) return STATUS_OK;
    if (json_is_object(item)) {
        free(reading->item);
        reading->item = json_dumps(item, JSON_COMPACT | JSON_REAL_PRECISION(15));
        FAIL_IF(reading->item == NULL, err, STATUS_NO_MEMORY, "no memory for an item of the copy");
    }
    if (strcmp(kind, "item") == 0 && reading->item != NULL) return take_item(reading, line, err);
    if (strcmp(kind, "send") == 0 && reading->item != NULL)
        return put(reading->ledger, "INSERT OR REPLACE INTO copied_sends VALUES (?1, ?2, ?3, ?4, ?5, ?6)", line, sent,
                   reading->item, err);
    if (strcmp(kind, "unsend") == 0)
        return put(reading->ledger, "DELETE FROM copied_sends WHERE edge = ?1 AND source = ?2 AND id = ?3", line,
                   unsent, NULL, err);
    if (strcmp(kind, "file") == 0)
        return put(reading->ledger, "INSERT OR REPLACE INTO copied_files VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)", line,
                   file, NULL, err);
    return STATUS_OK;
}

static bool is_foreign(const json_t *line, const char *key, const char *expected) {
    const char *kind = json_string_value(json_object_get(line, "k")),
               *what = json_string_value(json_object_get(line, "key"));
    const char *value = json_string_value(json_object_get(line, "value"));
    return kind != NULL && strcmp(kind, "about") == 0 && what != NULL && strcmp(what, key) == 0 && value != NULL &&
           expected[0] != '\0' && strcmp(value, expected) != 0;
}

/* Lines that are cut or damaged are left out: what they said is then found out from the other stages. */
static enum status read_copy(struct ledger *ledger, const char *path, const struct ledger_owner *owner,
                             int64_t *ret_bad, struct err *err) {
    _cleanup_(mem_free) char *text = NULL;
    size_t room = 0;
    struct reading reading = {.ledger = ledger};
    FILE *file = fopen(path, "re");
    if (file == NULL) return STATUS_OK;
    enum status status = STATUS_OK;
    for (ssize_t length; status == STATUS_OK && (length = getline(&text, &room, file)) >= 0;) {
        if (length <= 1) continue;
        json_t *line = json_loadb(text, (size_t)length, 0, NULL);
        *ret_bad += line == NULL;
        if (line == NULL) mem_free(&reading.item);
        if (is_foreign(line, "stage", owner->stage) || is_foreign(line, "session", owner->session))
            status =
                err_set(err, STATUS_BAD_ARGUMENT, __FILE__, __LINE__,
                        "%s is the copy of another stage or session: put the right file back, or move it away", path);
        else if (line != NULL)
            status = take_line(&reading, line, err);
        json_decref(line);
    }
    free(reading.item);
    fclose(file);
    return status;
}

static enum status change(struct ledger *ledger, const char *sql, int64_t *count, struct err *err) {
    if (sqlite3_exec(ledger->db, sql, NULL, NULL, NULL) != SQLITE_OK) return ledger_fail(ledger, "rebuilt", err);
    *count += sqlite3_changes(ledger->db);
    return STATUS_OK;
}

static enum status restore(struct ledger *ledger, const char *path, const struct ledger_owner *owner,
                           struct ledger_mended *mended, struct err *err) {
    TRY(read_copy(ledger, path, owner, &mended->bad_lines, err));
    TRY(change(ledger, restore_items, &mended->items, err));
    TRY(change(ledger, update_items, &mended->items, err));
    TRY(change(ledger, insert_items, &mended->items, err));
    TRY(change(ledger, insert_sends, &mended->parcels, err));
    return change(ledger, insert_files, &mended->files, err);
}

enum status ledger_restore(struct ledger *ledger, const struct ledger_owner *owner, struct ledger_mended *mended,
                           struct err *err) {
    char path[PATH_SIZE];
    if (ledger->server != NULL) return STATUS_OK; /* it has no second copy */
    TRY(ledger_copy_path(ledger->path, path, err));
    ledger_hold(ledger);
    enum status status = STATUS_OK;
    if (sqlite3_exec(ledger->db, tables, NULL, NULL, NULL) != SQLITE_OK) status = ledger_fail(ledger, "rebuilt", err);
    if (status == STATUS_OK) status = ledger_begin(ledger, true, err);
    if (status == STATUS_OK) status = ledger_end(ledger, restore(ledger, path, owner, mended, err), err);
    ledger_let_go(ledger);
    return status;
}

/* ---- Between two ledgers: this one sends to `other` ---- */

#define TO "substr(o.edge, instr(o.edge, '>') + 1) = ?1"
#define SAME(a, b) a ".id = " b ".id AND (" a ".source = " b ".source OR " a ".source = '' OR " b ".source = '')"

/* Adds items that the receiver has and this stage does not know: they were done here, and sent. ?2: the edge, ?3: this
 * stage. */
static const char back_items[] =
    "INSERT INTO main.items (source, id, revision, state, reason, attempts, crashes, instance, item, time_seen,"
    "  time_changed)"
    " SELECT i.source, i.id, i.revision, 1, NULL, 1, 0, CASE WHEN i.source = ?3 THEN -2 ELSE -1 END, i.item,"
    "  i.time_seen, i.time_seen FROM other.items AS i WHERE ?1 <> '' AND ?2 <> ''"
    "  AND NOT EXISTS (SELECT 1 FROM main.items AS m WHERE " SAME("m", "i") ") ORDER BY i.number";
#define BACK_SENDS                                                                                                     \
    "INSERT INTO main.outbox (edge, source, id, item, time_sent, acknowledged, verdict)"                               \
    " SELECT ?2, i.source, i.id, i.item, i.time_seen, CASE WHEN i.state = 0 THEN NULL ELSE i.time_changed END,"        \
    "  CASE i.state WHEN 1 THEN 'done' WHEN 2 THEN 'rejected' WHEN 3 THEN 'failed' END FROM other.items AS i"          \
    " WHERE ?3 <> '' AND NOT EXISTS (SELECT 1 FROM main.outbox AS o WHERE " TO " AND " SAME("o", "i") ")"
static const char back_sends[] = BACK_SENDS " ORDER BY i.number";
/* For a stage that sends on the items that came in: adds only parcels whose item this ledger has lost. Runs ahead of
 * back_items. */
static const char back_lost_sends[] =
    BACK_SENDS " AND NOT EXISTS (SELECT 1 FROM main.items AS m WHERE " SAME("m", "i") ") ORDER BY i.number";
/* Sends items that are done here to a receiver that was left out: a stage sends each item to all its receivers. */
static const char send_rest[] =
    "INSERT INTO main.outbox (edge, source, id, item, time_sent)"
    " SELECT ?2, i.source, i.id, i.item, i.time_changed FROM main.items AS i WHERE i.state = 1 AND ?3 <> ''"
    "  AND NOT EXISTS (SELECT 1 FROM main.outbox AS o WHERE " TO " AND " SAME("o", "i") ") ORDER BY i.number";
/* Takes back the acknowledgement of each parcel whose item the receiver has not finished, so that it goes through
 * again. */
static const char send_again[] =
    "UPDATE main.outbox AS o SET acknowledged = NULL, verdict = NULL WHERE o.acknowledged IS NOT NULL AND " TO
    "  AND ?2 <> '' AND ?3 <> '' AND NOT EXISTS (SELECT 1 FROM other.items AS i WHERE " SAME(
        "i", "o") "  AND (i.state <> 0 OR i.revision > " REVISION("o") "))";
/* Acknowledges parcels that this repair has put back, if the receiver has finished their items. */
static const char settle[] =
    "UPDATE main.outbox AS o SET acknowledged = i.time_changed,"
    "  verdict = CASE i.state WHEN 1 THEN 'done' WHEN 2 THEN 'rejected' ELSE 'failed' END"
    " FROM other.items AS i WHERE o.acknowledged IS NULL AND " TO
    " AND ?2 <> '' AND ?3 <> '' AND " SAME("i", "o") "  AND i.state <> 0 AND i.revision >= " REVISION("o");

static enum status change_for(struct ledger *ledger, const char *sql, const struct ledger_edge *edge, int64_t *count,
                              struct err *err) {
    struct sql_statement *statement = NULL;
    TRY(ledger_prepare_text(ledger, sql, "rebuilt", &statement, err));
    sql_bind_text(statement, 1, edge->to);
    sql_bind_text(statement, 2, edge->name);
    sql_bind_text(statement, 3, edge->from);
    enum status status = ledger_run(ledger, statement, err);
    if (status == STATUS_OK) *count += ledger_changes(ledger);
    sql_finalize(statement);
    return status;
}

static enum status reconcile(struct ledger *ledger, const struct ledger_edge *edge, enum ledger_reconcile what,
                             struct ledger_mended *mended, struct err *err) {
    int64_t ignored = 0;
    if (what == LEDGER_BACK) {
        const char *sends = edge->passes_on ? back_lost_sends : back_sends;
        TRY(change_for(ledger, sends, edge, &mended->parcels, err));
        return edge->passes_on ? change_for(ledger, back_items, edge, &mended->items, err) : STATUS_OK;
    }
    if (edge->settle && edge->passes_on) TRY(change_for(ledger, send_rest, edge, &mended->parcels, err));
    if (edge->settle) TRY(change_for(ledger, settle, edge, &ignored, err));
    return change_for(ledger, send_again, edge, &mended->again, err);
}

enum status ledger_reconcile(struct ledger *ledger, const struct ledger_edge *edge, enum ledger_reconcile what,
                             struct ledger_mended *mended, struct err *err) {
    ledger_hold(ledger);
    enum status status = ledger->driver->attach(ledger, edge->to_path, err);
    if (status == STATUS_OK) {
        status = ledger_begin(ledger, true, err);
        if (status == STATUS_OK) status = ledger_end(ledger, reconcile(ledger, edge, what, mended, err), err);
        ledger->driver->detach(ledger);
    }
    ledger_let_go(ledger);
    return status;
}

enum status ledger_integrity(struct ledger *ledger, struct err *err) {
    sqlite3_stmt *statement = NULL;
    if (ledger->server != NULL) return STATUS_OK; /* the server's own concern */
    if (sqlite3_prepare_v2(ledger->db, "PRAGMA integrity_check(1)", -1, &statement, NULL) != SQLITE_OK)
        return ledger_fail(ledger, "checked", err);
    bool row = sqlite3_step(statement) == SQLITE_ROW;
    const char *found = row ? (const char *)sqlite3_column_text(statement, 0) : NULL;
    bool well = found != NULL && strcmp(found, "ok") == 0;
    if (!well) err_set(err, STATUS_IO, __FILE__, __LINE__, "%s: %s", ledger->path, found != NULL ? found : "damaged");
    sqlite3_finalize(statement);
    return well ? STATUS_OK : STATUS_IO;
}
