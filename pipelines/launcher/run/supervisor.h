/* Keeps processes running until all have ended well: starts them, restarts those that die, kills those that hang, and
 * passes on what the person at the terminal wants. Knows nothing of graphs and ledgers; those come in through hooks.
 *
 * Each child has a process group of its own, so a Ctrl-C at the terminal reaches the supervisor only. When the
 * supervisor itself is killed, the kernel kills the children: a session must never have two sets of stages. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_RUN_SUPERVISOR_H
#define ICESTREAM_PIPELINES_LAUNCHER_RUN_SUPERVISOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/status.h"

/* By this exit a stage says that the machine lacks something (room on a disk, a folder, descriptors): no death that counts,
 * and started again until that is there. */
enum { EXIT_UNAVAILABLE = 75 };

struct supervisor_child {
    const char *name;
    char *const *argv;       /* argv[0] is the program's path; ends with NULL */
    char *const *env;        /* "KEY=VALUE"s besides the inherited ones; ends with NULL; NULL: none */
    const char *log;         /* gets stdout and stderr, appended */
    const char *heartbeat;   /* a file that changes while the child lives well; NULL: it is not watched */
    bool heartbeat_expected; /* it writes one from its start on; else only once it has begun to */
    bool source;             /* gets SIGINT when the stream is to be drained */
};

enum child_state { CHILD_WAITING, CHILD_RUNNING, CHILD_ENDED };

struct supervisor_options {
    int restart_limit;             /* deaths in a row with nothing finished between them */
    double backoff, backoff_max;   /* s before the first restart, doubled for each death in a row */
    double hang_report, hang_kill; /* s without a heartbeat; then so many more until SIGKILL */
    double stop_kill;              /* s from SIGTERM to SIGKILL */
    double tick;                   /* s between calls of the hook */
};
/* 5; 0.5, 30; 15, 60; 5; 0.2 */
void supervisor_defaults(struct supervisor_options *ret_options);

struct supervisor;
struct supervisor_hooks {
    void *context;
    /* A child died badly (wait_status as of waitpid). *ret_finished: a number that grows with what has been finished,
     * by which deaths in a row are told from deaths with work done between them. After STATUS_UNAVAILABLE it is asked
     * again later; any other error ends everything. */
    enum status (*died)(void *context, size_t child, int wait_status, int64_t *ret_finished, struct err *err);
    /* A child has been silent for hang_report seconds: at once, and then a few times a second until it answers or is
     * killed. Returns what is done about it, for the report ("its items go to …"), or NULL. May call supervisor_kill. */
    const char *(*silent)(void *context, struct supervisor *supervisor, size_t child);
    /* Now and then, and after each change. May call supervisor_kill. */
    void (*tick)(void *context, struct supervisor *supervisor);
    /* What a person should know. */
    void (*say)(void *context, const char *text);
};

enum supervisor_outcome {
    SUPERVISOR_ENDED,   /* all children ended well (after a drain, too) */
    SUPERVISOR_STOPPED, /* told to stop at once */
    SUPERVISOR_GAVE_UP, /* a child cannot be kept running; said why */
};
/* Blocks SIGCHLD, SIGINT, SIGTERM and SIGHUP of this thread while it runs, and takes them: SIGINT drains, a second one,
 * SIGTERM or SIGHUP stops now. All children are gone when it returns. */
enum status supervisor_run(const struct supervisor_child *children, size_t count,
                           const struct supervisor_options *options, const struct supervisor_hooks *hooks,
                           enum supervisor_outcome *ret_outcome, struct err *err);

/* For hooks. */
enum child_state supervisor_state(const struct supervisor *supervisor, size_t child);
pid_t supervisor_pid(const struct supervisor *supervisor, size_t child); /* 0: not running */
/* Seconds since the last sign of life of a child that runs and is watched; else 0. */
double supervisor_silence(const struct supervisor *supervisor, size_t child);
int supervisor_restarts(const struct supervisor *supervisor, size_t child);
void supervisor_kill(struct supervisor *supervisor, size_t child, int signal);

#endif
