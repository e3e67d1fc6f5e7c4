/* Messages that were dropped: all are counted, and told of in the log without filling it: the first of its kind at once,
 * the rest at most once a minute. */
#ifndef ICESTREAM_COMMON_DROPS_H
#define ICESTREAM_COMMON_DROPS_H

#include "common/log.h"
#include "common/status.h"

struct drops {
    const char *id; /* of the log lines, and their level */
    enum log_level level;
    long long count, told;
    double tell_at;
    unsigned kinds; /* a bit for each status that was told of */
    char last[512];
};

/* where: the edge; why: what was wrong with the message. now: CLOCK_MONOTONIC, s. */
void drops_note(struct drops *drops, struct log *log, const char *where, const struct err *why, double now);
/* What has not been told of yet, when it is time for it. */
void drops_tell(struct drops *drops, struct log *log, double now);

#endif
