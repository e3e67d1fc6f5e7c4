/* Fuzzes what the server of the page makes of a stranger's request: its target, its headers and the JSON of its body, up
 * to the deeds of POST /api/control. tests/fuzz/requests_stubs.c stands in for the session behind them.
 *
 * The input is text. Its first lines are: signs (f: the server has many sessions; m: anyone may measure; v: there is a
 * token that may only look), the method, the target, Host, Origin, Sec-Fetch-Site, Cookie, Authorization, Content-Type,
 * X-Icestream, Accept-Encoding, If-None-Match, Last-Event-ID. The rest is the body. An empty line stands for what the page
 * itself sends, "-" for a header that is missing. */
#include "tests/fuzz/fuzz.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "pipelines/launcher/control.h"
#include "pipelines/launcher/serve/events.h"
#include "pipelines/launcher/serve/hub.h"
#include "pipelines/launcher/serve/serve.h"

static const char TOKEN[] = "good0123", VIEW_TOKEN[] = "look4567", HOST[] = "cryo.example";
enum { LINES = 13 };

/* The last call of a handler. */
static struct {
    int count;
    enum http_method method;
    char path[HTTP_PATH_SIZE];
} called;
static struct serve *the_session;

static void note_call(const struct http_request *request) {
    called.count++;
    called.method = request->method;
    FUZZ_CHECK(strlen(request->path) < sizeof called.path);
    strcpy(called.path, request->path);
}

/* Checks everything that a handler may rely on (http.h). */
static enum status answer(struct serve *serve, const struct http_request *request, struct http_answer *answer,
                          struct err *err) {
    int64_t number = 0;
    (void)serve;
    note_call(request);
    FUZZ_CHECK(request->path[0] == '/' && strstr(request->path, "/../") == NULL && request->pair_count <= HTTP_PAIRS);
    for (size_t i = 0; i < HTTP_WORDS && request->words[i] != NULL; i++) {
        const char *word = request->words[i];
        FUZZ_CHECK(word[0] != '\0' && strchr(word, '/') == NULL && strcmp(word, ".") != 0 && strcmp(word, "..") != 0);
        if (http_number(word, -5, 70000, &number, NULL) == STATUS_OK) FUZZ_CHECK(number >= -5 && number <= 70000);
    }
    for (size_t i = 0; i < request->pair_count; i++) {
        json_t *key = json_string(request->pairs[i].key), *value = json_string(request->pairs[i].value);
        FUZZ_CHECK(key != NULL && value != NULL); /* UTF-8 */
        json_decref(key);
        json_decref(value);
        FUZZ_CHECK(http_query(request, request->pairs[i].key) != NULL);
    }
    TRY(http_query_number(request, "since", 0, 1000, 7, &number, err));
    FUZZ_CHECK(number >= 0 && number <= 1000);
    return http_answer_text(answer, "text/plain", request->path, err);
}

static enum status tagged(struct serve *serve, const struct http_request *request, struct http_answer *ret,
                          struct err *err) {
    TRY(answer(serve, request, ret, err));
    ret->cache = HTTP_TAGGED;
    snprintf(ret->tag, sizeof ret->tag, "\"1234\"");
    return STATUS_OK;
}

/* As serve_events does. */
static enum status listen_to(struct serve *serve, const struct http_request *request, struct http_answer *ret,
                             struct err *err) {
    struct events_place place;
    char bytes[1024];
    TRY(answer(serve, request, ret, err));
    FUZZ_CHECK(serve->events != NULL);
    events_begin(serve->events, request->last_id, &place);
    size_t length = events_read(serve->events, &place, bytes, sizeof bytes);
    FUZZ_CHECK(length > 0 && memcmp(bytes, "retry: ", 7) == 0);
    FUZZ_CHECK(events_read(serve->events, &place, bytes, sizeof bytes) == 0);
    ret->stream = true;
    return STATUS_OK;
}

static enum status control(struct serve *serve, const struct http_request *request, struct http_answer *ret,
                           struct err *err) {
    note_call(request);
    FUZZ_CHECK(json_is_object(request->json) && request->may_control);
    return control_post(serve, request, ret, err);
}

