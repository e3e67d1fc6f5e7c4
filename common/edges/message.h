/* Encodes and decodes what travels along an edge: each message is one frame of JSON, of at most 1 MiB. docs/protocol.md
 * is the protocol.
 *   downstream: {"v":1, "kind":"item", "edge", "seq", "attempt", "item"}
 *               {"v":1, "kind":"end", "edge", "seq", "attempt"}
 *   upstream:   {"v":1, "kind":"hello|got|ack", "edge", "seq", "instance", "token", "verdict"} */
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
    int64_t seq;                  /* number of the item on its edge; 0 in an end */
    int attempt;                  /* 1 the first time */
    int instance;                 /* instance of the receiver, and the token of its incarnation */
    char token[MESSAGE_TOKEN_SIZE];
    char verdict[16]; /* in an ack: done, rejected, failed; "end" */
    struct item *item;
};

/* Decodes one frame; any bytes are safe. STATUS_BAD_FORMAT: this is no message; STATUS_UNSUPPORTED: a later version. */
enum status message_decode(const void *bytes, size_t length, struct message *ret_message, struct err *err);
/* Encodes a message; the caller frees the text. item_text: the item as JSON, or NULL to print message->item. */
enum status message_encode(const struct message *message, const char *item_text, char **ret_text, size_t *ret_length,
                           struct err *err);
/* Frees the message's item. */
void message_clear(struct message *message);

#endif
