/* Tests the listening sockets that the launcher keeps for its instances: who gets them, and who cannot. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pipelines/launcher/run/listeners.h"
#include "tests/common/scratch.h"

static int port_of(const char *endpoint) {
    assert_int_equal(strncmp(endpoint, "tcp://127.0.0.1:", 16), 0);
    return atoi(endpoint + 16);
}

static struct listeners *make(void) {
    struct listeners *listeners = NULL;
    struct err err = {0};
    assert_ok(listeners_create("127.0.0.1", &listeners, &err));
    return listeners;
}

static struct listener open_edge(struct listeners *listeners, const char *edge, bool handed) {
    const struct listener *listener = NULL;
    struct err err = {0};
    assert_ok(listeners_open(listeners, edge, handed, &listener, &err));
    return *listener;
}

/* Binds a port as libzmq does, or as a program does that knows nothing of SO_REUSEADDR, and listens. */
static bool can_take(int port, bool reuse) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int yes = reuse, descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes), 0);
    bool taken = bind(descriptor, (struct sockaddr *)&address, sizeof address) == 0 && listen(descriptor, 1) == 0;
    close(descriptor);
    return taken;
}

static bool can_reach(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bool reached = connect(descriptor, (struct sockaddr *)&address, sizeof address) == 0;
    close(descriptor);
    return reached;
}

static void endpoints_stay(void **state) {
    (void)state;
    struct listeners *listeners = make();
    char edge[32];
    struct listener first = open_edge(listeners, "w.0>p", true);
    for (int i = 1; i < 40; i++) { /* the list grows */
        snprintf(edge, sizeof edge, "w.%d>p", i);
        struct listener other = open_edge(listeners, edge, true);
        assert_string_not_equal(other.data, first.data);
        assert_string_not_equal(other.data, other.ack);
    }
    struct listener again = open_edge(listeners, "w.0>p", true);
    assert_string_equal(again.data, first.data);
    assert_string_equal(again.ack, first.ack);
    assert_int_equal(again.data_descriptor, first.data_descriptor);
    assert_ptr_equal(listeners_find(listeners, "w.0>p")->edge, first.edge);
    assert_null(listeners_find(listeners, "w.0>q"));
    listeners_destroy(&listeners);
    assert_null(listeners);
    assert_false(can_reach(port_of(first.data)));
}

static void who_connects_early_waits(void **state) {
    (void)state;
    struct listeners *listeners = make();
    struct listener handed = open_edge(listeners, "w.0>p", true), kept = open_edge(listeners, "s.0>p", false);
    assert_true(can_reach(port_of(handed.data)) && can_reach(port_of(handed.ack)));
    assert_false(can_reach(port_of(kept.data)));
    listeners_destroy(&listeners);
}

static void ports_are_kept(void **state) {
    (void)state;
    struct listeners *listeners = make();
    struct listener handed = open_edge(listeners, "w.0>p", true), kept = open_edge(listeners, "s.0>p", false);
    assert_false(can_take(port_of(handed.data), true));
    assert_false(can_take(port_of(kept.data), false));
    /* The program for which it is kept binds it, as libzmq does: more than once, since it may start again. */
    for (int i = 0; i < 3; i++)
        assert_true(can_take(port_of(kept.data), true) && can_take(port_of(kept.ack), true));
    listeners_destroy(&listeners);
}

/* Starts a child as the launcher does. The child is a shell, which sees what survived exec. */
static bool survives(const struct listeners *listeners, const char *instance, int descriptor) {
    char script[96];
    snprintf(script, sizeof script, "test -e /proc/self/fd/%d", descriptor);
    int wait_status = 0;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        listeners_hand_over(listeners, instance);
        execl("/bin/sh", "sh", "-c", script, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &wait_status, 0), pid);
    assert_true(WIFEXITED(wait_status) && WEXITSTATUS(wait_status) <= 1);
    return WEXITSTATUS(wait_status) == 0;
}

