/* Tests what a host's own end of the control channel makes of orders. The test plays the launcher, over the real channel;
 * the agent runs in a thread of its own. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/edges/transport_control.h"
#include "common/edges/transport_keys.h"
#include "common/files.h"
#include "pipelines/launcher/host/agent.h"
#include "pipelines/launcher/host/host_message.h"
#include "tests/common/scratch.h"

enum { TURN_MS = 20 };
static const double LONGEST = 20; /* s for what takes its time */

struct scene {
    char folder[PATH_SIZE], program[PATH_SIZE + 64], log[PATH_SIZE + 64];
    char public_key[TRANSPORT_KEY_SIZE], secret_key[TRANSPORT_KEY_SIZE];
    char peer[CONTROL_PEER_SIZE];
    struct control *control;
    struct agent_options options;
    enum agent_outcome outcome;
    enum status status;
    pthread_t thread;
};

static void write_text(const char *path, const char *text) {
    struct err err = {0};
    assert_ok(file_make_parents(path, 0777, &err));
    assert_ok(file_write_whole(path, text, strlen(text), &err));
}

static void write_launcher(const struct scene *scene, int port, int run, const char *session_id) {
    char path[PATH_SIZE + 64];
    json_t *root = json_pack("{s:i, s:s, s:i, s:i, s:s, s:s, s:{s:s, s:s}}", "v", 1, "address", "127.0.0.1", "port",
                             port, "run", run, "session_id", session_id, "revision", "1", "curve", "public",
                             scene->public_key, "secret", scene->secret_key);
    char *text = json_dumps(root, 0);
    snprintf(path, sizeof path, "%s/hosts/launcher.json", scene->folder);
    write_text(path, text);
    free(text);
    json_decref(root);
}

static void *be_host(void *context) {
    struct scene *scene = context;
    struct err err = {0};
    scene->status = agent_run(&scene->options, &scene->outcome, &err);
    if (scene->status != STATUS_OK) fprintf(stderr, "%s\n", err.message);
    return NULL;
}

static int begin(void **state) {
    struct scene *scene = calloc(1, sizeof *scene);
    struct err err = {0};
    static int number;
    char name[32];
    int port = 0;
    snprintf(name, sizeof name, "session%d", ++number);
    scratch_path(name, scene->folder);
    assert_ok(transport_make_keys(scene->public_key, scene->secret_key, &err));
    assert_ok(control_listen("127.0.0.1", 0, scene->public_key, scene->secret_key, &scene->control, &port, &err));
    write_launcher(scene, port, 2, "0123");
    snprintf(scene->program, sizeof scene->program, "%s/program", scene->folder);
    write_text(scene->program, "#!/bin/sh\necho started\nexec sleep 60\n");
    assert_int_equal(chmod(scene->program, 0755), 0);
    snprintf(scene->log, sizeof scene->log, "%s/log", scene->folder);
    scene->options = (struct agent_options){.session = scene->folder,
                                            .name = "away",
                                            .address = "127.0.0.1",
                                            .revision = "1",
                                            .cores = 1,
                                            .alone = 30, /* a test that has failed ends */
                                            .stop_kill = 5};
    assert_int_equal(pthread_create(&scene->thread, NULL, be_host, scene), 0);
    *state = scene;
    return 0;
}

/* ---- The launcher ---- */

static void tell(struct scene *scene, enum host_kind kind, json_t *content) {
    char *text = NULL;
    size_t length;
    bool sent = false;
    struct err err = {0};
    assert_ok(host_message_encode(kind, content, &text, &length, &err));
    assert_ok(control_send(scene->control, scene->peer, text, length, &sent, &err));
    assert_true(sent);
    free(text);
}

/* Waits for a message of a kind; others are passed over. The caller clears it. */
static struct host_message hear(struct scene *scene, enum host_kind kind) {
    struct host_message message = {0};
    for (double until = clock_monotonic() + LONGEST; clock_monotonic() < until;) {
        const void *bytes = NULL;
        size_t length = 0;
        struct err err = {0};
        assert_ok(control_wait(scene->control, -1, TURN_MS, &err));
        assert_ok(control_receive(scene->control, scene->peer, &bytes, &length, &err));
        if (bytes == NULL) continue;
        assert_ok(host_message_decode(bytes, length, &message, &err));
        if (message.kind == kind) return message;
        host_message_clear(&message);
    }
    fail_msg("no message of the kind %d", kind);
    return message;
}

/* Waits for the next state. *ret_processes: how many it names; pid: of the first one, 0: none. */
static long long next_state(struct scene *scene, size_t *ret_processes, long long *ret_pid) {
    struct host_message state = hear(scene, HOST_STATE);
    const json_t *list = json_object_get(state.root, "processes");
    long long heard = host_number(state.root, "heard");
    *ret_processes = json_array_size(list);
    *ret_pid = host_number(json_array_get(list, 0), "pid");
    host_message_clear(&state);
    return heard;
}

