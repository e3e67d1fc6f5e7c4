/* Keeps what the processes of a run need to find one another: the folder of the sockets, and the instance files. Both
 * lie in the session, but cleaners and users delete what they do not know, so both are made again when they are
 * gone. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/memory.h"
#include "pipelines/launcher/run/instance.h"
#include "pipelines/launcher/run/run_private.h"

enum { SOCKET_NAME_MAX = 24 };        /* bytes of "/", a number and ".a" behind the folder, with some to spare */
static const double UNBOUND_MAX = 10; /* s without its socket files until a stage of others is started again */

static void remove_folder(const char *path) {
    int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = descriptor >= 0 ? fdopendir(descriptor) : NULL;
    if (folder == NULL && descriptor >= 0) close(descriptor);
    for (struct dirent *entry = folder ? readdir(folder) : NULL; entry != NULL; entry = readdir(folder))
        if (entry->d_name[0] != '.') unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder != NULL) closedir(folder);
    rmdir(path);
}

static bool is_own_folder(const char *path) {
    struct stat info;
    return lstat(path, &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid();
}

/* Returns whether the folder takes sockets and hides them from other users. Some network file systems do neither. */
static bool hides_sockets(const char *folder) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat info;
    int length = snprintf(address.sun_path, sizeof address.sun_path, "%s/probe", folder);
    if (length >= (int)sizeof address.sun_path || stat(folder, &info) != 0 || info.st_uid != geteuid() ||
        (info.st_mode & 0777) != 0700)
        return false;
    int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool takes = descriptor >= 0 && bind(descriptor, (struct sockaddr *)&address, sizeof address) == 0;
    if (descriptor >= 0) close(descriptor);
    unlink(address.sun_path);
    return takes;
}

/* Returns whether others could put a folder of theirs in place of ours. writers: the bits of those who should not be able
 * to write there. */
static bool others_may_rename(const char *parent, mode_t writers) {
    struct stat info;
    return stat(parent, &info) != 0 || ((info.st_mode & writers) != 0 && (info.st_mode & S_ISVTX) == 0);
}

/* A short path below a folder that is not the session's. Log-out or a cleaner may remove it, so it is the last resort,
 * for sessions whose own path is too long for a socket. */
static bool make_elsewhere(struct run *run) {
    const char *const parents[] = {"/tmp", getenv("TMPDIR"), getenv("XDG_RUNTIME_DIR")};
    for (size_t i = 0; i < sizeof parents / sizeof *parents; i++) {
        const char *parent = parents[i];
        if (parent == NULL || parent[0] != '/' || strlen(parent) > PLAN_IPC_MAX - SOCKET_NAME_MAX - 17 ||
            others_may_rename(parent, S_IWGRP | S_IWOTH))
            continue;
        snprintf(run->sockets, sizeof run->sockets, "%s/icestream-XXXXXX", parent);
        if (mkdtemp(run->sockets) == NULL) continue;
        /* The umask may have taken bits away. */
        if (chmod(run->sockets, 0700) == 0 && hides_sockets(run->sockets)) return true;
        rmdir(run->sockets);
    }
    return false;
}

/* A group that may write into the session can also change its graph, so the group is trusted here. */
static bool make_in_session(struct run *run, const char *log, const char *path) {
    if (strlen(path) > PLAN_IPC_MAX - SOCKET_NAME_MAX || others_may_rename(log, S_IWOTH)) return false;
    if (mkdir(path, 0700) != 0 && errno != EEXIST) return false;
    snprintf(run->sockets, sizeof run->sockets, "%s", path);
    if (is_own_folder(path) && chmod(path, 0700) == 0 && hides_sockets(path)) return true;
    rmdir(path);
    return false;
}

static void set_aside(const char *path) {
    char aside[PATH_SIZE + 32];
    snprintf(aside, sizeof aside, "%s.%lld", path, (long long)clock_realtime());
    if (rename(path, aside) != 0) rmdir(path); /* what follows reports that the folder is in the way */
}

enum status run_sockets_make(struct run *run, struct err *err) {
    char path[PATH_SIZE], log[PATH_SIZE];
    struct stat info;
    TRY(session_file(&run->session, "log", "sockets", "", path, err));
    TRY(path_folder(path, log, sizeof log, err));
    /* A launcher that was killed has left its folder, or a file that names it. */
    if (lstat(path, &info) == 0 && S_ISREG(info.st_mode)) {
        _cleanup_(mem_free) char *old = NULL;
        TRY(file_read_whole(path, PATH_SIZE, &old, NULL, err));
        if (strncmp(path_name(old), "icestream-", 10) == 0 && strlen(path_name(old)) == 16) remove_folder(old);
        unlink(path);
    } else {
        remove_folder(path);
    }
    /* Another user ran this session, and nobody else can empty that folder. */
    if (lstat(path, &info) == 0 && !is_own_folder(path)) set_aside(path);
    if (make_in_session(run, log, path)) return STATUS_OK;
    if (make_elsewhere(run)) return file_write_whole(path, run->sockets, strlen(run->sockets), err);
    run->sockets[0] = '\0';
    FAIL(err, STATUS_UNAVAILABLE,
         "no folder for sockets can be made: neither %s (a path of at most %d bytes, on a disk that takes sockets) nor "
         "one in /tmp, TMPDIR or XDG_RUNTIME_DIR (one that others may write to must be sticky, as /tmp is)",
         path, PLAN_IPC_MAX - SOCKET_NAME_MAX);
}

