/* A session whose ledgers are in PostgreSQL. ledger/postgresql.json says where, which stages keep SQLite files all the
 * same (programs of others), and whether the ledgers stand: then each lies as a file in ledger/ as well, which serves
 * all who read, also in a copy of the folder.
 *
 * The server knows to which folder a session belongs: "HOST:/FOLDER" from the beginning of a run on, "/FOLDER" after a
 * run that has ended. Both ends of a run also change a random mark, in the server and in postgresql.json (`next` first,
 * then the server, then `mark`): a copy with another mark was made before, and would go on with ledgers that it does not
 * know. Who runs the session now, its lease says (session_lease.c). */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/edges/ledger_address.h"
#include "common/memory.h"
#include "pipelines/launcher/session.h"
#include "pipelines/launcher/warnings.h"

enum { TEXT_MAX = 1 << 20, VERSION = 1, HOST_SIZE = 256 };

static enum status marker_path(const struct session *session, char path[PATH_SIZE], struct err *err) {
    return session_file(session, "ledger", "postgresql", ".json", path, err);
}

/* *ret_marker: NULL where the ledgers are files. */
static enum status read_marker(const struct session *session, json_t **ret_marker, struct err *err) {
    char path[PATH_SIZE];
    _cleanup_(mem_free) char *text = NULL;
    size_t length;
    *ret_marker = NULL;
    TRY(marker_path(session, path, err));
    if (!file_exists(path)) return STATUS_OK;
    TRY(file_read_whole(path, TEXT_MAX, &text, &length, err));
    json_t *marker = json_loadb(text, length, 0, NULL);
    const char *url = json_string_value(json_object_get(marker, "url"));
    bool good = url != NULL && strlen(url) < LEDGER_URL_SIZE && json_is_array(json_object_get(marker, "strangers")) &&
                json_integer_value(json_object_get(marker, "v")) == VERSION;
    if (!good) json_decref(marker);
    FAIL_IF(!good, err, STATUS_BAD_FORMAT, "%s: does not say where the ledgers are; another icestream wrote it?", path);
    *ret_marker = marker;
    return STATUS_OK;
}

static enum status write_marker(const struct session *session, const json_t *marker, struct err *err) {
    char path[PATH_SIZE];
    TRY(marker_path(session, path, err));
    char *text = json_dumps(marker, JSON_INDENT(1));
    FAIL_IF(text == NULL, err, STATUS_NO_MEMORY, "%s: no memory", path);
    enum status status = file_write_whole(path, text, strlen(text), err);
    free(text);
    return status;
}

static enum status set_standing(const struct session *session, bool standing, struct err *err) {
    json_t *marker = NULL;
    TRY(read_marker(session, &marker, err));
    enum status status = STATUS_OK;
    if (marker != NULL && json_is_true(json_object_get(marker, "standing")) != standing) {
        json_object_set_new(marker, "standing", json_boolean(standing));
        status = write_marker(session, marker, err);
    }
    json_decref(marker);
    return status;
}

enum status session_find_server(struct session *session, struct err *err) {
    json_t *marker = NULL;
    session->server[0] = '\0';
    TRY(read_marker(session, &marker, err));
    if (marker != NULL)
        snprintf(session->server, sizeof session->server, "%s", json_string_value(json_object_get(marker, "url")));
    json_decref(marker);
    return STATUS_OK;
}

static bool is_among(const json_t *names, const char *name) {
    size_t i;
    json_t *entry;
    json_array_foreach(names, i, entry) {
        if (strcmp(json_string_value(entry), name) == 0) return true;
    }
    return false;
}

enum status session_ledger_path(const struct session *session, const char *stage, bool read_only, char path[PATH_SIZE],
                                struct err *err) {
    json_t *marker = NULL;
    if (session->server[0] != '\0') TRY(read_marker(session, &marker, err));
    bool stands = json_is_true(json_object_get(marker, "standing"));
    bool in_file = marker == NULL || is_among(json_object_get(marker, "strangers"), stage) || (stands && read_only);
    json_decref(marker);
    if (in_file) return session_file(session, "ledger", stage, ".sqlite", path, err);
    return ledger_address_print(session->server, session->id, stage, path, PATH_SIZE, err);
}