const struct http_route http_routes[] = {{HTTP_GET, "/", tagged, HTTP_VIEW},
                                         {HTTP_GET, "/api/items", answer, HTTP_VIEW},
                                         {HTTP_GET, "/api/item/*", answer, HTTP_VIEW},
                                         {HTTP_GET, "/pic/classes/*", answer, HTTP_VIEW},
                                         {HTTP_GET, "/pic/*/*/*", answer, HTTP_VIEW},
                                         {HTTP_GET, "/api/events", listen_to, HTTP_VIEW},
                                         {HTTP_POST, "/api/control", control, HTTP_CONTROL},
                                         {HTTP_GET, "/metrics", answer, HTTP_MEASURE},
                                         {HTTP_GET, "/healthz", answer, HTTP_ANYONE},
                                         {0}};
const struct http_route facility_routes[] = {
    {HTTP_GET, "/", tagged, HTTP_VIEW}, {HTTP_GET, "/healthz", answer, HTTP_ANYONE}, {0}};

enum status facility_session(struct facility *facility, const char *name, struct serve **ret_serve, struct err *err) {
    FUZZ_CHECK(facility != NULL && name[0] != '\0' && strchr(name, '/') == NULL && strcmp(name, "..") != 0);
    FAIL_IF(name[0] == '.' || name[0] == 'x', err, STATUS_NOT_FOUND, "there is no such session");
    *ret_serve = the_session;
    return STATUS_OK;
}

static void begin(void) {
    static struct serve serve = {.folder = "/session", .folder_fd = -1};
    if (the_session != NULL) return;
    FUZZ_CHECK(events_create(&serve.events, NULL) == STATUS_OK);
    for (int i = 0; i < 3; i++)
        events_publish(serve.events, "status", json_pack("{s:i}", "i", i));
    serve.alarms = (struct alarms *)&serve; /* only requests_stubs.c gets it */
    the_session = &serve;
}

/* Whoever got in had a token. */
static bool had_token(const struct http_raw *raw, const struct target *target, const char *token) {
    bool query = false;
    for (size_t i = 0; i < target->pair_count; i++)
        if (strcmp(target->pairs[i].key, "token") == 0) query = query || strcmp(target->pairs[i].value, token) == 0;
    return query || strstr(raw->authorization, token) != NULL || strstr(raw->cookie, token) != NULL;
}

static bool starts(const char *text, const char *with) {
    return strncasecmp(text, with, strlen(with)) == 0;
}

static void check_who_came_in(const struct http_raw *raw, const struct target *target, bool measures, bool looks) {
    const char *path = called.path;
    bool open = strcmp(path, "/healthz") == 0 || (measures && strcmp(path, "/metrics") == 0);
    bool control = had_token(raw, target, TOKEN), view = looks && had_token(raw, target, VIEW_TOKEN);
    FUZZ_CHECK(called.count == 1);
    FUZZ_CHECK(starts(raw->host, "localhost") || starts(raw->host, "127.0.0.1") || starts(raw->host, "[::1]") ||
               starts(raw->host, HOST));
    FUZZ_CHECK(open || control || view);
    if (called.method == HTTP_GET) {
        FUZZ_CHECK(strcmp(raw->method, "GET") == 0);
        return;
    }
    FUZZ_CHECK(strcmp(raw->method, "POST") == 0 && control && strcmp(raw->mark, "1") == 0);
    FUZZ_CHECK(starts(raw->type, "application/json"));
    size_t length = strlen(raw->host), origin = strlen(raw->origin);
    FUZZ_CHECK(origin == 0 || (origin > length && strcasecmp(raw->origin + origin - length, raw->host) == 0));
    FUZZ_CHECK(strcmp(raw->site, "cross-site") != 0 && strcmp(raw->site, "same-site") != 0);
}

