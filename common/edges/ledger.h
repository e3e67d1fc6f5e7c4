/* The ledger of one stage, which its replicas share: an SQLite database (WAL) at SESSION/ledger/STAGE.sqlite, or tables
 * in PostgreSQL. It holds the truth about every item that the stage has seen, and the outbox of what the stage sends.
 * The transaction that finishes an item also holds what follows from it, so a crash leaves both or neither.
 *
 *   items:  source, id, revision, state, reason, attempts, crashes, instance (-1: none, -2: the item began here, -3: it
 *           failed together with others, see ledger_revise), token, item (JSON: as received; of a finished item, as it
 *           went on), time_seen, time_changed
 *   outbox: edge, seq, source, id, item (JSON), time_sent, acknowledged (time or NULL), verdict (the receiver's answer)
 *   ends:   edge, run: inputs that have ended in this run; "out N": what instance N sends has ended
 *   about:  key, value: the stage and the session that the ledger belongs to
 *   files:  source, id, product (0: an input, 1: a product), path, revision, size, mtime_ns, digest
 *   warnings: stage, id, message (the last one), count, first, last (s since 1970): not in the second copy
 *
 * (source, id) is the key of an item. Items of a ledger of version 1, which had no sources, keep the source "" until
 * their sender tells it: wherever a function takes a key, an empty source in the key or in the ledger matches any.
 *
 * STAGE.jsonl beside it is a second copy of what happened, for ledger_restore (ledger_copy.c).
 *
 * Several threads of a process may call these functions; one `struct ledger` locks inside. */
#ifndef ICESTREAM_COMMON_EDGES_LEDGER_H
#define ICESTREAM_COMMON_EDGES_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/edges/item.h"
#include "common/status.h"

enum ledger_state { LEDGER_IN_FLIGHT = 0, LEDGER_DONE = 1, LEDGER_REJECTED = 2, LEDGER_FAILED = 3 };
/* Returns "in_flight", "done", "rejected" or "failed". */
const char *ledger_state_name(enum ledger_state state);

struct ledger;

/* Opens a ledger. path: of a file of SQLite, or an address in PostgreSQL (ledger_address.h); ":memory:": for a stage on
 * files. stage: the name of the stage that it belongs to, or NULL. A ledger of version 1 is brought up to date; items
 * that began in the stage then have its name as their source.
 * read_only: for `status`; never creates or changes a file, reads version 1 as if all sources were unknown, and returns
 * STATUS_NOT_FOUND for a file in which the stage has not made its tables yet. STATUS_UNSUPPORTED: a later version. */
enum status ledger_open(const char *path, const char *stage, bool read_only, struct ledger **ret_ledger,
                        struct err *err);
/* As ledger_open. patience: seconds to wait, here and in all later calls, for other processes that hold the ledger;
 * then STATUS_UNAVAILABLE. ledger_open uses LEDGER_PATIENCE. */
enum { LEDGER_PATIENCE = 20 };
enum status ledger_open_patient(const char *path, const char *stage, bool read_only, double patience,
                                struct ledger **ret_ledger, struct err *err);
/* Closes the ledger and frees it; accepts NULL. */
void ledger_close(struct ledger **ledger);

enum { LEDGER_OWNER_SIZE = 128 };
/* Stage and session (its random id) to which a ledger belongs; "" where the ledger does not say. */
struct ledger_owner {
    char stage[LEDGER_OWNER_SIZE], session[LEDGER_OWNER_SIZE];
};
struct ledger_owner ledger_owner(struct ledger *ledger);
/* Returns STATUS_BAD_ARGUMENT, with what is expected and what is there, when the ledger belongs to another stage or
 * another session. session "": any. */
enum status ledger_check_owner(struct ledger *ledger, const char *stage, const char *session, struct err *err);
/* Does the same, and writes into a ledger that does not say it yet to whom it belongs. */
enum status ledger_own(struct ledger *ledger, const char *stage, const char *session, struct err *err);