bool session_stands(const struct session *session) {
    json_t *marker = NULL;
    bool stands = read_marker(session, &marker, NULL) == STATUS_OK && json_is_true(json_object_get(marker, "standing"));
    json_decref(marker);
    return stands;
}

enum status session_ledger_changes(const struct session *session, struct err *err) {
    return session->server[0] == '\0' ? STATUS_OK : set_standing(session, false, err);
}

/* ---- Whose the ledgers are ---- */

static enum status own_host(char host[HOST_SIZE], struct err *err) {
    FAIL_IF(gethostname(host, HOST_SIZE) != 0, err, STATUS_IO, "the name of this host is not known");
    host[HOST_SIZE - 1] = '\0';
    return STATUS_OK;
}

/* A server without the ledgers that the session had: were they made anew, everything would go through again. */
static enum status check_lost(const struct session *session, bool begins, struct err *err) {
    json_t *marker = NULL;
    TRY(read_marker(session, &marker, err));
    bool known = marker != NULL, stands = json_is_true(json_object_get(marker, "standing"));
    json_decref(marker);
    FAIL_IF(known && !stands, err, STATUS_BAD_STATE,
            "%s: its ledgers are not in %s any more, and their files are older: restore the server from its backup; or "
            "drop what it has made since (DROP SCHEMA IF EXISTS \"icestream_%s\" CASCADE), and copy ledger/ of an "
            "`icestream backup` to here, or write \"standing\": true into ledger/postgresql.json: the next run goes on "
            "from the files that there are, and does all again that they do not know",
            session->path, session->server, session->id);
    FAIL_IF(known && !begins, err, STATUS_BAD_STATE,
            "%s: its ledgers are not in %s any more: `icestream run` brings them from their files; do that first",
            session->path, session->server);
    return STATUS_OK;
}

/* Returns whether the folder has the mark of the server. One without marks is of an earlier icestream, or new. */
static enum status check_mark(const struct session *session, const struct ledger_server_owner *owner, struct err *err) {
    json_t *marker = NULL;
    TRY(read_marker(session, &marker, err));
    const char *mark = json_string_value(json_object_get(marker, "mark"));
    const char *next = json_string_value(json_object_get(marker, "next"));
    bool good = owner->mark[0] == '\0' || (mark == NULL && next == NULL) ||
                (mark != NULL && strcmp(mark, owner->mark) == 0) || (next != NULL && strcmp(next, owner->mark) == 0);
    json_decref(marker);
    FAIL_IF(
        !good, err, STATUS_BAD_ARGUMENT,
        "%s: its ledgers in PostgreSQL have gone on with %s since this copy was made: go on there; or, if that folder "
        "is lost, remove its schema (DROP SCHEMA \"icestream_%s\" CASCADE), and this one goes on from its own files",
        session->path, owner->folder, session->id);
    return STATUS_OK;
}

/* Two folders cannot go on with one session: a copy has its id, and so its ledgers. A folder that was moved can, and
 * one that several hosts reach by the same path. */
static enum status check_holder(const struct session *session, const struct ledger_server_owner *owner,
                                struct err *err) {
    char host[HOST_SIZE], plan[PATH_SIZE];
    const char *folder = strchr(owner->folder, '/');
    TRY(own_host(host, err));
    if (folder == NULL) return STATUS_OK; /* somebody has freed it */
    TRY(check_mark(session, owner, err));
    size_t length = (size_t)(folder - owner->folder);
    bool here = length == 0 || (length == strlen(host) + 1 && strncmp(owner->folder, host, length - 1) == 0);
    bool same = strcmp(folder, session->path) == 0;
    FAIL_IF(!here && !same, err, STATUS_BAD_ARGUMENT,
            "%s: its ledgers in PostgreSQL are those of %s, where a run has not ended: go on there; or, if nobody runs "
            "it there any more: psql '%s' -c 'UPDATE \"icestream_%s\".version SET folder = current_user'",
            session->path, owner->folder, session->server, session->id);
    bool lives = !same && path_join(folder, "log/plan.json", plan, sizeof plan, NULL) == STATUS_OK && file_exists(plan);
    FAIL_IF(lives, err, STATUS_BAD_ARGUMENT,
            "%s: its ledgers in PostgreSQL are those of %s, of which this is a copy: go on there; or remove that "
            "folder and its schema (DROP SCHEMA \"icestream_%s\" CASCADE), and this one goes on from its own files",
            session->path, folder, session->id);
    return STATUS_OK;
}

