/* Who may speak to the sockets that are bound on the network: only holders of the session's secret key. CURVE alone lets
 * in whoever knows the server's public key; here each peer's own key must be the session's as well. */
#ifndef ICESTREAM_COMMON_EDGES_TRANSPORT_GUARD_H
#define ICESTREAM_COMMON_EDGES_TRANSPORT_GUARD_H

#include <stdbool.h>

#include "common/status.h"

struct guard;

/* Starts to answer for the sockets of a ZeroMQ context; to be called before any of them is bound. public_key: Z85. */
enum status guard_create(void *context, const char *public_key, struct guard **ret_guard, struct err *err);
/* Before it is bound: peers of the socket go past the guard. number: its monitor's. False: errno says why. */
bool guard_socket(struct guard *guard, void *socket, int number);
/* Peers that were turned away so far: with wrong keys, or none, or that do not speak the protocol. */
long long guard_refused(struct guard *guard);
/* Before the context is terminated, when its other sockets are closed. */
void guard_close(struct guard *guard);
/* After the context was terminated. */
void guard_destroy(struct guard **guard);

#endif
