/* The lease of a cumulative stage whose ledger is in PostgreSQL. Two processes may believe that they are its one
 * instance: the launcher has given one of them up, whose host was cut off. The lease decides which of them publishes. */
#ifndef ICESTREAM_COMMON_HARNESS_LEASE_H
#define ICESTREAM_COMMON_HARNESS_LEASE_H

#include "common/harness/stage.h"

struct instance;

/* Takes the lease, waits for it, and makes the folder that stage_folder returns from now on, with all that the folder
 * that counted before holds. Does nothing for any other stage. UNAVAILABLE: another process is at work. Call it before
 * anything is read from the stage's folder. */
enum status lease_begin(struct stage *stage, const struct instance *instance, struct err *err);
/* Looks about once a second whether the promised names still lead to this lease's folder. CANCELLED: another has taken
 * the lease, and the process ends. */
enum status lease_tend(struct stage *stage, struct err *err);
/* Gives the lease back, when the ledger is closed and all is written. */
void lease_end(struct stage *stage);

#endif
