/* The ledger of one stage: SQLite, WAL, SESSION/ledger/STAGE.sqlite, shared by the stage's replicas. It is the truth
 * about every item the stage has seen, and the outbox of what it sends. A transaction that finishes an item also holds
 * what follows from it, so a crash leaves both or neither.
 *
 * items:  id, state, reason, attempts, crashes, instance (-1: none, -2: it began here, -3: it failed with others, see
 *         ledger_revise), token, item (JSON as received, of a finished one as it went on), time_seen, time_changed
 * outbox: edge, seq, id, item (JSON), time_sent, acknowledged (time or NULL), verdict (what the receiver said)
 * ends:   edge, run: inputs that have ended in this run; "out N": what instance N sends has ended
 *
 * Functions may be called from several threads of a process; one `struct ledger` locks inside. */
#ifndef ICESTREAM_COMMON_EDGES_LEDGER_H
#define ICESTREAM_COMMON_EDGES_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/edges/item.h"
#include "common/status.h"

enum ledger_state { LEDGER_IN_FLIGHT = 0, LEDGER_DONE = 1, LEDGER_REJECTED = 2, LEDGER_FAILED = 3 };
const char *ledger_state_name(enum ledger_state state); /* "in_flight", "done", "rejected", "failed" */

struct ledger;

/* path ":memory:" for a stage on files. read_only: for `status`; never creates, and is STATUS_NOT_FOUND for a file in
 * which its stage has not made the tables yet. */
enum status ledger_open(const char *path, bool read_only, struct ledger **ret_ledger, struct err *err);
/* patience: s that it and what is done with it wait for other processes that hold the ledger; then STATUS_UNAVAILABLE.
 * That of ledger_open is LEDGER_PATIENCE. */
enum { LEDGER_PATIENCE = 20 };
enum status ledger_open_patient(const char *path, bool read_only, double patience, struct ledger **ret_ledger,
                                struct err *err);
void ledger_close(struct ledger **ledger);

struct ledger_counts {
    int64_t seen, done, rejected, failed, in_flight;
    int64_t outbox, outbox_unacknowledged;
};
enum status ledger_counts(struct ledger *ledger, struct ledger_counts *ret_counts, struct err *err);

/* What became of an item that has arrived. */
enum ledger_claim { CLAIM_NEW, CLAIM_AGAIN, CLAIM_FINISHED, CLAIM_HERE, CLAIM_ELSEWHERE };
/* Records the item as in flight at `instance` (its incarnation is told apart by `run_token`): NEW or AGAIN: process it;
 * FINISHED: acknowledge and forget; HERE: this very incarnation has it; ELSEWHERE: another live instance has it (claims
 * of dead instances, per ledger_release_instance, are taken over). */
enum status ledger_claim_item(struct ledger *ledger, const struct item *item, int instance, const char *run_token,
                              enum ledger_claim *ret_claim, struct err *err);
/* Several in one transaction; what is to be claimed, and what came of it. */
struct ledger_arrival {
    const struct item *item; /* borrowed */
    enum ledger_claim claim;
    enum ledger_state state; /* as it was found; what FINISHED means */
};
enum status ledger_claim_items(struct ledger *ledger, struct ledger_arrival *arrivals, size_t count, int instance,
                               const char *run_token, struct err *err);
/* Keeps the other threads of this process from the ledger between the two, so that several items are claimed before the
 * next commit waits for the disk and they share the one that finishes them. */
void ledger_hold(struct ledger *ledger);
void ledger_let_go(struct ledger *ledger);
/* The process that is writing to the ledger `path` right now, which others wait for; 0: none that can be seen. To be
 * called while this process has no ledger open: POSIX locks of a process on a file go when it closes it. */
pid_t ledger_writer(const char *path);
/* Claims of an instance that died, or hangs. */
enum status ledger_release_instance(struct ledger *ledger, int instance, struct err *err);

struct ledger_send {
    const char *edge;        /* "lowpass-picker.0>extractor" */
    const struct item *item; /* borrowed */
};
/* One transaction: the item's final state and reason, and what goes out because of it. STATUS_BAD_STATE when the claim
 * is no longer held by (instance, run_token): a late answer; nothing is written. */
