#include "common/harness/lease_folders.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/memory.h"

#define LEASES "leases"

enum { COPY_BLOCK = 1 << 20 };

enum status lease_folders_root(const char *session, const char *stage, int64_t number, char root[PATH_SIZE],
                               struct err *err) {
    char name[PATH_SIZE];
    snprintf(name, sizeof name, LEASES "/%s.%lld", stage, (long long)number);
    return path_join(session, name, root, PATH_SIZE, err);
}

static enum status folder_of(const char *session, const char *stage, int64_t number, char folder[PATH_SIZE],
                             struct err *err) {
    char root[PATH_SIZE];
    TRY(lease_folders_root(session, stage, number, root, err));
    return path_join(root, stage, folder, PATH_SIZE, err);
}

int64_t lease_folders_last(const char *session, const char *stage) {
    char folder[PATH_SIZE], prefix[PATH_SIZE];
    snprintf(prefix, sizeof prefix, "%s.", stage);
    if (path_join(session, LEASES, folder, sizeof folder, NULL) != STATUS_OK) return 0;
    return file_last_number(folder, prefix, "", INT_MAX);
}

/* ---- The content of the one before ---- */

static bool ends_in(const char *name, const char *ending) {
    size_t length = strlen(name), end = strlen(ending);
    return length >= end && strcmp(name + length - end, ending) == 0;
}

static enum status copy_bytes(int from, int to, const char *path, struct err *err) {
    _cleanup_(mem_free) char *block = NULL;
    TRY(mem_new(COPY_BLOCK, 1, "a copy", &block, err));
    for (;;) {
        ssize_t got = read(from, block, COPY_BLOCK);
        FAIL_IF(got < 0, err, status_of_reading(errno), "%s: cannot be read: %s", path, strerror(errno));
        if (got == 0) return STATUS_OK;
        for (ssize_t done = 0; done < got;) {
            ssize_t wrote = write(to, block + done, (size_t)(got - done));
            FAIL_IF(wrote < 0, err, status_of_writing(errno), "%s: cannot be copied: %s", path, status_reason(errno));
            done += wrote;
        }
    }
}

/* The copy has the same time, by which the ledger knows the file. */
static enum status copy_file(const char *from, const char *to, struct err *err) {
    _cleanup_(file_close) int in = -1;
    _cleanup_(file_close) int out = -1;
    struct stat info;
    TRY(file_open_read(from, &in, NULL, err));
    FAIL_IF(fstat(in, &info) != 0, err, status_of_reading(errno), "%s: %s", from, strerror(errno));
    out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    FAIL_IF(out < 0, err, status_of_writing(errno), "%s: cannot be made: %s", to, status_reason(errno));
    TRY(copy_bytes(in, out, from, err));
    const struct timespec times[2] = {info.st_atim, info.st_mtim};
    FAIL_IF(futimens(out, times) != 0 || fsync(out) != 0, err, status_of_writing(errno), "%s: cannot be written: %s",
            to, status_reason(errno));
    return STATUS_OK;
}

static enum status take_file(const char *from, const char *to, const char *name, struct err *err) {
    /* Half-written files are their writer's. */
    if (name[0] == '.' && (ends_in(name, ".partial") || ends_in(name, ".link"))) return STATUS_OK;
    if (!ends_in(name, ".jsonl") && link(from, to) == 0) return STATUS_OK;
    struct err own = {0};
    enum status status = copy_file(from, to, &own);
    /* A holder that does not know yet that its lease is over may still remove or replace it. */
    if (status == STATUS_NOT_FOUND) return STATUS_OK;
    FAIL_IF(status != STATUS_OK, err, status, "%s", own.message);
    return STATUS_OK;
}

static enum status take_link(const char *from, const char *to, struct err *err) {
    char target[PATH_SIZE];
    ssize_t length = readlink(from, target, sizeof target - 1);
    if (length < 0 && errno == ENOENT) return STATUS_OK;
    FAIL_IF(length < 0, err, status_of_reading(errno), "%s: cannot be read: %s", from, strerror(errno));
    target[length] = '\0';
    FAIL_IF(symlink(target, to) != 0, err, status_of_writing(errno), "%s: cannot be made: %s", to,
            status_reason(errno));
    return STATUS_OK;
}

static enum status take_entry(const FTSENT *found, const char *from, const char *folder, struct err *err) {
    const char *rest;
    char to[PATH_SIZE];
    if (!path_is_below(found->fts_path, from, &rest)) return STATUS_OK;
    TRY(path_join(folder, rest, to, sizeof to, err));
    switch (found->fts_info) {
    case FTS_D:
        return file_make_folders(to, 0777, err);
    case FTS_F:
        return take_file(found->fts_path, to, found->fts_name, err);
    case FTS_SL:
    case FTS_SLNONE:
        return take_link(found->fts_path, to, err);
    case FTS_DNR:
    case FTS_ERR:
        FAIL(err, status_of_reading(found->fts_errno), "%s: cannot be read: %s", found->fts_path,
             strerror(found->fts_errno));
    default:
        return STATUS_OK;
    }
}

static enum status take_all(const char *from, const char *folder, struct err *err) {
    char start[PATH_SIZE];
    snprintf(start, sizeof start, "%s", from);
    char *const roots[] = {start, NULL};
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_COMFOLLOW, NULL);
    FAIL_IF(walk == NULL, err, STATUS_IO, "%s: cannot be listed: %s", from, strerror(errno));
    enum status status = STATUS_OK;
    for (FTSENT *found; status == STATUS_OK && (found = fts_read(walk)) != NULL;)
        status = take_entry(found, from, folder, err);
    fts_close(walk);
    return status;
}