enum status session_check_server(const struct session *session, bool begins, struct err *err) {
    struct ledger_server_owner owner;
    if (session->server[0] == '\0' || session->holds) return STATUS_OK;
    TRY(ledger_server_owner(session->server, session->id, &owner, err));
    /* A run is the first to write to which folder the ledgers belong. */
    return owner.there && owner.folder[0] != '\0' ? check_holder(session, &owner, err)
                                                  : check_lost(session, begins, err);
}

static enum status make_mark(char mark[LEDGER_MARK_SIZE], struct err *err) {
    unsigned char bytes[(LEDGER_MARK_SIZE - 1) / 2];
    FAIL_IF(getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes, err, STATUS_IO, "there are no random numbers");
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(mark + 2 * i, 3, "%02x", bytes[i]);
    return STATUS_OK;
}

/* Writes to whom the ledgers belong, with a new mark. A folder without postgresql.json gets the mark with that file. */
static enum status write_holder(const struct session *session, const char *holder, char mark[LEDGER_MARK_SIZE],
                                struct err *err) {
    json_t *marker = NULL;
    TRY(make_mark(mark, err));
    TRY(read_marker(session, &marker, err));
    enum status status = STATUS_OK;
    if (marker != NULL) {
        json_object_set_new(marker, "next", json_string(mark));
        status = write_marker(session, marker, err);
    }
    if (status == STATUS_OK) status = ledger_server_take(session->server, session->id, holder, mark, err);
    if (status == STATUS_OK && marker != NULL) {
        json_object_set_new(marker, "mark", json_string(mark));
        json_object_del(marker, "next");
        status = write_marker(session, marker, err);
    }
    json_decref(marker);
    return status;
}

static enum status take_over(struct session *session, char mark[LEDGER_MARK_SIZE], struct err *err) {
    char host[HOST_SIZE], holder[LEDGER_HOLDER_SIZE];
    TRY(session_take_lease(session, err));
    TRY(session_check_server(session, true, err));
    TRY(own_host(host, err));
    snprintf(holder, sizeof holder, "%s:%s", host, session->path);
    TRY(write_holder(session, holder, mark, err));
    session->holds = true;
    return STATUS_OK;
}

/* ---- A run ---- */

static json_t *strangers_of(const struct graph *graph) {
    json_t *strangers = json_array();
    for (size_t i = 0; i < graph->stage_count; i++)
        if (!session_is_ours(graph->stages[i].program))
            json_array_append_new(strangers, json_string(graph->stages[i].section.name));
    return strangers;
}

/* A ledger that the server does not have, while a file of it stands: the server was set up anew, or the folder is a
 * copy that was taken to another one. */
static enum status bring(const struct session *session, const char *stage, struct err *err) {
    char file[PATH_SIZE], address[PATH_SIZE];
    TRY(session_file(session, "ledger", stage, ".sqlite", file, err));
    if (!file_exists(file)) return STATUS_OK;
    TRY(ledger_address_print(session->server, session->id, stage, address, sizeof address, err));
    return ledger_bring(file, stage, address, err);
}

static enum status bring_all(const struct session *session, const struct graph *graph, const json_t *marker,
                             struct err *err) {
    if (!json_is_true(json_object_get(marker, "standing"))) return STATUS_OK;
    for (size_t i = 0; i < graph->stage_count; i++)
        if (session_is_ours(graph->stages[i].program)) TRY(bring(session, graph->stages[i].section.name, err));
    return bring(session, WARNINGS_LAUNCHER, err);
}

