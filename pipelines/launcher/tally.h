/* Counts what happened to every item, stage by stage, from the ledgers of a session. An item counts for a stage when it
 * is in the stage's ledger or was sent to the stage; an item on its way between two stages is in flight at the second
 * one. A stage without a ledger (a third party's) is known by what it acknowledged. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_TALLY_H
#define ICESTREAM_PIPELINES_LAUNCHER_TALLY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pipelines/launcher/session.h"

struct tally_item {
    char *id, *reason; /* reason: NULL when there is none */
    enum ledger_state state;
    double time;
    bool own, sent, waiting; /* in the stage's ledger; sent by an upstream stage; not yet acknowledged to that stage */
    size_t order;
};

struct tally_stage {
    char *name;
    bool source, cumulative, left_out, has_ledger;
    bool upstream_known;      /* every stage that feeds this one remembers what it sent */
    struct tally_item *items; /* oldest first; those that the depth asks for, and perhaps more */
    size_t item_count, capacity;
    int64_t seen, done, rejected, failed, in_flight;
    int64_t waiting; /* sent and not acknowledged, whatever the stage's own ledger holds */
    int64_t lost;    /* acknowledged, but not in the stage's ledger */
    int64_t stray;   /* in the ledger of a stage, but nobody sent it there */
    int64_t unsent;  /* done upstream, but not sent on to this stage */
};

struct tally {
    struct tally_stage *stages;
    size_t count;
};

/* The detail of a tally. A smaller depth costs less in a long session. */
enum tally_depth {
    TALLY_LIVE,   /* counts for the progress of a run. An item that waits for a stage on two edges may count twice, and
                     nobody checks that all acknowledged items are there */
    TALLY_COUNTS, /* exact counts, and the items that were rejected or failed */
    TALLY_ITEMS   /* every item */
};
/* Counts the items of all stages of a plan. */
enum status tally_take(const struct session *session, const json_t *plan, enum tally_depth depth,
                       struct tally *ret_tally, struct err *err);
/* Frees what the tally holds. */
void tally_clear(struct tally *tally);
/* Returns the stage of that name, or NULL. */
const struct tally_stage *tally_find(const struct tally *tally, const char *name);
/* Returns whether the counts agree. For each stage: seen = done + rejected + failed + in flight. For each edge: what is
 * done upstream was sent, and what was sent is downstream or still in the outbox. This holds at any moment of a sound
 * run. If not, `reason` says why. */
bool tally_reconciles(const struct tally *tally, char *reason, size_t size);
/* Returns whether everything that was sent arrived and was finished, the sums are right, and nothing is on its way. If
 * not, `reason` says why. */
bool tally_adds_up(const struct tally *tally, char *reason, size_t size);
/* Returns whether any item failed. */
bool tally_has_failed(const struct tally *tally);

#endif
