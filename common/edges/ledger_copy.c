/* The second copy of a ledger: STAGE.jsonl beside STAGE.sqlite, to which each commit appends what it has changed, one
 * JSON object on a line. `icestream repair` rebuilds a ledger from it. The copy does not wait for the disk: it helps
 * against a ledger that is lost or damaged, while a power cut harms neither.
 *
 *   {"k": "about", "key", "value"}                       to whom the ledger belongs
 *   {"k": "item", "source", "id", "revision", "state", "reason", "instance", "seen", "changed", "item"}
 *                                                        state 0: begins again; −1: forgotten
 *   {"k": "send", "edge", "seq", "source", "id", "sent", "item"}      item is left out if it is that of the line before
 *   {"k": "unsend", "edge", "source", "id"}
 *   {"k": "file", "source", "id", "product", "path", "revision", "size", "mtime_ns", "digest"}
 *
 * Triggers of this connection alone call functions that write the lines into a buffer; the end of the transaction
 * appends the buffer to the file, or drops it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/edges/ledger_private.h"
#include "common/files.h"

enum { PIECE = 1 << 20, KEPT = 1 << 24 }; /* bytes: what is written at once, and what waits for a disk at most */

#define ITEM_VALUES(row)                                                                                               \
    row "source, " row "id, " row "revision, " row "state, " row "reason, " row "instance, " row "time_seen, " row     \
        "time_changed, " row "item"
#define SEND_VALUES(row) row "edge, " row "seq, " row "source, " row "id, " row "time_sent, " row "item"
#define FILE_VALUES(row)                                                                                               \
    row "source, " row "id, " row "product, " row "path, " row "revision, " row "size, " row "mtime_ns, " row "digest"
#define NEW_ITEM ITEM_VALUES("NEW.")
#define NEW_SEND SEND_VALUES("NEW.")
#define NEW_FILE FILE_VALUES("NEW.")

static const char triggers[] =
    "CREATE TEMP TRIGGER copy_new AFTER INSERT ON main.items WHEN NEW.state <> 0"
    "  BEGIN SELECT copy_item(" NEW_ITEM "); END;"
    "CREATE TEMP TRIGGER copy_change AFTER UPDATE OF state, revision ON main.items"
    "  WHEN NEW.state <> OLD.state OR NEW.revision <> OLD.revision"
    "  BEGIN SELECT copy_item(" NEW_ITEM "); END;"
    "CREATE TEMP TRIGGER copy_named AFTER UPDATE OF source ON main.items WHEN NEW.source <> OLD.source"
    "  BEGIN SELECT copy_item(OLD.source, OLD.id, OLD.revision, -1, NULL, OLD.instance, OLD.time_seen,"
    "    OLD.time_changed, OLD.item);"
    "  SELECT copy_item(" NEW_ITEM "); END;"
    "CREATE TEMP TRIGGER copy_gone AFTER DELETE ON main.items"
    "  BEGIN SELECT copy_item(OLD.source, OLD.id, OLD.revision, -1, NULL, OLD.instance, OLD.time_seen,"
    "    OLD.time_changed, OLD.item); END;"
    "CREATE TEMP TRIGGER copy_sent AFTER INSERT ON main.outbox"
    "  BEGIN SELECT copy_send(" NEW_SEND "); END;"
    "CREATE TEMP TRIGGER copy_unsent AFTER DELETE ON main.outbox"
    "  BEGIN SELECT copy_unsend(OLD.edge, OLD.source, OLD.id); END;"
    "CREATE TEMP TRIGGER copy_filed AFTER INSERT ON main.files"
    "  BEGIN SELECT copy_file(" NEW_FILE "); END;"
    "CREATE TEMP TRIGGER copy_owned AFTER INSERT ON main.about"
    "  BEGIN SELECT copy_about(NEW.key, NEW.value); END;";
#define ALL_ITEMS ITEM_VALUES("")
#define ALL_SENDS SEND_VALUES("")
#define ALL_FILES FILE_VALUES("")
static const char everything[] = "SELECT copy_about(key, value) FROM about;"
                                 "SELECT copy_item(" ALL_ITEMS ") FROM items WHERE state <> 0 ORDER BY number;"
                                 "SELECT copy_send(" ALL_SENDS ") FROM outbox ORDER BY seq;"
                                 "SELECT copy_file(" ALL_FILES ") FROM files;";

