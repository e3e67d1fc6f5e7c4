/* Messages that were dropped: all are counted, and told of in the log without filling it: the first of its kind at once,
 * the rest at most once a minute. */
#ifndef ICESTREAM_COMMON_EDGES_DROPPED_H
#define ICESTREAM_COMMON_EDGES_DROPPED_H

#include "common/log.h"
#include "common/status.h"

struct dropped {
    const char *id; /* of the log lines, and their level */
    enum log_level level;
    long long count, told;
    double tell_at;
    unsigned kinds; /* a bit for each status that was told of */
    char last[512];
};

/* where: the edge; why: what was wrong with the message. now: CLOCK_MONOTONIC, s. */
void dropped_note(struct dropped *dropped, struct log *log, const char *where, const struct err *why, double now);
/* What has not been told of yet, when it is time for it. */
void dropped_tell(struct dropped *dropped, struct log *log, double now);

#endif
