#include "pipelines/launcher/serve/guard.h"

#include <string.h>
#include <strings.h>

static const double BAD_WITHIN = 60, BAD_DELAY = 1; /* s */

/* A page of another name that leads to this address (DNS rebinding) shows here: browsers send the name. Tunnels change
 * the port, so any will do. */
static bool is_own_name(const struct guard *guard, const char *host) {
    static const char *const own[] = {"localhost", "127.0.0.1", "::1"};
    char name[256];
    if (!target_host(host, name, sizeof name)) return false;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (strcmp(name, own[i]) == 0) return true;
    for (size_t i = 0; i < guard->host_count; i++)
        if (strcasecmp(name, guard->hosts[i]) == 0) return true;
    return false;
}

static enum guard_right right_of(const struct guard *guard, const char *token) {
    /* Both are compared, whatever the first says. */
    bool control = target_equal(token, guard->token), view = target_equal(token, guard->view_token);
    if (control && guard->token[0] != '\0') return GUARD_CONTROL;
    return view && guard->view_token[0] != '\0' ? GUARD_VIEW : GUARD_NOTHING;
}

/* Notes a bad token. Returns for how long its answer waits. */
static double note_bad(struct guard *guard, double now) {
    double *oldest = &guard->bad[guard->bad_next++ % GUARD_TRIES];
    bool many = *oldest > 0 && now - *oldest < BAD_WITHIN;
    *oldest = now;
    return many ? BAD_DELAY : 0;
}

struct guard_verdict guard_enter(struct guard *guard, const struct http_raw *raw, const struct target *target,
                                 double now) {
    char token[256] = "";
    if (!is_own_name(guard, raw->host))
        return (struct guard_verdict){.code = 403, .message = "this is not a name of this server (--host adds one)"};
    const char *query = NULL;
    for (size_t i = 0; i < target->pair_count; i++)
        if (strcmp(target->pairs[i].key, "token") == 0) query = target->pairs[i].value;
    bool given = true;
    enum guard_right right = GUARD_NOTHING;
    if (query != NULL)
        right = right_of(guard, query);
    else if (target_bearer(raw->authorization, token, sizeof token) ||
             target_cookie(raw->cookie, guard->cookie, token, sizeof token))
        right = right_of(guard, token);
    else
        given = false;
    explicit_bzero(token, sizeof token);
    size_t length = strlen(target->path);
    struct guard_verdict verdict = {.right = right};
    if (right == GUARD_NOTHING && given) verdict.delay = note_bad(guard, now);
    if (right != GUARD_NOTHING && query != NULL && strcmp(raw->method, "GET") == 0 && target->path[length - 1] == '/')
        verdict.code = 303;
    return verdict;
}

int guard_allow(const struct guard *guard, enum guard_right right, const struct http_raw *raw, enum http_method method,
                enum http_may may, const char **ret_message) {
    bool open = may == HTTP_ANYONE || (may == HTTP_MEASURE && guard->metrics_open);
    *ret_message = "a token is needed: open the address that icestream serve printed";
    if (!open && right == GUARD_NOTHING) return 401;
    *ret_message = "the token of this page may only look";
    if (may == HTTP_CONTROL && right != GUARD_CONTROL) return 403;
    if (method == HTTP_GET) return 0;
    /* Another page can send a form here with the cookie, but neither JSON nor this header, and it names its origin. */
    *ret_message = "Content-Type: application/json and X-Icestream: 1 are needed";
    size_t type = strcspn(raw->type, "; ");
    if (type != strlen("application/json") || strncasecmp(raw->type, "application/json", type) != 0) return 415;
    if (strcmp(raw->mark, "1") != 0) return 403;
    *ret_message = "another page asked for this";
    if (raw->origin[0] != '\0' && !target_same_origin(raw->origin, raw->host)) return 403;
    if (raw->site[0] != '\0' && strcmp(raw->site, "same-origin") != 0 && strcmp(raw->site, "none") != 0) return 403;
    return 0;
}
