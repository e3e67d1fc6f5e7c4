/* Counts what an instance does, and writes the heartbeat file by which `run` and `status` see the instance. */
#ifndef ICESTREAM_COMMON_HARNESS_METRICS_H
#define ICESTREAM_COMMON_HARNESS_METRICS_H

#include <stdatomic.h>

#include "common/harness/parts.h"
#include "common/status.h"

/* METRICS_LIMITS: latencies are counted up to .01, .03, .1, … 1000 s, and above. */
enum { METRICS_DOING = 80, METRICS_NOTE = 160, METRICS_LIMITS = 11 };
enum metrics_state { METRICS_WAITING, METRICS_BLOCKED, METRICS_PROCESSING };
enum metrics_outcome { METRICS_DONE, METRICS_REJECTED, METRICS_FAILED, METRICS_OUTCOMES };

struct metrics {
    atomic_llong in, out, rejected, failed;     /* stage_revise moves items between out and failed */
    atomic_llong outcomes[METRICS_OUTCOMES];    /* of all items that this process finished: these never fall */
    atomic_llong latencies[METRICS_LIMITS + 1]; /* items by latency: up to each limit, not to the one before */
    _Atomic double latency_sum;                 /* s */
    atomic_llong dropped;  /* frames that were no message, or were about nothing that is on its way */
    atomic_llong warnings; /* that the ledger holds */
    atomic_int state, queue;
    _Atomic double latency;    /* s from arrival to the end of store, running mean */
    atomic_int lock;           /* guards the texts */
    _Atomic double resolution; /* Å; 0: not known */
    char item[256], doing[METRICS_DOING], note[METRICS_NOTE], trouble[512];
};

/* Sets the id of the present item, for the heartbeat. */
void metrics_item(struct metrics *metrics, const char *id);
/* Sets the note of the heartbeat. */
void metrics_note(struct metrics *metrics, const char *note);
/* Sets what the stage computes by itself; "": nothing. */
void metrics_doing(struct metrics *metrics, const char *doing);
/* Sets what keeps the stage from its work. The heartbeat shows it instead of the note until it is "" again. */
void metrics_trouble(struct metrics *metrics, const char *trouble);
/* Copies what the stage computes by itself, and its note. */
void metrics_texts(struct metrics *metrics, char doing[METRICS_DOING], char note[METRICS_NOTE]);
/* Adds one item's latency to the running mean and to the histogram. Called on one thread only. */
void metrics_latency(struct metrics *metrics, double seconds);
/* Counts an item that this process has finished. */
void metrics_finished(struct metrics *metrics, enum metrics_outcome outcome);
/* Rewrites the heartbeat by exchanging two files, so that readers see a whole one. The file is not synced, since a
 * heartbeat is worthless after a second. After the first heartbeat this needs no room on the disk. Blanks and a line
 * break fill the file. change: number of the last change of parameters that the stage works with. */
enum status metrics_heartbeat(struct metrics *metrics, const struct parts *parts, int change, const char *path,
                              struct err *err);

#endif
