/* Measures what the parts of an instance do with their time. Load, process, store and ledger work at the same time,
 * each on threads of its own, so a run takes as long as its slowest part when they overlap well.
 *
 * This is a plain value without a lock or a clock: its owner guards it, and each call takes the present time (s,
 * monotonic). */
#ifndef ICESTREAM_COMMON_HARNESS_PARTS_H
#define ICESTREAM_COMMON_HARNESS_PARTS_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

/* process includes reconfigure, idle and flush; store includes the joined tables; ledger is the commit of outcomes. */
enum part { PART_LOAD, PART_PROCESS, PART_STORE, PART_LEDGER, PART_COUNT };

struct parts {
    struct {
        int threads;
        int active;  /* threads that are working now */
        double busy; /* s, summed over all threads, up to `since` */
        double since;
    } part[PART_COUNT];
    double begun, ended; /* times of the first item and of the end; 0: not yet */
    double setup;        /* s of process spent on plans and buffers (reconfigure) */
};

void parts_begin(struct parts *parts, double now); /* only the first call counts */
void parts_end(struct parts *parts, double now);
/* One thread of a part begins to work; it rests again. */
void parts_enter(struct parts *parts, enum part part, double now);
void parts_leave(struct parts *parts, enum part part, double now);

/* Returns the seconds since the beginning, or between beginning and end; 0 before the beginning. */
double parts_wall(const struct parts *parts, double now);
/* Returns the seconds that each of the part's threads worked, on average. */
double parts_busy(const struct parts *parts, enum part part, double now);
/* Returns the part that holds up the others; ret_busy: its parts_busy. */
enum part parts_slowest(const struct parts *parts, double now, double *ret_busy);

/* Returns {"wall", "setup", "slowest": "process", "load": {"threads", "busy", "waiting"}, …}, in s per thread. NULL: no
 * memory. */
json_t *parts_json(const struct parts *parts, double now);
/* Writes "200 done in 1.62 s, 8.1 ms each: load 2 × 0.71 s busy (44 %), …; process is the slowest: wall/slowest
 * 1.12". */
void parts_line(const struct parts *parts, long long done, double now, char *line, size_t size);
/* Prints the same as a table. */
void parts_table(const struct parts *parts, long long done, double now, FILE *out);

#endif
