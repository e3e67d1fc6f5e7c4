/* Counts what happened to every item, stage by stage and input by input, from the ledgers of a session. An item is
 * known by its source and id. It counts for a stage when it is in the stage's ledger or was sent to the stage; an item
 * on its way between two stages is in flight at the second one. A stage without a ledger (a third party's) is known by
 * what it acknowledged. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_TALLY_H
#define ICESTREAM_PIPELINES_LAUNCHER_TALLY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pipelines/launcher/session.h"

struct tally_item {
    char *full;                     /* owned: "SOURCE/ID", or "ID" when the source is not known; the next three point
                                       into it */
    const char *id, *source, *name; /* name: the shorter of ID and SOURCE/ID that tells the sources apart */
    char *reason;                   /* NULL when there is none */
    enum ledger_state state;
    double time;
    bool own, waiting; /* in the stage's ledger; sent, and not yet acknowledged to its sender */
    int input;         /* which input sent it; TALLY_NOBODY: none */
    size_t order;
};
enum { TALLY_NOBODY = -1 };

/* Items that one upstream stage has sent to a stage, each counted once. */
struct tally_input {
    char *from; /* that stage's name */
    bool known; /* the upstream stage remembers what it sent; else the numbers are 0 */
    int64_t sent, seen;
    int64_t waiting; /* sent and not acknowledged, whether seen or not */
    int64_t lost;    /* acknowledged and not seen */
};

struct tally_stage {
    char *name;
    bool source, cumulative;
    bool left_out;              /* not started, as the plan of an earlier version may say */
    bool has_ledger;            /* it keeps a ledger, even if that was lost */
    bool several;               /* the session has several sources: names are SOURCE/ID */
    bool upstream_known;        /* every stage that feeds this one remembers what it sent */
    struct tally_input *inputs; /* one for each stage that feeds it; all 0 after TALLY_LIVE */
    size_t input_count;
    struct tally_item *items; /* oldest first; those that the depth asks for, and perhaps more */
    size_t item_count, capacity;
    int64_t seen, done, rejected, failed, in_flight;
    int64_t waiting; /* sent and not acknowledged, whatever the stage's own ledger holds */
    int64_t lost;    /* acknowledged, but not in the stage's ledger */
    int64_t stray;   /* in the ledger of a stage, but nobody sent it there, nor will send it again */
    int64_t unsent;  /* done upstream, but not sent on to this stage */
};

struct tally {
    struct tally_stage *stages;
    size_t count;
};

/* The detail of a tally. A smaller depth costs less in a long session. */
enum tally_depth {
    TALLY_LIVE,   /* counts for the progress of a run; nobody checks that all acknowledged items are there */
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
/* The items that a command line names. count 0: all. An item is NULL when no stage lists it. */
struct tally_choice {
    const struct tally_item **items; /* borrowed from the tally */
    size_t count;
};
/* Finds the items that a user names as SOURCE/ID, or as ID where that alone is unique. BAD_ARGUMENT: an ID is that of
 * several items; the message has their names. */
enum status tally_choose(const struct tally *tally, const char *const *names, size_t count,
                         struct tally_choice *ret_choice, struct err *err);
/* Frees the choice. */
void tally_choice_clear(struct tally_choice *choice);
/* Returns whether the choice has an item that may be the one of this key. */
bool tally_is_chosen(const struct tally_choice *choice, struct ledger_key key);
/* Returns source and id of an item; valid as long as the tally. */
struct ledger_key tally_key(const struct tally_item *item);
/* Returns whether the counts agree. For each stage: seen = done + rejected + failed + in flight. For each edge: what is
 * done upstream was sent, and what was sent is downstream or still in the outbox. This holds at any moment of a sound
 * run. If not, `reason` says why: a ledger is lost, older than the others, or was changed. */
bool tally_reconciles(const struct tally *tally, char *reason, size_t size);
/* Returns whether everything that was sent arrived and was finished, the sums are right, and nothing is on its way. If
 * not, `reason` says why. */
bool tally_adds_up(const struct tally *tally, char *reason, size_t size);
/* Returns whether any item failed. */
bool tally_has_failed(const struct tally *tally);
/* Returns {"watcher": {"sent", "seen", "waiting", "lost"}} for the inputs of a stage; null for an upstream stage that does
 * not remember what it sent. NULL: no memory. */
json_t *tally_inputs_json(const struct tally_stage *stage);

#endif
