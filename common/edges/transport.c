#include "common/edges/transport.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include "common/edges/transport_guard.h"
#include "common/edges/transport_monitor.h"
#include "common/files.h"
#include "common/memory.h"
#include "common/spare.h"

enum { SPARE_THREADS = 2, SPARE_DESCRIPTORS = 10 }; /* what libzmq takes at a time, at most */
enum { SOCKETS_MAX = 512, KEY_LENGTH = 40, ACK_LINGER_MS = 1000, RECONNECT_MAX_MS = 1000 };
/* Limits in bytes, larger than a message may be, so that a message that is slightly too long is still counted. libzmq
 * cuts off a peer that sends more, before it allocates memory for it. Together with the sockets' limits this bounds how
 * much memory strangers can fill. */
enum { DATA_SIZE_MAX = 2 << 20, ANSWER_SIZE_MAX = 64 << 10 };
/* Time (ms) after which another host counts as gone when it does not answer. That is sooner than its launcher gives it up:
 * what is sent again then must not go into a connection that leads nowhere. */
enum { HEARTBEAT_MS = 2000, HEARTBEAT_TIMEOUT_MS = 6000 };

/* Events of a socket that connects. Losses: its connection has ended. Finds: libzmq tries again, or has succeeded. */
enum {
    LOSSES = ZMQ_EVENT_DISCONNECTED,
    FINDS = ZMQ_EVENT_CONNECT_RETRIED | ZMQ_EVENT_CONNECT_DELAYED | ZMQ_EVENT_CONNECTED
};

struct transport_socket {
    void *socket;
    zmq_msg_t message; /* the last one that was received */
    char *endpoint;
    void *monitor; /* for a socket that connects, else NULL */
    bool lost;     /* the connection is lost, and libzmq does not try again */
    bool binds;
    enum transport_role role;
    int limit;
};

/* A socket that listens already, until a socket of the transport takes it. */
struct adopted {
    char *endpoint; /* NULL: it was taken */
    int descriptor;
};

struct transport {
    void *context;
    char public_key[KEY_LENGTH + 1], secret_key[KEY_LENGTH + 1];
    bool has_keys;
    struct guard *guard; /* exists once something is bound on the network */
    struct transport_socket *sockets[SOCKETS_MAX];
    int count;
    int opened; /* sockets in all, with those that were moved: numbers of the monitors */
    struct adopted adopted[SOCKETS_MAX];
    int adopted_count;
};

enum status transport_create(const char *public_key, const char *secret_key, struct transport **ret_transport,
                             struct err *err) {
    bool has_keys = public_key != NULL && secret_key != NULL;
    FAIL_IF(has_keys && (strlen(public_key) != KEY_LENGTH || strlen(secret_key) != KEY_LENGTH), err,
            STATUS_BAD_ARGUMENT, "the session's CURVE keys must have %d characters each", KEY_LENGTH);
    TRY(spare_threads(SPARE_THREADS, err));
    TRY(spare_descriptors(SPARE_DESCRIPTORS, err));
    struct transport *transport = calloc(1, sizeof *transport);
    FAIL_IF(transport == NULL, err, STATUS_NO_MEMORY, "no memory for the transport");
    transport->context = zmq_ctx_new();
    if (transport->context == NULL) {
        enum status status = status_of_reading(errno);
        free(transport);
        FAIL(err, status, "ZeroMQ cannot be started: %s", zmq_strerror(errno));
    }
    transport->has_keys = has_keys;
    if (has_keys) {
        memcpy(transport->public_key, public_key, KEY_LENGTH + 1);
        memcpy(transport->secret_key, secret_key, KEY_LENGTH + 1);
    }
    *ret_transport = transport;
    return STATUS_OK;
}

static void close_socket(struct transport_socket *socket) {
    if (socket->monitor != NULL) monitor_close(socket->socket, socket->monitor);
    if (socket->socket != NULL) {
        zmq_msg_close(&socket->message);
        zmq_close(socket->socket);
    }
    free(socket->endpoint);
    free(socket);
}

static void forget_adopted(struct adopted *adopted) {
    if (adopted->endpoint == NULL) return;
    close(adopted->descriptor);
    mem_free(&adopted->endpoint);
}

