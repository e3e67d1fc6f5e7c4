#include "pipelines/launcher/run/listeners.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/files.h"
#include "common/memory.h"

/* Connections that wait while the instance is away: each receiver has one, and tries again twice a minute. */
enum { BACKLOG = 1024 };

struct listeners {
    struct sockaddr_in address; /* with port 0 */
    char host[INET_ADDRSTRLEN];
    struct listener *list;
    size_t count, capacity;
};

enum status listeners_create(const char *address, struct listeners **ret_listeners, struct err *err) {
    _cleanup_(mem_free) struct listeners *listeners = NULL;
    TRY(mem_new(1, sizeof *listeners, "listening sockets", &listeners, err));
    listeners->address.sin_family = AF_INET;
    FAIL_IF(inet_pton(AF_INET, address, &listeners->address.sin_addr) != 1, err, STATUS_BAD_ARGUMENT,
            "'%s' is not the address of a host, such as 192.168.1.5", address);
    snprintf(listeners->host, sizeof listeners->host, "%s", address);
    *ret_listeners = listeners;
    listeners = NULL;
    return STATUS_OK;
}

static void close_listener(struct listener *listener) {
    file_close(&listener->data_descriptor);
    file_close(&listener->ack_descriptor);
    free(listener->edge);
}

void listeners_destroy(struct listeners **listeners) {
    if (*listeners == NULL) return;
    for (size_t i = 0; i < (*listeners)->count; i++)
        close_listener(&(*listeners)->list[i]);
    free((*listeners)->list);
    mem_free(listeners);
}

/* Binds a socket to a port that the system chooses. With SO_REUSEADDR on both, another socket may bind a port whose
 * keeper does not listen; the system itself gives the port to nobody. A socket that listens must not block: a connection
 * may be gone by the time that it is accepted. */
static enum status bind_one(const struct listeners *listeners, bool listens, char *endpoint, int *ret_descriptor,
                            struct err *err) {
    _cleanup_(file_close) int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    FAIL_IF(descriptor < 0, err, status_of_writing(errno), "no socket for an edge: %s", strerror(errno));
    struct sockaddr_in address = listeners->address;
    socklen_t length = sizeof address;
    int yes = 1;
    if (setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        bind(descriptor, (struct sockaddr *)&address, length) != 0 || (listens && listen(descriptor, BACKLOG) != 0) ||
        getsockname(descriptor, (struct sockaddr *)&address, &length) != 0) {
        enum status status = errno == EADDRNOTAVAIL ? STATUS_BAD_ARGUMENT : STATUS_UNAVAILABLE;
        FAIL(err, status, "no port of %s can be had: %s%s", listeners->host, strerror(errno),
             status == STATUS_BAD_ARGUMENT ? "; it must be an address of this host" : "");
    }
    snprintf(endpoint, LISTENERS_ENDPOINT_SIZE, "tcp://%s:%d", listeners->host, ntohs(address.sin_port));
    *ret_descriptor = descriptor;
    descriptor = -1;
    return STATUS_OK;
}

static enum status make_room(struct listeners *listeners, struct err *err) {
    if (listeners->count < listeners->capacity) return STATUS_OK;
    size_t capacity = 2 * listeners->capacity + 8;
    struct listener *list = realloc(listeners->list, capacity * sizeof *list);
    FAIL_IF(list == NULL, err, STATUS_NO_MEMORY, "no memory for the listening sockets");
    listeners->list = list;
    listeners->capacity = capacity;
    return STATUS_OK;
}

static struct listener *find(const struct listeners *listeners, const char *edge) {
    for (size_t i = 0; i < listeners->count; i++)
        if (strcmp(listeners->list[i].edge, edge) == 0) return &listeners->list[i];
    return NULL;
}

const struct listener *listeners_find(const struct listeners *listeners, const char *edge) {
    return find(listeners, edge);
}

enum status listeners_open(struct listeners *listeners, const char *edge, bool handed,
                           const struct listener **ret_listener, struct err *err) {
    const struct listener *known = find(listeners, edge);
    if (known == NULL) {
        TRY(make_room(listeners, err));
        struct listener listener = {.data_descriptor = -1, .ack_descriptor = -1, .handed = handed};
        listener.edge = strdup(edge);
        enum status status = listener.edge != NULL ? STATUS_OK
                                                   : err_set(err, STATUS_NO_MEMORY, __FILE__, __LINE__,
                                                             "no memory for the listening sockets");
        if (status == STATUS_OK) status = bind_one(listeners, handed, listener.data, &listener.data_descriptor, err);
        if (status == STATUS_OK) status = bind_one(listeners, handed, listener.ack, &listener.ack_descriptor, err);
        if (status != STATUS_OK) {
            close_listener(&listener);
            return status;
        }
        listeners->list[listeners->count] = listener;
        known = &listeners->list[listeners->count++];
    }
    *ret_listener = known;
    return STATUS_OK;
}

/* The name of an edge is that of its instance, ">", and the stage to which it leads. */
static bool leaves(const struct listener *listener, const char *instance) {
    size_t length = strlen(instance);
    return strncmp(listener->edge, instance, length) == 0 && listener->edge[length] == '>';
}

void listeners_close(struct listeners *listeners, const char *instance) {
    size_t kept = 0;
    for (size_t i = 0; i < listeners->count; i++)
        if (leaves(&listeners->list[i], instance))
            close_listener(&listeners->list[i]);
        else
            listeners->list[kept++] = listeners->list[i];
    listeners->count = kept;
}

static bool fill(const struct listener *listener, json_t *output) {
    bool well = json_object_set_new(output, "data", json_string(listener->data)) == 0 &&
                json_object_set_new(output, "ack", json_string(listener->ack)) == 0;
    if (!well || !listener->handed) return well;
    return json_object_set_new(output, "data_descriptor", json_integer(listener->data_descriptor)) == 0 &&
           json_object_set_new(output, "ack_descriptor", json_integer(listener->ack_descriptor)) == 0;
}

enum status listeners_fill(const struct listeners *listeners, json_t *orders, struct err *err) {
    size_t i;
    json_t *output;
    json_array_foreach(json_object_get(orders, "outputs"), i, output) {
        const char *edge = json_string_value(json_object_get(output, "edge"));
        const struct listener *listener = edge != NULL ? find(listeners, edge) : NULL;
        FAIL_IF(listener != NULL && !fill(listener, output), err, STATUS_NO_MEMORY, "no memory for the endpoints of %s",
                edge);
    }
    return STATUS_OK;
}

void listeners_hand_over(const struct listeners *listeners, const char *instance) {
    for (size_t i = 0; i < listeners->count; i++) {
        const struct listener *listener = &listeners->list[i];
        if (!listener->handed || !leaves(listener, instance)) continue;
        (void)fcntl(listener->data_descriptor, F_SETFD, 0);
        (void)fcntl(listener->ack_descriptor, F_SETFD, 0);
    }
}
