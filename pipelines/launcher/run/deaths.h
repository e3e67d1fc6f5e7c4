/* Judges the deaths of one stage: finds the item that ends it, whatever the signal was. Knows no processes, no ledgers
 * and no time.
 *
 * A process that is killed from outside says nothing about its items: a person may have done it. But when nothing is
 * finished between two such deaths, one of the items that the process had begun may be the cause. From then on the
 * stage takes its items one by one. An item with which instances die alone three times, with nothing finished between,
 * is the cause. Deaths by the system's memory killer count even if other items were finished between them: no person
 * kills like that. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_RUN_DEATHS_H
#define ICESTREAM_PIPELINES_LAUNCHER_RUN_DEATHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DEATHS_IN_A_ROW = 2, DEATHS_ALONE = 3, DEATHS_SUSPECTS = 64, DEATHS_ASIDE = 2, DEATHS_IDLE = 3 };

/* One death of an instance of the stage. */
struct death {
    int64_t finished;  /* grows with each item that an instance of the stage finishes; by DEATHS_ASIDE with one that
                          fails */
    size_t begun;      /* items that the dead instance had taken and not finished */
    const char *alone; /* names the item when begun is 1; else not used */
    bool memory;       /* the memory killer did it */
    bool own_work; /* the instance was at work of its own (idle, flush), which may be the cause as well as an item */
};

/* An item with which an instance died alone. Replicas may each have one of these at the same time. */
struct deaths_suspect {
    uint64_t item; /* hash of its name */
    int count;     /* deaths; 0: the entry is free */
};

/* All that is known of the deaths of a stage; begin with {0}. */
struct deaths {
    int64_t finished; /* at the last death */
    int row;          /* deaths in a row with items begun */
    int idle;         /* deaths in a row at the stage's own work, such as a tilt series. Items count only after
                         DEATHS_IDLE of these, by which time the stage has left what it works on */
    int one_by_one;   /* so many items are taken one by one after the next start; 0: as many as fit */
    int64_t steps;    /* grows with each death that brings the cause closer; at most a few for each item */
    struct deaths_suspect suspects[DEATHS_SUSPECTS];
};

enum deaths_verdict {
    DEATHS_NONE,       /* nothing follows for the items */
    DEATHS_ONE_BY_ONE, /* from now on the stage takes its items one by one */
    DEATHS_SUSPECT,    /* the stage died with this item alone */
    DEATHS_SET_ASIDE   /* the item is the cause: it must be set aside */
};
/* Takes one more death into account. */
enum deaths_verdict deaths_count(struct deaths *deaths, const struct death *death);

#endif