struct ledger_counts {
    int64_t seen, done, rejected, failed, in_flight;
    int64_t outbox, outbox_unacknowledged;
};
/* Counts the items in each state, and the parcels of the outbox. */
enum status ledger_counts(struct ledger *ledger, struct ledger_counts *ret_counts, struct err *err);

/* The ledger's answer to an item that has arrived: process it (NEW, AGAIN); acknowledge and forget it (FINISHED); this
 * very incarnation has it (HERE); another live instance has it (ELSEWHERE).
 *
 * A later revision of an item that is finished is processed anew (AGAIN). While the earlier revision is in work, the
 * later one is not answered (ELSEWHERE), and so comes again. An earlier revision than the ledger's is FINISHED. */
enum ledger_claim { CLAIM_NEW, CLAIM_AGAIN, CLAIM_FINISHED, CLAIM_HERE, CLAIM_ELSEWHERE };
/* Records one item as in flight at `instance`; `run_token` identifies the instance's incarnation. Takes over the claims
 * of dead instances (ledger_release_instance). One-item form of ledger_claim_items. */
enum status ledger_claim_item(struct ledger *ledger, const struct item *item, int instance, const char *run_token,
                              enum ledger_claim *ret_claim, struct err *err);
/* One item to claim, and the answer. */
struct ledger_arrival {
    const struct item *item; /* borrowed */
    enum ledger_claim claim;
    enum ledger_state state;       /* the state that the ledger held; for FINISHED it tells how the item ended */
    bool replaces;                 /* an earlier revision of the item was done */
    char source[ITEM_SOURCE_SIZE]; /* the item's, or the ledger's where the item does not know it */
};
/* Claims several items in one transaction. */
enum status ledger_claim_items(struct ledger *ledger, struct ledger_arrival *arrivals, size_t count, int instance,
                               const char *run_token, struct err *err);
/* Keeps the other threads of this process from the ledger between the two calls. Several items are then claimed before
 * the next commit waits for the disk, and share the commit that finishes them. */
void ledger_hold(struct ledger *ledger);
/* Ends what ledger_hold began. */
void ledger_let_go(struct ledger *ledger);
/* For a stage, whose server may be away for long. Calls then wait at most LEDGER_AWAY seconds for a connection and
 * return STATUS_UNAVAILABLE. Only a thread whose COMMIT was not answered waits on, since nobody may repeat what may be
 * done: meanwhile it calls `waits` at least once a second, without holding the ledger, and gives up when that returns
 * false. Other threads get STATUS_UNAVAILABLE until it knows. waits: may take locks, must not use the ledger. */
enum { LEDGER_AWAY = 2 };
typedef bool ledger_waits(void *context);
void ledger_on_wait(struct ledger *ledger, ledger_waits *waits, void *context);
/* Returns the process that is writing to the ledger `path` right now, for which others wait; 0: none is visible. Call
 * it only while this process has no ledger open: a process loses its POSIX locks on a file when it closes that file. */
pid_t ledger_writer(const char *path);
/* Releases the claims of an instance that died or hangs. */
enum status ledger_release_instance(struct ledger *ledger, int instance, struct err *err);

/* Two incarnations of an instance may run at once in a session of several hosts: the earlier one on a host that is lost
 * and does not know it. Their tokens begin with the text of a number, the life, that grows from one to the next: a
 * later life takes over the claims of an earlier one, and never the other way. */
enum { LEDGER_LIFE_SIZE = 16 };
/* Prints how the token of a life begins. */
void ledger_life_print(int64_t life, char text[LEDGER_LIFE_SIZE]);
/* Releases the claims that an instance took in lives before this one. */
enum status ledger_release_earlier(struct ledger *ledger, int instance, int64_t life, struct err *err);