/* ---- Where SESSION/STAGE leads ---- */

static enum status promised_path(const char *session, const char *stage, char path[PATH_SIZE], struct err *err) {
    return path_join(session, stage, path, PATH_SIZE, err);
}

/* Reads the link; "" where there is none. */
static void read_promise(const char *path, char target[PATH_SIZE]) {
    ssize_t length = readlink(path, target, PATH_SIZE - 1);
    target[length > 0 ? length : 0] = '\0';
}

static void target_of(const char *stage, int64_t number, char target[PATH_SIZE]) {
    snprintf(target, PATH_SIZE, LEASES "/%s.%lld/%s", stage, (long long)number, stage);
}

static enum status refuse_links(const char *path, const char *stage, struct err *err) {
    char target[PATH_SIZE];
    read_promise(path, target);
    FAIL_IF(
        target[0] != '\0' && strncmp(target, LEASES "/", strlen(LEASES "/")) != 0, err, STATUS_BAD_ARGUMENT,
        "%s is a link to %s; with ledgers in PostgreSQL it has to lead to the folder of a lease: put its content into "
        "a folder of that name, and make " LEASES " a link if %s is to lie elsewhere",
        path, target, stage);
    return STATUS_OK;
}

static void remove_tree(const char *folder) {
    char start[PATH_SIZE];
    snprintf(start, sizeof start, "%s", folder);
    char *const roots[] = {start, NULL};
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    if (walk == NULL) return;
    for (FTSENT *found; (found = fts_read(walk)) != NULL;) {
        if (found->fts_info == FTS_DP)
            (void)rmdir(found->fts_path);
        else if (found->fts_info != FTS_D)
            (void)unlink(found->fts_path);
    }
    fts_close(walk);
}

enum status lease_folders_make(const char *session, const char *stage, int64_t number, int64_t before,
                               struct err *err) {
    char root[PATH_SIZE], folder[PATH_SIZE], from[PATH_SIZE], promised[PATH_SIZE];
    TRY(folder_of(session, stage, number, folder, err));
    TRY(folder_of(session, stage, before, from, err));
    TRY(promised_path(session, stage, promised, err));
    TRY(refuse_links(promised, stage, err));
    TRY(file_make_folders(folder, 0777, err));
    /* A backup has no folders of leases. */
    const char *content = before > 0 && file_is_folder(from) ? from : promised;
    enum status status = file_is_folder(content) ? take_all(content, folder, err) : STATUS_OK;
    if (status == STATUS_OK) return file_sync_folders(folder, err);
    /* A full disk is tried again and again, each time with another number. */
    if (lease_folders_root(session, stage, number, root, NULL) == STATUS_OK) remove_tree(root);
    return status;
}

bool lease_folders_promised(const char *session, const char *stage, int64_t number) {
    char path[PATH_SIZE], target[PATH_SIZE], is[PATH_SIZE];
    if (promised_path(session, stage, path, NULL) != STATUS_OK) return false;
    target_of(stage, number, target);
    read_promise(path, is);
    return strcmp(is, target) == 0;
}

enum status lease_folders_promise(const char *session, const char *stage, int64_t number, struct err *err) {
    char path[PATH_SIZE], root[PATH_SIZE], aside[PATH_SIZE], target[PATH_SIZE];
    struct stat info;
    TRY(promised_path(session, stage, path, err));
    TRY(lease_folders_root(session, stage, number, root, err));
    TRY(path_join(root, "before", aside, sizeof aside, err));
    target_of(stage, number, target);
    bool folder = lstat(path, &info) == 0 && S_ISDIR(info.st_mode);
    FAIL_IF(folder && rename(path, aside) != 0, err, status_of_writing(errno), "%s: cannot be moved to %s: %s", path,
            aside, status_reason(errno));
    TRY(file_link(target, path, err));
    /* It may lead to the folder of another lease by now; that it is a link is enough. */
    read_promise(path, target);
    FAIL_IF(target[0] == '\0', err, STATUS_UNSUPPORTED,
            "%s: cannot be a link on this file system, which a session with ledgers in PostgreSQL needs", path);
    return STATUS_OK;
}

enum status lease_folders_lead(const char *session, const char *stage, lease_counts *counts, void *context,
                               struct err *err) {
    int64_t number = 0, now = 0;
    TRY(counts(context, &now, err));
    while (now != number && now > 0) {
        number = now;
        TRY(lease_folders_promise(session, stage, number, err));
        TRY(counts(context, &now, err));
    }
    return STATUS_OK;
}

/* ---- Old ones ---- */

/* Returns the number in "STAGE.N"; -1: it is not such a name. */
static int64_t number_of(const char *name, const char *stage) {
    size_t length = strlen(stage);
    char *end;
    if (strncmp(name, stage, length) != 0 || name[length] != '.') return -1;
    long long number = strtoll(name + length + 1, &end, 10);
    return *end == '\0' && end > name + length + 1 ? number : -1;
}

void lease_folders_clear(const char *session, const char *stage, int64_t number, int64_t before) {
    char leases[PATH_SIZE], path[PATH_SIZE];
    if (path_join(session, LEASES, leases, sizeof leases, NULL) != STATUS_OK) return;
    DIR *entries = opendir(leases);
    if (entries == NULL) return;
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        int64_t other = number_of(entry->d_name, stage);
        /* Later ones are of another process, which has taken the lease while this one stood still. */
        if (other < 0 || other >= number || other == before) continue;
        if (path_join(leases, entry->d_name, path, sizeof path, NULL) == STATUS_OK) remove_tree(path);
    }
    closedir(entries);
}
