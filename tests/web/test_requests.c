/* Tests what the server of the page makes of the words of strangers: addresses, names, tokens, routes, and the places of
 * those who listen for events. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipelines/launcher/serve/events.h"
#include "pipelines/launcher/serve/guard.h"
#include "pipelines/launcher/serve/http_server.h"
#include "pipelines/launcher/serve/listen.h"
#include "pipelines/launcher/serve/serve.h"
#include "pipelines/launcher/serve/target.h"
#include "pipelines/launcher/serve/token.h"
#include "tests/common/scratch.h"

static void addresses_are_read_or_refused(void **state) {
    static const char *const bad[] = {"",         "api",       "*",         "http://x/",    "/..",    "/../etc",
                                      "/a/../b",  "/%2e%2e/b", "/a/%2E%2e", "/./a",         "//a",    "/a//b",
                                      "/%",       "/%4",       "/%zz",      "/%00",         "/a%0ab", "/\x7f",
                                      "/%ff",     "/%c3",      "/%c0%af",   "/%ed%a0%80",   "/a#b",   "/a?b#c",
                                      "/a?b=%00", "/a?b=%1f",  "/a?%fe=1",  "/%f5%80%80%80"};
    static const char many[] = "/a?a&b&c&d&e&f&g&h&i";
    struct target target;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (target_read(bad[i], &target)) fail_msg("'%s' was read as '%s'", bad[i], target.path);
    assert_false(target_read(many, &target));
    char long_path[HTTP_PATH_SIZE + 2];
    memset(long_path, 'a', sizeof long_path);
    long_path[0] = '/';
    long_path[sizeof long_path - 1] = '\0';
    assert_false(target_read(long_path, &target));
    assert_true(target_read("/api/item/%E6%97%a5?since=12&name=a+b%26c&empty&=x", &target));
    assert_string_equal(target.path, "/api/item/日");
    assert_int_equal(target.pair_count, 4);
    assert_string_equal(target.pairs[1].value, "a b&c");
    assert_string_equal(target.pairs[2].value, "");
    assert_string_equal(target.pairs[3].value, "x");
    assert_true(target_read("/pic/", &target));
}

static void hosts_and_origins_are_told_apart(void **state) {
    char name[64];
    (void)state;
    assert_true(target_host("LocalHost:8080", name, sizeof name));
    assert_string_equal(name, "localhost");
    assert_true(target_host("[::1]:80", name, sizeof name));
    assert_string_equal(name, "::1");
    static const char *const bad[] = {"",    ":80", "a:",  "a:b", "a:123456", "[::1", "[]", "[localhost]",
                                      "a b", "a/b", "a@b", "::1", "[a]x"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (target_host(bad[i], name, sizeof name)) fail_msg("'%s' was taken for a host", bad[i]);
    assert_true(target_same_origin("http://localhost:8080", "localhost:8080"));
    assert_true(target_same_origin("https://cryo.example", "cryo.example"));
    assert_false(target_same_origin("http://localhost:8081", "localhost:8080"));
    assert_false(target_same_origin("null", "localhost"));
    assert_false(target_same_origin("http://", ""));
}

static void headers_are_cut_exactly(void **state) {
    char value[8];
    (void)state;
    assert_true(target_cookie("a=1; icestream_x=12345 ;b=2", "icestream_x", value, sizeof value));
    assert_string_equal(value, "12345");
    assert_false(target_cookie("xicestream_x=1; icestream_xy=2", "icestream_x", value, sizeof value));
    assert_false(target_cookie("icestream_x=12345678", "icestream_x", value, sizeof value));
    assert_true(target_bearer("bearer abc", value, sizeof value));
    assert_string_equal(value, "abc");
    assert_false(target_bearer("Bearer a b", value, sizeof value));
    assert_false(target_bearer("Basic abc", value, sizeof value));
    assert_true(target_accepts("br, gzip;q=0.5", "gzip"));
    assert_false(target_accepts("gzip;q=0.00", "gzip"));
    assert_false(target_accepts("xgzip", "gzip"));
    assert_true(target_equal("abc", "abc"));
    assert_false(target_equal("abc", "abd"));
    assert_false(target_equal("abc", ""));
    assert_false(target_equal("", "abc"));
}

static struct http_raw raw_of(const char *method, const char *authorization) {
    return (struct http_raw){.method = method,
                             .target = "/",
                             .host = "localhost:8080",
                             .origin = "",
                             .site = "",
                             .cookie = "",
                             .authorization = authorization,
                             .type = "application/json; charset=utf-8",
                             .mark = "1"};
}

static void tokens_give_rights_and_bad_ones_cost_time(void **state) {
    struct guard guard = {.token = "good", .view_token = "look", .cookie = "icestream_1"};
    struct target target;
    const char *message;
    (void)state;
    assert_true(target_read("/", &target));
    struct http_raw raw = raw_of("GET", "Bearer good");
    assert_int_equal(guard_enter(&guard, &raw, &target, 1).right, GUARD_CONTROL);
    raw.authorization = "";
    raw.cookie = "other=good; icestream_1=look";
    assert_int_equal(guard_enter(&guard, &raw, &target, 1).right, GUARD_VIEW);
    raw.host = "evil.example:8080";
    assert_int_equal(guard_enter(&guard, &raw, &target, 1).code, 403);
    const char *const hosts[] = {"evil.example"};
    guard.hosts = hosts;
    guard.host_count = 1;
    assert_int_equal(guard_enter(&guard, &raw, &target, 1).right, GUARD_VIEW);
    /* The sixth bad one within a minute waits; none at all never does. */
    raw = raw_of("GET", "Bearer bad");
    for (int i = 0; i < GUARD_TRIES; i++) {
        struct guard_verdict verdict = guard_enter(&guard, &raw, &target, 10 + i);
        assert_int_equal(verdict.right, GUARD_NOTHING);
        assert_true(verdict.delay == 0);
    }
    assert_true(guard_enter(&guard, &raw, &target, 16).delay > 0);
    assert_true(guard_enter(&guard, &raw, &target, 300).delay == 0);
    raw.authorization = "";
    assert_true(guard_enter(&guard, &raw, &target, 16).delay == 0);
    assert_int_equal(guard_allow(&guard, GUARD_NOTHING, &raw, HTTP_GET, HTTP_VIEW, &message), 401);
    assert_int_equal(guard_allow(&guard, GUARD_NOTHING, &raw, HTTP_GET, HTTP_ANYONE, &message), 0);
    assert_int_equal(guard_allow(&guard, GUARD_NOTHING, &raw, HTTP_GET, HTTP_MEASURE, &message), 401);
    guard.metrics_open = true;
    assert_int_equal(guard_allow(&guard, GUARD_NOTHING, &raw, HTTP_GET, HTTP_MEASURE, &message), 0);
    /* A token of the query becomes a cookie at an address that ends in a slash, and only there. */
    assert_true(target_read("/?token=good", &target));
    assert_int_equal(guard_enter(&guard, &raw, &target, 20).code, 303);
    assert_true(target_read("/api/items?token=good", &target));
    assert_int_equal(guard_enter(&guard, &raw, &target, 20).code, 0);
    /* Without a view token an empty one is none. */
    guard.view_token[0] = '\0';
    assert_true(target_read("/?token=", &target));
    assert_int_equal(guard_enter(&guard, &raw, &target, 20).right, GUARD_NOTHING);
}