struct ledger_send {
    const char *edge;        /* "lowpass-picker.0>extractor" */
    const struct item *item; /* borrowed */
};
/* A file that an item read (an input) or wrote (a product). path: relative to the session, or absolute when it lies
 * outside; size in bytes, time in ns since 1970; digest: as common/digest.h prints it, "" when it is not known. */
struct ledger_file {
    const char *path, *digest; /* borrowed */
    bool product;
    int64_t size, mtime_ns; /* size below 0: the file was removed, and the ledger forgets it */
};
/* An item's final state, its reason, and what goes out because of it. */
struct ledger_finish {
    struct ledger_key key;
    int64_t revision; /* of the item that was processed */
    enum ledger_state state;
    const char *reason;      /* NULL: none */
    const struct item *item; /* the item with what the stage added, to be kept; NULL: as it was received */
    int instance;
    const char *run_token;
    const struct ledger_send *sends;
    size_t send_count;
    const struct ledger_file *files; /* replace those that the ledger has for the item, unless there are none */
    size_t file_count;
};
/* Finishes several items in one transaction, which waits for the disk once. ret_late[i]: (instance, run_token) no
 * longer holds the claim of item i in this revision; nothing is written about it, and the others are finished all the
 * same. */
enum status ledger_finish_items(struct ledger *ledger, const struct ledger_finish *what, size_t count, bool *ret_late,
                                struct err *err);
/* For sources: records `item` in `state`, if its key is not known yet, and the sends. ret_new is false, and nothing is
 * written, when the key is known in this revision or a later one. Exception: an item that the source itself had set
 * aside as failed may still go on. One-item form of ledger_originate_items. */
enum status ledger_originate(struct ledger *ledger, const struct item *item, enum ledger_state state,
                             const char *reason, const struct ledger_send *sends, size_t send_count, bool *ret_new,
                             struct err *err);
/* Records several items of a source in one transaction, which waits for the disk once. ret_new[i]: as above, for item
 * i. */
struct ledger_origin {
    const struct item *item; /* borrowed, as the rest */
    enum ledger_state state;
    const char *reason;
    const struct ledger_send *sends;
    size_t send_count;
};
enum status ledger_originate_items(struct ledger *ledger, const struct ledger_origin *what, size_t count, bool *ret_new,
                                   struct err *err);
/* Records what a stage sends of its own accord: only the sends, so that `items` counts what came in. ret_new is false,
 * and nothing is written, when something with that key was sent before, in this revision or a later one. */
enum status ledger_send_only(struct ledger *ledger, struct ledger_key key, const struct ledger_send *sends,
                             size_t send_count, bool *ret_new, struct err *err);
/* Looks up an item; ret_state stays untouched when the item is not known. */
enum status ledger_lookup(struct ledger *ledger, struct ledger_key key, bool *ret_known, enum ledger_state *ret_state,
                          struct err *err);
/* Reads an item as the ledger keeps it. *ret_text: its JSON, which the caller frees; NULL when the item is not
 * known. */
enum status ledger_item_text(struct ledger *ledger, struct ledger_key key, char **ret_text, struct err *err);

/* Looks up the revision of an item; ret_revision stays untouched when the item is not known. */
enum status ledger_revision(struct ledger *ledger, struct ledger_key key, bool *ret_known, int64_t *ret_revision,
                            struct err *err);

/* The outbox. */
struct ledger_parcel {
    int64_t seq;
    char *id;
    char *item_text; /* JSON */
};
/* Frees the texts of a parcel. */
void ledger_parcel_clear(struct ledger_parcel *parcel);
/* Returns the first unacknowledged parcel of the edge with seq > after; ret_found is false when there is none. */
enum status ledger_next_parcel(struct ledger *ledger, const char *edge, int64_t after, struct ledger_parcel *ret_parcel,
                               bool *ret_found, struct err *err);
/* Visits the unacknowledged parcels of the edge with seq > after, in order, until the callback sets *ret_stop. The
 * texts are valid during the call; the callback must not use the ledger. */
