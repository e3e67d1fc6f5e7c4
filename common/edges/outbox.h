/* The sending side of one edge: sends what the ledger's outbox holds, sends again what got lost, and strikes off what
 * is acknowledged. docs/protocol.md gives the rules. */
#ifndef ICESTREAM_COMMON_EDGES_OUTBOX_H
#define ICESTREAM_COMMON_EDGES_OUTBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "common/edges/ledger.h"
#include "common/edges/message.h"
#include "common/edges/transport.h"

struct outbox;

/* Opens an outbox and binds the edge's two sockets. window: items that may be on their way at once. All pointers are
 * borrowed. */
enum status outbox_create(struct transport *transport, struct ledger *ledger, const char *edge, const char *data,
                          const char *ack, int window, struct outbox **ret_outbox, struct err *err);
/* Frees the outbox; its sockets belong to the transport. Accepts NULL. */
void outbox_destroy(struct outbox **outbox);

/* Sets the pause (s) before an item that no receiver has answered is sent again; the pause doubles each time. The
 * default is 10 s. An item that a receiver has got, but not acknowledged, is sent again after six times that pause,
 * because the answer may have got lost. */
void outbox_set_pause(struct outbox *outbox, double seconds);
/* Sends what may be sent now. now: CLOCK_MONOTONIC, s. */
enum status outbox_pump(struct outbox *outbox, double now, struct err *err);
/* Takes one message from downstream. The next outbox_strike_off strikes off what it acknowledges. */
enum status outbox_answer(struct outbox *outbox, const struct message *message, struct err *err);
/* Writes the acknowledgements to the ledger, in one transaction. ret_count: items that were not acknowledged before. */
enum status outbox_strike_off(struct outbox *outbox, int64_t *ret_count, struct err *err);
/* Returns the present window: at least that of outbox_create, and more when the receiver is fast. */
int outbox_window(const struct outbox *outbox);
/* Looks at the ledger anew, after another process has changed it (a retry). */
void outbox_rescan(struct outbox *outbox);
/* Sends `end` as soon as everything before it is acknowledged. */
void outbox_end(struct outbox *outbox);
/* Returns whether the receivers have acknowledged the end. */
bool outbox_ended(const struct outbox *outbox);
/* Returns true when something waits for room in the data socket. */
bool outbox_blocked(const struct outbox *outbox);

/* Returns the socket that items go out by. */
struct transport_socket *outbox_data(struct outbox *outbox);
/* Returns the socket that answers come in by. */
struct transport_socket *outbox_acks(struct outbox *outbox);

#endif
