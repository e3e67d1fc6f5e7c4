/* `icestream backup`: copies the ledgers, graph, plan and logs of a session, which may be running, and on request its
 * products. */
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/memory.h"
#include "pipelines/launcher/commands.h"
#include "pipelines/launcher/session.h"
#include "pipelines/launcher/warnings.h"

struct backup {
    const struct session *session;
    char target[PATH_SIZE]; /* absolute */
    int64_t files, bytes;
};

static enum status copy_bytes(int from, FILE *to, const char *path, int64_t *bytes, struct err *err) {
    enum { BLOCK = 1 << 18 };
    _cleanup_(mem_free) char *block = NULL;
    TRY(mem_new_unset(BLOCK, 1, "a file's copy", &block, err));
    for (;;) {
        ssize_t got = read(from, block, BLOCK);
        if (got < 0 && errno == EINTR) continue;
        FAIL_IF(got < 0, err, status_of_reading(errno), "%s: cannot be read: %s", path, strerror(errno));
        if (got == 0) return STATUS_OK;
        *bytes += got;
        if (fwrite(block, 1, (size_t)got, to) != (size_t)got) return STATUS_OK; /* file_place reports it */
    }
}

/* Copies a file with its times, by which ledgers know it. A file that is already there and as old is left out. */
static enum status copy_file(struct backup *backup, const char *from, const char *to, struct err *err) {
    _cleanup_(file_close) int descriptor = -1;
    struct stat info, there;
    struct file_output *output = NULL;
    struct err own = {0};
    enum status status = file_open_read(from, &descriptor, NULL, &own);
    if (status == STATUS_NOT_FOUND) return STATUS_OK; /* replaced or removed meanwhile */
    FAIL_IF(status != STATUS_OK, err, status, "%s", own.message);
    FAIL_IF(fstat(descriptor, &info) != 0, err, status_of_reading(errno), "%s: %s", from, strerror(errno));
    if (stat(to, &there) == 0 && there.st_size == info.st_size && file_mtime_ns(&there) == file_mtime_ns(&info))
        return STATUS_OK;
    TRY(file_make_parents(to, 0777, err));
    TRY(file_create(to, &output, err));
    status = copy_bytes(descriptor, file_output_stream(output), from, &backup->bytes, err);
    if (status != STATUS_OK) {
        file_discard(&output);
        return status;
    }
    backup->files++;
    TRY(file_place(&output, err));
    const struct timespec times[2] = {info.st_atim, info.st_mtim};
    FAIL_IF(utimensat(AT_FDCWD, to, times, 0) != 0, err, status_of_writing(errno), "%s: %s", to, strerror(errno));
    return STATUS_OK;
}

/* Sockets, locks and orders are of the running processes alone. */
static bool is_of_processes(const char *name) {
    static const char *const ends[] = {".current", ".instance.json", ".heartbeat.json"};
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (length > strlen(ends[i]) && strcmp(name + length - strlen(ends[i]), ends[i]) == 0) return true;
    return name[0] == '.' || strcmp(name, "lock") == 0 || strcmp(name, "sockets") == 0;
}

static enum status copy_folder(struct backup *backup, const char *name, struct err *err) {
    char folder[PATH_SIZE], to[PATH_SIZE];
    TRY(path_join(backup->session->path, name, folder, sizeof folder, err));
    if (!file_is_folder(folder)) return STATUS_OK;
    char *const roots[] = {folder, NULL};
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_COMFOLLOW, NULL);
    FAIL_IF(walk == NULL, err, STATUS_IO, "%s: cannot be listed: %s", folder, strerror(errno));
    enum status status = STATUS_OK;
    for (FTSENT *found; status == STATUS_OK && (found = fts_read(walk)) != NULL;) {
        const char *rest;
        if (found->fts_info != FTS_F || is_of_processes(found->fts_name)) continue;
        if (!path_is_below(found->fts_path, backup->session->path, &rest)) continue;
        status = path_join(backup->target, rest, to, sizeof to, err);
        if (status == STATUS_OK) status = copy_file(backup, found->fts_path, to, err);
    }
    fts_close(walk);
    return status;
}

static enum status copy_name(struct backup *backup, const char *folder, const char *name, struct err *err) {
    char from[PATH_SIZE], to[PATH_SIZE], relative[PATH_SIZE];
    TRY(path_join(folder, name, relative, sizeof relative, err));
    TRY(path_join(backup->session->path, relative, from, sizeof from, err));
    TRY(path_join(backup->target, relative, to, sizeof to, err));
    return copy_file(backup, from, to, err);
}

static enum status copy_ledger(struct backup *backup, const char *stage, struct err *err) {
    char name[PATH_SIZE], path[PATH_SIZE];
    struct ledger *ledger = NULL;
    TRY(session_ledger(backup->session, stage, true, &ledger, err));
    if (ledger == NULL) return STATUS_OK;
    snprintf(name, sizeof name, "ledger/%s.sqlite", stage);
    enum status status = path_join(backup->target, name, path, sizeof path, err);
    if (status == STATUS_OK) status = ledger_backup(ledger, path, err);
    ledger_close(&ledger);
    backup->files += status == STATUS_OK;
    return status;
}

static const char *name_of(const json_t *planned) {
    return json_string_value(json_object_get(planned, "name"));
}