struct ledger_finish {
    const char *id;
    enum ledger_state state;
    const char *reason;      /* NULL: none */
    const struct item *item; /* with what the stage added, to be kept; NULL: as it was received */
    int instance;
    const char *run_token;
    const struct ledger_send *sends;
    size_t send_count;
};
enum status ledger_finish_item(struct ledger *ledger, const struct ledger_finish *what, struct err *err);
/* Several in one transaction, which waits for the disk once. ret_late[i]: the claim of item i is no longer held, and
 * nothing is written of it; the others are not concerned. */
enum status ledger_finish_items(struct ledger *ledger, const struct ledger_finish *what, size_t count, bool *ret_late,
                                struct err *err);
/* For sources: records `item` in `state` (if its id is not known already) and the sends. ret_new is false, and nothing
 * is written, when the id is known; but what a source itself had set aside as failed may go on after all. */
enum status ledger_originate(struct ledger *ledger, const struct item *item, enum ledger_state state,
                             const char *reason, const struct ledger_send *sends, size_t send_count, bool *ret_new,
                             struct err *err);
/* Several in one transaction, which waits for the disk once. ret_new[i] as above; the others are not concerned. */
struct ledger_origin {
    const struct item *item; /* borrowed, as the rest */
    enum ledger_state state;
    const char *reason;
    const struct ledger_send *sends;
    size_t send_count;
};
enum status ledger_originate_items(struct ledger *ledger, const struct ledger_origin *what, size_t count, bool *ret_new,
                                   struct err *err);
/* What a stage sends of its own accord: only the sends, so that `items` counts what came in. ret_new is false, and
 * nothing is written, when something of that id was sent before. */
enum status ledger_send_only(struct ledger *ledger, const char *id, const struct ledger_send *sends, size_t send_count,
                             bool *ret_new, struct err *err);
/* Whether and how an id is known; ret_state untouched when not. */
enum status ledger_lookup(struct ledger *ledger, const char *id, bool *ret_known, enum ledger_state *ret_state,
                          struct err *err);

/* Outbox. */
struct ledger_parcel {
    int64_t seq;
    char *id;
    char *item_text; /* JSON */
};
void ledger_parcel_clear(struct ledger_parcel *parcel);
/* The first unacknowledged parcel of the edge with seq > after; ret_found false when there is none. */
enum status ledger_next_parcel(struct ledger *ledger, const char *edge, int64_t after, struct ledger_parcel *ret_parcel,
                               bool *ret_found, struct err *err);
/* The unacknowledged parcels of the edge with seq > after, in order, until the callback says stop. The texts are valid
 * during the call; it may not use the ledger. */
struct ledger_waiting {
    int64_t seq;
    const char *item_text;
};
typedef enum status ledger_waiting_visit(const struct ledger_waiting *parcel, void *context, bool *ret_stop,
                                         struct err *err);
enum status ledger_each_waiting(struct ledger *ledger, const char *edge, int64_t after, ledger_waiting_visit *visit,
                                void *context, struct err *err);
/* Several in one transaction; ret_first: how many of them were not acknowledged before. */
struct ledger_verdict {
    int64_t seq;
    const char *verdict;
};
enum status ledger_acknowledge_all(struct ledger *ledger, const char *edge, const struct ledger_verdict *verdicts,
                                   size_t count, int64_t *ret_first, struct err *err);
/* ret_first: false when it was acknowledged before, or never sent. */
enum status ledger_acknowledge(struct ledger *ledger, const char *edge, int64_t seq, const char *verdict,
                               bool *ret_first, struct err *err);
/* Whether that parcel was struck off already. */
enum status ledger_is_acknowledged(struct ledger *ledger, const char *edge, int64_t seq, bool *ret_is, struct err *err);
enum status ledger_unacknowledged(struct ledger *ledger, const char *edge, int64_t *ret_count, struct err *err);

/* Everything that was ever sent, in order. The callback's strings are valid during the call; it may not use the ledger.
 */
