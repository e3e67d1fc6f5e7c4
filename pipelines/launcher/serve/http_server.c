/* The server around libmicrohttpd: one thread of the library's own, which reads requests and sends answers. */
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "pipelines/launcher/serve/http_server_private.h"

enum { WIRES = HTTP_CONNECTIONS, WIRES_SPARE = 8 };
static const double BEAT = 15; /* s between comments to a quiet stream, by which dead ones are found */

bool http_server_is_there(void) {
    return true;
}

static void signal_house(struct http_server *server) {
    uint64_t one = 1;
    /* A full counter is readable all the same. */
    if (write(server->wake, &one, sizeof one) < 0) return;
}

/* ---- Connections ---- */

/* Closes the connection that has waited longest without a whole request, so that others get in. */
static void make_room(struct http_server *server) {
    struct http_wire *oldest = NULL;
    int used = 0;
    for (size_t i = 0; i < WIRES; i++) {
        struct http_wire *wire = &server->wires[i];
        used += wire->used;
        if (wire->used && !wire->busy && !wire->closed && (oldest == NULL || wire->since < oldest->since))
            oldest = wire;
        used -= wire->used && wire->closed;
    }
    if (used <= WIRES - WIRES_SPARE || oldest == NULL) return;
    oldest->closed = true;
    shutdown(oldest->descriptor, SHUT_RDWR);
}

static void on_connection(void *context, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode what) {
    struct http_server *server = context;
    pthread_mutex_lock(&server->lock);
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        make_room(server);
        for (size_t i = 0; i < WIRES && *socket_context == NULL; i++)
            if (!server->wires[i].used) {
                server->wires[i] = (struct http_wire){
                    .used = true, .descriptor = info != NULL ? info->connect_fd : -1, .since = clock_monotonic()};
                *socket_context = &server->wires[i];
            }
    } else if (*socket_context != NULL) {
        ((struct http_wire *)*socket_context)->used = false;
        *socket_context = NULL;
    }
    pthread_mutex_unlock(&server->lock);
}

static struct http_wire *wire_of(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info != NULL ? info->socket_context : NULL;
}

void http_server_sweep(struct http_server *server, double now) {
    pthread_mutex_lock(&server->lock);
    for (size_t i = 0; i < WIRES; i++) {
        struct http_wire *wire = &server->wires[i];
        if (!wire->used || wire->closed || wire->busy || now - wire->since < HTTP_PATIENCE) continue;
        wire->closed = true;
        shutdown(wire->descriptor, SHUT_RDWR);
    }
    bool beat = now - server->beaten >= BEAT;
    if (beat) server->beaten = now;
    for (struct http_exchange *stream = server->streams; stream != NULL; stream = stream->streams) {
        /* A stream that takes nothing, though there was something every BEAT seconds, is dead. */
        if (now - stream->moved > 4 * BEAT && stream->wire != NULL && !stream->wire->closed) {
            stream->wire->closed = true;
            shutdown(stream->wire->descriptor, SHUT_RDWR);
        }
        if (!beat) continue;
        stream->beat = true;
        if (stream->suspended) MHD_resume_connection(stream->connection);
        stream->suspended = false;
    }
    pthread_mutex_unlock(&server->lock);
}

/* ---- Requests ---- */

/* Called with the target as it came, before anything of it is read. Returns what the library hands to on_request. */
static void *on_target(void *context, const char *target, struct MHD_Connection *connection) {
    struct http_exchange *exchange = calloc(1, sizeof *exchange);
    if (exchange == NULL) return NULL;
    exchange->server = context;
    exchange->connection = connection;
    exchange->wire = wire_of(connection);
    exchange->raw.body = "";
    exchange->raw.target = "";
    size_t length = strlen(target) + 1;
    if (length > HTTP_TARGET_MAX) {
        exchange->raw.too_long_code = MHD_HTTP_URI_TOO_LONG;
    } else {
        memcpy(exchange->text, target, length);
        exchange->raw.target = exchange->text;
        exchange->text_length = length;
    }
    return exchange;
}

static void unlink_stream(struct http_exchange *exchange) {
    if (exchange->streamed == NULL) return;
    *exchange->streamed = exchange->streams;
    if (exchange->streams != NULL) exchange->streams->streamed = exchange->streamed;
    exchange->streamed = NULL;
}