/* ---- The buffer ---- */

static void append(struct ledger_copy *copy, const char *bytes, size_t length) {
    if (copy->used + length > copy->room) {
        size_t room = 2 * copy->room + length + 4096;
        char *buffer = realloc(copy->buffer, room);
        if (buffer == NULL) return; /* this line of the copy is then damaged, as repair will say */
        copy->buffer = buffer;
        copy->room = room;
    }
    memcpy(copy->buffer + copy->used, bytes, length);
    copy->used += length;
}

static void append_text(struct ledger_copy *copy, const char *text) {
    append(copy, text, strlen(text));
}

/* Writes a JSON string, or null. A text that is no UTF-8 loses what is not ASCII. */
static void append_string(struct ledger_copy *copy, const char *text) {
    if (text == NULL) {
        append_text(copy, "null");
        return;
    }
    bool fits = item_text_fits(text);
    append_text(copy, "\"");
    for (const char *at = text; *at != '\0'; at++) {
        unsigned char byte = (unsigned char)*at;
        char escaped[8];
        if (byte < 0x20 || byte == '"' || byte == '\\' || (!fits && byte >= 0x80)) {
            snprintf(escaped, sizeof escaped, "\\u%04x", !fits && byte >= 0x80 ? '?' : byte);
            append_text(copy, escaped);
        } else
            append(copy, at, 1);
    }
    append_text(copy, "\"");
}

static void append_value(struct ledger_copy *copy, sqlite3_value *value) {
    char number[64];
    switch (sqlite3_value_type(value)) {
    case SQLITE_INTEGER:
        snprintf(number, sizeof number, "%lld", (long long)sqlite3_value_int64(value));
        append_text(copy, number);
        break;
    case SQLITE_FLOAT:
        snprintf(number, sizeof number, "%.17g", sqlite3_value_double(value));
        append_text(copy, number);
        break;
    default:
        append_string(copy, (const char *)sqlite3_value_text(value));
    }
}

static void append_members(struct ledger_copy *copy, const char *kind, const char *const *names, sqlite3_value **values,
                           int count) {
    append_text(copy, "{\"k\":\"");
    append_text(copy, kind);
    append_text(copy, "\"");
    for (int i = 0; i < count; i++) {
        append_text(copy, ",\"");
        append_text(copy, names[i]);
        append_text(copy, "\":");
        append_value(copy, values[i]);
    }
}

/* The item is JSON already. */
static void append_item(struct ledger_copy *copy, sqlite3_value *value) {
    const char *text = (const char *)sqlite3_value_text(value);
    size_t length = text != NULL ? strlen(text) : 0;
    bool again = length > 0 && length == copy->item_length && copy->item_at + length <= copy->used &&
                 memcmp(copy->buffer + copy->item_at, text, length) == 0;
    if (again || length == 0 || strchr(text, '\n') != NULL) return;
    append_text(copy, ",\"item\":");
    copy->item_at = copy->used;
    copy->item_length = length;
    append(copy, text, length);
}

static bool write_buffer(struct ledger_copy *copy) {
    size_t done = 0;
    while (done < copy->used) {
        ssize_t wrote = write(copy->descriptor, copy->buffer + done, copy->used - done);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) break;
        done += (size_t)wrote;
    }
    bool well = done == copy->used;
    /* A full disk may cut the buffer anywhere: the rest is appended when there is room again. */
    if (!well && done > 0) {
        memmove(copy->buffer, copy->buffer + done, copy->used - done);
        copy->used -= done;
    }
    if (well || copy->used > KEPT) copy->used = 0;
    copy->item_length = 0;
    return well;
}

/* ---- Functions that the triggers call ---- */

static void finish_line(struct ledger_copy *copy) {
    append_text(copy, "}\n");
    if (copy->dumping && copy->used > PIECE) write_buffer(copy);
}

static void copy_item(sqlite3_context *context, int count, sqlite3_value **values) {
    static const char *const names[] = {"source", "id", "revision", "state", "reason", "instance", "seen", "changed"};
    struct ledger_copy *copy = sqlite3_user_data(context);
    append_members(copy, "item", names, values, count - 1);
    copy->item_length = 0; /* each such line has its item */
    append_item(copy, values[count - 1]);
    finish_line(copy);
}

