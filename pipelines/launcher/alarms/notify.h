/* Tells people of alarms through a program of theirs, which the graph names in `session.notify`. The program gets JSON
 * in the form of Alertmanager's webhook on standard input. An exit code other than 0 is a failure.
 *
 * Nothing here waits: the owner calls notify_tick now and then. One program runs at a time; texts that come meanwhile
 * wait their turn. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_ALARMS_NOTIFY_H
#define ICESTREAM_PIPELINES_LAUNCHER_ALARMS_NOTIFY_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

struct notify;

struct notify_options {
    const char *program; /* absolute path */
    const char *folder;  /* in which the program runs */
    const char *output;  /* file to which its output is appended; NULL: nowhere */
    double limit;        /* s until the program is killed */
    double pause;        /* s before the second try; the third comes after 6 times as long */
    int tries;
};
/* Fills in 20 s, 5 s and 3 tries; the texts stay as they are. */
void notify_defaults(struct notify_options *options);

/* Makes a notifier. Copies the texts of the options. */
enum status notify_new(const struct notify_options *options, struct notify **ret_notify, struct err *err);
/* Kills a program that still runs, and frees everything; accepts NULL. */
void notify_free(struct notify **notify);
/* Adds a text, which it frees when it was told or given up. BAD_STATE: 16 texts wait already; the caller keeps it. */
enum status notify_add(struct notify *notify, char *text, struct err *err);
/* Starts what is due, and looks after what runs. now: s, monotonic. */
void notify_tick(struct notify *notify, double now);
/* Returns whether a text is on its way or waits. */
bool notify_busy(const struct notify *notify);

struct notify_state {
    long long sent, failed; /* texts that were told; that were given up */
    const char *message;    /* about the last failure; "": none, or the last text was told */
};
struct notify_state notify_state(const struct notify *notify);

#endif
