#include "pipelines/launcher/changes.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/memory.h"

enum { CHANGE_TEXT_MAX = 1 << 26, CHANGES_MAX = 1000000 };

static const double LOCK_PAUSE = 0.02; /* s */

static enum status path_of(const struct session *session, int number, char path[PATH_SIZE], struct err *err) {
    char name[32];
    snprintf(name, sizeof name, "%04d", number);
    return session_file(session, "changes", name, ".json", path, err);
}

/* Returns whether a file holds what changes_add has written: somebody may have edited or cut it. */
static bool is_change(const json_t *change, int number) {
    size_t i;
    json_t *entry;
    const json_t *entries = json_object_get(change, "changes");
    if (!json_is_array(entries) || json_integer_value(json_object_get(change, "number")) != number) return false;
    json_array_foreach(entries, i, entry) {
        const json_t *value = json_object_get(entry, "new");
        if (!json_is_string(json_object_get(entry, "stage")) || !json_is_string(json_object_get(entry, "key")) ||
            value == NULL || json_is_object(value))
            return false;
    }
    return true;
}

enum status changes_one(const struct session *session, int number, json_t **ret_change, struct err *err) {
    char path[PATH_SIZE];
    _cleanup_(mem_free) char *text = NULL;
    size_t length;
    TRY(path_of(session, number, path, err));
    *ret_change = NULL;
    if (!file_exists(path)) return STATUS_OK;
    TRY(file_read_whole(path, CHANGE_TEXT_MAX, &text, &length, err));
    json_t *change = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
    if (!is_change(change, number)) {
        json_decref(change);
        FAIL(err, STATUS_BAD_FORMAT, "%s: not a change of a session; a copy of the session may have a whole one", path);
    }
    *ret_change = change;
    return STATUS_OK;
}

enum status changes_read(const struct session *session, json_t **ret_changes, struct err *err) {
    json_t *changes = json_array();
    enum status status = STATUS_OK;
    FAIL_IF(changes == NULL, err, STATUS_NO_MEMORY, "no memory for the changes of the session");
    for (int number = 1; number < CHANGES_MAX; number++) {
        json_t *change = NULL;
        status = changes_one(session, number, &change, err);
        if (change == NULL) break;
        json_array_append_new(changes, change);
    }
    if (status != STATUS_OK) {
        json_decref(changes);
        return status;
    }
    *ret_changes = changes;
    return STATUS_OK;
}

enum status change_apply(const json_t *change, struct graph *graph, struct err *err) {
    size_t i;
    json_t *entry;
    json_array_foreach(json_object_get(change, "changes"), i, entry) {
        const char *name = json_string_value(json_object_get(entry, "stage"));
        const char *key = json_string_value(json_object_get(entry, "key"));
        struct graph_stage *stage = name != NULL ? graph_find(graph, name) : NULL;
        if (stage != NULL && key != NULL) TRY(graph_put_json(&stage->section, key, json_object_get(entry, "new"), err));
    }
    return STATUS_OK;
}

/* Returns the place of the first change that still holds. */
static size_t first_of(const json_t *changes) {
    size_t first = 0;
    for (size_t i = 0; i < json_array_size(changes); i++)
        if (json_is_true(json_object_get(json_array_get(changes, i), "whole"))) first = i + 1;
    return first;
}

enum status changes_apply(const json_t *changes, struct graph *graph, struct err *err) {
    for (size_t i = first_of(changes); i < json_array_size(changes); i++)
        TRY(change_apply(json_array_get(changes, i), graph, err));
    return STATUS_OK;
}

int changes_last(const json_t *changes, const char *stage) {
    if (stage == NULL) return (int)json_array_size(changes);
    for (size_t i = json_array_size(changes); i > 0; i--) {
        const json_t *change = json_array_get(changes, i - 1);
        if (json_is_true(json_object_get(change, "whole"))) return (int)i;
        size_t k;
        json_t *entry;
        json_array_foreach(json_object_get(change, "changes"), k, entry) {
            const char *name = json_string_value(json_object_get(entry, "stage"));
            if (name != NULL && strcmp(name, stage) == 0) return (int)i;
        }
    }
    return 0;
}