static void copy_send(sqlite3_context *context, int count, sqlite3_value **values) {
    static const char *const names[] = {"edge", "seq", "source", "id", "sent"};
    struct ledger_copy *copy = sqlite3_user_data(context);
    append_members(copy, "send", names, values, count - 1);
    append_item(copy, values[count - 1]);
    finish_line(copy);
}

static void copy_plain(sqlite3_context *context, const char *kind, const char *const *names, int count,
                       sqlite3_value **values) {
    struct ledger_copy *copy = sqlite3_user_data(context);
    append_members(copy, kind, names, values, count);
    finish_line(copy);
}

static void copy_unsend(sqlite3_context *context, int count, sqlite3_value **values) {
    static const char *const names[] = {"edge", "source", "id"};
    copy_plain(context, "unsend", names, count, values);
}

static void copy_file(sqlite3_context *context, int count, sqlite3_value **values) {
    static const char *const names[] = {"source", "id", "product", "path", "revision", "size", "mtime_ns", "digest"};
    copy_plain(context, "file", names, count, values);
}

static void copy_about(sqlite3_context *context, int count, sqlite3_value **values) {
    static const char *const names[] = {"key", "value"};
    copy_plain(context, "about", names, count, values);
}

static enum status install(struct ledger *ledger, struct err *err) {
    static const struct {
        const char *name;
        int count;
        void (*call)(sqlite3_context *, int, sqlite3_value **);
    } functions[] = {{"copy_item", 9, copy_item},
                     {"copy_send", 6, copy_send},
                     {"copy_unsend", 3, copy_unsend},
                     {"copy_file", 8, copy_file},
                     {"copy_about", 2, copy_about}};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (sqlite3_create_function(ledger->db, functions[i].name, functions[i].count, SQLITE_UTF8, &ledger->copy,
                                    functions[i].call, NULL, NULL) != SQLITE_OK)
            return ledger_fail(ledger, "set up", err);
    return sqlite3_exec(ledger->db, triggers, NULL, NULL, NULL) == SQLITE_OK ? STATUS_OK
                                                                             : ledger_fail(ledger, "set up", err);
}

enum status ledger_copy_path(const char *ledger_path, char path[PATH_SIZE], struct err *err) {
    TRY(path_without_ending(ledger_path, path, PATH_SIZE - 8, err));
    strcat(path, ".jsonl");
    return STATUS_OK;
}

enum status ledger_copy_open(struct ledger *ledger, struct err *err) {
    struct ledger_copy *copy = &ledger->copy;
    char path[PATH_SIZE], last = '\n';
    struct stat info;
    copy->descriptor = -1;
    if (strcmp(ledger->path, ":memory:") == 0) return STATUS_OK;
    TRY(ledger_copy_path(ledger->path, path, err));
    copy->descriptor = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
    FAIL_IF(copy->descriptor < 0 || fstat(copy->descriptor, &info) != 0, err, status_of_writing(errno),
            "%s: the copy of the ledger cannot be opened: %s", path, strerror(errno));
    TRY(install(ledger, err));
    if (info.st_size > 0) { /* a process may have been killed in the middle of a line */
        bool cut = pread(copy->descriptor, &last, 1, info.st_size - 1) == 1 && last != '\n';
        if (cut) append_text(copy, "\n");
        return STATUS_OK;
    }
    copy->dumping = true;
    int result = sqlite3_exec(ledger->db, everything, NULL, NULL, NULL);
    copy->dumping = false;
    return result == SQLITE_OK ? STATUS_OK : ledger_fail(ledger, "copied", err);
}

void ledger_copy_end(struct ledger *ledger, bool committed) {
    struct ledger_copy *copy = &ledger->copy;
    if (copy->descriptor < 0 || copy->used == copy->kept) return;
    if (!committed)
        copy->used = copy->kept; /* what still waits for the disk was committed before */
    else
        write_buffer(copy);
    copy->kept = copy->used;
    copy->item_length = 0;
}

void ledger_copy_close(struct ledger *ledger) {
    if (ledger->copy.descriptor >= 0 && ledger->copy.kept > 0) write_buffer(&ledger->copy);
    if (ledger->copy.descriptor >= 0) close(ledger->copy.descriptor);
    free(ledger->copy.buffer);
}
