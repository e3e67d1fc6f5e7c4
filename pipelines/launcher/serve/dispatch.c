/* From a request as it came to an answer: reads it, judges it, finds its handler. */
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "pipelines/launcher/serve/hub.h"

/* Writes a path as a header may hold it. False: it is too long. */
static bool encode(const char *path, char *out, size_t size) {
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
    size_t used = 0;
    for (; *path != '\0'; path++) {
        bool as_is = strchr(plain, *path) != NULL;
        if (used + (as_is ? 1 : 3) >= size) return false;
        if (as_is)
            out[used++] = *path;
        else
            used += (size_t)snprintf(out + used, size - used, "%%%02X", (unsigned char)*path);
    }
    out[used] = '\0';
    return true;
}

static void redirect(const char *path, const char *cookie, struct http_answer *answer) {
    char place[240];
    /* "//name" would be another server. */
    bool well = encode(path, place, sizeof place) && path[1] != '/' &&
                http_answer_header(answer, "Location", place, NULL) == STATUS_OK &&
                (cookie == NULL || http_answer_header(answer, "Set-Cookie", cookie, NULL) == STATUS_OK);
    answer->code = 303;
    if (!well) http_answer_error(answer, 400, "too long an address");
}

/* Turns the token of the query into a cookie, and leads to the address without it. */
static void welcome(const struct hub *hub, const struct target *target, enum guard_right right,
                    struct http_answer *answer) {
    char cookie[200];
    snprintf(cookie, sizeof cookie, "%s=%s; HttpOnly; SameSite=Strict; Path=/", hub->guard.cookie,
             right == GUARD_CONTROL ? hub->guard.token : hub->guard.view_token);
    redirect(target->path, cookie, answer);
    explicit_bzero(cookie, sizeof cookie);
}

/* Takes "/s/NAME" off the path and finds that session. Leaves the path as it is where it has no such begin. */
static enum status find_session(struct hub *hub, char **path, struct serve **ret_serve, struct err *err) {
    char *rest = *path + 3;
    *ret_serve = hub->serve;
    if (hub->facility == NULL || strncmp(*path, "/s/", 3) != 0 || *rest == '\0') return STATUS_OK;
    char *slash = strchr(rest, '/');
    FAIL_IF(slash == NULL, err, STATUS_NOT_FOUND, "a session's address ends with /");
    *slash = '\0';
    enum status status = facility_session(hub->facility, rest, ret_serve, err);
    *slash = '/';
    *path = slash;
    return status;
}

/* Reads the body of a POST. */
static enum status read_body(const struct http_raw *raw, json_t **ret_json, struct err *err) {
    json_error_t where;
    json_t *json = json_loadb(raw->body, raw->body_length, JSON_REJECT_DUPLICATES, &where);
    FAIL_IF(json == NULL, err, STATUS_BAD_ARGUMENT, "the body is no JSON: %s", where.text);
    if (!json_is_object(json)) {
        json_decref(json);
        FAIL(err, STATUS_BAD_ARGUMENT, "the body is no JSON object");
    }
    *ret_json = json;
    return STATUS_OK;
}

static void call(struct serve *serve, const struct http_route *route, struct http_request *request,
                 const struct http_raw *raw, struct http_answer *answer) {
    struct err err = {0};
    json_t *json = NULL;
    enum status status = route->method == HTTP_POST ? read_body(raw, &json, &err) : STATUS_OK;
    request->json = json;
    if (serve != NULL) {
        serve->now = clock_realtime();
        serve->now_monotonic = clock_monotonic();
        serve->requests++;
    }
    if (status == STATUS_OK) status = route->handler(serve, request, answer, &err);
    if (status != STATUS_OK) http_answer_error(answer, http_code(status), err.message);
    json_decref(json);
    if (answer->cache == HTTP_TAGGED && answer->tag[0] != '\0' && strcmp(answer->tag, raw->tag) == 0) {
        char tag[sizeof answer->tag];
        memcpy(tag, answer->tag, sizeof tag);
        http_answer_clear(answer);
        memcpy(answer->tag, tag, sizeof tag);
        answer->cache = HTTP_TAGGED;
        answer->code = 304;
    }
}

/* Answers a request that may enter. */
static void enter(struct hub *hub, const struct http_raw *raw, struct target *target, enum guard_right right,
                  struct http_answer *answer, struct events **ret_events) {
    struct http_request request = {.method = raw->method[0] == 'P' ? HTTP_POST : HTTP_GET,
                                   .pair_count = target->pair_count,
                                   .peer = raw->peer,
                                   .last_id = raw->last_id,
                                   .may_control = right == GUARD_CONTROL};
    struct err err = {0};
    struct serve *serve = NULL;
    char whole[HTTP_PATH_SIZE], *path = whole;
    memcpy(whole, target->path, sizeof whole);
    memcpy(request.pairs, target->pairs, sizeof request.pairs);
    if (hub->facility != NULL && right != GUARD_NOTHING && find_session(hub, &path, &serve, &err) != STATUS_OK) {
        http_answer_error(answer, http_code(err.status), err.message);
        return;
    }
    if (hub->facility == NULL) serve = hub->serve;
    request.path = target->path + (path - whole);
    bool known;
    const char *message;
    const struct http_route *routes = serve != NULL ? http_routes : facility_routes,
                            *route = http_route_find(routes, request.method, path, request.words, &known);
    /* A request without the right learns nothing of what there is. */
    int code = route != NULL            ? guard_allow(&hub->guard, right, raw, request.method, route->may, &message)
               : right == GUARD_NOTHING ? guard_allow(&hub->guard, right, raw, HTTP_GET, HTTP_VIEW, &message)
                                        : 0;
    if (code == 0 && (route == NULL || raw->method[0] == '\0')) {
        code = known ? 405 : 404;
        message = known ? "another method is needed" : "no such address";
    }
    if (code != 0) {
        http_answer_error(answer, code, message);
        return;
    }
    request.facility = hub->facility;
    call(serve, route, &request, raw, answer);
    *ret_events = serve != NULL ? serve->events : NULL;
    if (answer->stream && *ret_events == NULL) http_answer_error(answer, 404, "no such address");
}

void hub_dispatch(struct hub *hub, const struct http_raw *raw, struct http_answer *answer, struct events **ret_events,
                  double *ret_delay) {
    struct target target;
    *ret_events = NULL;
    *ret_delay = 0;
    if (!target_read(raw->target, &target)) {
        http_answer_error(answer, 404, "not an address of this server");
        return;
    }
    struct guard_verdict verdict = guard_enter(&hub->guard, raw, &target, clock_monotonic());
    *ret_delay = verdict.delay;
    if (verdict.code == 303)
        welcome(hub, &target, verdict.right, answer);
    else if (verdict.code != 0)
        http_answer_error(answer, verdict.code, verdict.message);
    else
        enter(hub, raw, &target, verdict.right, answer, ret_events);
    explicit_bzero(&target, sizeof target);
}
