#include "common/edges/transport_control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "common/edges/transport_guard.h"
#include "common/edges/transport_keys.h"
#include "common/memory.h"
#include "common/spare.h"

enum { SPARE_THREADS = 2, SPARE_DESCRIPTORS = 10 }; /* what libzmq takes at a time, at most */
enum { HELD = 1000, HELD_AWAY = 8, LINGER_MS = 1000, RECONNECT_MS = 200, RECONNECT_MAX_MS = 1000, CONNECT_MS = 2000 };
/* Time (ms) after which a connection counts as broken when the other side does not answer. */
enum { HEARTBEAT_MS = 2000, HEARTBEAT_TIMEOUT_MS = 8000 };
enum { ENDPOINT_SIZE = 128 };

struct control {
    void *context, *socket;
    struct guard *guard; /* of the end that listens; NULL at the other one */
    zmq_msg_t message;   /* the last one that was received */
    bool listens;
};

static bool set_int(void *socket, int option, int value) {
    return zmq_setsockopt(socket, option, &value, sizeof value) == 0;
}

static bool set_key(void *socket, int option, const char *key) {
    return zmq_setsockopt(socket, option, key, TRANSPORT_KEY_SIZE) == 0;
}

static enum status create(const char *public_key, const char *secret_key, bool listens, struct control **ret_control,
                          struct err *err) {
    FAIL_IF(strlen(public_key) != TRANSPORT_KEY_SIZE - 1 || strlen(secret_key) != TRANSPORT_KEY_SIZE - 1, err,
            STATUS_BAD_ARGUMENT, "the session's CURVE keys must have %d characters each", TRANSPORT_KEY_SIZE - 1);
    TRY(spare_threads(SPARE_THREADS, err));
    TRY(spare_descriptors(SPARE_DESCRIPTORS, err));
    struct control *control = calloc(1, sizeof *control);
    FAIL_IF(control == NULL, err, STATUS_NO_MEMORY, "no memory for the control channel");
    control->listens = listens;
    zmq_msg_init(&control->message);
    control->context = zmq_ctx_new();
    if (control->context != NULL) control->socket = zmq_socket(control->context, listens ? ZMQ_ROUTER : ZMQ_DEALER);
    if (control->socket == NULL) {
        enum status status = err_set(err, status_of_reading(errno), __FILE__, __LINE__,
                                     "no socket for the control channel: %s", zmq_strerror(errno));
        control_close(&control);
        return status;
    }
    *ret_control = control;
    return STATUS_OK;
}

void control_close(struct control **control) {
    if (*control == NULL) return;
    zmq_msg_close(&(*control)->message);
    if ((*control)->socket != NULL) zmq_close((*control)->socket);
    guard_close((*control)->guard);
    while ((*control)->context != NULL && zmq_ctx_term((*control)->context) != 0 && errno == EINTR)
        continue;
    guard_destroy(&(*control)->guard);
    mem_free(control);
}

/* Sets what both ends have in common. */
static bool set_common(void *socket) {
    int64_t size = CONTROL_SIZE_MAX;
    return set_int(socket, ZMQ_SNDHWM, HELD) && set_int(socket, ZMQ_RCVHWM, HELD) &&
           set_int(socket, ZMQ_LINGER, LINGER_MS) && set_int(socket, ZMQ_IPV6, 1) &&
           set_int(socket, ZMQ_HEARTBEAT_IVL, HEARTBEAT_MS) &&
           set_int(socket, ZMQ_HEARTBEAT_TIMEOUT, HEARTBEAT_TIMEOUT_MS) &&
           zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &size, sizeof size) == 0;
}

static void print_endpoint(const char *address, int port, char endpoint[ENDPOINT_SIZE]) {
    char place[16] = "*";
    bool many = strchr(address, ':') != NULL;
    if (port > 0) snprintf(place, sizeof place, "%d", port);
    snprintf(endpoint, ENDPOINT_SIZE, "tcp://%s%s%s:%s", many ? "[" : "", address, many ? "]" : "", place);
}

