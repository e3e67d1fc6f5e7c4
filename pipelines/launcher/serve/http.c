#include "pipelines/launcher/serve/http.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *http_query(const struct http_request *request, const char *key) {
    for (size_t i = 0; i < request->pair_count; i++)
        if (strcmp(request->pairs[i].key, key) == 0) return request->pairs[i].value;
    return NULL;
}

/* Reads decimal digits with an optional minus; nothing else. */
static bool read_number(const char *text, int64_t least, int64_t most, int64_t *ret_number) {
    char *end;
    if (text[0] != '-' && (text[0] < '0' || text[0] > '9')) return false;
    if (text[0] == '-' && (text[1] < '0' || text[1] > '9')) return false;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno != 0 || *end != '\0' || number < least || number > most) return false;
    *ret_number = number;
    return true;
}

enum status http_number(const char *text, int64_t least, int64_t most, int64_t *ret_number, struct err *err) {
    FAIL_IF(!read_number(text, least, most, ret_number), err, STATUS_NOT_FOUND,
            "'%.40s' is not there: a whole number from %lld to %lld is expected", text, (long long)least,
            (long long)most);
    return STATUS_OK;
}

enum status http_query_number(const struct http_request *request, const char *key, int64_t least, int64_t most,
                              int64_t fallback, int64_t *ret_number, struct err *err) {
    const char *text = http_query(request, key);
    if (text == NULL) {
        *ret_number = fallback;
        return STATUS_OK;
    }
    FAIL_IF(!read_number(text, least, most, ret_number), err, STATUS_BAD_ARGUMENT,
            "%s=%.40s: a whole number from %lld to %lld is expected", key, text, (long long)least, (long long)most);
    return STATUS_OK;
}

void http_answer_clear(struct http_answer *answer) {
    free(answer->bytes);
    if (answer->is_file) close(answer->descriptor);
    *answer = (struct http_answer){0};
}

void http_answer_bytes(struct http_answer *answer, const char *type, void *bytes, size_t length) {
    free(answer->bytes);
    answer->type = type;
    answer->bytes = bytes;
    answer->length = length;
}

enum status http_answer_text(struct http_answer *answer, const char *type, const char *text, struct err *err) {
    char *copy = strdup(text);
    FAIL_IF(copy == NULL, err, STATUS_NO_MEMORY, "no memory for an answer");
    http_answer_bytes(answer, type, copy, strlen(copy));
    return STATUS_OK;
}

enum status http_answer_json(struct http_answer *answer, json_t *json, struct err *err) {
    /* Seventeen digits would double the size of a table of measurements. */
    char *text = json != NULL ? json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(13)) : NULL;
    json_decref(json);
    FAIL_IF(text == NULL, err, STATUS_NO_MEMORY, "no memory for an answer");
    http_answer_bytes(answer, "application/json", text, strlen(text));
    return STATUS_OK;
}

void http_answer_file(struct http_answer *answer, const char *type, int descriptor, int64_t length) {
    answer->type = type;
    answer->is_file = true;
    answer->descriptor = descriptor;
    answer->file_length = length;
}

enum status http_answer_header(struct http_answer *answer, const char *name, const char *value, struct err *err) {
    FAIL_IF(answer->header_count == HTTP_HEADERS || strlen(value) >= sizeof answer->headers[0].value, err,
            STATUS_BAD_STATE, "%s: too many headers, or too long a value", name);
    for (const char *at = value; *at != '\0'; at++)
        FAIL_IF(*at < ' ' || *at > '~', err, STATUS_BAD_STATE, "%s: a header holds printable ASCII only", name);
    answer->headers[answer->header_count].name = name;
    strcpy(answer->headers[answer->header_count++].value, value);
    return STATUS_OK;
}

void http_answer_error(struct http_answer *answer, int code, const char *message) {
    static const char poor[] = "{\"v\":1,\"ok\":false,\"message\":\"no memory\"}";
    http_answer_clear(answer);
    answer->code = code;
    json_t *json = json_pack("{s:i, s:b, s:s}", "v", 1, "ok", 0, "message", message);
    if (json == NULL) json = json_pack("{s:i, s:b, s:s}", "v", 1, "ok", 0, "message", "not a text in UTF-8");
    if (http_answer_json(answer, json, NULL) == STATUS_OK) return;
    answer->type = "application/json";
    answer->borrowed = poor;
    answer->length = sizeof poor - 1;
}

int http_code(enum status status) {
    switch (status) {
    case STATUS_OK:
        return 200;
    case STATUS_BAD_ARGUMENT:
        return 400;
    case STATUS_REJECTED:
        return 403;
    case STATUS_NOT_FOUND:
        return 404;
    case STATUS_BAD_STATE:
        return 409;
    case STATUS_UNSUPPORTED:
        return 501;
    case STATUS_UNAVAILABLE:
        return 503;
    default:
        return 500;
    }
}

/* Returns whether the path has the parts of the pattern. */
static bool matches(const char *pattern, const char *path) {
    for (;;) {
        size_t wanted = strcspn(pattern + 1, "/") + 1, found = strcspn(path + 1, "/") + 1;
        bool any = wanted == 2 && pattern[1] == '*';
        if (any ? found < 2 : wanted != found || memcmp(pattern, path, found) != 0) return false;
        pattern += wanted;
        path += found;
        if (*pattern == '\0' || *path == '\0') return *pattern == *path;
    }
}

/* Cuts the path into its parts and notes those that stand for '*'. */
static void cut(const char *pattern, char *path, const char *words[HTTP_WORDS]) {
    size_t count = 0;
    for (;;) {
        size_t wanted = strcspn(pattern + 1, "/") + 1, found = strcspn(path + 1, "/") + 1;
        bool any = wanted == 2 && pattern[1] == '*', last = path[found] == '\0';
        if (any && count < HTTP_WORDS) words[count++] = path + 1;
        path[found] = '\0';
        if (last) return;
        pattern += wanted;
        path += found;
    }
}

const struct http_route *http_route_find(const struct http_route *routes, enum http_method method, char *path,
                                         const char *words[HTTP_WORDS], bool *ret_known) {
    bool known = false;
    for (const struct http_route *route = routes; route->pattern != NULL; route++) {
        if (path[0] != '/' || !matches(route->pattern, path)) continue;
        known = true;
        if (route->method != method) continue;
        cut(route->pattern, path, words);
        *ret_known = true;
        return route;
    }
    *ret_known = known;
    return NULL;
}