struct ledger_waiting {
    int64_t seq;
    const char *item_text;
};
typedef enum status ledger_waiting_visit(const struct ledger_waiting *parcel, void *context, bool *ret_stop,
                                         struct err *err);
enum status ledger_each_waiting(struct ledger *ledger, const char *edge, int64_t after, ledger_waiting_visit *visit,
                                void *context, struct err *err);
/* Acknowledges several parcels in one transaction. ret_first: how many of them were not acknowledged before. */
struct ledger_verdict {
    int64_t seq;
    const char *verdict;
};
enum status ledger_acknowledge_all(struct ledger *ledger, const char *edge, const struct ledger_verdict *verdicts,
                                   size_t count, int64_t *ret_first, struct err *err);
/* Returns whether the parcel is acknowledged. */
enum status ledger_is_acknowledged(struct ledger *ledger, const char *edge, int64_t seq, bool *ret_is, struct err *err);
/* Counts the unacknowledged parcels of an edge. */
enum status ledger_unacknowledged(struct ledger *ledger, const char *edge, int64_t *ret_count, struct err *err);

/* Visits everything that was ever sent, in order. The strings are valid during the call; the callback must not use the
 * ledger. */
struct ledger_parcel_row {
    const char *edge, *source, *id, *verdict; /* verdict: NULL while the parcel is not acknowledged */
    int64_t seq;
    double time_sent, time_acknowledged; /* NaN: not acknowledged */
};
typedef enum status ledger_parcel_visit(const struct ledger_parcel_row *row, void *context, struct err *err);
enum status ledger_each_parcel(struct ledger *ledger, ledger_parcel_visit *visit, void *context, struct err *err);
/* Counts items that are done, but were never put into the outbox of an edge that ends in `suffix` (">STAGE"). Returns 0
 * when the outbox holds nothing for such edges at all: not every program remembers what it sends. */
enum status ledger_count_unsent(struct ledger *ledger, const char *suffix, int64_t *ret_count, struct err *err);
/* Adds up a number of all items that are done, such as "$.particles.count" (a path of SQLite's JSON). Items without it
 * count as 0. Reads every item. */
enum status ledger_sum(struct ledger *ledger, const char *number, int64_t *ret_sum, struct err *err);
/* Returns whether an item was ever put into the outbox of an edge that ends in `suffix`. */
enum status ledger_was_sent(struct ledger *ledger, const char *suffix, struct ledger_key key, bool *ret_sent,
                            struct err *err);

/* Compares what this ledger's stage has sent to the stage `to` with the ledger of that stage. */
struct ledger_edge_counts {
    int64_t sent, items;    /* parcels, and the number of different items in them */
    int64_t waiting;        /* parcels that are not acknowledged */
    int64_t waiting_unseen; /* of these, parcels whose item is not in the other ledger */
    int64_t lost;           /* acknowledged, but not in the other ledger */
};
/* only_waiting: does not count sent, items and lost (they are 0), and the time does not grow with the session. */
enum status ledger_compare(struct ledger *ledger, const char *to, const char *to_path, bool only_waiting,
                           struct ledger_edge_counts *ret_counts, struct err *err);

/* End of stream, for each run of the session. */
/* Records that an input has ended in this run. */
enum status ledger_end_input(struct ledger *ledger, const char *edge, int run, struct err *err);
/* Counts the inputs that have ended in this run. */
enum status ledger_ended_inputs(struct ledger *ledger, int run, int *ret_count, struct err *err);
/* Records that an instance has told everybody downstream that nothing more comes in this run. */
enum status ledger_end_output(struct ledger *ledger, int instance, int run, struct err *err);
/* Returns whether ledger_end_output was called for the instance in this run. */
enum status ledger_output_ended(struct ledger *ledger, int instance, int run, bool *ret_ended, struct err *err);

/* Counts a crash of the stage on this item. At `limit` crashes the item fails with `reason`, and ret_set_aside is
 * true. */