static enum status bind_port(struct control *control, const char *address, int port, int *ret_port, struct err *err) {
    char endpoint[ENDPOINT_SIZE];
    size_t size = sizeof endpoint;
    print_endpoint(address, port, endpoint);
    FAIL_IF(zmq_bind(control->socket, endpoint) != 0, err,
            errno == EADDRINUSE ? STATUS_UNAVAILABLE : STATUS_BAD_ARGUMENT,
            "the control channel cannot listen on %s: %s", endpoint, zmq_strerror(errno));
    FAIL_IF(zmq_getsockopt(control->socket, ZMQ_LAST_ENDPOINT, endpoint, &size) != 0, err, STATUS_IO,
            "the control channel has no port: %s", zmq_strerror(errno));
    *ret_port = atoi(strrchr(endpoint, ':') + 1);
    return STATUS_OK;
}

static enum status begin_listening(struct control *control, const char *address, int port, const char *public_key,
                                   const char *secret_key, int *ret_port, struct err *err) {
    TRY(guard_create(control->context, public_key, &control->guard, err));
    /* A peer that connects anew takes the place of its old connection. */
    bool good = set_common(control->socket) && set_int(control->socket, ZMQ_ROUTER_MANDATORY, 1) &&
                set_int(control->socket, ZMQ_ROUTER_HANDOVER, 1) && set_int(control->socket, ZMQ_CURVE_SERVER, 1) &&
                set_key(control->socket, ZMQ_CURVE_SECRETKEY, secret_key) &&
                guard_socket(control->guard, control->socket, 0);
    FAIL_IF(!good, err, status_of_reading(errno), "the control channel cannot be set up: %s", zmq_strerror(errno));
    return bind_port(control, address, port, ret_port, err);
}

enum status control_listen(const char *address, int port, const char *public_key, const char *secret_key,
                           struct control **ret_control, int *ret_port, struct err *err) {
    struct control *control = NULL;
    TRY(create(public_key, secret_key, true, &control, err));
    enum status status = begin_listening(control, address, port, public_key, secret_key, ret_port, err);
    if (status != STATUS_OK) {
        control_close(&control);
        return status;
    }
    *ret_control = control;
    return STATUS_OK;
}

static enum status begin_joining(struct control *control, const char *endpoint, const char *public_key,
                                 const char *secret_key, const char *own_name, struct err *err) {
    void *socket = control->socket;
    bool good = set_common(socket) && zmq_setsockopt(socket, ZMQ_ROUTING_ID, own_name, strlen(own_name)) == 0 &&
                set_int(socket, ZMQ_RECONNECT_IVL, RECONNECT_MS) &&
                set_int(socket, ZMQ_RECONNECT_IVL_MAX, RECONNECT_MAX_MS) &&
                set_int(socket, ZMQ_CONNECT_TIMEOUT, CONNECT_MS) &&
                /* Messages wait in the socket while nobody listens; a later one says more. libzmq's option for sockets
                 * that do not wait (ZMQ_IMMEDIATE) also drops what has come, and is not read, when a peer closes. */
                set_int(socket, ZMQ_SNDHWM, HELD_AWAY) && set_key(socket, ZMQ_CURVE_SERVERKEY, public_key) &&
                set_key(socket, ZMQ_CURVE_PUBLICKEY, public_key) && set_key(socket, ZMQ_CURVE_SECRETKEY, secret_key);
    FAIL_IF(!good, err, status_of_reading(errno), "the control channel cannot be set up: %s", zmq_strerror(errno));
    FAIL_IF(zmq_connect(socket, endpoint) != 0, err, STATUS_BAD_ARGUMENT, "%s cannot be connected to: %s", endpoint,
            zmq_strerror(errno));
    return STATUS_OK;
}

