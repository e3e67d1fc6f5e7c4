/* What travels along an edge: one frame of JSON each, at most 1 MiB. docs/protocol.md is the protocol.
 *   downstream: {"v":1, "kind":"item", "edge", "seq", "attempt", "item"}   {"v":1, "kind":"end", "edge", "seq",
 * "attempt"} back:       {"v":1, "kind":"hello|got|ack", "edge", "seq", "instance", "token", "verdict"} */
#ifndef ICESTREAM_COMMON_EDGES_MESSAGE_H
#define ICESTREAM_COMMON_EDGES_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include "common/edges/item.h"
#include "common/status.h"

enum { MESSAGE_VERSION = 1, MESSAGE_SIZE_MAX = 1 << 20, MESSAGE_EDGE_SIZE = 192, MESSAGE_TOKEN_SIZE = 65 };

enum message_kind { MESSAGE_ITEM, MESSAGE_END, MESSAGE_HELLO, MESSAGE_GOT, MESSAGE_ACK };

struct message {
    enum message_kind kind;
    char edge[MESSAGE_EDGE_SIZE]; /* "lowpass-picker.0>extractor" */
    int64_t seq;                  /* of the item on its edge; 0 of an end */
    int attempt;                  /* 1 at first */
    int instance;                 /* of the receiver, and the token of its incarnation */
    char token[MESSAGE_TOKEN_SIZE];
    char verdict[16]; /* of an ack: done, rejected, failed; "end" */
    struct item *item;
};

/* STATUS_BAD_FORMAT for what is no message, STATUS_UNSUPPORTED for one of a later version. Any bytes are safe. */
enum status message_decode(const void *bytes, size_t length, struct message *ret_message, struct err *err);
/* Freed by the caller. item_text, where not NULL, is the item as JSON. */
enum status message_encode(const struct message *message, const char *item_text, char **ret_text, size_t *ret_length,
                           struct err *err);
void message_clear(struct message *message);

#endif