void run_sockets_remove(struct run *run) {
    char path[PATH_SIZE];
    if (run->sockets[0] == '\0') return;
    remove_folder(run->sockets);
    if (session_file(&run->session, "log", "sockets", "", path, NULL) == STATUS_OK && strcmp(path, run->sockets) != 0)
        unlink(path);
}

/* Makes the folder again if it is gone: its path is in the instance files, so it cannot be another one. */
static enum status mend_folder(struct run *run, struct err *err) {
    if (run->sockets[0] == '\0' || is_own_folder(run->sockets)) return STATUS_OK;
    TRY(file_make_parents(run->sockets, 0777, err));
    FAIL_IF(mkdir(run->sockets, 0700) != 0, err, STATUS_UNAVAILABLE,
            "%s: the folder of the sockets is gone and cannot be made again: %s", run->sockets, strerror(errno));
    FAIL_IF(chmod(run->sockets, 0700) != 0, err, STATUS_UNAVAILABLE,
            "%s: the folder of the sockets cannot be closed to other users: %s", run->sockets, strerror(errno));
    char text[PATH_SIZE + 80];
    snprintf(text, sizeof text, "%s: the folder of the sockets was gone; made again", run->sockets);
    run_warn(run, "sockets-gone", text);
    return STATUS_OK;
}

static enum status mend_orders(struct run *run, size_t child, struct err *err) {
    const char *path = run->texts[child].orders;
    if (file_exists(path)) return STATUS_OK;
    TRY(file_make_parents(path, 0777, err));
    TRY(instance_write(&run->session, run->plan, child, &run->orders, err));
    char text[PATH_SIZE + 80];
    snprintf(text, sizeof text, "%s was gone; written again", path);
    run_warn(run, "orders-gone", text);
    return STATUS_OK;
}

enum status run_starting(void *context, size_t child, struct err *err) {
    struct run *run = context;
    /* Without a message, this is asked again soon. */
    if (!session_holds_lease(&run->session)) return STATUS_UNAVAILABLE;
    enum status status = mend_folder(run, err);
    if (status == STATUS_OK) status = mend_orders(run, child, err);
    /* Whatever keeps them from being made may pass: the user may mend it, and nothing is lost while this waits. */
    return status == STATUS_OK ? STATUS_OK : STATUS_UNAVAILABLE;
}

/* Returns whether all socket files that an instance binds are there. */
static bool is_bound(const struct run *run, size_t instance) {
    for (size_t i = 0; i < run->plan->edge_count; i++) {
        const struct plan_edge *edge = &run->plan->edges[i];
        if (edge->instance == instance &&
            !(file_exists(edge->data + strlen("ipc://")) && file_exists(edge->ack + strlen("ipc://"))))
            return false;
    }
    return true;
}

/* icestream's stages bind a deleted socket again. A stage of others that does not is started again. */
static void look_at_bindings(struct run *run, struct supervisor *supervisor, size_t child) {
    struct run_binding *binding = &run->bindings[child];
    if (supervisor_pid(supervisor, child) != binding->pid)
        *binding = (struct run_binding){.pid = supervisor_pid(supervisor, child)};
    if (binding->pid == 0) return;
    if (is_bound(run, child)) {
        binding->seen = true;
        binding->gone_at = 0;
    } else if (binding->seen && binding->gone_at == 0) {
        binding->gone_at = clock_monotonic();
    } else if (binding->seen && clock_monotonic() - binding->gone_at > UNBOUND_MAX && hides_sockets(run->sockets)) {
        char text[160];
        snprintf(text, sizeof text, "%s: its sockets were deleted, and it has not bound them again: starting it again",
                 run->children[child].name);
        run_warn(run, "sockets-gone", text);
        supervisor_kill(supervisor, child, SIGTERM);
        binding->gone_at = clock_monotonic();
    }
}

void run_sockets_tend(struct run *run, struct supervisor *supervisor, bool due) {
    struct err err = {0};
    if (run->sockets[0] == '\0') return;
    bool mended = due ? mend_folder(run, &err) == STATUS_OK : !run->unmended;
    if (!mended && !run->unmended) progress_say(&run->progress, err.message);
    run->unmended = !mended;
    for (size_t i = 0; i < run->plan->instance_count; i++)
        if (due || !run->bindings[i].seen) look_at_bindings(run, supervisor, i);
}
