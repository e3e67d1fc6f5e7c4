/* Admits only peers that hold the session's secret key to the sockets that are bound on the network. CURVE alone admits
 * every peer that knows the server's public key. The guard also compares the peer's own public key with the session's
 * public key. A thread of the guard answers libzmq (ZAP, RFC 27). */
#ifndef ICESTREAM_COMMON_EDGES_TRANSPORT_GUARD_H
#define ICESTREAM_COMMON_EDGES_TRANSPORT_GUARD_H

#include <stdbool.h>

#include "common/status.h"

struct guard;

/* Starts the guard of a ZeroMQ context. Call it before a socket of the context is bound. public_key: the session's, 40
 * characters of Z85; STATUS_BAD_ARGUMENT if it is not. */
enum status guard_create(void *context, const char *public_key, struct guard **ret_guard, struct err *err);
/* Puts the guard in front of a socket. Call it before the socket is bound. number: of the socket's monitor, unique
 * among the monitors of the context. Returns false on failure, with the reason in errno. */
bool guard_socket(struct guard *guard, void *socket, int number);
/* Returns how many connections were refused so far: with a wrong key, without a key, or in another protocol. */
long long guard_refused(struct guard *guard);
/* Closes the guard's monitors. Call it after the other sockets were closed and before the context is terminated. */
void guard_close(struct guard *guard);
/* Frees the guard and waits for its thread, which ends with the context. Call it after the context was terminated. */
void guard_destroy(struct guard **guard);

#endif
