/* Decides who may ask what: names of this server, tokens, and rules for what changes something. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_SERVE_GUARD_H
#define ICESTREAM_PIPELINES_LAUNCHER_SERVE_GUARD_H

#include "pipelines/launcher/serve/http_server.h"
#include "pipelines/launcher/serve/target.h"
#include "pipelines/launcher/serve/token.h"

enum { GUARD_TRIES = 5 };

struct guard {
    char token[TOKEN_SIZE], view_token[TOKEN_SIZE]; /* view_token "": none */
    char cookie[48];                                /* name of the cookie: cookies know no ports */
    const char *const *hosts;                       /* further names of this server */
    size_t host_count;
    bool metrics_open;
    double bad[GUARD_TRIES]; /* s: when the last bad tokens came */
    size_t bad_next;
};

enum guard_right { GUARD_NOTHING, GUARD_VIEW, GUARD_CONTROL };

struct guard_verdict {
    enum guard_right right;
    int code; /* 0: go on; 303: the token of the query is right and becomes a cookie; else the answer's code */
    const char *message; /* static text, for codes from 400 on */
    double delay;        /* s before the answer is sent */
};

/* Judges the name that was asked for, and the token. now: s of clock_monotonic. 403: not a name of this server. right
 * GUARD_NOTHING without a code: no token, or a bad one. */
struct guard_verdict guard_enter(struct guard *guard, const struct http_raw *raw, const struct target *target,
                                 double now);
/* Judges whether this right is enough for a route, and for what changes something whether the page itself asks: JSON,
 * the header X-Icestream, the same origin. Returns the code, 0: yes. */
int guard_allow(const struct guard *guard, enum guard_right right, const struct http_raw *raw, enum http_method method,
                enum http_may may, const char **ret_message);

#endif
