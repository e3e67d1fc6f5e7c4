/* A session that one user has begun and another goes on with, such as the user of a service. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipelines/launcher/session.h"

enum { NAME_SIZE = 64 };

static void user_name(uid_t user, char name[NAME_SIZE]) {
    const struct passwd *entry = getpwuid(user);
    if (entry != NULL)
        snprintf(name, NAME_SIZE, "%s", entry->pw_name);
    else
        snprintf(name, NAME_SIZE, "the user %lld", (long long)user);
}

static enum status refuse(const struct session *session, const char *path, uid_t owner, struct err *err) {
    char theirs[NAME_SIZE], ours[NAME_SIZE];
    user_name(owner, theirs);
    user_name(geteuid(), ours);
    FAIL(
        err, STATUS_BAD_STATE,
        "%s: %s belongs to %s and may not be written by %s, so that this user cannot go on with the session; let %s do "
        "`chmod -R g+rwX %s`, with both in the group of its files, and begin sessions with `umask 002`; or run as %s",
        session->path, path, theirs, ours, theirs, session->path, theirs);
}

/* Returns whether a run writes into the file. It replaces all others, for which a right to write into the folder is
 * enough. */
static bool is_written(const char *name) {
    static const char *const endings[] = {".log", ".sqlite", ".sqlite-wal", ".sqlite-shm", ".jsonl"};
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (length > strlen(endings[i]) && strcmp(name + length - strlen(endings[i]), endings[i]) == 0) return true;
    return strcmp(name, "lock") == 0;
}

static enum status look(const struct session *session, const char *path, struct err *err) {
    struct stat info;
    if (lstat(path, &info) != 0 || info.st_uid == geteuid()) return STATUS_OK;
    bool folder = S_ISDIR(info.st_mode) && strncmp(path_name(path), "sockets", strlen("sockets")) != 0;
    if (!folder && !(S_ISREG(info.st_mode) && is_written(path_name(path)))) return STATUS_OK;
    int mode = folder ? R_OK | W_OK | X_OK : R_OK | W_OK;
    bool closed = faccessat(AT_FDCWD, path, mode, AT_EACCESS) != 0 && errno == EACCES;
    return closed ? refuse(session, path, info.st_uid, err) : STATUS_OK;
}

enum status session_may_write(const struct session *session, struct err *err) {
    static const char *const folders[] = {"", "log", "ledger"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char folder[PATH_SIZE], path[PATH_SIZE];
        snprintf(folder, sizeof folder, "%s", session->path);
        if (i > 0) TRY(path_join(session->path, folders[i], folder, sizeof folder, err));
        TRY(look(session, folder, err));
        DIR *entries = opendir(folder);
        if (entries == NULL) continue; /* whoever needs the folder reports why */
        enum status status = STATUS_OK;
        for (struct dirent *entry; status == STATUS_OK && (entry = readdir(entries)) != NULL;)
            if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
                path_join(folder, entry->d_name, path, sizeof path, NULL) == STATUS_OK)
                status = look(session, path, err);
        closedir(entries);
        TRY(status);
    }
    return STATUS_OK;
}