void transport_destroy(struct transport **transport) {
    if (*transport == NULL) return;
    for (int i = 0; i < (*transport)->count; i++)
        close_socket((*transport)->sockets[i]);
    for (int i = 0; i < (*transport)->adopted_count; i++)
        forget_adopted(&(*transport)->adopted[i]);
    guard_close((*transport)->guard);
    while (zmq_ctx_term((*transport)->context) != 0 && errno == EINTR)
        continue;
    guard_destroy(&(*transport)->guard);
    explicit_bzero((*transport)->secret_key, sizeof(*transport)->secret_key);
    mem_free(transport);
}

static bool set_int(void *socket, int option, int value) {
    return zmq_setsockopt(socket, option, &value, sizeof value) == 0;
}

static bool set_key(void *socket, int option, const char *key) {
    return zmq_setsockopt(socket, option, key, KEY_LENGTH + 1) == 0;
}

static bool set_keys(const struct transport *transport, void *socket, bool binds) {
    if (binds)
        return set_int(socket, ZMQ_CURVE_SERVER, 1) && set_key(socket, ZMQ_CURVE_SECRETKEY, transport->secret_key) &&
               guard_socket(transport->guard, socket, transport->opened);
    return set_key(socket, ZMQ_CURVE_SERVERKEY, transport->public_key) &&
           set_key(socket, ZMQ_CURVE_PUBLICKEY, transport->public_key) &&
           set_key(socket, ZMQ_CURVE_SECRETKEY, transport->secret_key);
}

static bool set_network(const struct transport *transport, void *socket, bool binds) {
    return set_keys(transport, socket, binds) && set_int(socket, ZMQ_HEARTBEAT_IVL, HEARTBEAT_MS) &&
           set_int(socket, ZMQ_HEARTBEAT_TIMEOUT, HEARTBEAT_TIMEOUT_MS);
}

/* Everyone who can reach an ipc:// socket can speak to it, so its folder must be closed to other users. */
static enum status check_folder(const char *endpoint, struct err *err) {
    const char *path = endpoint + strlen("ipc://");
    char folder[PATH_SIZE];
    FAIL_IF(path[0] != '/', err, STATUS_BAD_ARGUMENT, "the endpoint '%s' must be ipc:// and an absolute path",
            endpoint);
    TRY(path_folder(path, folder, sizeof folder, err));
    struct stat info;
    FAIL_IF(stat(folder, &info) != 0, err, status_of_writing(errno), "%s: the folder of a socket cannot be reached: %s",
            folder, strerror(errno));
    FAIL_IF(info.st_uid != geteuid(), err, STATUS_BAD_STATE, "%s: the folder of a socket belongs to another user (%ld)",
            folder, (long)info.st_uid);
    FAIL_IF((info.st_mode & 077) != 0, err, STATUS_BAD_STATE,
            "%s: the folder of a socket has mode %03o, so that other users could reach it; chmod 700 it", folder,
            (unsigned)info.st_mode & 0777);
    return STATUS_OK;
}

/* Binds the socket, or takes the one that listens there already. libzmq closes that one together with its own. */
static bool bind_socket(struct transport *transport, const struct transport_socket *socket) {
    struct adopted *adopted = NULL;
    for (int i = 0; i < transport->adopted_count && adopted == NULL; i++)
        if (transport->adopted[i].endpoint != NULL && strcmp(transport->adopted[i].endpoint, socket->endpoint) == 0)
            adopted = &transport->adopted[i];
    if (adopted != NULL && !set_int(socket->socket, ZMQ_USE_FD, adopted->descriptor)) return false;
    if (zmq_bind(socket->socket, socket->endpoint) != 0) return false;
    if (adopted != NULL) mem_free(&adopted->endpoint);
    return true;
}

