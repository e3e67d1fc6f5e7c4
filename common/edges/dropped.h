/* Counts messages that were dropped, and logs them without filling the log: the first of each kind at once, the others
 * at most once a minute. */
#ifndef ICESTREAM_COMMON_EDGES_DROPPED_H
#define ICESTREAM_COMMON_EDGES_DROPPED_H

#include "common/log.h"
#include "common/status.h"

struct dropped {
    const char *id; /* of the log lines, as is their level */
    enum log_level level;
    long long count, told;
    double tell_at;
    unsigned kinds; /* one bit for each status that was logged */
    char last[512];
};

/* Counts one dropped message. where: the edge; why: what is wrong with the message; now: CLOCK_MONOTONIC, s. */
void dropped_note(struct dropped *dropped, struct log *log, const char *where, const struct err *why, double now);
/* Logs what was not logged yet, when a minute has passed. */
void dropped_tell(struct dropped *dropped, struct log *log, double now);

#endif
