/* Declarations that the files around libmicrohttpd share. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_SERVE_HTTP_SERVER_PRIVATE_H
#define ICESTREAM_PIPELINES_LAUNCHER_SERVE_HTTP_SERVER_PRIVATE_H

#include <microhttpd.h>
#include <pthread.h>

#include "pipelines/launcher/serve/http_server.h"

enum {
    HTTP_TEXT_SIZE = 8 << 10,    /* of the target and all headers that are read */
    HTTP_TARGET_MAX = 2 << 10,   /* bytes of a target */
    HTTP_HEADER_MAX = 16 << 10,  /* of all headers, which libmicrohttpd keeps */
    HTTP_BODY_GIVEN_UP = 2 << 20 /* bytes of a body after which nobody reads on */
};

/* One connection, from accept to close. */
struct http_wire {
    int descriptor;
    bool used;
    bool closed;  /* shut down here; the library is about to notice */
    bool busy;    /* a whole request was read and its answer is not sent yet */
    double since; /* of clock_monotonic: when it was opened, or its last answer ended */
};

enum http_phase { PHASE_HEADERS, PHASE_BODY, PHASE_QUEUED, PHASE_ANSWERED };

struct http_exchange {
    struct http_server *server;
    struct MHD_Connection *connection;
    struct http_wire *wire;
    struct http_exchange *next; /* in the queue */
    enum http_phase phase;
    struct http_raw raw;
    struct http_answer answer;
    char text[HTTP_TEXT_SIZE];
    size_t text_length;
    char *body;
    size_t body_seen;
    char peer[64];
    /* A stream. */
    struct events *events;
    struct events_place place;
    bool suspended, ended;
    bool beat;                                 /* a comment is due */
    double moved;                              /* of clock_monotonic: when it last took bytes */
    struct http_exchange *streams, **streamed; /* the list of streams; and what points here */
};

struct http_server {
    struct MHD_Daemon *daemon;
    pthread_mutex_t lock; /* for all below, and for phase, suspended and ended of each exchange */
    int wake;             /* eventfd: readable while requests wait */
    struct http_exchange *first, **last;
    struct http_exchange *streams;
    struct http_wire wires[HTTP_CONNECTIONS];
    double beaten; /* of clock_monotonic: when the streams last got a comment */
    bool closing;
};

/* http_respond.c: sends the answer of an exchange. */
enum MHD_Result http_respond(struct http_exchange *exchange);
/* http_respond.c: compresses the answer of an exchange if the client can read that. */
void http_squeeze(struct http_exchange *exchange);
/* http_request.c: copies the headers. False: they are too long. */
bool http_take_headers(struct http_exchange *exchange);

#endif