static enum status set_up(struct transport *transport, struct transport_socket *socket, struct err *err) {
    enum transport_role role = socket->role;
    int limit = socket->limit;
    transport->opened++;
    bool sends = role == TRANSPORT_DATA_OUT || role == TRANSPORT_ACK_OUT;
    bool binds = socket->binds = role == TRANSPORT_DATA_OUT || role == TRANSPORT_ACK_IN;
    const char *endpoint = socket->endpoint;
    bool tcp = strncmp(endpoint, "tcp://", 6) == 0;
    FAIL_IF(!tcp && strncmp(endpoint, "ipc://", 6) != 0, err, STATUS_BAD_ARGUMENT,
            "the endpoint '%s' must begin with ipc:// or tcp://", endpoint);
    FAIL_IF(tcp && !transport->has_keys, err, STATUS_BAD_ARGUMENT,
            "the endpoint %s is on the network, and there are no CURVE keys for it", endpoint);
    if (!tcp) TRY(check_folder(endpoint, err));
    if (tcp && binds && transport->guard == NULL)
        TRY(guard_create(transport->context, transport->public_key, &transport->guard, err));
    socket->socket = zmq_socket(transport->context, sends ? ZMQ_PUSH : ZMQ_PULL);
    FAIL_IF(socket->socket == NULL, err, status_of_writing(errno), "no socket for %s: %s", endpoint,
            zmq_strerror(errno));
    zmq_msg_init(&socket->message);
    bool good = set_int(socket->socket, sends ? ZMQ_SNDHWM : ZMQ_RCVHWM, limit) &&
                set_int(socket->socket, ZMQ_LINGER, role == TRANSPORT_ACK_OUT ? ACK_LINGER_MS : 0) &&
                set_int(socket->socket, ZMQ_RECONNECT_IVL_MAX, RECONNECT_MAX_MS);
    int64_t size = role == TRANSPORT_ACK_IN ? ANSWER_SIZE_MAX : DATA_SIZE_MAX;
    good = good && zmq_setsockopt(socket->socket, ZMQ_MAXMSGSIZE, &size, sizeof size) == 0;
    good = good && (!tcp || set_network(transport, socket->socket, binds));
    if (good && !binds) {
        socket->monitor = monitor_open(transport->context, socket->socket, LOSSES | FINDS, transport->opened);
        good = socket->monitor != NULL;
    }
    FAIL_IF(!good, err, status_of_reading(errno), "the socket for %s cannot be set up: %s", endpoint,
            zmq_strerror(errno));
    good = binds ? bind_socket(transport, socket) : zmq_connect(socket->socket, endpoint) == 0;
    FAIL_IF(!good, err, status_of_writing(errno), "%s cannot be %s: %s", endpoint, binds ? "bound" : "connected to",
            zmq_strerror(errno));
    return STATUS_OK;
}

static enum status make_socket(struct transport *transport, enum transport_role role, const char *endpoint, int limit,
                               struct transport_socket **ret_socket, struct err *err) {
    TRY(spare_descriptors(SPARE_DESCRIPTORS, err));
    struct transport_socket *socket = calloc(1, sizeof *socket);
    FAIL_IF(socket == NULL, err, STATUS_NO_MEMORY, "no memory for a socket");
    socket->endpoint = strdup(endpoint);
    socket->role = role;
    socket->limit = limit;
    enum status status = socket->endpoint != NULL
                             ? set_up(transport, socket, err)
                             : err_set(err, STATUS_NO_MEMORY, __FILE__, __LINE__, "no memory for a socket");
    if (status != STATUS_OK) {
        close_socket(socket);
        return status;
    }
    *ret_socket = socket;
    return STATUS_OK;
}

enum status transport_open(struct transport *transport, enum transport_role role, const char *endpoint, int limit,
                           struct transport_socket **ret_socket, struct err *err) {
    FAIL_IF(transport->count == SOCKETS_MAX, err, STATUS_BAD_STATE, "more than %d sockets", SOCKETS_MAX);
    TRY(make_socket(transport, role, endpoint, limit, &transport->sockets[transport->count], err));
    *ret_socket = transport->sockets[transport->count++];
    return STATUS_OK;
}

