/* A place where the supervisor starts processes: this machine (place_local.c), or another one that has joined the session
 * (host/place_host.c). A place knows how to start a process, to signal it and to hear of it; the supervisor decides what
 * follows. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_RUN_PLACE_H
#define ICESTREAM_PIPELINES_LAUNCHER_RUN_PLACE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <time.h>

#include "common/status.h"
#include "pipelines/launcher/run/listeners.h"

/* A process, as the supervisor is told of it. */
struct supervisor_child {
    const char *name;
    char *const *argv;       /* argv[0] is the program's path; ends with NULL */
    char *const *env;        /* "KEY=VALUE" pairs besides the inherited ones; ends with NULL; NULL: none */
    const char *log;         /* standard output and error are appended to it */
    const char *heartbeat;   /* a file that changes while the child works; NULL: the child is not watched */
    bool heartbeat_expected; /* the child writes heartbeats from its start on; false: it is watched only after its first
                                heartbeat */
    bool source;             /* gets SIGINT when the stream shall drain */
    const struct listeners
        *listeners; /* sockets that the child inherits, of edges that begin with its name; NULL: none */
};

enum place_news {
    PLACE_RUNS,  /* the process runs, as far as the place knows */
    PLACE_ENDED, /* it has ended, and nothing that it started is left */
    PLACE_LOST   /* the place itself is lost, or leaves: nothing more is heard of the process, and it does not count */
};

/* The operations of a place. child: the number of the process among those of the supervisor. */
struct place_operations {
    /* Starts a process, in a process group of its own. STATUS_UNAVAILABLE: it cannot be started now. */
    enum status (*start)(void *context, size_t child, const struct supervisor_child *spec, pid_t *ret_pid,
                         struct err *err);
    /* Sends a signal to the process, or to its whole group. */
    void (*signal)(void *context, size_t child, pid_t pid, int signal, bool group);
    /* Tells what has become of the process; *ret_wait_status as from waitpid, with PLACE_ENDED only. After PLACE_ENDED
     * and PLACE_LOST the process is forgotten. Never waits. */
    enum place_news (*reap)(void *context, size_t child, pid_t pid, int *ret_wait_status);
    /* Returns whether the process has a heartbeat. *ret_beat: differs from one heartbeat to the next. */
    bool (*beat)(void *context, size_t child, const struct supervisor_child *spec, struct timespec *ret_beat);
    /* Finds what a user would open the log for: ": " and the message of the last ERROR line, or last words that are no
     * log line, or "". */
    void (*last_error)(void *context, size_t child, const struct supervisor_child *spec, char *text, size_t size);
    /* Returns whether a heartbeat can be written at all: the disk may be full, or the folder closed. */
    bool (*takes_writes)(void *context, size_t child, const struct supervisor_child *spec);
    /* Waits for the end of a process that got SIGKILL. */
    void (*bury)(void *context, size_t child, pid_t pid);
};

struct process_place {
    const struct place_operations *operations;
    void *context;
};

/* place_local.c: this machine. mask: the signal mask that processes start with; borrowed. */
struct process_place place_local(sigset_t *mask);
/* The same for those who start processes here on behalf of others. */
enum status place_local_start(const struct supervisor_child *spec, const sigset_t *mask, pid_t *ret_pid,
                              struct err *err);
void place_last_error(const char *log, char *text, size_t size);
bool place_takes_writes(const char *heartbeat);

#endif