enum status session_use_server(struct session *session, const struct graph *graph, struct err *err) {
    json_t *before = NULL;
    char mark[LEDGER_MARK_SIZE];
    snprintf(session->server, sizeof session->server, "%s", graph->ledger);
    if (graph->ledger[0] == '\0') return STATUS_OK;
    TRY(ledger_server_try(graph->ledger, err));
    TRY(take_over(session, mark, err));
    TRY(read_marker(session, &before, err));
    enum status status = bring_all(session, graph, before, err);
    json_decref(before);
    TRY(status);
    TRY(session_await_lease(session, err)); /* bringing ledgers takes its time */
    json_t *marker = json_pack("{s:i, s:s, s:b, s:s, s:o}", "v", VERSION, "url", graph->ledger, "standing", 0, "mark",
                               mark, "strangers", strangers_of(graph));
    FAIL_IF(marker == NULL, err, STATUS_NO_MEMORY, "no memory for the place of the ledgers");
    status = write_marker(session, marker, err);
    json_decref(marker);
    return status;
}

enum status session_forget_server(struct session *session, struct err *err) {
    char path[PATH_SIZE];
    if (session->server[0] == '\0') return STATUS_OK;
    TRY(session_check_server(session, true, err));
    ledger_lease_give_back(&session->lease); /* its table goes too */
    /* The next run repeats this if it is cut short: nothing was finished, and the server has lost nothing. */
    TRY(set_standing(session, true, err));
    TRY(ledger_server_forget(session->server, session->id, err));
    TRY(marker_path(session, path, err));
    session->server[0] = '\0';
    session->holds = false;
    return file_remove(path, err);
}

/* ---- When the session stands ---- */

enum status session_copy_server(const struct session *session, const char *target, struct err *err) {
    struct session copy = {.lock = -1};
    json_t *marker = NULL;
    TRY(read_marker(session, &marker, err));
    if (marker == NULL) return STATUS_OK;
    snprintf(copy.path, sizeof copy.path, "%s", target);
    json_object_set_new(marker, "standing", json_true());
    enum status status = write_marker(&copy, marker, err);
    json_decref(marker);
    return status;
}

static enum status write_file(const struct session *session, const char *stage, struct err *err) {
    char path[PATH_SIZE];
    struct ledger *ledger = NULL;
    TRY(session_file(session, "ledger", stage, ".sqlite", path, err));
    TRY(session_ledger(session, stage, true, &ledger, err));
    if (ledger == NULL) return STATUS_OK;
    enum status status = ledger_backup(ledger, path, err);
    ledger_close(&ledger);
    return status;
}

enum status session_export(const struct session *session, const json_t *plan, struct err *err) {
    json_t *marker = NULL;
    struct ledger_server_owner owner;
    char mark[LEDGER_MARK_SIZE];
    if (session->server[0] == '\0') return STATUS_OK;
    TRY(ledger_server_owner(session->server, session->id, &owner, err));
    FAIL_IF(!owner.there || owner.folder[0] == '\0', err, STATUS_BAD_STATE,
            "%s: the server has lost them; the next run says more", session->server);
    TRY(read_marker(session, &marker, err));
    enum status status = STATUS_OK;
    size_t i;
    json_t *planned;
    json_array_foreach(json_object_get(plan, "stages"), i, planned) {
        const char *name = json_string_value(json_object_get(planned, "name"));
        if (status == STATUS_OK && name != NULL && !is_among(json_object_get(marker, "strangers"), name))
            status = write_file(session, name, err);
    }
    json_decref(marker);
    if (status == STATUS_OK) status = write_file(session, WARNINGS_LAUNCHER, err);
    /* All that took its time, and another may run the session by now, whose ledgers do not stand. */
    if (status == STATUS_OK) status = session_await_lease(session, err);
    if (status == STATUS_OK) status = set_standing(session, true, err);
    return status == STATUS_OK ? write_holder(session, session->path, mark, err) : status;
}