static void only_the_page_itself_may_change_something(void **state) {
    struct guard guard = {.token = "good"};
    const char *message;
    struct http_raw raw = raw_of("POST", "Bearer good");
    (void)state;
#define ALLOW(right) guard_allow(&guard, right, &raw, HTTP_POST, HTTP_CONTROL, &message)
    assert_int_equal(ALLOW(GUARD_CONTROL), 0);
    assert_int_equal(ALLOW(GUARD_VIEW), 403);
    assert_int_equal(ALLOW(GUARD_NOTHING), 401);
    raw.origin = "http://localhost:8080";
    raw.site = "same-origin";
    assert_int_equal(ALLOW(GUARD_CONTROL), 0);
    raw.origin = "http://evil.example";
    assert_int_equal(ALLOW(GUARD_CONTROL), 403);
    raw.origin = "";
    raw.site = "cross-site";
    assert_int_equal(ALLOW(GUARD_CONTROL), 403);
    raw.site = "";
    raw.mark = "";
    assert_int_equal(ALLOW(GUARD_CONTROL), 403);
    raw.mark = "1";
    raw.type = "text/plain";
    assert_int_equal(ALLOW(GUARD_CONTROL), 415);
    raw.type = "application/jsonx";
    assert_int_equal(ALLOW(GUARD_CONTROL), 415);
#undef ALLOW
}