enum status ledger_crashed(struct ledger *ledger, struct ledger_key key, int limit, const char *reason,
                           bool *ret_set_aside, struct err *err);
/* Puts failed items back (all, or the one named): the upstream outbox sends them again after the launcher has withdrawn
 * its acknowledgement with ledger_withdraw(upstream ledger, ">STAGE", key). Items that a source had set aside are
 * forgotten, so that the source finds them anew. */
enum status ledger_retry(struct ledger *ledger, const struct ledger_key *key_or_null, int64_t *ret_count,
                         struct err *err);
/* Puts back an item that is done, in the same way, and forgets what was sent on because of it: it will be sent anew.
 * Must not be called while the stage runs. ret_redone: false when the item is not done. */
enum status ledger_redo(struct ledger *ledger, struct ledger_key key, bool *ret_redone, struct err *err);
/* Marks an item that is done as failed, because the stage can no longer read its files when it starts again. The item
 * is then reported and can be retried. */
enum status ledger_fail_done(struct ledger *ledger, struct ledger_key key, const char *reason, struct err *err);
/* Marks items that are done as failed, in one transaction, because something that needs all of them could not be made.
 * reason NULL: it could be made after all; items that failed in this way are done again. Items in any other state stay
 * as they are; ret_changed counts those that changed. */
enum status ledger_revise(struct ledger *ledger, const struct ledger_key *keys, size_t count, const char *reason,
                          int64_t *ret_changed, struct err *err);
/* Posts an item anew, and forgets its former parcels, on the edges that end in edge_suffix. The new parcels have other
 * numbers: an answer to a former one may still be on its way, and must not count for them. */
enum status ledger_withdraw(struct ledger *ledger, const char *edge_suffix, struct ledger_key key, struct err *err);

/* Posts an item anew in a later revision on the edge that ends in edge_suffix, and forgets its former parcels.
 * again: the number for which the item's stage wants it again (common/harness/again.h), which the item then holds;
 * 0: none. ret_sent: false when it was never sent there, or its last parcel is not acknowledged. */
enum status ledger_send_revised(struct ledger *ledger, const char *edge_suffix, struct ledger_key key, int64_t revision,
                                int again, bool *ret_sent, struct err *err);
/* Settles a parcel that was posted for such a number, and that nobody has acknowledged: the edge has ended. The
 * receiver keeps the item as it has it. */
enum status ledger_take_back(struct ledger *ledger, const char *edge_suffix, struct ledger_key key, struct err *err);
/* Visits the items that are done, and that their stage wants again: their column is less than number or absent, and
 * they were not posted for this number before. The last ones first, at most `most`. row: that of the item; a call
 * with `before` visits rows before that one only (0: all), so that calls one after the other read each row once. The
 * callback must not use the ledger. */
typedef enum status ledger_again_visit(struct ledger_key key, int64_t row, void *context, struct err *err);
enum status ledger_each_again(struct ledger *ledger, const char *column, int number, int64_t before, int most,
                              ledger_again_visit *visit, void *context, struct err *err);
/* Finds the latest revision of an item in the ledger, received or sent; 0: none. */
enum status ledger_latest_revision(struct ledger *ledger, struct ledger_key key, int64_t *ret_revision,
                                   struct err *err);
/* Counts the unacknowledged parcels of the edges that end in edge_suffix. */
enum status ledger_waiting_for(struct ledger *ledger, const char *edge_suffix, int64_t *ret_count, struct err *err);
/* Returns whether an item has an unacknowledged parcel on an edge that ends in edge_suffix. */
enum status ledger_awaits(struct ledger *ledger, const char *edge_suffix, struct ledger_key key, bool *ret_awaits,
                          struct err *err);

/* Records files of the stage that belong to no single item, such as joined tables; replaces what the ledger has for
 * their paths. */
