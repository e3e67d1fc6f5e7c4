/* Tests the control channel: who gets what, and that strangers get nothing. */
#include <stdio.h>
#include <string.h>

#include "common/edges/transport_control.h"
#include "common/edges/transport_keys.h"
#include "tests/common/scratch.h"

enum { TURN_MS = 50, TURNS = 400 };

static char public_key[TRANSPORT_KEY_SIZE], secret_key[TRANSPORT_KEY_SIZE];

static int make_keys(void **state) {
    (void)state;
    return transport_make_keys(public_key, secret_key, NULL) == STATUS_OK ? 0 : 1;
}

static struct control *listens(int *ret_port) {
    struct control *control = NULL;
    struct err err = {0};
    assert_ok(control_listen("127.0.0.1", 0, public_key, secret_key, &control, ret_port, &err));
    assert_true(*ret_port > 0);
    return control;
}

static struct control *joins(int port, const char *name) {
    struct control *control = NULL;
    struct err err = {0};
    assert_ok(control_join("127.0.0.1", port, public_key, secret_key, name, &control, &err));
    return control;
}

/* Sends until it is taken: a connection takes its time. */
static void say(struct control *control, const char *peer, const char *text) {
    struct err err = {0};
    bool sent = false;
    for (int i = 0; i < TURNS && !sent; i++) {
        assert_ok(control_send(control, peer, text, strlen(text), &sent, &err));
        if (!sent) assert_ok(control_wait(control, -1, TURN_MS, &err));
    }
    assert_true(sent);
}

static void expect(struct control *control, const char *peer, const char *text) {
    struct err err = {0};
    char from[CONTROL_PEER_SIZE];
    const void *bytes = NULL;
    size_t length = 0;
    for (int i = 0; i < TURNS && bytes == NULL; i++) {
        assert_ok(control_wait(control, -1, TURN_MS, &err));
        assert_ok(control_receive(control, from, &bytes, &length, &err));
    }
    assert_non_null(bytes);
    assert_string_equal(from, peer);
    assert_int_equal(length, strlen(text));
    assert_memory_equal(bytes, text, length);
}

static void test_both_ways(void **state) {
    int port = 0;
    (void)state;
    struct control *launcher = listens(&port), *one = joins(port, "one"), *two = joins(port, "two");
    say(one, NULL, "from one");
    expect(launcher, "one", "from one");
    say(two, NULL, "from two");
    expect(launcher, "two", "from two");
    say(launcher, "two", "to two");
    say(launcher, "one", "to one");
    expect(one, "", "to one");
    expect(two, "", "to two");
    control_close(&one);
    control_close(&two);
    control_close(&launcher);
}

static void test_nobody_there(void **state) {
    int port = 0;
    bool sent = true;
    struct err err = {0};
    (void)state;
    struct control *launcher = listens(&port), *one = joins(port, "one");
    assert_ok(control_send(launcher, "nobody", "x", 1, &sent, &err));
    assert_false(sent);
    say(one, NULL, "here");
    expect(launcher, "one", "here");
    control_close(&launcher);
    control_close(&one);
}

/* A host that connects anew under its name gets what is sent from then on. */
static void test_takes_its_place(void **state) {
    int port = 0;
    (void)state;
    struct control *launcher = listens(&port), *old = joins(port, "one");
    say(old, NULL, "old");
    expect(launcher, "one", "old");
    struct control *anew = joins(port, "one");
    say(anew, NULL, "new");
    expect(launcher, "one", "new");
    say(launcher, "one", "hello");
    expect(anew, "", "hello");
    control_close(&old);
    control_close(&anew);
    control_close(&launcher);
}

/* Without the session's keys nobody is heard, even with the public one. */
static void test_strangers(void **state) {
    char their_public[TRANSPORT_KEY_SIZE], their_secret[TRANSPORT_KEY_SIZE], from[CONTROL_PEER_SIZE];
    const void *bytes = NULL;
    size_t length = 0;
    int port = 0;
    bool sent = false;
    struct err err = {0};
    (void)state;
    struct control *launcher = listens(&port), *stranger = NULL;
    assert_ok(transport_make_keys(their_public, their_secret, &err));
    assert_ok(control_join("127.0.0.1", port, their_public, their_secret, "one", &stranger, &err));
    for (int i = 0; i < TURNS && control_refused(launcher) == 0; i++) {
        assert_ok(control_send(stranger, NULL, "x", 1, &sent, &err));
        assert_ok(control_wait(launcher, -1, TURN_MS, &err));
        assert_ok(control_receive(launcher, from, &bytes, &length, &err));
        assert_null(bytes);
    }
    assert_true(control_refused(launcher) > 0);
    control_close(&stranger);
    control_close(&launcher);
}

static void test_wrong_arguments(void **state) {
    struct control *control = NULL;
    struct err err = {0};
    int port = 0;
    (void)state;
    assert_int_equal(control_join("127.0.0.1", 0, public_key, secret_key, "one", &control, &err), STATUS_BAD_ARGUMENT);
    assert_int_equal(control_join("127.0.0.1", 1, public_key, secret_key, "", &control, &err), STATUS_BAD_ARGUMENT);
    assert_int_equal(control_join("127.0.0.1", 1, "short", secret_key, "one", &control, &err), STATUS_BAD_ARGUMENT);
    assert_int_equal(control_listen("192.0.2.1", 0, public_key, secret_key, &control, &port, &err),
                     STATUS_BAD_ARGUMENT);
    struct control *launcher = listens(&port);
    int same = 0;
    assert_int_equal(control_listen("127.0.0.1", port, public_key, secret_key, &control, &same, &err),
                     STATUS_UNAVAILABLE);
    assert_null(control);
    control_close(&launcher);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_ways),       cmocka_unit_test(test_nobody_there),
        cmocka_unit_test(test_takes_its_place), cmocka_unit_test(test_strangers),
        cmocka_unit_test(test_wrong_arguments),
    };
    return cmocka_run_group_tests_name("control", tests, make_keys, NULL);
}
