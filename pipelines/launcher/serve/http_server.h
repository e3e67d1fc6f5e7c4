/* Moves bytes between sockets and the house thread. http_server.c does it with libmicrohttpd: its one thread reads
 * requests, queues them and sends answers, and knows nothing of sessions. http_none.c stands in where icestream was
 * built without that library. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_SERVE_HTTP_SERVER_H
#define ICESTREAM_PIPELINES_LAUNCHER_SERVE_HTTP_SERVER_H

#include "pipelines/launcher/serve/events.h"
#include "pipelines/launcher/serve/http.h"

enum {
    HTTP_CONNECTIONS = 64, /* at once */
    HTTP_STREAMS = 16,     /* of these: with server-sent events */
    HTTP_PATIENCE = 30     /* s for a whole request, and for any progress of an answer */
};

/* A request as it came. Headers that are missing are "". All texts live until it is answered. */
struct http_raw {
    const char *method, *target;
    const char *host, *origin, *site, *cookie, *authorization, *type,
        *mark;                             /* site: Sec-Fetch-Site; mark: X-Icestream */
    const char *encodings, *tag, *last_id; /* Accept-Encoding, If-None-Match, Last-Event-ID */
    const char *peer;                      /* an address, or "uid 1000" */
    const char *body;
    size_t body_length;
    int too_long_code; /* of a target, header or body that is too long: 414, 431 or 413; else 0 */
};

struct http_server;
struct http_exchange; /* one request that waits for its answer */

/* Returns whether this build can serve. */
bool http_server_is_there(void);
/* Begins to serve a listening socket, which the server owns from now on, also on failure. UNSUPPORTED: built without
 * the library. */
enum status http_server_start(int listener, struct http_server **ret_server, struct err *err);
/* Answers what waits with 503, ends all streams, and frees the server; accepts NULL. */
void http_server_stop(struct http_server **server);
/* Returns a descriptor that is readable while requests wait. */
int http_server_descriptor(const struct http_server *server);
/* Returns the next request that waits, or NULL. */
struct http_exchange *http_server_next(struct http_server *server);
const struct http_raw *http_exchange_raw(const struct http_exchange *exchange);
/* Sends the answer, which is empty afterwards, and frees the exchange. events: what a stream sends; else NULL. With too
 * many streams the answer is 503. */
void http_server_answer(struct http_server *server, struct http_exchange *exchange, struct http_answer *answer,
                        struct events *events);
/* Wakes the streams: something was published. */
void http_server_wake(struct http_server *server);
/* Ends the streams of these events, before they are freed. */
void http_server_forget(struct http_server *server, const struct events *events);
/* Closes connections that have been too slow. now: of clock_monotonic. Call it once a second or so. */
void http_server_sweep(struct http_server *server, double now);
/* Returns how many streams there are, of all events or of some. */
int http_server_streams(struct http_server *server, const struct events *events);

#endif
