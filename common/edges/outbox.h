/* The sending side of one edge: what is in the ledger's outbox goes out, is sent again when it got lost, and is struck
 * off when it is acknowledged. docs/protocol.md says when. */
#ifndef ICESTREAM_COMMON_EDGES_OUTBOX_H
#define ICESTREAM_COMMON_EDGES_OUTBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "common/edges/ledger.h"
#include "common/edges/message.h"
#include "common/edges/transport.h"

struct outbox;

/* Binds the edge's two sockets. window: items that may be on their way at once. The pointers are borrowed. */
enum status outbox_create(struct transport *transport, struct ledger *ledger, const char *edge, const char *data,
                          const char *ack, int window, struct outbox **ret_outbox, struct err *err);
void outbox_destroy(struct outbox **outbox);

/* Pause (s) before an item is sent again that nobody has answered, doubled each time; 10 where this is not called. What
 * somebody has got but not acknowledged is sent again too, six times as late: the answer may have got lost. */
void outbox_set_pause(struct outbox *outbox, double seconds);
/* Sends what may be sent; now: CLOCK_MONOTONIC, s. */
enum status outbox_pump(struct outbox *outbox, double now, struct err *err);
/* Takes in one message from downstream. What it acknowledges is struck off by the next outbox_strike_off. */
enum status outbox_answer(struct outbox *outbox, const struct message *message, struct err *err);
/* Writes down, in one transaction, what has been acknowledged. ret_count: items that had not been before. */
enum status outbox_strike_off(struct outbox *outbox, int64_t *ret_count, struct err *err);
/* The window as it is now: at least what outbox_create was given, and more where the receiver is fast. */
int outbox_window(const struct outbox *outbox);
/* The ledger was changed by someone else (a retry): looks at it anew. */
void outbox_rescan(struct outbox *outbox);
/* From now on `end` is sent once everything before it is acknowledged. */
void outbox_end(struct outbox *outbox);
bool outbox_ended(const struct outbox *outbox);
/* Something waits for the data socket to take it. */
bool outbox_blocked(const struct outbox *outbox);

struct transport_socket *outbox_data(struct outbox *outbox);
struct transport_socket *outbox_acks(struct outbox *outbox);

#endif