static void routes_are_found_by_parts(void **state) {
    static const struct http_route routes[] = {{HTTP_GET, "/", NULL, HTTP_VIEW},
                                               {HTTP_GET, "/api/item/*", NULL, HTTP_VIEW},
                                               {HTTP_POST, "/api/control", NULL, HTTP_CONTROL},
                                               {HTTP_GET, "/pic/*/*/*", NULL, HTTP_VIEW},
                                               {0}};
    const char *words[HTTP_WORDS];
    bool known;
    (void)state;
    char item[] = "/api/item/12", sprite[] = "/pic/classes/007/a.png", control[] = "/api/control",
         none[] = "/api/item/";
    char longer[] = "/api/item/1/2", root[] = "/";
    assert_ptr_equal(http_route_find(routes, HTTP_GET, item, words, &known), &routes[1]);
    assert_string_equal(words[0], "12");
    assert_ptr_equal(http_route_find(routes, HTTP_GET, sprite, words, &known), &routes[3]);
    assert_string_equal(words[1], "007");
    assert_string_equal(words[2], "a.png");
    assert_ptr_equal(http_route_find(routes, HTTP_GET, root, words, &known), &routes[0]);
    assert_null(http_route_find(routes, HTTP_GET, control, words, &known));
    assert_true(known);
    assert_null(http_route_find(routes, HTTP_GET, none, words, &known));
    assert_false(known);
    assert_null(http_route_find(routes, HTTP_GET, longer, words, &known));
    assert_false(known);
}

static void a_token_is_kept_and_guarded(void **state) {
    char path[PATH_SIZE];
    char first[TOKEN_SIZE], second[TOKEN_SIZE];
    struct err err = {0};
    struct stat about;
    (void)state;
    scratch_path("token", path);
    assert_int_equal(token_load(path, false, first, &err), STATUS_OK);
    assert_int_equal(strlen(first), TOKEN_SIZE - 1);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    assert_int_equal(token_load(path, false, second, &err), STATUS_OK);
    assert_string_equal(first, second);
    assert_int_equal(token_load(path, true, second, &err), STATUS_OK);
    assert_string_not_equal(first, second);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(token_load(path, false, second, &err), STATUS_BAD_STATE);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/dev/zero", path), 0);
    assert_int_equal(token_load(path, false, second, &err), STATUS_BAD_STATE);
    assert_int_equal(unlink(path), 0);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    assert_int_equal(fchmod(fileno(out), 0600), 0);
    fputs("short\n", out);
    fclose(out);
    assert_int_equal(token_load(path, false, second, &err), STATUS_BAD_FORMAT);
    assert_int_equal(unlink(path), 0);
}

/* Reads all that comes, in pieces of `size` bytes. */
static char *read_all(struct events *events, struct events_place *place, size_t size) {
    static char text[1 << 20];
    size_t used = 0, more;
    while ((more = events_read(events, place, text + used, size)) > 0)
        used += more;
    text[used] = '\0';
    return text;
}

static size_t count(const char *text, const char *what) {
    size_t found = 0;
    for (; (text = strstr(text, what)) != NULL; text++)
        found++;
    return found;
}

static void listeners_go_on_where_they_were(void **state) {
    struct events *events = NULL;
    struct events_place place, again, lost, other;
    char id[64];
    (void)state;
    assert_int_equal(events_create(&events, NULL), STATUS_OK);
    events_begin(events, "", &place);
    assert_string_equal(read_all(events, &place, 7), "retry: 2000\n\n");
    for (int i = 0; i < 10; i++)
        events_publish(events, "status", json_pack("{s:i}", "i", i));
    char *text = read_all(events, &place, 3);
    assert_int_equal(count(text, "event: status\n"), 10);
    assert_non_null(strstr(text, "data: {\"i\":9}\n\n"));
    assert_true(text[0] == 'i' && text[3] == ' ');
    /* The id of the third event brings the seven after it. */
    const char *at = text;
    for (int i = 0; i < 2; i++)
        at = strstr(at + 1, "id: ");
    assert_int_equal(sscanf(at, "id: %60s", id), 1);
    events_begin(events, id, &again);
    assert_int_equal(count(read_all(events, &again, 4096), "event: status\n"), 7);
    events_begin(events, "123-1", &other);
    assert_int_equal(count(read_all(events, &other, 4096), "event: resync\n"), 1);
    events_begin(events, "nonsense", &other);
    assert_int_equal(count(read_all(events, &other, 4096), "event: resync\n"), 1);
    /* Who is more than the ring behind begins anew, and gets what comes then. */
    events_begin(events, id, &lost);
    for (int i = 0; i < EVENTS_KEPT + 20; i++)
        events_publish(events, "rows", json_object());
    assert_int_equal(count(read_all(events, &lost, 4096), "event: resync\n"), 1);
    events_publish(events, "alarm", json_object());
    assert_int_equal(count(read_all(events, &lost, 4096), "event: alarm\n"), 1);
    events_begin(events, id, &again);
    assert_int_equal(count(read_all(events, &again, 4096), "event: resync\n"), 1);
    /* After a time in which nothing was kept, an id of before is gone. */
    events_begin(events, "", &again);
    events_publish(events, "status", json_object());
    text = read_all(events, &again, 4096);
    assert_int_equal(sscanf(strstr(text, "id: "), "id: %60s", id), 1);
    events_gap(events);
    events_begin(events, id, &again);
    events_publish(events, "status", json_object());
    assert_int_equal(count(read_all(events, &again, 4096), "event: resync\n"), 1);
    events_destroy(&events);
    assert_null(events);
}

