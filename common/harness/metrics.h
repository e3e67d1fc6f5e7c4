/* What an instance counts, and the heartbeat file by which `run` and `status` see it. */
#ifndef ICESTREAM_COMMON_HARNESS_METRICS_H
#define ICESTREAM_COMMON_HARNESS_METRICS_H

#include <stdatomic.h>

#include "common/harness/parts.h"
#include "common/status.h"

enum metrics_state { METRICS_WAITING, METRICS_BLOCKED, METRICS_PROCESSING };

struct metrics {
    atomic_llong in, out, rejected, failed;
    atomic_llong dropped; /* messages that were none, or about nothing that is on its way */
    atomic_int state, queue;
    _Atomic double latency; /* s from arrival to the end of store, running mean */
    atomic_int lock;        /* of the texts */
    char item[256], note[160], trouble[512];
};

void metrics_item(struct metrics *metrics, const char *id);
void metrics_note(struct metrics *metrics, const char *note);
/* What keeps the stage from its work; stands in the heartbeat in place of the note until it is "" again. */
void metrics_trouble(struct metrics *metrics, const char *trouble);
void metrics_latency(struct metrics *metrics, double seconds);
/* Rewrites the heartbeat: whole or not there, but not synced, since it is worth nothing after a second. It needs no room
 * on the disk once there was a first one. Trailing blanks and a line break fill the file up. */
enum status metrics_heartbeat(struct metrics *metrics, const struct parts *parts, const char *path, struct err *err);

#endif