static void on_completed(void *context, struct MHD_Connection *connection, void **request,
                         enum MHD_RequestTerminationCode how) {
    struct http_server *server = context;
    struct http_exchange *exchange = *request;
    (void)connection;
    (void)how;
    if (exchange == NULL) return;
    *request = NULL;
    pthread_mutex_lock(&server->lock);
    if (exchange->phase == PHASE_ANSWERED) unlink_stream(exchange);
    if (exchange->wire != NULL) {
        exchange->wire->busy = false;
        exchange->wire->since = clock_monotonic();
    }
    pthread_mutex_unlock(&server->lock);
    http_answer_clear(&exchange->answer);
    free(exchange->body);
    free(exchange);
}

/* Takes a piece of a body. False: nobody reads on. */
static bool take_body(struct http_exchange *exchange, const char *bytes, size_t length) {
    exchange->body_seen += length;
    if (exchange->body_seen > HTTP_BODY_MAX && exchange->raw.too_long_code == 0)
        exchange->raw.too_long_code = MHD_HTTP_CONTENT_TOO_LARGE;
    if (exchange->raw.too_long_code != 0) return exchange->body_seen <= HTTP_BODY_GIVEN_UP;
    if (exchange->body == NULL) exchange->body = malloc(HTTP_BODY_MAX + 1);
    if (exchange->body == NULL) return false;
    memcpy(exchange->body + exchange->raw.body_length, bytes, length);
    exchange->raw.body_length += length;
    exchange->body[exchange->raw.body_length] = '\0';
    exchange->raw.body = exchange->body;
    return true;
}

/* Answers at once what is too long, before its body comes. */
static enum MHD_Result refuse(struct http_exchange *exchange, int code) {
    http_answer_error(&exchange->answer, code, "the request is too long");
    (void)http_answer_header(&exchange->answer, "Connection", "close", NULL);
    return http_respond(exchange);
}

static enum MHD_Result begin(struct http_exchange *exchange, const char *method) {
    const char *length =
        MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    exchange->phase = PHASE_BODY;
    exchange->raw.method = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0 ? "GET"
                           : strcmp(method, "POST") == 0                             ? "POST"
                                                                                     : "";
    if (!http_take_headers(exchange)) exchange->raw.too_long_code = MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE;
    if (length != NULL && strtoull(length, NULL, 10) > HTTP_BODY_MAX)
        exchange->raw.too_long_code = MHD_HTTP_CONTENT_TOO_LARGE;
    if (exchange->raw.too_long_code != 0) return refuse(exchange, exchange->raw.too_long_code);
    return MHD_YES;
}

static enum MHD_Result enqueue(struct http_exchange *exchange) {
    struct http_server *server = exchange->server;
    pthread_mutex_lock(&server->lock);
    bool closing = server->closing;
    if (!closing) {
        exchange->phase = PHASE_QUEUED;
        if (exchange->wire != NULL) exchange->wire->busy = true;
        exchange->next = NULL;
        *server->last = exchange;
        server->last = &exchange->next;
        MHD_suspend_connection(exchange->connection);
        signal_house(server);
    }
    pthread_mutex_unlock(&server->lock);
    return closing ? MHD_NO : MHD_YES;
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *body, size_t *length, void **request) {
    struct http_exchange *exchange = *request;
    (void)context;
    (void)connection;
    (void)url;
    (void)version;
    if (exchange == NULL) return MHD_NO;
    if (exchange->phase == PHASE_HEADERS) return begin(exchange, method);
    if (*length > 0) {
        bool well = take_body(exchange, body, *length);
        *length = 0;
        return well ? MHD_YES : MHD_NO;
    }
    if (exchange->phase == PHASE_ANSWERED) return http_respond(exchange);
    if (exchange->phase != PHASE_BODY) return MHD_NO;
    if (exchange->raw.too_long_code != 0) return refuse(exchange, exchange->raw.too_long_code);
    return enqueue(exchange);
}

struct http_exchange *http_server_next(struct http_server *server) {
    uint64_t count;
    if (read(server->wake, &count, sizeof count) < 0) count = 0;
    pthread_mutex_lock(&server->lock);
    struct http_exchange *exchange = server->first;
    if (exchange != NULL) {
        server->first = exchange->next;
        if (server->first == NULL) server->last = &server->first;
        if (server->first != NULL) signal_house(server);
    }
    pthread_mutex_unlock(&server->lock);
    return exchange;
}

const struct http_raw *http_exchange_raw(const struct http_exchange *exchange) {
    return &exchange->raw;
}

/* ---- Answers ---- */