enum status transport_move(struct transport *transport, struct transport_socket *socket, const char *endpoint,
                           bool *ret_moved, struct err *err) {
    struct transport_socket *fresh = NULL;
    bool moves = strcmp(socket->endpoint, endpoint) != 0;
    if (ret_moved != NULL) *ret_moved = moves;
    if (!moves) return STATUS_OK;
    FAIL_IF(socket->binds, err, STATUS_BAD_STATE, "%s is bound, and cannot be moved to %s", socket->endpoint, endpoint);
    TRY(make_socket(transport, socket->role, endpoint, socket->limit, &fresh, err));
    /* A new socket has a monitor of its own: what the old connection still reports cannot be taken for the new one's. */
    struct transport_socket old = *socket;
    socket->socket = fresh->socket;
    socket->endpoint = fresh->endpoint;
    socket->monitor = fresh->monitor;
    socket->lost = false;
    fresh->socket = old.socket;
    fresh->endpoint = old.endpoint;
    fresh->monitor = old.monitor;
    close_socket(fresh);
    return STATUS_OK;
}

/* Checks that a descriptor listens at the endpoint: its number comes from a file. */
static enum status check_listening(const char *endpoint, int descriptor, struct err *err) {
    struct sockaddr_in address = {.sin_family = AF_UNSPEC};
    char host[INET_ADDRSTRLEN] = "", found[INET_ADDRSTRLEN + 16];
    int listens = 0;
    socklen_t size = sizeof listens, length = sizeof address;
    FAIL_IF(getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || !listens ||
                getsockname(descriptor, (struct sockaddr *)&address, &length) != 0 || address.sin_family != AF_INET,
            err, STATUS_BAD_ARGUMENT,
            "descriptor %d is no tcp socket that listens at %s: only the launcher can hand it on", descriptor,
            endpoint);
    inet_ntop(AF_INET, &address.sin_addr, host, sizeof host);
    snprintf(found, sizeof found, "tcp://%s:%d", host, ntohs(address.sin_port));
    FAIL_IF(strcmp(found, endpoint) != 0, err, STATUS_BAD_ARGUMENT, "descriptor %d listens at %s, not at %s",
            descriptor, found, endpoint);
    /* A connection may be gone before it is accepted: waiting for the next one would hold up libzmq. */
    int flags = fcntl(descriptor, F_GETFL);
    FAIL_IF(flags < 0 || fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) != 0 ||
                fcntl(descriptor, F_SETFD, FD_CLOEXEC) != 0,
            err, STATUS_IO, "descriptor %d cannot be set up: %s", descriptor, strerror(errno));
    return STATUS_OK;
}

enum status transport_adopt(struct transport *transport, const char *endpoint, int descriptor, struct err *err) {
    struct adopted *adopted = &transport->adopted[transport->adopted_count];
    enum status status = check_listening(endpoint, descriptor, err);
    if (status == STATUS_OK && transport->adopted_count == SOCKETS_MAX)
        status = err_set(err, STATUS_BAD_STATE, __FILE__, __LINE__, "more than %d sockets", SOCKETS_MAX);
    if (status == STATUS_OK && (adopted->endpoint = strdup(endpoint)) == NULL)
        status = err_set(err, STATUS_NO_MEMORY, __FILE__, __LINE__, "no memory for a socket");
    if (status != STATUS_OK) {
        close(descriptor);
        return status;
    }
    adopted->descriptor = descriptor;
    transport->adopted_count++;
    return STATUS_OK;
}

enum status transport_send(struct transport_socket *socket, const char *text, size_t length, bool *ret_sent,
                           struct err *err) {
    int result = zmq_send(socket->socket, text, length, ZMQ_DONTWAIT);
    FAIL_IF(result < 0 && errno != EAGAIN && errno != EINTR, err, STATUS_IO, "%s: cannot be sent to: %s",
            socket->endpoint, zmq_strerror(errno));
    *ret_sent = result >= 0;
    return STATUS_OK;
}

enum status transport_receive(struct transport_socket *socket, const void **ret_bytes, size_t *ret_length,
                              struct err *err) {
    int result = zmq_msg_recv(&socket->message, socket->socket, ZMQ_DONTWAIT);
    FAIL_IF(result < 0 && errno != EAGAIN && errno != EINTR, err, STATUS_IO, "%s: cannot be received from: %s",
            socket->endpoint, zmq_strerror(errno));
    if (result < 0) {
        *ret_bytes = NULL;
        *ret_length = 0;
        return STATUS_OK;
    }
    size_t length = zmq_msg_size(&socket->message);
    bool several = false;
    /* The frames of one message arrive together, so these calls do not wait. */
    while (zmq_msg_more(&socket->message)) {
        several = true;
        FAIL_IF(zmq_msg_recv(&socket->message, socket->socket, ZMQ_DONTWAIT) < 0, err, STATUS_IO,
                "%s: the rest of a message cannot be received: %s", socket->endpoint, zmq_strerror(errno));
    }
    *ret_bytes = zmq_msg_data(&socket->message);
    *ret_length = several ? 0 : length;
    return STATUS_OK;
}

