/* Passes the items of an instance that hangs to the other replicas of its stage. The launcher releases the instance's
 * claims in the ledger, and says hello to its senders in its name, with another token (docs/protocol.md): for them it
 * has started again, so they send again what it had got. When the instance wakes, the ledger refuses what it finishes,
 * because another instance has these items or will have them. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_RUN_HUNG_H
#define ICESTREAM_PIPELINES_LAUNCHER_RUN_HUNG_H

#include <stdbool.h>
#include <sys/types.h>

#include "pipelines/launcher/session.h"

struct hung;

/* The keys are those of transport_create. The plan is borrowed, and must have its endpoints. */
enum status hung_create(const struct plan *plan, const char *public_key, const char *secret_key, struct hung **ret_hung,
                        struct err *err);
/* Frees the connections; accepts NULL. */
void hung_destroy(struct hung **hung);
/* Call this a few times a second while the instance hangs: messages may still go to its socket, which nobody reads. */
enum status hung_let_go(struct hung *hung, const struct session *session, size_t instance, struct err *err);
/* Releases the claims of an instance that is gone. */
enum status hung_release(const struct session *session, const char *stage, int replica, struct err *err);
/* Returns whether a process is stopped (SIGSTOP, a debugger) rather than waiting. */
bool hung_is_stopped(pid_t pid);
/* Call this about once a second, even when no instance hangs: renews broken connections, and reads libzmq's events,
 * because libzmq stops when they are not read. */
void hung_tend(struct hung *hung);

#endif