static int count_streams(const struct http_server *server, const struct events *events) {
    int count = 0;
    for (const struct http_exchange *stream = server->streams; stream != NULL; stream = stream->streams)
        count += events == NULL || stream->events == events;
    return count;
}

int http_server_streams(struct http_server *server, const struct events *events) {
    pthread_mutex_lock(&server->lock);
    int count = count_streams(server, events);
    pthread_mutex_unlock(&server->lock);
    return count;
}

void http_server_answer(struct http_server *server, struct http_exchange *exchange, struct http_answer *answer,
                        struct events *events) {
    exchange->answer = *answer;
    *answer = (struct http_answer){0};
    http_squeeze(exchange);
    pthread_mutex_lock(&server->lock);
    if (exchange->answer.stream && count_streams(server, NULL) >= HTTP_STREAMS)
        http_answer_error(&exchange->answer, MHD_HTTP_SERVICE_UNAVAILABLE,
                          "too many pages follow this session; the page asks now and then instead");
    if (exchange->answer.stream) {
        exchange->events = events;
        events_begin(events, exchange->raw.last_id, &exchange->place);
        exchange->moved = clock_monotonic();
        exchange->streams = server->streams;
        exchange->streamed = &server->streams;
        if (server->streams != NULL) server->streams->streamed = &exchange->streams;
        server->streams = exchange;
        MHD_set_connection_option(exchange->connection, MHD_CONNECTION_OPTION_TIMEOUT, 0u);
    }
    exchange->phase = PHASE_ANSWERED;
    MHD_resume_connection(exchange->connection);
    pthread_mutex_unlock(&server->lock);
}

static void wake_streams(struct http_server *server) {
    for (struct http_exchange *stream = server->streams; stream != NULL; stream = stream->streams) {
        if (stream->suspended) MHD_resume_connection(stream->connection);
        stream->suspended = false;
    }
}

void http_server_wake(struct http_server *server) {
    pthread_mutex_lock(&server->lock);
    wake_streams(server);
    pthread_mutex_unlock(&server->lock);
}

void http_server_forget(struct http_server *server, const struct events *events) {
    pthread_mutex_lock(&server->lock);
    for (struct http_exchange *stream = server->streams; stream != NULL; stream = stream->streams)
        if (stream->events == events) stream->ended = true;
    wake_streams(server);
    pthread_mutex_unlock(&server->lock);
}

/* ---- Begin and end ---- */

/* The library tells of clients that break the protocol; nobody needs to know. */
static void on_log(void *context, const char *format, va_list arguments) {
    (void)context;
    (void)format;
    (void)arguments;
}

enum status http_server_start(int listener, struct http_server **ret_server, struct err *err) {
    struct http_server *server = calloc(1, sizeof *server);
    if (server != NULL) server->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (server == NULL || server->wake < 0) {
        free(server);
        close(listener);
        FAIL(err, STATUS_NO_MEMORY, "no memory for the server");
    }
    server->last = &server->first;
    server->beaten = clock_monotonic();
    pthread_mutex_init(&server->lock, NULL);
    server->daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL, on_request, server,
        MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL, MHD_OPTION_LISTEN_SOCKET, listener, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)HTTP_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)HTTP_PATIENCE,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_HEADER_MAX, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_URI_LOG_CALLBACK, on_target, server, MHD_OPTION_NOTIFY_COMPLETED, on_completed, server,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_END);
    if (server->daemon == NULL) {
        close(listener);
        close(server->wake);
        pthread_mutex_destroy(&server->lock);
        free(server);
        FAIL(err, STATUS_IO, "the server does not start: there may be no thread or no descriptor left");
    }
    *ret_server = server;
    return STATUS_OK;
}

void http_server_stop(struct http_server **server) {
    struct http_server *s = *server;
    if (s == NULL) return;
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    wake_streams(s);
    pthread_mutex_unlock(&s->lock);
    for (struct http_exchange *exchange; (exchange = http_server_next(s)) != NULL;) {
        struct http_answer answer = {0};
        http_answer_error(&answer, MHD_HTTP_SERVICE_UNAVAILABLE, "the server ends");
        http_server_answer(s, exchange, &answer, NULL);
    }
    MHD_stop_daemon(s->daemon);
    close(s->wake);
    pthread_mutex_destroy(&s->lock);
    free(s);
    *server = NULL;
}

int http_server_descriptor(const struct http_server *server) {
    return server->wake;
}
