/* The control channel of a session: its launcher listens, and the hosts that join the session connect (ROUTER and DEALER
 * of libzmq, tcp with CURVE). Whoever connects must prove to have the session's secret key, as on the edges. A message is
 * one frame of text; pipelines/launcher/host/host_message.h says what it holds. Messages arrive whole and in order while
 * a connection lasts; those on their way when it breaks are lost. A channel belongs to one thread. */
#ifndef ICESTREAM_COMMON_EDGES_TRANSPORT_CONTROL_H
#define ICESTREAM_COMMON_EDGES_TRANSPORT_CONTROL_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

struct control;

/* CONTROL_PEER_SIZE: room for the name of a peer. CONTROL_SIZE_MAX: bytes of a message. */
enum { CONTROL_PEER_SIZE = 65, CONTROL_SIZE_MAX = 8 << 20 };

/* Listens on an address of this host, given as numbers. port: 0: any that is free. The keys are the session's Z85 keys,
 * of 40 characters each. STATUS_UNAVAILABLE: the port is taken. */
enum status control_listen(const char *address, int port, const char *public_key, const char *secret_key,
                           struct control **ret_control, int *ret_port, struct err *err);
/* Connects to a launcher, which may be away, and connects again when the connection breaks. own_name: by which the
 * launcher knows this end; no other peer may have the same. */
enum status control_join(const char *address, int port, const char *public_key, const char *secret_key,
                         const char *own_name, struct control **ret_control, struct err *err);
/* Closes the channel; what was sent is still delivered, for up to a second. Accepts NULL. */
void control_close(struct control **control);

/* Sends one message; never blocks. peer: to whom; NULL at the end that has joined. *ret_sent: false when that peer is
 * away, or does not take its messages. */
enum status control_send(struct control *control, const char *peer, const char *text, size_t length, bool *ret_sent,
                         struct err *err);
/* Receives one message; never blocks. *ret_bytes: NULL when there is none; valid until the next call. peer: who sent it;
 * "" at the end that has joined, and for a peer with no proper name, whose messages have no bytes. */
enum status control_receive(struct control *control, char peer[CONTROL_PEER_SIZE], const void **ret_bytes,
                            size_t *ret_length, struct err *err);
/* Waits until a message is there, a descriptor can be read, or the time has passed. */
enum status control_wait(struct control *control, int descriptor, int milliseconds, struct err *err);
/* Returns how many peers were turned away so far. */
long long control_refused(struct control *control);

#endif
