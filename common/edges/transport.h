/* Sockets of edges: PUSH and PULL of libzmq, ipc:// inside a host, tcp:// with CURVE between hosts. Frames only; what
 * they mean is in message.h. The sockets of one transport belong to one thread. */
#ifndef ICESTREAM_COMMON_EDGES_TRANSPORT_H
#define ICESTREAM_COMMON_EDGES_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

struct transport;
struct transport_socket;

enum transport_role {
    TRANSPORT_DATA_OUT, /* upstream binds it and pushes items */
    TRANSPORT_ACK_IN,   /* upstream binds it and pulls acknowledgements */
    TRANSPORT_DATA_IN,  /* downstream connects and pulls items */
    TRANSPORT_ACK_OUT,  /* downstream connects and pushes acknowledgements */
};

/* Z85 keys of the session, 40 characters each; both NULL: tcp:// is refused. All ends of a session use the same pair:
 * peers that cannot prove to have its secret half are turned away. Sockets of ipc:// are only opened in folders that
 * other users cannot enter. */
enum status transport_create(const char *public_key, const char *secret_key, struct transport **ret_transport,
                             struct err *err);
/* Closes its sockets too; acknowledgements that were sent are still delivered, for up to a second. */
void transport_destroy(struct transport **transport);

/* limit: messages that are held in memory while the other side does not take them. */
enum status transport_open(struct transport *transport, enum transport_role role, const char *endpoint, int limit,
                           struct transport_socket **ret_socket, struct err *err);
/* ret_sent: false when nobody is there to take it, or the limit is reached; never blocks. */
enum status transport_send(struct transport_socket *socket, const char *text, size_t length, bool *ret_sent,
                           struct err *err);
/* ret_bytes: NULL when there is nothing; valid until the next call on this socket. A message of several frames is
 * given as one of no bytes, which no decoder takes. Never blocks. */
enum status transport_receive(struct transport_socket *socket, const void **ret_bytes, size_t *ret_length,
                              struct err *err);

/* To be called about once a second: connects again where a peer has sent what breaks the protocol, or more at once than
 * there may be, and was cut off; how many these were. */
enum status transport_mend(struct transport *transport, int *ret_count, struct err *err);
/* Peers that were turned away on the network so far. */
long long transport_refused(struct transport *transport);

struct transport_wait {
    struct transport_socket *socket; /* or NULL */
    int descriptor;                  /* when socket is NULL */
    bool for_sending;                /* wait until it can be sent to, not received from */
    bool ready;                      /* out */
};
enum status transport_poll(struct transport_wait *waits, size_t count, int milliseconds, struct err *err);

#endif
