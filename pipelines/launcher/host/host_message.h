/* The messages of the control channel between the launcher of a session and the hosts that have joined it. Each is one
 * JSON object, {"v": 1, "kind": …}:
 *
 *   host to launcher
 *     join      name, revision, address (where its edges listen), cores, gpus
 *     state     member, heard (number of the last order that was carried out), leaving,
 *               processes: [{start, pid, ended, wait_status, error (last one of the log, when it has ended), beats (how
 *               many so far), beat (text of the heartbeat, if it is new), item, item_of_signal, own_work (in process at
 *               the end), writes (heartbeats can be written)}],
 *               listeners: [{start, edge, data, ack}]: endpoints of edges that leave the process
 *
 *   launcher to host
 *     welcome   member (by which the host is known until the launcher loses it)
 *     refused   reason
 *     void      member: the launcher does not know it, and its processes do not count any more
 *     beat      member
 *     order     member, number (from 1, without gaps), what:
 *               start      start, name, program, log, env: [text], orders (the instance file), gpus: [number],
 *                          takes_descriptors
 *               orders     start, orders: the instance file has changed
 *               signal     start, signal, group
 *               forget     start: the launcher has taken note of the end
 *               endpoints  record: the text of the record of endpoints
 *               end        the session is over
 *
 * start: the number that the launcher gave to a process. Orders are repeated until a state has heard them, and carried
 * out once and in order; a state tells all, so that none that is lost is missed. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_HOST_HOST_MESSAGE_H
#define ICESTREAM_PIPELINES_LAUNCHER_HOST_HOST_MESSAGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

enum { HOST_MESSAGE_VERSION = 1, HOST_NAME_SIZE = 65, HOST_MEMBER_SIZE = 33, HOST_REVISION_SIZE = 129 };
/* Seconds: between two beats; of silence after which the other side is lost. */
#define HOST_BEAT 2.0
#define HOST_LOST 8.0

enum host_kind { HOST_JOIN, HOST_STATE, HOST_WELCOME, HOST_REFUSED, HOST_VOID, HOST_BEAT_KIND, HOST_ORDER };

struct host_message {
    enum host_kind kind;
    json_t *root; /* its members have the types that the kind asks for, and are within limits */
};

/* Decodes one message; any bytes are safe. STATUS_BAD_FORMAT: this is none; STATUS_UNSUPPORTED: a later version. */
enum status host_message_decode(const void *bytes, size_t length, struct host_message *ret_message, struct err *err);
/* Frees a message. */
void host_message_clear(struct host_message *message);
/* Encodes a message. content: its members; the reference is taken, NULL: none. The caller frees the text. */
enum status host_message_encode(enum host_kind kind, json_t *content, char **ret_text, size_t *ret_length,
                                struct err *err);

/* Return a member of a decoded message; "", 0 and false when it is not there. */
const char *host_text(const json_t *object, const char *key);
long long host_number(const json_t *object, const char *key);
bool host_flag(const json_t *object, const char *key);

#endif
