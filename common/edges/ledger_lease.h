/* Leases in PostgreSQL: who runs a session, and who works as the one instance of a cumulative stage. The holder renews
 * its lease on a thread and a connection of its own. Whether a lease is over, the server's clock alone decides. A holder
 * that could not renew it publishes nothing, and one whose lease another has taken ends.
 *
 *   leases: name (of the stage; "": the launcher), number (of the lease, from 1), counts (number of the lease whose
 *           folder counts; 0: none), token, host, pid, process (its mark, common/process_mark.h), run, seconds (its
 *           length), renewed (time; -infinity: given back, or void) */
#ifndef ICESTREAM_COMMON_EDGES_LEDGER_LEASE_H
#define ICESTREAM_COMMON_EDGES_LEDGER_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/edges/ledger.h"
#include "common/status.h"

struct ledger_lease;

/* Seconds. length: a lease ends so long after it was renewed, by the server's clock. rest: the holder publishes nothing
 * so long after it last renewed it, by its own. pause: between two renewals. */
struct ledger_lease_terms {
    double length, rest, pause;
};
extern const struct ledger_lease_terms ledger_lease_usual; /* 8, 6, 2 */

struct ledger_lease_wish {
    const char *path; /* the address of any ledger of the session; of a session that exists on the server */
    const char *name; /* of the stage; "": the launcher */
    int run;
    int64_t above;   /* its number is greater */
    double patience; /* s to wait for one who lives; 0: a lease that is renewed meanwhile is refused at once */
    const struct ledger_lease_terms *terms; /* NULL: the usual ones */
    double (*clock)(void);                  /* NULL: clock_monotonic */
    /* Both may be NULL. waits: called now and then while the function waits; false: give up. lost: called once, on a
     * thread of the lease, when another has taken it. */
    bool (*waits)(void *context);
    void (*lost)(void *context);
    void *context;
};

/* Takes a lease when it is free, over, void, or its holder was a process of this machine that has ended. Waits for that.
 * BAD_STATE: its holder lives; the message names host and process. UNAVAILABLE: the server is away. CANCELLED: waits
 * has given up. */
enum status ledger_lease_take(const struct ledger_lease_wish *wish, struct ledger_lease **ret_lease, struct err *err);
/* Returns whether the lease was renewed a short while ago, so that its holder may publish. Any thread. */
bool ledger_lease_holds(struct ledger_lease *lease);
/* Fails where it was not: UNAVAILABLE, with what is being waited for. */
enum status ledger_lease_check(struct ledger_lease *lease, struct err *err);
/* Returns whether another has taken it, or it was made void: it never holds again. Any thread. */
bool ledger_lease_lost(struct ledger_lease *lease);
/* Return the number of the lease, and that of the lease whose folder counted when it was taken (0: none). */
int64_t ledger_lease_number(const struct ledger_lease *lease);
int64_t ledger_lease_before(const struct ledger_lease *lease);
/* Writes into the ledger that the folder of this lease counts from now on. BAD_STATE: the lease is no longer this
 * one's. */
enum status ledger_lease_count(struct ledger_lease *lease, struct err *err);
/* Asks the server for the number of the lease whose folder counts now, this one's or another's; 0: none does. */
enum status ledger_lease_counts(struct ledger_lease *lease, int64_t *ret_number, struct err *err);
/* Ends the thread, lets others take the lease at once, and frees it; accepts NULL. */
void ledger_lease_give_back(struct ledger_lease **lease);

/* From now on each transaction of this ledger fails (UNAVAILABLE) unless the lease is alive by the server's clock, and
 * nobody takes it before the transaction has ended. Does nothing for a ledger in SQLite. lease: borrowed for the
 * call. */
void ledger_fence(struct ledger *ledger, const struct ledger_lease *lease);

struct ledger_lease_holder {
    char host[256];
    int64_t pid, number, counts;
    int run;
    double age; /* s since it was renewed */
    bool alive;
};
/* Looks who holds a lease; alive is false where nobody does. */
enum status ledger_lease_look(const char *path, const char *name, struct ledger_lease_holder *ret_holder,
                              struct err *err);
/* Makes a lease void in its holder's place, who is lost or hangs: others may take it at once. Does nothing unless the
 * lease `by`, of who decides that, is alive; NULL: whoever asks decides. */
enum status ledger_lease_void(const char *path, const char *name, const struct ledger_lease *by, struct err *err);

#endif