enum status changes_hold(const struct session *session, int *ret_lock, struct err *err) {
    char path[PATH_SIZE], folder[PATH_SIZE];
    TRY(session_file(session, "changes", "", "", folder, err));
    TRY(file_make_folders(folder, 0777, err));
    TRY(session_file(session, "changes", ".lock", "", path, err));
    int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    FAIL_IF(lock < 0, err, status_of_writing(errno), "%s: cannot be opened: %s", path, status_reason(errno));
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    bool patient = session->patience <= 0;
    double until = clock_monotonic() + session->patience;
    while (fcntl(lock, patient ? F_OFD_SETLKW : F_OFD_SETLK, &whole) != 0) {
        int reason = errno;
        bool taken = !patient && (reason == EAGAIN || reason == EACCES);
        if (reason == EINTR || (taken && clock_monotonic() < until)) {
            if (taken) clock_pause(LOCK_PAUSE);
            continue;
        }
        close(lock);
        FAIL_IF(taken, err, STATUS_UNAVAILABLE, "%s: somebody else is changing the session; try again", session->path);
        FAIL(err, STATUS_IO, "%s: cannot be locked: %s", path, strerror(reason));
    }
    *ret_lock = lock;
    return STATUS_OK;
}

static void name_author(char *user, size_t user_size, char *host, size_t host_size) {
    struct passwd entry, *found = NULL;
    char buffer[4096];
    if (getpwuid_r(geteuid(), &entry, buffer, sizeof buffer, &found) == 0 && found != NULL)
        snprintf(user, user_size, "%s", entry.pw_name);
    else
        snprintf(user, user_size, "%u", (unsigned)geteuid());
    if (gethostname(host, host_size) != 0) host[0] = '\0';
    host[host_size - 1] = '\0';
}

enum status changes_next(const struct session *session, int *ret_number, struct err *err) {
    char path[PATH_SIZE];
    int number = 1;
    do {
        TRY(path_of(session, number, path, err));
    } while (file_exists(path) && ++number < CHANGES_MAX);
    *ret_number = number;
    return STATUS_OK;
}

/* Writes a change under its number, unless another host has taken the number: not every file system that hosts share
 * has locks. */
static enum status write_numbered(const struct session *session, const json_t *change, int number, bool *ret_new,
                                  struct err *err) {
    char path[PATH_SIZE], user[128], host[128];
    TRY(path_of(session, number, path, err));
    name_author(user, sizeof user, host, sizeof host);
    json_t *whole = json_pack("{s:i, s:i, s:f, s:s, s:s, s:s, s:b, s:[]}", "v", 1, "number", number, "time",
                              clock_realtime(), "user", user, "host", host, "by", "", "whole", 0, "changes");
    if (whole != NULL) json_object_update(whole, (json_t *)change);
    _cleanup_(mem_free) char *text = whole != NULL ? json_dumps(whole, JSON_INDENT(1) | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(whole);
    FAIL_IF(text == NULL, err, STATUS_NO_MEMORY, "no memory for a change of the session");
    return file_write_new(path, text, strlen(text), ret_new, err);
}

enum status changes_write(const struct session *session, const json_t *change, int *ret_number, struct err *err) {
    int number;
    for (bool is_new = false; !is_new;) {
        TRY(changes_next(session, &number, err));
        FAIL_IF(number >= CHANGES_MAX, err, STATUS_UNSUPPORTED, "%s has %d changes, which are the most", session->path,
                CHANGES_MAX - 1);
        TRY(write_numbered(session, change, number, &is_new, err));
    }
    *ret_number = number;
    return STATUS_OK;
}

enum status changes_add(const struct session *session, const char *by, bool whole, json_t *entries, int *ret_number,
                        struct err *err) {
    json_t *change = json_pack("{s:s, s:b, s:O}", "by", by, "whole", (int)whole, "changes", entries);
    FAIL_IF(change == NULL, err, STATUS_NO_MEMORY, "no memory for a change of the session");
    enum status status = changes_write(session, change, ret_number, err);
    json_decref(change);
    return status;
}

enum param_changes change_kind(const struct graph_stage *stage, const char *key) {
    enum param_changes kind = params_changes_of(json_object_get(stage->describe, "params"), key);
    if (kind != PARAM_NEVER) return kind;
    return params_changes_of(json_object_get(stage->describe, "common_params"), key);
}

static json_t *value_of(const struct graph_entry *entry) {
    return entry != NULL ? graph_value_json(&entry->value) : json_null();
}

json_t *change_entry(const struct graph_stage *stage, const char *key, const struct graph_entry *before,
                     const struct graph_entry *after) {
    return json_pack("{s:s, s:s, s:o, s:o, s:s}", "stage", stage->section.name, "key", key, "old", value_of(before),
                     "new", value_of(after), "changes", params_changes_name(change_kind(stage, key)));
}
