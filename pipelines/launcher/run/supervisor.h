/* Keeps processes running until all have ended well: starts them, restarts those that die, kills those that hang, and
 * passes on what the user at the terminal wants. Knows nothing of graphs and ledgers; hooks connect it to them.
 *
 * Each child has a process group of its own, so Ctrl-C at the terminal reaches the supervisor only. When the supervisor
 * itself is killed, the kernel kills the children: a session must never have two sets of stages. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_RUN_SUPERVISOR_H
#define ICESTREAM_PIPELINES_LAUNCHER_RUN_SUPERVISOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/status.h"
#include "pipelines/launcher/run/place.h"

/* A stage exits with this code when the machine lacks something (room on a disk, a folder, descriptors). The exit does
 * not count as a death; the supervisor starts the stage again until it runs. */
enum { EXIT_UNAVAILABLE = 75 };
/* A stage exits with this code to begin again from its ledger, since an item came in a later revision. That is no death
 * either; the supervisor starts the stage again after the shortest pause. */
enum { EXIT_AGAIN = 76 };

enum child_state { CHILD_WAITING, CHILD_RUNNING, CHILD_ENDED };

struct supervisor_options {
    int restart_limit;             /* deaths in a row, with nothing finished between them, before giving up */
    double backoff, backoff_max;   /* s before the first restart, doubled for each death in a row; the longest pause */
    double hang_report, hang_kill; /* s without a heartbeat before a report; further s until SIGKILL */
    double stop_kill;              /* s from SIGTERM to SIGKILL */
    double tick;                   /* s between calls of the hook `tick` */
};
/* Fills in 5; 0.5, 30; 15, 60; 5; 0.2. */
void supervisor_defaults(struct supervisor_options *ret_options);

struct supervisor;
struct supervisor_hooks {
    void *context;
    /* Called before each start of a child, to put in place what it needs. After STATUS_UNAVAILABLE the supervisor calls
     * again later; any other error ends everything. May be NULL. */
    enum status (*starting)(void *context, size_t child, struct err *err);
    /* Called before each start of a child, after `starting`. *ret_place: where it starts, borrowed for as long as it runs
     * there; NULL: on this machine. After STATUS_UNAVAILABLE the supervisor calls again later; if there is no message, it tells
     * nobody, and soon. May be NULL: all children start on this machine. */
    enum status (*where)(void *context, size_t child, const struct process_place **ret_place, struct err *err);
    /* Called when the place of a child is lost. The child then starts again at once, and that is no death. After
     * STATUS_UNAVAILABLE the supervisor calls again later. May be NULL. */
    enum status (*lost)(void *context, size_t child, struct err *err);
    /* Called when a child died badly (wait_status as from waitpid). *ret_finished: a number that grows with the work
     * that is finished; it tells whether work was done between two deaths. After STATUS_UNAVAILABLE the supervisor
     * calls again later; any other error ends everything. */
    enum status (*died)(void *context, size_t child, int wait_status, int64_t *ret_finished, struct err *err);
    /* Called when a child has been silent for hang_report seconds: at once, and then a few times a second until it
     * answers or is killed. Returns what is done about it, for the report ("its items go to …"), or NULL. May call
     * supervisor_kill. */
    const char *(*silent)(void *context, struct supervisor *supervisor, size_t child);
    /* Called now and then, and after each change. May call supervisor_kill. */
    void (*tick)(void *context, struct supervisor *supervisor);
    /* Shows a message to the user and keeps it among the warnings. id: a short word for its kind. NULL: `say` shows
     * it. */
    void (*warn)(void *context, const char *id, const char *text);
    /* Shows a message to the user. */
    void (*say)(void *context, const char *text);
};

enum supervisor_outcome {
    SUPERVISOR_ENDED,   /* all children ended well, perhaps after a drain */
    SUPERVISOR_STOPPED, /* the user stopped the run at once */
    SUPERVISOR_GAVE_UP, /* a child cannot be kept running; the reason was shown */
};
/* Runs the children. While it runs, it blocks SIGCHLD, SIGINT, SIGTERM and SIGHUP of this thread and handles them
 * itself: SIGINT drains; a second SIGINT, SIGTERM or SIGHUP stops at once. When it returns, no child is left. */
enum status supervisor_run(const struct supervisor_child *children, size_t count,
                           const struct supervisor_options *options, const struct supervisor_hooks *hooks,
                           enum supervisor_outcome *ret_outcome, struct err *err);

/* For hooks. */
enum child_state supervisor_state(const struct supervisor *supervisor, size_t child);
pid_t supervisor_pid(const struct supervisor *supervisor, size_t child); /* 0: not running */
/* Returns where a child runs, or NULL. */
const struct process_place *supervisor_place(const struct supervisor *supervisor, size_t child);
/* Ends the pause of a child that waits for its start. */
void supervisor_start_now(struct supervisor *supervisor, size_t child);
/* Returns whether the children were told to stop, so that their deaths say nothing about them. */
bool supervisor_stopping(const struct supervisor *supervisor);
/* Returns whether the sources were told to end. */
bool supervisor_draining(const struct supervisor *supervisor);
/* Returns the seconds since the last sign of life of a child that runs and is watched; else 0. */
double supervisor_silence(const struct supervisor *supervisor, size_t child);
/* For tests: returns how often a child was started again. */
int supervisor_restarts(const struct supervisor *supervisor, size_t child);
/* Stops a child that runs and starts it again at once, with what the hook `starting` then finds: SIGTERM, and after
 * stop_kill s SIGKILL. This is no death. A child that does not run finds it at its next start. */
void supervisor_renew(struct supervisor *supervisor, size_t child);
/* Sends a signal to a child that runs. */
void supervisor_kill(struct supervisor *supervisor, size_t child, int signal);

#endif
