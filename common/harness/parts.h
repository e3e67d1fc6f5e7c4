/* What the parts of an instance do with their time: load, process, store and ledger work at the same time, each on
 * threads of its own, so a run takes as long as its slowest part when they overlap well.
 *
 * A plain value without a lock or a clock: whoever holds it guards it, and every call is told the time (s, monotonic). */
#ifndef ICESTREAM_COMMON_HARNESS_PARTS_H
#define ICESTREAM_COMMON_HARNESS_PARTS_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

/* process counts reconfigure, idle and flush; store counts the joined tables; ledger is the commit of outcomes. */
enum part { PART_LOAD, PART_PROCESS, PART_STORE, PART_LEDGER, PART_COUNT };

struct parts {
    struct {
        int threads;
        int active;  /* threads that are at work now */
        double busy; /* s, of all threads together, up to `since` */
        double since;
    } part[PART_COUNT];
    double begun, ended; /* of the run: the first item, the end; 0: not yet */
    double setup;        /* s of process that made plans and buffers (reconfigure) */
};

void parts_begin(struct parts *parts, double now); /* only the first call counts */
void parts_end(struct parts *parts, double now);
/* One thread of a part begins to work, and rests again. */
void parts_enter(struct parts *parts, enum part part, double now);
void parts_leave(struct parts *parts, enum part part, double now);

/* s since the beginning, or between beginning and end; 0 before. */
double parts_wall(const struct parts *parts, double now);
/* s that each of the part's threads was at work, on average. */
double parts_busy(const struct parts *parts, enum part part, double now);
/* The part that holds up the others; ret_busy: its parts_busy. */
enum part parts_slowest(const struct parts *parts, double now, double *ret_busy);

/* {"wall", "setup", "slowest": "process", "load": {"threads", "busy", "waiting"}, …}: s per thread. NULL: no memory. */
json_t *parts_json(const struct parts *parts, double now);
/* "200 done in 1.62 s, 8.1 ms each: load 2 × 0.71 s busy (44 %), …; process is the slowest: wall/slowest 1.12" */
void parts_line(const struct parts *parts, long long done, double now, char *line, size_t size);
/* The same as a table. */
void parts_table(const struct parts *parts, long long done, double now, FILE *out);

#endif