/* Returns whether all stages that send to this one are among those that are copied. */
static bool senders_copied(const json_t *planned, const json_t *copied) {
    size_t i;
    json_t *from;
    json_array_foreach(json_object_get(planned, "from"), i, from) {
        if (json_object_get(copied, json_string_value(from)) == NULL) return false;
    }
    return true;
}

/* A sender's ledger comes before its receivers': what a receiver has and the sender's copy does not is sent again and
 * acknowledged at once, while the other way round an item would be lost. */
static enum status copy_ledgers(struct backup *backup, const json_t *stages, json_t *copied, struct err *err) {
    for (size_t round = 0; round < json_array_size(stages); round++) {
        size_t i;
        json_t *planned;
        json_array_foreach(stages, i, planned) {
            if (json_object_get(copied, name_of(planned)) != NULL || !senders_copied(planned, copied)) continue;
            TRY(copy_ledger(backup, name_of(planned), err));
            FAIL_IF(json_object_set_new(copied, name_of(planned), json_true()) != 0, err, STATUS_NO_MEMORY,
                    "no memory for the stages");
        }
    }
    return STATUS_OK;
}

/* A change exists once its last file does, so that a change that comes meanwhile is copied whole or not at all. */
static enum status copy_changes(struct backup *backup, struct err *err) {
    for (int number = 1;; number++) {
        char name[48], path[PATH_SIZE];
        snprintf(name, sizeof name, "%04d", number);
        TRY(session_file(backup->session, "changes", name, ".json", path, err));
        if (!file_exists(path)) return STATUS_OK;
        snprintf(name, sizeof name, "changes/%04d.star", number);
        TRY(copy_name(backup, "", name, err));
        snprintf(name, sizeof name, "changes/%04d.json", number);
        TRY(copy_name(backup, "", name, err));
    }
}

/* Products come last: all that the ledgers name is on disk by then. */
static enum status copy_session(struct backup *backup, const json_t *plan, bool products, struct err *err) {
    const json_t *stages = json_object_get(plan, "stages");
    TRY(copy_name(backup, "", "graph.yaml", err));
    TRY(copy_folder(backup, "log", err));
    json_t *copied = json_object();
    enum status status = copy_ledgers(backup, stages, copied, err);
    json_decref(copied);
    if (status == STATUS_OK) status = copy_ledger(backup, WARNINGS_LAUNCHER, err);
    if (status == STATUS_OK) status = session_copy_server(backup->session, backup->target, err);
    if (status == STATUS_OK) status = copy_changes(backup, err);
    for (size_t i = 0; status == STATUS_OK && products && i < json_array_size(stages); i++)
        status = copy_folder(backup, name_of(json_array_get(stages, i)), err);
    return status == STATUS_OK ? file_sync_folders(backup->target, err) : status;
}

static enum status prepare(struct backup *backup, const char *to, struct err *err) {
    char folder[PATH_SIZE], other[PATH_SIZE];
    TRY(path_join(to, "ledger", folder, sizeof folder, err));
    TRY(file_make_folders(folder, 0777, err));
    char *whole = realpath(to, NULL);
    FAIL_IF(whole == NULL, err, STATUS_IO, "%s: %s", to, strerror(errno));
    snprintf(backup->target, sizeof backup->target, "%s", whole);
    free(whole);
    bool inside = path_is_below(backup->target, backup->session->path, NULL) ||
                  path_is_below(backup->session->path, backup->target, NULL);
    FAIL_IF(inside, err, STATUS_BAD_ARGUMENT, "%s and the session %s lie in each other: name another folder", to,
            backup->session->path);
    TRY(path_join(backup->target, "log/plan.json", other, sizeof other, err));
    if (!file_exists(other)) return STATUS_OK;
    struct session there;
    TRY(session_find(backup->target, &there, err));
    FAIL_IF(strcmp(there.id, backup->session->id) != 0, err, STATUS_BAD_ARGUMENT,
            "%s holds another session: name another folder", to);
    FAIL_IF(session_is_running(&there), err, STATUS_BAD_STATE, "%s: a session runs there: name another folder", to);
    return STATUS_OK;
}

int command_backup(const struct options *options) {
    struct session session;
    struct err err = {0};
    json_t *plan = NULL;
    struct backup backup = {.session = &session};
    enum status status = session_find(options->session, &session, &err);
    if (status == STATUS_OK && options->to == NULL)
        status = err_set(&err, STATUS_NOT_FOUND, __FILE__, __LINE__, "--to is missing: the folder for the copy");
    if (status == STATUS_OK) status = prepare(&backup, options->to, &err);
    if (status == STATUS_OK) status = session_read_plan(&session, &plan, &err);
    if (status == STATUS_OK) status = copy_session(&backup, plan, options->products, &err);
    json_decref(plan);
    if (status == STATUS_OK) {
        printf("%lld files copied to %s%s\n", (long long)backup.files, backup.target,
               options->products ? "" : ", without products (--products)");
        return EXIT_OK;
    }
    fprintf(stderr, "icestream: %s\n", err.message);
    return status == STATUS_NOT_FOUND || status == STATUS_BAD_ARGUMENT ? EXIT_USAGE : EXIT_ERROR;
}
