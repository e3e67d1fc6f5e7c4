/* Requests and the answers of handlers. Nothing here knows of sockets: http_server.c moves the bytes.
 *
 * Handlers, views, alarms and metrics all run on one thread, the house thread. Whatever stands behind a handler needs
 * no lock. A handler must not wait: while it works, nobody else is served. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_SERVE_HTTP_H
#define ICESTREAM_PIPELINES_LAUNCHER_SERVE_HTTP_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

enum {
    HTTP_PATH_SIZE = 1024, /* bytes of a path and of all values of a query, decoded */
    HTTP_WORDS = 4,        /* parts of a path that stand for '*' */
    HTTP_PAIRS = 8,        /* values of a query */
    HTTP_HEADERS = 4,      /* headers that a handler may add */
    HTTP_BODY_MAX = 64 << 10
};

enum http_method { HTTP_GET, HTTP_POST };

/* The right that a route asks for. */
enum http_may {
    HTTP_ANYONE,  /* no token is asked for; no answer may tell of a session */
    HTTP_VIEW,    /* with either token */
    HTTP_CONTROL, /* with the token; not with the one that may only look */
    HTTP_MEASURE  /* as HTTP_VIEW; anyone with --metrics-open */
};

struct facility;
struct http_pair {
    const char *key, *value;
};

struct http_request {
    enum http_method method;
    const char *path;              /* decoded, from '/'; without "." and ".." */
    const char *words[HTTP_WORDS]; /* what stands in the path for each '*' of the route; never empty, without '/' */
    struct http_pair pairs[HTTP_PAIRS]; /* of the query, decoded */
    size_t pair_count;
    const json_t *json;        /* body of a POST, an object; NULL for a GET */
    const char *peer;          /* who asks, for the history: an address, or "uid 1000" at a socket */
    const char *last_id;       /* Last-Event-ID; "": none */
    bool may_control;          /* the token allows it */
    struct facility *facility; /* of `serve --sessions`; NULL: one session is served */
};

/* Returns a value of the query, or NULL. */
const char *http_query(const struct http_request *request, const char *key);
/* Reads a whole number within [least, most] out of a text such as request->words[0]. NOT_FOUND, so that the answer is
 * 404, when the text is none. */
enum status http_number(const char *text, int64_t least, int64_t most, int64_t *ret_number, struct err *err);
/* As http_number for a value of the query; `fallback` when the query lacks the key. BAD_ARGUMENT otherwise. */
enum status http_query_number(const struct http_request *request, const char *key, int64_t least, int64_t most,
                              int64_t fallback, int64_t *ret_number, struct err *err);

enum http_cache {
    HTTP_NO_STORE, /* dynamic */
    HTTP_TAGGED,   /* kept, and asked for again with its tag */
    HTTP_IMMUTABLE /* kept for good: the query's h names the content */
};

/* Filled by a handler. All zero: 200 without a body. */
struct http_answer {
    int code;             /* 0: 200 */
    const char *type;     /* static text; NULL: none */
    char *bytes;          /* owned, from malloc */
    const void *borrowed; /* instead of bytes: lives as long as the program */
    size_t length;
    int descriptor; /* of a file, owned: file_length bytes from its begin; valid when is_file */
    int64_t file_length;
    bool is_file;
    bool squeezed; /* the bytes are gzip already */
    bool stream;   /* server-sent events follow; set by the handler of /api/events alone */
    enum http_cache cache;
    char tag[40]; /* of HTTP_TAGGED */
    struct {
        const char *name; /* static text */
        char value[256];
    } headers[HTTP_HEADERS];
    size_t header_count;
};

/* Answers with JSON. Steals the reference, also on failure; NULL is NO_MEMORY. */
enum status http_answer_json(struct http_answer *answer, json_t *json, struct err *err);
/* Answers with bytes from malloc, which the answer owns from now on. */
void http_answer_bytes(struct http_answer *answer, const char *type, void *bytes, size_t length);
/* Answers with a copy of a text. */
enum status http_answer_text(struct http_answer *answer, const char *type, const char *text, struct err *err);
/* Answers with a whole regular file, as serve_open_beneath opens it. The answer owns the descriptor from now on. */
void http_answer_file(struct http_answer *answer, const char *type, int descriptor, int64_t length);
/* Adds a header. name: static text. The value is printable ASCII, at most 255 bytes. */
enum status http_answer_header(struct http_answer *answer, const char *name, const char *value, struct err *err);
/* Replaces the answer by {"v": 1, "ok": false, "message": …}. */
void http_answer_error(struct http_answer *answer, int code, const char *message);
/* Frees what the answer holds. */
void http_answer_clear(struct http_answer *answer);

/* The code for a handler's failure: NOT_FOUND 404, BAD_ARGUMENT 400, REJECTED 403, BAD_STATE 409, UNSUPPORTED 501,
 * UNAVAILABLE 503, others 500. */
int http_code(enum status status);

struct serve;
/* Answers one request. On failure the message of err becomes the answer, with the code of the status. */
typedef enum status http_handler(struct serve *serve, const struct http_request *request, struct http_answer *answer,
                                 struct err *err);

struct http_route {
    enum http_method method;
    const char *pattern; /* "/api/item/N" is written with an asterisk for N: it stands for one part of a path */
    http_handler *handler;
    enum http_may may;
};

/* routes.c: the constant table of all endpoints, ended by a row without pattern. */
extern const struct http_route http_routes[];
/* The endpoints of `serve --sessions` outside a session; their handlers get no serve. */
extern const struct http_route facility_routes[];
/* Finds the route of a path, and the words that stand for its '*'; these point into `path`, which is cut into parts.
 * NULL with *ret_known: the path is known, with another method. A path of a whole session has no prefix any more. */
const struct http_route *http_route_find(const struct http_route *routes, enum http_method method, char *path,
                                         const char *words[HTTP_WORDS], bool *ret_known);

#endif