/* Connects anew. libzmq gives a connection up for good when the peer breaks the protocol or sends too much. */
static enum status mend(struct transport_socket *socket, bool *ret_mended, struct err *err) {
    bool lost_before = socket->lost;
    for (int event = monitor_next(socket->monitor); event != 0; event = monitor_next(socket->monitor))
        socket->lost = (event & LOSSES) != 0;
    *ret_mended = lost_before && socket->lost;
    if (!*ret_mended) return STATUS_OK;
    socket->lost = false;
    zmq_disconnect(socket->socket, socket->endpoint); /* removes what is left of the old connection */
    FAIL_IF(zmq_connect(socket->socket, socket->endpoint) != 0, err, STATUS_IO, "%s cannot be connected to again: %s",
            socket->endpoint, zmq_strerror(errno));
    return STATUS_OK;
}

enum status transport_mend(struct transport *transport, int *ret_count, struct err *err) {
    int count = 0;
    for (int i = 0; i < transport->count; i++) {
        bool mended = false;
        if (transport->sockets[i]->monitor != NULL) TRY(mend(transport->sockets[i], &mended, err));
        count += mended;
    }
    *ret_count = count;
    return STATUS_OK;
}

/* Listens under the name again. The old listener stays until the socket is closed: to unbind it would remove the new
 * file, since it has the old one's name. Connections that exist go on. */
static enum status bind_again(struct transport_socket *socket, bool *ret_bound, struct err *err) {
    struct stat info;
    const char *path = socket->endpoint + strlen("ipc://");
    if (lstat(path, &info) == 0 || errno != ENOENT) return STATUS_OK;
    TRY(check_folder(socket->endpoint, err));
    FAIL_IF(zmq_bind(socket->socket, socket->endpoint) != 0, err, status_of_writing(errno),
            "%s was deleted and cannot be bound again: %s", socket->endpoint, zmq_strerror(errno));
    *ret_bound = true;
    return STATUS_OK;
}

enum status transport_bind_again(struct transport *transport, int *ret_count, struct err *err) {
    int count = 0;
    for (int i = 0; i < transport->count; i++) {
        struct transport_socket *socket = transport->sockets[i];
        bool bound = false;
        if (socket->binds && strncmp(socket->endpoint, "ipc://", 6) == 0) TRY(bind_again(socket, &bound, err));
        count += bound;
    }
    *ret_count = count;
    return STATUS_OK;
}

long long transport_refused(struct transport *transport) {
    return transport->guard != NULL ? guard_refused(transport->guard) : 0;
}

enum status transport_poll(struct transport_wait *waits, size_t count, int milliseconds, struct err *err) {
    zmq_pollitem_t items[SOCKETS_MAX];
    FAIL_IF(count > SOCKETS_MAX, err, STATUS_BAD_STATE, "more than %d sockets", SOCKETS_MAX);
    for (size_t i = 0; i < count; i++) {
        waits[i].ready = false;
        items[i] = (zmq_pollitem_t){.socket = waits[i].socket != NULL ? waits[i].socket->socket : NULL,
                                    .fd = waits[i].descriptor,
                                    .events = waits[i].for_sending ? ZMQ_POLLOUT : ZMQ_POLLIN};
    }
    int result = zmq_poll(items, (int)count, milliseconds);
    FAIL_IF(result < 0 && errno != EINTR, err, STATUS_IO, "the sockets cannot be waited for: %s", zmq_strerror(errno));
    for (size_t i = 0; result > 0 && i < count; i++)
        waits[i].ready = (items[i].revents & items[i].events) != 0;
    return STATUS_OK;
}
