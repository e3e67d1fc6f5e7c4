/* Decides who may speak to the sockets that are bound on the network: only holders of the session's secret key. CURVE
 * alone lets in everybody who knows the server's public key; the guard also requires each peer's own key to be the
 * session's. */
#ifndef ICESTREAM_COMMON_EDGES_TRANSPORT_GUARD_H
#define ICESTREAM_COMMON_EDGES_TRANSPORT_GUARD_H

#include <stdbool.h>

#include "common/status.h"

struct guard;

/* Starts to answer for the sockets of a ZeroMQ context; call it before any of them is bound. public_key: Z85. */
enum status guard_create(void *context, const char *public_key, struct guard **ret_guard, struct err *err);
/* Puts the guard in front of a socket; call it before the socket is bound. number: the number of its monitor. Returns
 * false on failure, with the reason in errno. */
bool guard_socket(struct guard *guard, void *socket, int number);
/* Returns how many peers were turned away so far: with wrong keys, without keys, or because they do not speak the
 * protocol. */
long long guard_refused(struct guard *guard);
/* Closes the monitors; call it before the context is terminated, after its other sockets were closed. */
void guard_close(struct guard *guard);
/* Frees the guard; call it after the context was terminated. */
void guard_destroy(struct guard **guard);

#endif
