/* The items of an instance that hangs go to the other replicas of its stage. Its claims in the ledger are let go, and
 * those who send to it hear in its name that it began anew (a hello with another token: docs/protocol.md), so that they
 * send again what it had got. When it wakes, the ledger refuses what it finishes: another has it, or will have. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_RUN_HUNG_H
#define ICESTREAM_PIPELINES_LAUNCHER_RUN_HUNG_H

#include <stdbool.h>
#include <sys/types.h>

#include "pipelines/launcher/session.h"

struct hung;

/* Keys as of transport_create. The plan is borrowed and has its endpoints. */
enum status hung_create(const struct plan *plan, const char *public_key, const char *secret_key, struct hung **ret_hung,
                        struct err *err);
void hung_destroy(struct hung **hung);
/* To be called a few times a second while it hangs: what is sent may still go to a socket that nobody reads. */
enum status hung_let_go(struct hung *hung, const struct session *session, size_t instance, struct err *err);
/* Whether a process was stopped (SIGSTOP, a debugger), and does not merely wait. */
bool hung_is_stopped(pid_t pid);
/* To be called about once a second, whether or not one hangs: connections that broke are made anew, and what libzmq tells of
 * them is read, since it stands still when nobody does. */
void hung_tend(struct hung *hung);

#endif