enum status control_join(const char *address, int port, const char *public_key, const char *secret_key,
                         const char *own_name, struct control **ret_control, struct err *err) {
    struct control *control = NULL;
    char endpoint[ENDPOINT_SIZE];
    FAIL_IF(own_name[0] == '\0' || strlen(own_name) >= CONTROL_PEER_SIZE || port < 1 || port > 65535, err,
            STATUS_BAD_ARGUMENT, "not the name of a peer, or no port");
    print_endpoint(address, port, endpoint);
    TRY(create(public_key, secret_key, false, &control, err));
    enum status status = begin_joining(control, endpoint, public_key, secret_key, own_name, err);
    if (status != STATUS_OK) {
        control_close(&control);
        return status;
    }
    *ret_control = control;
    return STATUS_OK;
}

enum status control_send(struct control *control, const char *peer, const char *text, size_t length, bool *ret_sent,
                         struct err *err) {
    int result = 0;
    if (control->listens) result = zmq_send(control->socket, peer, strlen(peer), ZMQ_DONTWAIT | ZMQ_SNDMORE);
    if (result >= 0) result = zmq_send(control->socket, text, length, ZMQ_DONTWAIT);
    FAIL_IF(result < 0 && errno != EAGAIN && errno != EINTR && errno != EHOSTUNREACH, err, STATUS_IO,
            "the control channel cannot be written to: %s", zmq_strerror(errno));
    *ret_sent = result >= 0;
    return STATUS_OK;
}

/* Receives the next frame into the message. Returns its length, or −1. */
static int next_frame(struct control *control) {
    int length = zmq_msg_recv(&control->message, control->socket, ZMQ_DONTWAIT);
    while (length < 0 && errno == EINTR)
        length = zmq_msg_recv(&control->message, control->socket, ZMQ_DONTWAIT);
    return length;
}

/* Copies the name of the peer from the first frame. Returns false for bytes that are no name. */
static bool take_peer(struct control *control, char peer[CONTROL_PEER_SIZE]) {
    const char *bytes = zmq_msg_data(&control->message);
    size_t length = zmq_msg_size(&control->message);
    peer[0] = '\0';
    if (length == 0 || length >= CONTROL_PEER_SIZE) return false;
    for (size_t i = 0; i < length; i++)
        if (bytes[i] <= ' ' || bytes[i] > '~') return false;
    memcpy(peer, bytes, length);
    peer[length] = '\0';
    return true;
}

enum status control_receive(struct control *control, char peer[CONTROL_PEER_SIZE], const void **ret_bytes,
                            size_t *ret_length, struct err *err) {
    bool proper = true;
    peer[0] = '\0';
    *ret_bytes = NULL;
    *ret_length = 0;
    int length = next_frame(control);
    FAIL_IF(length < 0 && errno != EAGAIN, err, STATUS_IO, "the control channel cannot be read: %s",
            zmq_strerror(errno));
    if (length < 0) {
        /* libzmq stops when the guard's events are not read. */
        if (control->guard != NULL) guard_refused(control->guard);
        return STATUS_OK;
    }
    if (control->listens) {
        proper = take_peer(control, peer) && zmq_msg_more(&control->message);
        if (zmq_msg_more(&control->message)) length = next_frame(control);
    }
    /* The frames of one message arrive together, so these calls do not wait. */
    while (length >= 0 && zmq_msg_more(&control->message)) {
        proper = false;
        length = next_frame(control);
    }
    FAIL_IF(length < 0, err, STATUS_IO, "the rest of a message cannot be received: %s", zmq_strerror(errno));
    *ret_bytes = zmq_msg_data(&control->message);
    *ret_length = proper ? (size_t)length : 0;
    return STATUS_OK;
}

enum status control_wait(struct control *control, int descriptor, int milliseconds, struct err *err) {
    zmq_pollitem_t items[2] = {{.socket = control != NULL ? control->socket : NULL, .events = ZMQ_POLLIN},
                               {.fd = descriptor, .events = ZMQ_POLLIN}};
    bool has = control != NULL;
    FAIL_IF(zmq_poll(has ? items : items + 1, has ? 2 : 1, milliseconds) < 0 && errno != EINTR, err, STATUS_IO,
            "the control channel cannot be waited for: %s", zmq_strerror(errno));
    return STATUS_OK;
}

long long control_refused(struct control *control) {
    return control->guard != NULL ? guard_refused(control->guard) : 0;
}