/* A time since 1970 keeps its milliseconds, in events and in answers. */
static void times_keep_their_milliseconds(void **state) {
    struct events *events = NULL;
    struct events_place place;
    struct http_answer answer = {0};
    (void)state;
    assert_int_equal(events_create(&events, NULL), STATUS_OK);
    events_begin(events, "", &place);
    events_publish(events, "status", json_pack("{s:f}", "time", 1795300000.125));
    assert_non_null(strstr(read_all(events, &place, 4096), "data: {\"time\":1795300000.125}\n\n"));
    events_publish_text(events, "rows", "{\"t\":[1795300000.125]}");
    assert_non_null(strstr(read_all(events, &place, 4096), "event: rows\ndata: {\"t\":[1795300000.125]}\n\n"));
    events_publish_text(events, "rows", NULL); /* did not fit into memory: listeners begin anew */
    assert_int_equal(count(read_all(events, &place, 4096), "event: resync\n"), 1);
    events_destroy(&events);
    assert_int_equal(http_answer_json(&answer, json_pack("{s:f}", "time", 1795300000.125), NULL), STATUS_OK);
    assert_int_equal(answer.length, strlen("{\"time\":1795300000.125}"));
    assert_memory_equal(answer.bytes, "{\"time\":1795300000.125}", answer.length);
    http_answer_clear(&answer);
}

/* Who was away for a short time gets what he has missed; after a long time without listeners he begins anew. */
static void events_of_a_lonely_server_are_forgotten(void **state) {
    char path[PATH_SIZE], id[64];
    struct serve serve = {.folder_fd = -1};
    struct events_place place, again;
    struct err err = {0};
    int listener;
    (void)state;
    if (!http_server_is_there()) skip();
    scratch_path("lonely.sock", path);
    assert_int_equal(listen_unix(path, &listener, &err), STATUS_OK);
    assert_int_equal(http_server_start(listener, &serve.server, &err), STATUS_OK);
    assert_int_equal(events_create(&serve.events, NULL), STATUS_OK);
    events_begin(serve.events, "", &place);
    serve_publish(&serve, "rows", json_object());
    assert_int_equal(sscanf(strstr(read_all(serve.events, &place, 4096), "id: "), "id: %60s", id), 1);
    serve.now_monotonic = SERVE_ALONE;
    serve_publish(&serve, "rows", json_object());
    events_begin(serve.events, id, &again);
    char *text = read_all(serve.events, &again, 4096);
    assert_int_equal(count(text, "event: rows\n"), 1);
    assert_int_equal(count(text, "event: resync\n"), 0);
    serve.now_monotonic = SERVE_ALONE + 1;
    serve_publish(&serve, "rows", json_object());
    assert_false(serve_is_heard(&serve));
    events_begin(serve.events, id, &again);
    text = read_all(serve.events, &again, 4096);
    assert_int_equal(count(text, "event: rows\n"), 0);
    assert_int_equal(count(text, "event: resync\n"), 1);
    http_server_stop(&serve.server);
    events_destroy(&serve.events);
    assert_int_equal(unlink(path), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_read_or_refused),
        cmocka_unit_test(hosts_and_origins_are_told_apart),
        cmocka_unit_test(headers_are_cut_exactly),
        cmocka_unit_test(tokens_give_rights_and_bad_ones_cost_time),
        cmocka_unit_test(only_the_page_itself_may_change_something),
        cmocka_unit_test(routes_are_found_by_parts),
        cmocka_unit_test(a_token_is_kept_and_guarded),
        cmocka_unit_test(listeners_go_on_where_they_were),
        cmocka_unit_test(times_keep_their_milliseconds),
        cmocka_unit_test(events_of_a_lonely_server_are_forgotten),
    };
    return scratch_run("requests", tests, sizeof tests / sizeof tests[0]);
}