enum status ledger_add_files(struct ledger *ledger, const struct ledger_file *files, size_t count, struct err *err);
/* Visits the files of all items, and those of the stage itself (source and id are ""). The strings are valid during
 * the call; the callback must not use the ledger. */
struct ledger_file_row {
    const char *source, *id;
    struct ledger_file file;
};
typedef enum status ledger_file_visit(const struct ledger_file_row *row, void *context, struct err *err);
enum status ledger_each_file(struct ledger *ledger, ledger_file_visit *visit, void *context, struct err *err);

/* Counts what a repair has done. */
struct ledger_mended {
    int64_t items, parcels, files; /* rows that were put back */
    int64_t again;                 /* parcels that go through again */
    int64_t bad_lines;             /* lines of the copy that could not be read */
};
/* Puts back what the ledger's second copy (STAGE.jsonl) knows and the ledger does not. owner: as expected; a copy of
 * another stage or session is refused (STATUS_BAD_ARGUMENT). Adds to *mended. Nothing may use the ledger meanwhile. */
enum status ledger_restore(struct ledger *ledger, const struct ledger_owner *owner, struct ledger_mended *mended,
                           struct err *err);
/* Compares with the ledger of a receiver, and mends this one. BACK: adds what the receiver has and this ledger does not
 * know. AGAIN: takes back acknowledgements of what the receiver has not finished, so that it is sent again; settles
 * what it has. */
struct ledger_edge {
    const char *name, *from, *to, *to_path; /* "watcher.0>picker", "watcher", "picker", its ledger */
    bool passes_on;                         /* what is sent are the items that came in, not new ones */
    bool settle;                            /* this ledger was mended: what is finished there is acknowledged */
};
enum ledger_reconcile { LEDGER_BACK, LEDGER_AGAIN };
enum status ledger_reconcile(struct ledger *ledger, const struct ledger_edge *edge, enum ledger_reconcile what,
                             struct ledger_mended *mended, struct err *err);
/* The warnings of one kind: who warned ("icestream": the launcher), the id of the log line, the last message, how
 * often, and when first and last (s since 1970). */
struct ledger_warning {
    const char *stage, *id, *message;
    int64_t count;
    double first, last;
};
/* Adds warnings to those of the same stage and id, in one transaction that does not wait for the disk. */
enum status ledger_warn(struct ledger *ledger, const struct ledger_warning *warnings, size_t count, struct err *err);
/* Visits each kind, the earliest first; a ledger without this table has none. The strings are valid during the call; a
 * status other than OK ends the walk. */
typedef enum status ledger_warning_visit(const struct ledger_warning *warning, void *context, struct err *err);
enum status ledger_each_warning(struct ledger *ledger, ledger_warning_visit *visit, void *context, struct err *err);
/* Copies a ledger from a file to an address in PostgreSQL where there is none yet, all or nothing. */
enum status ledger_bring(const char *file, const char *stage, const char *address, struct err *err);
/* Copies the ledger, which others may use meanwhile, to a file that replaces what is at `path`: all of one moment. */
enum status ledger_backup(struct ledger *ledger, const char *path, struct err *err);
/* Returns STATUS_IO, with what is wrong, when the file is damaged. Reads all of it. */
enum status ledger_integrity(struct ledger *ledger, struct err *err);

enum { LEDGER_TOGETHER = -3 };
struct ledger_row {
    const char *source, *id, *reason, *item_text;
    int64_t revision;
    enum ledger_state state;
    int attempts, instance; /* instance: LEDGER_TOGETHER when the item failed with others */
    double time_seen, time_changed;
};
typedef enum status ledger_visit(const struct ledger_row *row, void *context, struct err *err);
/* Visits every item, or those in one state, oldest first. The strings are valid during the call; a status other than OK
 * ends the walk. */
enum status ledger_each(struct ledger *ledger, int state_or_minus_1, ledger_visit *visit, void *context,
                        struct err *err);

#endif
