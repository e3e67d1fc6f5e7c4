/* Opens the sockets of edges: PUSH and PULL of libzmq, ipc:// inside a host, tcp:// with CURVE between hosts. The
 * transport carries frames only; message.h says what they mean. The sockets of one transport belong to one thread. */
#ifndef ICESTREAM_COMMON_EDGES_TRANSPORT_H
#define ICESTREAM_COMMON_EDGES_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

struct transport;
struct transport_socket;

enum transport_role {
    TRANSPORT_DATA_OUT, /* upstream binds the socket and pushes items */
    TRANSPORT_ACK_IN,   /* upstream binds the socket and pulls acknowledgements */
    TRANSPORT_DATA_IN,  /* downstream connects and pulls items */
    TRANSPORT_ACK_OUT,  /* downstream connects and pushes acknowledgements */
};

/* Makes a transport. The keys are the session's Z85 keys, 40 characters each; when both are NULL, tcp:// is refused.
 * All ends of a session use the same pair: the transport turns away peers that cannot prove to have the secret key. It
 * opens ipc:// sockets only in folders that other users cannot enter. */
enum status transport_create(const char *public_key, const char *secret_key, struct transport **ret_transport,
                             struct err *err);
/* Closes the transport and its sockets. Acknowledgements that were sent are still delivered, for up to a second. */
void transport_destroy(struct transport **transport);

/* Opens a socket. limit: messages that memory holds while the other side does not take them. */
enum status transport_open(struct transport *transport, enum transport_role role, const char *endpoint, int limit,
                           struct transport_socket **ret_socket, struct err *err);
/* Lets the next socket that binds `endpoint` (tcp://, IPv4 in numbers) take a socket that listens there already, which
 * this process has inherited: it then binds nothing. The transport closes the descriptor, also on failure. */
enum status transport_adopt(struct transport *transport, const char *endpoint, int descriptor, struct err *err);
/* Connects a socket that is connected to another endpoint, where its peer now is. What was received from the old peer
 * and not taken is dropped; answers that were sent still go to the old one, for up to a second. Does nothing if the
 * endpoint is the same one. On failure the socket stays as it is. ret_moved: whether the endpoint was another one; may
 * be NULL. */
enum status transport_move(struct transport *transport, struct transport_socket *socket, const char *endpoint,
                           bool *ret_moved, struct err *err);
/* Sends one message; never blocks. ret_sent: false when no peer is there to take it, or the limit is reached. */
enum status transport_send(struct transport_socket *socket, const char *text, size_t length, bool *ret_sent,
                           struct err *err);
/* Receives one message; never blocks. ret_bytes: NULL when there is none; valid until the next call on this socket. A
 * message of several frames arrives as one of no bytes, which no decoder accepts. */
enum status transport_receive(struct transport_socket *socket, const void **ret_bytes, size_t *ret_length,
                              struct err *err);

/* Connects again where libzmq has cut off a peer, because it broke the protocol or sent too much at once. Call it about
 * once a second. ret_count: how many connections were renewed. */
enum status transport_mend(struct transport *transport, int *ret_count, struct err *err);
/* Binds ipc:// sockets again whose files were deleted, so that a receiver that starts again can connect. Call it about
 * once a second. ret_count: how many were bound again. STATUS_UNAVAILABLE when the folder is gone, too: call it again
 * later. */
enum status transport_bind_again(struct transport *transport, int *ret_count, struct err *err);
/* Returns how many peers the guard has turned away so far. */
long long transport_refused(struct transport *transport);

struct transport_wait {
    struct transport_socket *socket; /* or NULL */
    int descriptor;                  /* when socket is NULL */
    bool for_sending;                /* wait until the socket can be sent to, not received from */
    bool ready;                      /* out */
};
/* Waits until one of the sockets or descriptors is ready, or the time has passed; sets `ready` of each. */
enum status transport_poll(struct transport_wait *waits, size_t count, int milliseconds, struct err *err);

#endif
