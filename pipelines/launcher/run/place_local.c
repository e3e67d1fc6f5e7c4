/* This machine as a place: processes are forked, and die with the one that forked them. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pipelines/launcher/run/place.h"

/* Runs the child's side of the fork; does not return. */
static void become(const struct supervisor_child *spec, const sigset_t *mask, pid_t parent) {
    setpgid(0, 0);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) _exit(127);
    int input = open("/dev/null", O_RDONLY);
    int output = open(spec->log, O_WRONLY | O_CREAT | O_APPEND, 0666);
    /* Without a log, the child's output goes where the supervisor's output goes. */
    if (input < 0 || dup2(input, 0) < 0 || (output >= 0 && (dup2(output, 1) < 0 || dup2(output, 2) < 0))) _exit(127);
    signal(SIGPIPE, SIG_DFL);
    for (char *const *pair = spec->env; pair != NULL && *pair != NULL; pair++)
        putenv(*pair);
    if (spec->listeners != NULL) listeners_hand_over(spec->listeners, spec->name);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execv(spec->argv[0], spec->argv);
    dprintf(2, "%s cannot be started: %s\n", spec->argv[0], strerror(errno));
    _exit(127);
}

enum status place_local_start(const struct supervisor_child *spec, const sigset_t *mask, pid_t *ret_pid,
                              struct err *err) {
    /* Removes the heartbeat of an earlier process, which would count for this one. */
    if (spec->heartbeat != NULL && unlink(spec->heartbeat) != 0)
        FAIL_IF(errno != ENOENT, err, STATUS_UNAVAILABLE, "%s: cannot be removed: %s", spec->heartbeat,
                strerror(errno));
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) become(spec, mask, parent);
    FAIL_IF(pid < 0, err, STATUS_UNAVAILABLE, "%s cannot be started: %s", spec->name, strerror(errno));
    setpgid(pid, pid); /* in case the child has not got there yet */
    *ret_pid = pid;
    return STATUS_OK;
}

/* Returns whether a line comes from a stage's log, not from a library that wrote it as the process ended. */
static bool is_log_line(const char *line) {
    static const char *const levels[] = {" DEBUG ", " INFO ", " WARN ", " ERROR "};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (strstr(line, levels[i]) != NULL) return true;
    return false;
}

void place_last_error(const char *log, char *text, size_t size) {
    text[0] = '\0';
    FILE *file = fopen(log, "r");
    if (file == NULL) return;
    char line[1024];
    if (fseek(file, -16384, SEEK_END) != 0) /* a shorter log is read from its beginning */
        rewind(file);
    while (fgets(line, sizeof line, file) != NULL) {
        const char *mark = strstr(line, " ERROR ");
        if (strstr(line, " INFO start ") != NULL) text[0] = '\0'; /* what came before belongs to another process */
        if (mark == NULL && (is_log_line(line) || text[0] != '\0')) continue;
        snprintf(text, size, ": %s", mark != NULL ? mark + strlen(" ERROR ") : line);
        text[strcspn(text, "\n")] = '\0';
    }
    fclose(file);
}

bool place_takes_writes(const char *heartbeat) {
    static const char block[4096];
    char path[4096];
    if (snprintf(path, sizeof path, "%s.probe", heartbeat) >= (int)sizeof path) return true;
    int descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    bool takes = descriptor >= 0 && write(descriptor, block, sizeof block) == (ssize_t)sizeof block;
    if (descriptor >= 0) close(descriptor);
    unlink(path);
    return takes;
}

/* ---- The operations ---- */

static enum status start(void *context, size_t child, const struct supervisor_child *spec, pid_t *ret_pid,
                         struct err *err) {
    (void)child;
    return place_local_start(spec, context, ret_pid, err);
}

static void send_signal(void *context, size_t child, pid_t pid, int signal, bool group) {
    (void)context;
    (void)child;
    kill(group ? -pid : pid, signal);
}

static enum place_news reap(void *context, size_t child, pid_t pid, int *ret_wait_status) {
    (void)context;
    (void)child;
    if (waitpid(pid, ret_wait_status, WNOHANG) <= 0) return PLACE_RUNS;
    /* The children of the child die with it. */
    kill(-pid, SIGKILL);
    return PLACE_ENDED;
}

static bool beat(void *context, size_t child, const struct supervisor_child *spec, struct timespec *ret_beat) {
    struct stat status;
    (void)context;
    (void)child;
    if (stat(spec->heartbeat, &status) != 0) return false;
    *ret_beat = status.st_mtim;
    return true;
}

static void last_error(void *context, size_t child, const struct supervisor_child *spec, char *text, size_t size) {
    (void)context;
    (void)child;
    place_last_error(spec->log, text, size);
}

static bool takes_writes(void *context, size_t child, const struct supervisor_child *spec) {
    (void)context;
    (void)child;
    return place_takes_writes(spec->heartbeat);
}

static void bury(void *context, size_t child, pid_t pid) {
    (void)context;
    (void)child;
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

static const struct place_operations operations = {.start = start,
                                                   .signal = send_signal,
                                                   .reap = reap,
                                                   .beat = beat,
                                                   .last_error = last_error,
                                                   .takes_writes = takes_writes,
                                                   .bury = bury};

struct process_place place_local(sigset_t *mask) {
    return (struct process_place){&operations, mask};
}
