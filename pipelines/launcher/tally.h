/* What became of every item, stage by stage, from the ledgers of a session. For each stage an item counts that the
 * stage has in its ledger or that was sent to it; so what is on its way between two stages is in flight at the second.
 * A stage that keeps no ledger (a third party's) is known by what it acknowledged. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_TALLY_H
#define ICESTREAM_PIPELINES_LAUNCHER_TALLY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pipelines/launcher/session.h"

struct tally_item {
    char *id, *reason; /* reason: NULL for none */
    enum ledger_state state;
    double time;
    bool own, sent, waiting; /* in the stage's ledger; sent by an upstream stage; not acknowledged to it */
    size_t order;
};

struct tally_stage {
    char *name;
    bool source, cumulative, left_out, has_ledger;
    bool upstream_known;      /* every stage that feeds it remembers what it sent */
    struct tally_item *items; /* oldest first; or those that the depth asks for, and perhaps more */
    size_t item_count, capacity;
    int64_t seen, done, rejected, failed, in_flight;
    int64_t waiting; /* sent and not acknowledged, whatever the stage's ledger says */
    int64_t lost;    /* acknowledged, but not in the stage's ledger */
    int64_t stray;   /* in the ledger of a stage to which nobody sent it */
    int64_t unsent;  /* done upstream, but not sent on to this stage */
};

struct tally {
    struct tally_stage *stages;
    size_t count;
};

/* How much of it is wanted. The less, the less does it cost in a long session. */
enum tally_depth {
    TALLY_LIVE,   /* counts for the progress of a run; an item that waits for a stage on two edges may count twice, and
                     whether all that was acknowledged is there is not looked at */
    TALLY_COUNTS, /* exact counts, and the items that were rejected or failed */
    TALLY_ITEMS   /* every item */
};
enum status tally_take(const struct session *session, const json_t *plan, enum tally_depth depth,
                       struct tally *ret_tally, struct err *err);
void tally_clear(struct tally *tally);
const struct tally_stage *tally_find(const struct tally *tally, const char *name);
/* Whether each stage's seen = done + rejected + failed + in flight, and across each edge what is done above was sent, and
 * what was sent is below or still in the outbox. True at any moment of a run that goes well; when not, why. */
bool tally_reconciles(const struct tally *tally, char *reason, size_t size);
/* Whether all that was sent arrived and was finished, the sums are right, and nothing is on its way. When not, why. */
bool tally_adds_up(const struct tally *tally, char *reason, size_t size);
/* Whether any item failed. */
bool tally_has_failed(const struct tally *tally);

#endif
