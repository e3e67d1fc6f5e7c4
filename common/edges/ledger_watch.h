/* Follows a ledger that others write to, read-only: what was committed since the last look. Reads in short statements,
 * so that no long snapshot keeps the write-ahead log from being emptied. */
#ifndef ICESTREAM_COMMON_EDGES_LEDGER_WATCH_H
#define ICESTREAM_COMMON_EDGES_LEDGER_WATCH_H

#include "common/edges/ledger.h"

struct ledger_watch;

/* Opens the ledger of a stage as ledger_open_patient does for reading. session: the session's id, "" for any.
 * *ret_watch is NULL when the file is missing or has no tables yet. BAD_ARGUMENT: the ledger of another stage or
 * session. */
enum status ledger_watch_open(const char *path, const char *stage, const char *session, double patience,
                              struct ledger_watch **ret_watch, struct err *err);
/* Closes it and frees it; accepts NULL. */
void ledger_watch_close(struct ledger_watch **watch);
/* Returns a number that changes with each commit of another connection. Take it before reading. */
enum status ledger_watch_version(struct ledger_watch *watch, int64_t *ret_version, struct err *err);

/* One row of the items. `row.instance` is not read. */
typedef enum status ledger_watch_visit(int64_t number, const struct ledger_row *row, void *context, struct err *err);
/* Rows to visit: those with a greater number, oldest first; those in flight; the row of this number. */
enum ledger_look { LEDGER_LOOK_AFTER, LEDGER_LOOK_IN_FLIGHT, LEDGER_LOOK_ONE };
/* Visits rows; the strings are valid during the call, and the visitor must not use the watch. */
enum status ledger_watch_rows(struct ledger_watch *watch, enum ledger_look what, int64_t number,
                              ledger_watch_visit *visit, void *context, struct err *err);
/* Visits all rows without their items (item_text is ""), oldest first: much less is read. */
enum status ledger_watch_outlines(struct ledger_watch *watch, ledger_watch_visit *visit, void *context,
                                  struct err *err);
/* Visits parcels with a greater seq (acknowledged or not), or those that are not acknowledged. */
enum ledger_parcels { LEDGER_PARCELS_AFTER, LEDGER_PARCELS_WAITING };
enum status ledger_watch_parcels(struct ledger_watch *watch, enum ledger_parcels what, int64_t seq,
                                 ledger_parcel_visit *visit, void *context, struct err *err);
/* Returns whether a parcel is answered, or was taken back. */
enum status ledger_watch_is_answered(struct ledger_watch *watch, int64_t seq, bool *ret_is, struct err *err);
/* Returns the greatest seq of the outbox; 0: nothing was sent. */
enum status ledger_watch_last_seq(struct ledger_watch *watch, int64_t *ret_seq, struct err *err);
/* Counts the rows in each state; states that nobody knows count as failed. */
enum status ledger_watch_counts(struct ledger_watch *watch, int64_t ret_counts[LEDGER_FAILED + 1], struct err *err);

#endif