/* An error is JSON with a message; a deed that was done says so. */
static void check_answer(const struct http_answer *answer) {
    int code = answer->code != 0 ? answer->code : 200;
    FUZZ_CHECK(code >= 200 && code < 600);
    for (size_t i = 0; i < answer->header_count; i++) {
        const char *value = answer->headers[i].value;
        for (const char *at = value; *at != '\0'; at++)
            FUZZ_CHECK(*at >= ' ' && *at <= '~');
        if (strcmp(answer->headers[i].name, "Location") == 0) FUZZ_CHECK(value[0] == '/' && value[1] != '/');
    }
    bool deed = called.count > 0 && called.method == HTTP_POST;
    if (code < 400 && !deed) return;
    json_t *json = json_loadb(answer->bytes, answer->length, 0, NULL);
    FUZZ_CHECK(json_is_object(json) && json_is_boolean(json_object_get(json, "ok")));
    FUZZ_CHECK(json_is_true(json_object_get(json, "ok")) == (code < 400));
    FUZZ_CHECK(json_is_string(json_object_get(json, "message")));
    FUZZ_CHECK(code >= 400 || json_is_integer(json_object_get(json, "changed")));
    json_decref(json);
}

/* Sets fields of the request out of the first lines of a text, which is cut into them. Returns the rest. */
static char *take_lines(char *text, const char *fields[LINES]) {
    static const char *const usual[LINES] = {
        "",     "GET", "/", "localhost:8080", "", "same-origin", "icestream_1=good0123", "", "application/json", "1",
        "gzip", "",    ""};
    for (size_t i = 0; i < LINES; i++) {
        char *end = strchr(text, '\n');
        fields[i] = text;
        text = end != NULL ? end + 1 : text + strlen(text);
        if (end != NULL) *end = '\0';
        if (fields[i][0] == '\0') fields[i] = usual[i];
        if (strcmp(fields[i], "-") == 0) fields[i] = "";
    }
    return text;
}

static void dispatch(struct http_raw *raw, const char *signs) {
    static const char *const hosts[] = {HOST};
    const bool many = strchr(signs, 'f') != NULL, measures = strchr(signs, 'm') != NULL,
               looks = strchr(signs, 'v') != NULL;
    struct hub hub = {.serve = many ? NULL : the_session, .facility = many ? (struct facility *)&hub : NULL};
    snprintf(hub.guard.token, sizeof hub.guard.token, "%s", TOKEN);
    if (looks) snprintf(hub.guard.view_token, sizeof hub.guard.view_token, "%s", VIEW_TOKEN);
    snprintf(hub.guard.cookie, sizeof hub.guard.cookie, "icestream_1");
    hub.guard.hosts = hosts;
    hub.guard.host_count = 1;
    hub.guard.metrics_open = measures;
    struct http_answer answer = {0};
    struct events *events;
    struct target target;
    double delay;
    called.count = 0;
    hub_dispatch(&hub, raw, &answer, &events, &delay);
    FUZZ_CHECK(delay >= 0 && delay <= 1 && answer.stream <= (events != NULL));
    if (called.count > 0) {
        FUZZ_CHECK(target_read(raw->target, &target));
        check_who_came_in(raw, &target, measures, looks);
    }
    check_answer(&answer);
    http_answer_clear(&answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    char *text = malloc(length + 1);
    const char *fields[LINES];
    FUZZ_CHECK(text != NULL);
    begin();
    if (length > 0) memcpy(text, bytes, length);
    text[length] = '\0';
    char *body = take_lines(text, fields);
    struct http_raw raw = {.method = strcmp(fields[1], "GET") == 0    ? "GET"
                                     : strcmp(fields[1], "POST") == 0 ? "POST"
                                                                      : "",
                           .target = fields[2],
                           .host = fields[3],
                           .origin = fields[4],
                           .site = fields[5],
                           .cookie = fields[6],
                           .authorization = fields[7],
                           .type = fields[8],
                           .mark = fields[9],
                           .encodings = fields[10],
                           .tag = fields[11],
                           .last_id = fields[12],
                           .peer = "uid 1000",
                           .body = body,
                           .body_length = length - (size_t)(body - text)};
    dispatch(&raw, fields[0]);
    (void)target_accepts(raw.encodings, "gzip");
    FUZZ_CHECK(target_equal(raw.host, raw.origin) == (strcmp(raw.host, raw.origin) == 0));
    free(text);
    return 0;
}