/* Waits until a number of orders were heard. */
static long long until_heard(struct scene *scene, long long number, size_t *ret_processes) {
    long long pid = 0, heard = -1;
    for (double until = clock_monotonic() + LONGEST; heard != number && clock_monotonic() < until;)
        heard = next_state(scene, ret_processes, &pid);
    assert_int_equal(heard, number);
    return pid;
}

static void welcome(struct scene *scene, const char *member) {
    struct host_message join = hear(scene, HOST_JOIN);
    assert_string_equal(host_text(join.root, "name"), "away");
    host_message_clear(&join);
    tell(scene, HOST_WELCOME, json_pack("{s:s}", "member", member));
}

static void order(struct scene *scene, const char *member, int number, const char *what, json_t *content) {
    json_object_set_new(content, "member", json_string(member));
    json_object_set_new(content, "number", json_integer(number));
    json_object_set_new(content, "what", json_string(what));
    tell(scene, HOST_ORDER, content);
}

static json_t *start_of(const struct scene *scene, int start) {
    return json_pack("{s:i, s:s, s:s, s:s, s:[], s:{s:[], s:s}, s:[], s:b}", "start", start, "name", "one.0", "program",
                     scene->program, "log", scene->log, "env", "orders", "outputs", "device", "cpu", "gpus",
                     "takes_descriptors", 0);
}

static int end(void **state) {
    struct scene *scene = *state;
    assert_int_equal(pthread_join(scene->thread, NULL), 0);
    assert_int_equal(scene->status, STATUS_OK);
    assert_int_equal(scene->outcome, AGENT_OVER);
    control_close(&scene->control);
    free(scene);
    return 0;
}

/* ---- The tests ---- */

/* An order is carried out once, however often it comes; one that comes too early, or for another member, is not. */
static void test_orders_once(void **state) {
    struct scene *scene = *state;
    size_t processes = 0;
    welcome(scene, "1.1");
    order(scene, "1.1", 2, "start", start_of(scene, 2)); /* too early */
    order(scene, "1.7", 1, "start", start_of(scene, 7)); /* of another member */
    for (int i = 0; i < 3; i++)
        order(scene, "1.1", 1, "start", start_of(scene, 1));
    order(scene, "1.1", 2, "forget", json_pack("{s:i}", "start", 9)); /* nobody */
    until_heard(scene, 2, &processes);
    assert_int_equal(processes, 1);
    order(scene, "1.1", 3, "end", json_object());
}

/* A void means one member: that of a member before, which comes late, does not touch what runs. */
static void test_late_void(void **state) {
    struct scene *scene = *state;
    size_t processes = 0;
    long long pid = 0;
    welcome(scene, "1.1");
    tell(scene, HOST_VOID, json_pack("{s:s}", "member", "1.1"));
    welcome(scene, "1.2");
    order(scene, "1.2", 1, "start", start_of(scene, 1));
    long long first = until_heard(scene, 1, &processes);
    assert_int_equal(processes, 1);
    tell(scene, HOST_VOID, json_pack("{s:s}", "member", "1.1"));
    order(scene, "1.2", 2, "forget", json_pack("{s:i}", "start", 9));
    assert_true(until_heard(scene, 2, &processes) == first);
    assert_true(next_state(scene, &processes, &pid) == 2 && pid == first);
    order(scene, "1.2", 3, "end", json_object());
}

/* Lets another launcher take the place of this one. */
static void replace_launcher(struct scene *scene, int run, const char *session_id) {
    struct err err = {0};
    int port = 0;
    control_close(&scene->control);
    assert_ok(control_listen("127.0.0.1", 0, scene->public_key, scene->secret_key, &scene->control, &port, &err));
    write_launcher(scene, port, run, session_id);
}

/* A new session in the same folder begins with run 1: its launcher is not one of an earlier run. */
static void test_new_session(void **state) {
    struct scene *scene = *state;
    size_t processes = 1;
    welcome(scene, "2.1");
    order(scene, "2.1", 1, "start", start_of(scene, 1));
    until_heard(scene, 1, &processes);
    replace_launcher(scene, 1, "4567");
    welcome(scene, "1.1");
    order(scene, "1.1", 1, "forget", json_pack("{s:i}", "start", 9));
    until_heard(scene, 1, &processes);
    assert_int_equal(processes, 0);
    order(scene, "1.1", 2, "end", json_object());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_orders_once, begin, end),
        cmocka_unit_test_setup_teardown(test_late_void, begin, end),
        cmocka_unit_test_setup_teardown(test_new_session, begin, end),
    };
    return scratch_run("agent", tests, sizeof tests / sizeof *tests);
}
