/* Ends a run from the page: by the signals that Ctrl-C and systemd send. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipelines/launcher/changes.h"
#include "pipelines/launcher/control_private.h"
#include "pipelines/launcher/view/view.h"

/* Returns whether a process has the session's lock open, so that no other process gets the signal that has taken over the
 * number. */
static bool has_lock(const struct session *session, pid_t pid) {
    char folder[64], path[PATH_SIZE];
    struct stat lock, other;
    bool found = false;
    if (session_file(session, "log", "lock", "", path, NULL) != STATUS_OK || stat(path, &lock) != 0) return false;
    snprintf(folder, sizeof folder, "/proc/%lld/fd", (long long)pid);
    DIR *entries = opendir(folder);
    if (entries == NULL) return false;
    for (struct dirent *entry; !found && (entry = readdir(entries)) != NULL;)
        found = fstatat(dirfd(entries), entry->d_name, &other, 0) == 0 && other.st_dev == lock.st_dev &&
                other.st_ino == lock.st_ino;
    closedir(entries);
    return found;
}

/* Returns whether systemd runs the launcher by the unit of a session, which starts it again when it was stopped. */
static bool is_service(pid_t pid) {
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%lld/cgroup", (long long)pid);
    FILE *file = fopen(path, "re");
    bool found = false;
    while (file != NULL && fgets(text, sizeof text, file) != NULL)
        found = found || strstr(text, "/icestream@") != NULL;
    if (file != NULL) fclose(file);
    return found;
}

static enum status signal_launcher(const struct control *c, int number, const char *word, bool *ret_service,
                                   struct err *err) {
    const char *path = c->session.path;
    json_t *plan = NULL;
    FAIL_IF(!session_is_running(&c->session), err, STATUS_BAD_STATE, "%s does not run", path);
    TRY(session_read_plan(&c->session, &plan, err));
    pid_t pid = (pid_t)json_integer_value(json_object_get(plan, "pid"));
    json_decref(plan);
    FAIL_IF(
        pid <= 1 || !has_lock(&c->session, pid), err, STATUS_BAD_STATE,
        "%s runs where this server cannot reach it (another machine, container or user); there, `kill -%s %lld` does "
        "it",
        path, word, (long long)pid);
    if (ret_service != NULL) *ret_service = is_service(pid);
    FAIL_IF(kill(pid, number) != 0, err, errno == EPERM ? STATUS_REJECTED : STATUS_BAD_STATE,
            "the launcher of %s (process %lld) takes no signal from this server: %s", path, (long long)pid,
            strerror(errno));
    return STATUS_OK;
}

/* Returns whether this run drains: the view sees it a moment after the page has asked for it. */
static bool is_draining(const struct control *c) {
    json_t *changes = NULL, *change;
    size_t i;
    bool asked = false;
    if (view_state(c->serve->view) == VIEW_DRAINING) return true;
    if (changes_read(&c->session, &changes, NULL) != STATUS_OK) return false;
    json_array_foreach(changes, i, change) {
        const char *by = json_string_value(json_object_get(change, "by"));
        asked = asked || (by != NULL && strcmp(by, "drain") == 0 &&
                          json_integer_value(json_object_get(change, "run")) == view_run(c->serve->view));
    }
    json_decref(changes);
    return asked;
}

/* A second SIGINT would stop the run at once. */
enum status control_drain(struct control *c, struct err *err) {
    if (session_is_running(&c->session) && is_draining(c)) {
        fputs("the run drains already", c->out);
        c->noted = true;
        return STATUS_OK;
    }
    TRY(signal_launcher(c, SIGINT, "INT", NULL, err));
    fputs("the run finishes what has started, and takes nothing new in", c->out);
    c->changed = 1;
    return STATUS_OK;
}

enum status control_stop(struct control *c, struct err *err) {
    bool service = false;
    TRY(signal_launcher(c, SIGTERM, "TERM", &service, err));
    fputs(service
              ? "the run stops at once; systemd starts it again after a pause unless `systemctl stop` stops its unit"
              : "the run stops at once; run again, it goes on",
          c->out);
    c->changed = 1;
    return STATUS_OK;
}