static void an_instance_inherits_its_own_alone(void **state) {
    (void)state;
    struct listeners *listeners = make();
    struct listener own = open_edge(listeners, "w.1>p", true), second = open_edge(listeners, "w.1>q", true),
                    other = open_edge(listeners, "w.10>p", true), kept = open_edge(listeners, "s.0>p", false);
    for (int i = 0; i < 2; i++) { /* it may start again */
        assert_true(survives(listeners, "w.1", own.data_descriptor));
        assert_true(survives(listeners, "w.1", own.ack_descriptor));
        assert_true(survives(listeners, "w.1", second.data_descriptor));
        assert_false(survives(listeners, "w.1", other.data_descriptor));
        assert_false(survives(listeners, "p.0", own.data_descriptor));
        assert_false(survives(listeners, "s.0", kept.data_descriptor));
    }
    listeners_destroy(&listeners);
}

static void orders_name_what_is_handed_over(void **state) {
    (void)state;
    struct err err = {0};
    struct listeners *listeners = make();
    struct listener handed = open_edge(listeners, "w.0>p", true), kept = open_edge(listeners, "w.0>q", false);
    json_t *orders = json_loads("{\"inputs\": [{\"edge\": \"w.0>p\", \"data\": \"as it was\"}], \"outputs\": ["
                                "{\"edge\": \"w.0>p\", \"data\": \"\", \"ack\": \"\", \"window\": 8},"
                                "{\"edge\": \"w.0>q\"}, {\"edge\": \"w.0>elsewhere\", \"data\": \"d\"}]}",
                                0, NULL);
    assert_ok(listeners_fill(listeners, orders, &err));
    json_t *outputs = json_object_get(orders, "outputs");
    json_t *one = json_array_get(outputs, 0), *two = json_array_get(outputs, 1), *three = json_array_get(outputs, 2);
    assert_string_equal(json_string_value(json_object_get(one, "data")), handed.data);
    assert_string_equal(json_string_value(json_object_get(one, "ack")), handed.ack);
    assert_int_equal(json_integer_value(json_object_get(one, "data_descriptor")), handed.data_descriptor);
    assert_int_equal(json_integer_value(json_object_get(one, "ack_descriptor")), handed.ack_descriptor);
    assert_int_equal(json_integer_value(json_object_get(one, "window")), 8);
    assert_string_equal(json_string_value(json_object_get(two, "data")), kept.data);
    assert_null(json_object_get(two, "data_descriptor"));
    assert_string_equal(json_string_value(json_object_get(three, "data")), "d");
    const json_t *input = json_array_get(json_object_get(orders, "inputs"), 0);
    assert_string_equal(json_string_value(json_object_get(input, "data")), "as it was");
    json_decref(orders);
    listeners_destroy(&listeners);
}

static void an_instance_that_moves_leaves_nothing(void **state) {
    (void)state;
    struct listeners *listeners = make();
    struct listener gone = open_edge(listeners, "w.1>p", true), stays = open_edge(listeners, "w.10>p", true);
    open_edge(listeners, "w.1>q", false);
    listeners_close(listeners, "w.1");
    assert_null(listeners_find(listeners, "w.1>p"));
    assert_null(listeners_find(listeners, "w.1>q"));
    assert_false(can_reach(port_of(gone.data)));
    assert_true(can_reach(port_of(stays.data)));
    assert_string_equal(listeners_find(listeners, "w.10>p")->data, stays.data);
    open_edge(listeners, "w.1>p", true); /* and comes back */
    listeners_destroy(&listeners);
}

static void addresses_are_of_this_host(void **state) {
    (void)state;
    struct err err = {0};
    struct listeners *listeners = NULL;
    const struct listener *listener = NULL;
    assert_int_equal(listeners_create("somewhere", &listeners, &err), STATUS_BAD_ARGUMENT);
    assert_null(listeners);
    assert_ok(listeners_create("203.0.113.7", &listeners, &err));
    assert_int_equal(listeners_open(listeners, "w.0>p", true, &listener, &err), STATUS_BAD_ARGUMENT);
    assert_non_null(strstr(err.message, "203.0.113.7"));
    assert_null(listeners_find(listeners, "w.0>p"));
    listeners_destroy(&listeners);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(endpoints_stay),
        cmocka_unit_test(who_connects_early_waits),
        cmocka_unit_test(ports_are_kept),
        cmocka_unit_test(an_instance_inherits_its_own_alone),
        cmocka_unit_test(orders_name_what_is_handed_over),
        cmocka_unit_test(an_instance_that_moves_leaves_nothing),
        cmocka_unit_test(addresses_are_of_this_host),
    };
    return scratch_run("listeners", tests, sizeof tests / sizeof *tests);
}