struct ledger_parcel_row {
    const char *edge, *id, *verdict; /* verdict: NULL while not acknowledged */
    int64_t seq;
    double time_sent, time_acknowledged; /* NaN: not acknowledged */
};
typedef enum status ledger_parcel_visit(const struct ledger_parcel_row *row, void *context, struct err *err);
enum status ledger_each_parcel(struct ledger *ledger, ledger_parcel_visit *visit, void *context, struct err *err);
/* Items that are done and were never put into the outbox of an edge that ends in `suffix` (">STAGE"); 0 where nothing
 * at all was, since not all stages remember what they send. */
enum status ledger_count_unsent(struct ledger *ledger, const char *suffix, int64_t *ret_count, struct err *err);
enum status ledger_was_sent(struct ledger *ledger, const char *suffix, const char *id, bool *ret_sent, struct err *err);

/* What this ledger's stage has sent to the stage `to`, beside the ledger of that one. */
struct ledger_edge_counts {
    int64_t sent, items;    /* parcels, and how many items they are */
    int64_t waiting;        /* not acknowledged */
    int64_t waiting_unseen; /* of these, not in the other ledger */
    int64_t lost;           /* acknowledged, and not in the other ledger */
};
/* only_waiting: sent, items and lost are not counted (0), and the time does not grow with the session. */
enum status ledger_compare(struct ledger *ledger, const char *to, const char *to_path, bool only_waiting,
                           struct ledger_edge_counts *ret_counts, struct err *err);

/* End of stream, per run of the session. */
enum status ledger_end_input(struct ledger *ledger, const char *edge, int run, struct err *err);
enum status ledger_ended_inputs(struct ledger *ledger, int run, int *ret_count, struct err *err);
/* An instance has told everybody downstream that nothing more comes in this run. */
enum status ledger_end_output(struct ledger *ledger, int instance, int run, struct err *err);
enum status ledger_output_ended(struct ledger *ledger, int instance, int run, bool *ret_ended, struct err *err);

/* An item killed its stage: counts it; at `limit` it is failed with `reason` and ret_set_aside is true. */
enum status ledger_crashed(struct ledger *ledger, const char *id, int limit, const char *reason, bool *ret_set_aside,
                           struct err *err);
/* Failed items (all, or the one named) go back: they will be sent again by the upstream outbox, whose acknowledgement
 * the launcher withdraws with ledger_withdraw(upstream ledger, ">STAGE", id). What a source set aside is forgotten, so
 * that it is found anew. */
enum status ledger_retry(struct ledger *ledger, const char *id_or_null, int64_t *ret_count, struct err *err);
/* An item that is done goes back in the same way, and what was sent on because of it is forgotten: it is sent anew. Not
 * while the stage runs. ret_redone: false when it is not done. */
enum status ledger_redo(struct ledger *ledger, const char *id, bool *ret_redone, struct err *err);
/* An item that is done, but of which the stage can no longer read what it needs when it begins again: it has failed after
 * all, so that it is reported and can be retried. */
enum status ledger_fail_done(struct ledger *ledger, const char *id, const char *reason, struct err *err);
/* Items that are done, but of which something was to be made together that failed, for this reason: they have failed, in
 * one transaction. Reason NULL: it could be made after all, so those that failed in this way are done again. What is in
 * another state stays as it is; ret_changed counts the others. */
enum status ledger_revise(struct ledger *ledger, const char *const *ids, size_t count, const char *reason,
                          int64_t *ret_changed, struct err *err);
enum status ledger_withdraw(struct ledger *ledger, const char *edge_suffix, const char *id, struct err *err);

/* Every item, oldest first. The callback's strings are valid during the call; a status other than OK ends the walk. */
enum { LEDGER_TOGETHER = -3 };
struct ledger_row {
    const char *id, *reason, *item_text;
    enum ledger_state state;
    int attempts, instance; /* instance: LEDGER_TOGETHER where it failed with others */
    double time_seen, time_changed;
};
typedef enum status ledger_visit(const struct ledger_row *row, void *context, struct err *err);
enum status ledger_each(struct ledger *ledger, int state_or_minus_1, ledger_visit *visit, void *context,
                        struct err *err);

#endif
