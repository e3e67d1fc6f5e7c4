/* Tests what a launcher makes of hosts. The test plays the hosts, over the real channel. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/clock.h"
#include "common/edges/transport_control.h"
#include "common/edges/transport_keys.h"
#include "common/files.h"
#include "pipelines/launcher/host/hosts.h"
#include "tests/common/scratch.h"

enum { TURN_MS = 20, TURNS = 1000, CHILDREN = 2 };
static const double LONGEST = 20; /* s for what takes its time */
static const char REVISION[] = "0.1.0~test";

struct scene {
    char folder[PATH_SIZE];
    char public_key[TRANSPORT_KEY_SIZE], secret_key[TRANSPORT_KEY_SIZE];
    struct hosts *hosts;
    struct control *control; /* of the host that the test plays */
    char said[2048], listens[256], member[HOST_MEMBER_SIZE];
    int changes;
    char *argv[4], orders[PATH_SIZE + 64];
};

static void say(void *context, const char *id, const char *text) {
    struct scene *scene = context;
    size_t used = strlen(scene->said);
    snprintf(scene->said + used, sizeof scene->said - used, "%s|%s\n", id != NULL ? id : "", text);
}

static void changed(void *context) {
    ((struct scene *)context)->changes++;
}

static void listens(void *context, size_t child, const char *edge, const char *data, const char *ack) {
    struct scene *scene = context;
    snprintf(scene->listens, sizeof scene->listens, "%zu %s %s %s", child, edge, data, ack);
}

static void write_text(const char *path, const char *text) {
    struct err err = {0};
    assert_ok(file_make_parents(path, 0777, &err));
    assert_ok(file_write_whole(path, text, strlen(text), &err));
}

static int begin(void **state) {
    struct scene *scene = calloc(1, sizeof *scene);
    struct err err = {0};
    char text[2 * PATH_SIZE + 256];
    static int number;
    char name[32];
    snprintf(name, sizeof name, "session%d", ++number);
    scratch_path(name, scene->folder);
    assert_ok(transport_make_keys(scene->public_key, scene->secret_key, &err));
    const struct hosts_settings settings = {.session = scene->folder,
                                            .session_id = "0123",
                                            .run = 3,
                                            .revision = REVISION,
                                            .address = "127.0.0.1",
                                            .public_key = scene->public_key,
                                            .secret_key = scene->secret_key,
                                            .children = CHILDREN,
                                            .context = scene,
                                            .say = say,
                                            .changed = changed,
                                            .listens = listens};
    assert_ok(hosts_create(&settings, &scene->hosts, &err));
    snprintf(scene->orders, sizeof scene->orders, "%s/log/one.0.instance.json", scene->folder);
    snprintf(text, sizeof text,
             "{\"heartbeat\": \"%s/log/one.0.heartbeat.json\", \"current\": \"%s/log/one.0.current\"}", scene->folder,
             scene->folder);
    write_text(scene->orders, text);
    scene->argv[0] = (char *)"/bin/program";
    scene->argv[1] = (char *)"--instance";
    scene->argv[2] = scene->orders;
    *state = scene;
    return 0;
}

static int end(void **state) {
    struct scene *scene = *state;
    control_close(&scene->control);
    hosts_destroy(&scene->hosts);
    free(scene);
    return 0;
}

/* ---- The host ---- */

/* Connects as launcher.json says. */
static void find_launcher(struct scene *scene, const char *peer) {
    char path[PATH_SIZE + 64], *text = NULL;
    size_t length;
    struct err err = {0};
    struct stat info;
    snprintf(path, sizeof path, "%s/hosts/launcher.json", scene->folder);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_ok(file_read_whole(path, 1 << 16, &text, &length, &err));
    json_t *root = json_loads(text, 0, NULL), *curve = json_object_get(root, "curve");
    assert_int_equal(host_number(root, "run"), 3);
    assert_ok(control_join(host_text(root, "address"), (int)host_number(root, "port"), host_text(curve, "public"),
                           host_text(curve, "secret"), peer, &scene->control, &err));
    json_decref(root);
    free(text);
}

static void tell(struct scene *scene, enum host_kind kind, json_t *content) {
    char *text = NULL;
    size_t length;
    bool sent = false;
    struct err err = {0};
    assert_ok(host_message_encode(kind, content, &text, &length, &err));
    /* Messages for the host may wait here, so that this cannot wait for any. */
    for (double until = clock_monotonic() + LONGEST; !sent && clock_monotonic() < until;) {
        assert_ok(control_send(scene->control, NULL, text, length, &sent, &err));
        hosts_tend(scene->hosts);
    }
    assert_true(sent);
    free(text);
}

/* Waits for a message of a kind; others are passed over. The caller clears it. */
static struct host_message hear(struct scene *scene, enum host_kind kind) {
    struct host_message message = {0};
    for (int i = 0; i < TURNS; i++) {
        char peer[CONTROL_PEER_SIZE];
        const void *bytes = NULL;
        size_t length = 0;
        struct err err = {0};
        hosts_tend(scene->hosts);
        assert_ok(control_wait(scene->control, -1, TURN_MS, &err));
        assert_ok(control_receive(scene->control, peer, &bytes, &length, &err));
        if (bytes == NULL) continue;
        assert_ok(host_message_decode(bytes, length, &message, &err));
        if (message.kind == kind) return message;
        host_message_clear(&message);
    }
    fail_msg("no message of the kind %d", kind);
    return message;
}

static void tell_join(struct scene *scene, const char *name, const char *revision) {
    tell(scene, HOST_JOIN,
         json_pack("{s:s, s:s, s:s, s:i, s:i}", "name", name, "revision", revision, "address", "127.0.0.1", "cores", 8,
                   "gpus", 2));
}

static void join(struct scene *scene) {
    find_launcher(scene, "peer");
    tell_join(scene, "away", REVISION);
    struct host_message welcome = hear(scene, HOST_WELCOME);
    snprintf(scene->member, sizeof scene->member, "%s", host_text(welcome.root, "member"));
    host_message_clear(&welcome);
}

static json_t *process(int start, bool ended, int wait_status, const char *beat) {
    return json_pack("{s:i, s:i, s:b, s:i, s:s, s:i, s:s, s:s, s:s, s:b, s:b}", "start", start, "pid", 77, "ended",
                     (int)ended, "wait_status", wait_status, "error", ended ? ": it is late" : "", "beats",
                     beat[0] != '\0' ? 1 : 0, "beat", beat, "item", "an item", "item_of_signal", "", "own_work", 1,
                     "writes", 1);
}

/* Tells a state, and lets the launcher take it. */
static void tell_state(struct scene *scene, long long heard, bool leaving, json_t *one, json_t *listener) {
    json_t *processes = json_array(), *listeners = json_array();
    if (one != NULL) json_array_append_new(processes, one);
    if (listener != NULL) json_array_append_new(listeners, listener);
    tell(scene, HOST_STATE,
         json_pack("{s:s, s:I, s:b, s:o, s:o}", "member", scene->member, "heard", (json_int_t)heard, "leaving",
                   (int)leaving, "processes", processes, "listeners", listeners));
    /* Once a beat of later is here, the state was taken. */
    hosts_tend(scene->hosts);
}

static json_t *order(struct scene *scene, struct host_message *message, const char *what) {
    *message = hear(scene, HOST_ORDER);
    assert_string_equal(host_text(message->root, "what"), what);
    return message->root;
}

/* ---- The launcher's side ---- */

static const struct place_operations *operations(struct scene *scene, void **ret_context) {
    const struct process_place *place = hosts_place(scene->hosts, 0);
    *ret_context = place->context;
    return place->operations;
}

static pid_t start_one(struct scene *scene) {
    static char pair[] = "OMP_NUM_THREADS=4", gpus[] = "CUDA_VISIBLE_DEVICES=7";
    static const int gpu = 1;
    char *env[] = {pair, gpus, NULL};
    const struct supervisor_child spec = {.name = "one.0", .argv = scene->argv, .env = env, .log = "/log"};
    struct err err = {0};
    pid_t pid = 0;
    void *context;
    const struct place_operations *place = operations(scene, &context);
    hosts_prepare(scene->hosts, 1, &gpu, 1, true);
    assert_ok(place->start(context, 1, &spec, &pid, &err));
    assert_true(pid > 0);
    return pid;
}

/* A heartbeat arrives with the name of its host, by the clock of this one; at the end of its process it says so. */
static void expect_beat(struct scene *scene, bool ended) {
    char path[PATH_SIZE + 64], *found = NULL;
    size_t length;
    struct err err = {0};
    snprintf(path, sizeof path, "%s/log/one.0.heartbeat.json", scene->folder);
    assert_ok(file_read_whole(path, 1 << 16, &found, &length, &err));
    json_t *beat = json_loads(found, 0, NULL);
    assert_int_equal(host_number(beat, "pid"), 77);
    assert_string_equal(host_text(beat, "host"), "away");
    assert_true(fabs(json_number_value(json_object_get(beat, "time")) - clock_realtime()) < 2 * LONGEST);
    assert_true(host_flag(beat, "ended") == ended);
    json_decref(beat);
    free(found);
}

static void test_joins(void **state) {
    struct scene *scene = *state;
    join(scene);
    assert_int_equal(hosts_count(scene->hosts), 1);
    struct host_view view = hosts_view(scene->hosts, 0);
    assert_string_equal(view.name, "away");
    assert_true(view.there && view.cores == 8 && view.gpus == 2);
    assert_int_equal(scene->changes, 1);
    assert_non_null(strstr(scene->said, "|the host away has joined: 8 cores, 2 GPUs\n"));
    struct host_message beat = hear(scene, HOST_BEAT_KIND);
    assert_string_equal(host_text(beat.root, "member"), scene->member);
    host_message_clear(&beat);
}

static void test_other_revision(void **state) {
    struct scene *scene = *state;
    find_launcher(scene, "peer");
    tell_join(scene, "away", "0.2.0");
    struct host_message refused = hear(scene, HOST_REFUSED);
    assert_non_null(strstr(host_text(refused.root, "reason"), "0.2.0"));
    assert_non_null(strstr(host_text(refused.root, "reason"), REVISION));
    host_message_clear(&refused);
    assert_int_equal(hosts_count(scene->hosts), 0);
    assert_non_null(strstr(scene->said, "host-refused|"));
}

/* A process from its start to its end: orders, heartbeat, endpoints, signal, death. */
static void test_a_process(void **state) {
    struct scene *scene = *state;
    struct host_message message;
    void *context;
    int wait_status = 0;
    char text[64];
    struct timespec beat;
    join(scene);
    pid_t pid = start_one(scene);
    const struct place_operations *place = operations(scene, &context);
    const json_t *start = order(scene, &message, "start");
    assert_int_equal(host_number(start, "number"), 1);
    assert_string_equal(host_text(start, "program"), "/bin/program");
    assert_int_equal(json_array_size(json_object_get(start, "env")), 1);
    assert_int_equal(json_integer_value(json_array_get(json_object_get(start, "gpus"), 0)), 1);
    assert_true(host_flag(start, "takes_descriptors"));
    host_message_clear(&message);
    assert_false(place->beat(context, 1, NULL, &beat));
    for (int i = 0; i < TURNS && !place->beat(context, 1, NULL, &beat); i++)
        tell_state(scene, 1, false, process((int)pid, false, 0, "{\"pid\": 77}"),
                   json_pack("{s:i, s:s, s:s, s:s}", "start", (int)pid, "edge", "one.0>two", "data", "tcp://d:1", "ack",
                             "tcp://a:2"));
    expect_beat(scene, false);
    assert_string_equal(scene->listens, "1 one.0>two tcp://d:1 tcp://a:2");
    assert_int_equal(place->reap(context, 1, pid, &wait_status), PLACE_RUNS);
    place->signal(context, 1, pid, SIGTERM, true);
    const json_t *signal = order(scene, &message, "signal");
    assert_true(host_number(signal, "number") == 2 && host_number(signal, "signal") == SIGTERM);
    host_message_clear(&message);
    enum place_news news = PLACE_RUNS;
    for (int i = 0; i < TURNS && news == PLACE_RUNS; i++) {
        tell_state(scene, 2, false, process((int)pid, true, SIGKILL, ""), NULL);
        news = place->reap(context, 1, pid, &wait_status);
    }
    assert_int_equal(news, PLACE_ENDED);
    assert_true(WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL);
    expect_beat(scene, true);
    place->last_error(context, 1, NULL, text, sizeof text);
    assert_string_equal(text, ": it is late");
    order(scene, &message, "forget");
    host_message_clear(&message);
}

/* Orders that are not heard come again, with their numbers. */
static void test_orders_come_again(void **state) {
    struct scene *scene = *state;
    struct host_message message;
    join(scene);
    pid_t pid = start_one(scene);
    for (int i = 0; i < 3; i++) {
        const json_t *start = order(scene, &message, "start");
        assert_int_equal(host_number(start, "number"), 1);
        host_message_clear(&message);
        tell_state(scene, 0, false, NULL, NULL);
    }
    void *context;
    const struct place_operations *place = operations(scene, &context);
    tell_state(scene, 1, false, process((int)pid, false, 0, ""), NULL);
    struct host_message beat = hear(scene, HOST_BEAT_KIND);
    host_message_clear(&beat);
    place->signal(context, 1, pid, SIGINT, false);
    assert_int_equal(host_number(order(scene, &message, "signal"), "number"), 2);
    host_message_clear(&message);
}

/* A host of the same name that joins anew takes the place of the first: what ran there is lost, and the first one is told
 * so. */
static void test_begins_anew(void **state) {
    struct scene *scene = *state;
    int wait_status = 0;
    char first[HOST_MEMBER_SIZE];
    void *context;
    join(scene);
    pid_t pid = start_one(scene);
    memcpy(first, scene->member, sizeof first);
    tell_state(scene, 0, false, NULL, NULL);
    tell_join(scene, "away", REVISION);
    struct host_message welcome = hear(scene, HOST_WELCOME);
    assert_string_not_equal(host_text(welcome.root, "member"), first);
    host_message_clear(&welcome);
    const struct place_operations *place = operations(scene, &context);
    assert_int_equal(place->reap(context, 1, pid, &wait_status), PLACE_LOST);
    assert_non_null(strstr(scene->said, "host-lost|the host away has begun anew; what ran there goes on elsewhere"));
    assert_int_equal(hosts_count(scene->hosts), 1);
    tell_state(scene, 0, false, NULL, NULL); /* as the first member */
    struct host_message nothing = hear(scene, HOST_VOID);
    assert_string_equal(host_text(nothing.root, "member"), first);
    host_message_clear(&nothing);
}

/* A second host of a name is refused while the first one speaks. */
static void test_two_of_one_name(void **state) {
    struct scene *scene = *state;
    struct err err = {0};
    bool refused = false;
    join(scene);
    struct control *first = scene->control;
    find_launcher(scene, "another");
    struct control *second = scene->control;
    for (double until = clock_monotonic() + LONGEST; !refused && clock_monotonic() < until;) {
        char peer[CONTROL_PEER_SIZE];
        const void *bytes = NULL;
        size_t length = 0;
        struct host_message message = {0};
        scene->control = first;
        tell_state(scene, 0, false, NULL, NULL);
        scene->control = second;
        tell_join(scene, "away", REVISION);
        assert_ok(control_wait(second, -1, TURN_MS, &err));
        assert_ok(control_receive(second, peer, &bytes, &length, &err));
        if (bytes == NULL) continue;
        assert_ok(host_message_decode(bytes, length, &message, &err));
        refused = message.kind == HOST_REFUSED && strstr(host_text(message.root, "reason"), "--name") != NULL;
        host_message_clear(&message);
    }
    control_close(&first);
    assert_true(refused);
    assert_true(hosts_view(scene->hosts, 0).there);
}

/* The file of another launcher stays there. */
static void test_taken_over(void **state) {
    struct scene *scene = *state;
    char path[PATH_SIZE + 64];
    snprintf(path, sizeof path, "%s/hosts/launcher.json", scene->folder);
    write_text(path, "{}");
    hosts_destroy(&scene->hosts);
    assert_true(file_exists(path));
}

/* A host that leaves gets nothing new. What it has stopped goes on elsewhere; what has ended well has ended. */
static void test_leaves(void **state) {
    struct scene *scene = *state;
    int wait_status = 0;
    void *context;
    pid_t pid = 0;
    struct err err = {0};
    enum place_news news = PLACE_RUNS;
    join(scene);
    pid_t one = start_one(scene);
    const struct place_operations *place = operations(scene, &context);
    for (int i = 0; i < TURNS && hosts_view(scene->hosts, 0).there; i++)
        tell_state(scene, 1, true, process((int)one, false, 0, ""), NULL);
    assert_true(hosts_view(scene->hosts, 0).leaving);
    const struct supervisor_child spec = {.name = "one.0", .argv = scene->argv, .log = "/log"};
    assert_int_equal(place->start(context, 0, &spec, &pid, &err), STATUS_UNAVAILABLE);
    for (int i = 0; i < TURNS && news == PLACE_RUNS; i++) {
        tell_state(scene, 1, true, process((int)one, true, W_EXITCODE(128 + SIGTERM, 0), ""), NULL);
        news = place->reap(context, 1, one, &wait_status);
    }
    assert_int_equal(news, PLACE_LOST);
    for (int i = 0; i < TURNS && hosts_view(scene->hosts, 0).leaving; i++)
        tell_state(scene, 2, true, NULL, NULL);
    assert_non_null(strstr(scene->said, "|the host away has left\n"));
}

/* The end of the session is told, and the keys do not stay behind. */
static void test_the_end(void **state) {
    struct scene *scene = *state;
    char path[PATH_SIZE + 64], peer[CONTROL_PEER_SIZE];
    const void *bytes = NULL;
    size_t length = 0;
    struct err err = {0};
    bool over = false;
    join(scene);
    snprintf(path, sizeof path, "%s/hosts/launcher.json", scene->folder);
    hosts_destroy(&scene->hosts);
    assert_false(file_exists(path));
    for (int i = 0; i < TURNS && !over; i++) {
        struct host_message message = {0};
        assert_ok(control_wait(scene->control, -1, TURN_MS, &err));
        assert_ok(control_receive(scene->control, peer, &bytes, &length, &err));
        if (bytes == NULL) continue;
        assert_ok(host_message_decode(bytes, length, &message, &err));
        over = strcmp(host_text(message.root, "what"), "end") == 0;
        host_message_clear(&message);
    }
    assert_true(over);
}

/* A host that asks again before it has heard its welcome is not a new one: a launcher that was held up finds several
 * joins. */
static void test_joins_twice(void **state) {
    struct scene *scene = *state;
    void *context;
    int wait_status = 0;
    join(scene);
    pid_t pid = start_one(scene);
    tell_join(scene, "away", REVISION);
    struct host_message welcome = hear(scene, HOST_WELCOME);
    assert_string_equal(host_text(welcome.root, "member"), scene->member);
    host_message_clear(&welcome);
    const struct place_operations *place = operations(scene, &context);
    assert_int_equal(place->reap(context, 1, pid, &wait_status), PLACE_RUNS);
    assert_null(strstr(scene->said, "begun anew"));
}

/* Orders that cannot be read now, as when the session's files are away, may be there later. A listener of no process
 * means nobody. */
static void test_what_is_not_there(void **state) {
    struct scene *scene = *state;
    const struct supervisor_child spec = {.name = "one.0", .argv = scene->argv, .log = "/log"};
    struct err err = {0};
    pid_t pid = 0;
    void *context;
    join(scene);
    const struct place_operations *place = operations(scene, &context);
    strcat(scene->orders, ".away");
    assert_int_equal(place->start(context, 1, &spec, &pid, &err), STATUS_UNAVAILABLE);
    tell_state(
        scene, 0, false, process(1, false, 0, ""),
        json_pack("{s:i, s:s, s:s, s:s}", "start", 0, "edge", "one.0>two", "data", "tcp://d:1", "ack", "tcp://a:2"));
    struct host_message beat = hear(scene, HOST_BEAT_KIND);
    host_message_clear(&beat);
    assert_string_equal(scene->listens, "");
}

static void expect_bad(const char *text) {
    struct host_message message = {0};
    struct err err = {0};
    assert_int_not_equal(host_message_decode(text, strlen(text), &message, &err), STATUS_OK);
    assert_null(message.root);
}

static void test_bad_messages(void **state) {
    (void)state;
    expect_bad("");
    expect_bad("[]");
    expect_bad("{\"v\": 1}");
    expect_bad("{\"v\": 2, \"kind\": \"void\"}");
    expect_bad("{\"v\": 1, \"kind\": \"beat\"}");
    expect_bad("{\"v\": 1, \"kind\": \"beat\", \"member\": 4}");
    expect_bad("{\"v\": 1, \"kind\": \"order\", \"member\": \"1\", \"number\": 1, \"what\": \"dance\"}");
    expect_bad("{\"v\": 1, \"kind\": \"order\", \"member\": \"1\", \"number\": 1, \"what\": \"signal\", \"start\": 1, "
               "\"signal\": 65, \"group\": false}");
    expect_bad(
        "{\"v\": 1, \"kind\": \"state\", \"member\": \"1\", \"heard\": 1, \"leaving\": false, \"processes\": [4], "
        "\"listeners\": []}");
    expect_bad(
        "{\"v\": 1, \"kind\": \"join\", \"name\": \"a\", \"revision\": \"b\", \"address\": \"c\", \"cores\": -1, "
        "\"gpus\": 0}");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_joins, begin, end),
        cmocka_unit_test_setup_teardown(test_other_revision, begin, end),
        cmocka_unit_test_setup_teardown(test_a_process, begin, end),
        cmocka_unit_test_setup_teardown(test_orders_come_again, begin, end),
        cmocka_unit_test_setup_teardown(test_begins_anew, begin, end),
        cmocka_unit_test_setup_teardown(test_two_of_one_name, begin, end),
        cmocka_unit_test_setup_teardown(test_taken_over, begin, end),
        cmocka_unit_test_setup_teardown(test_leaves, begin, end),
        cmocka_unit_test_setup_teardown(test_the_end, begin, end),
        cmocka_unit_test_setup_teardown(test_joins_twice, begin, end),
        cmocka_unit_test_setup_teardown(test_what_is_not_there, begin, end),
        cmocka_unit_test(test_bad_messages),
    };
    return scratch_run("hosts", tests, sizeof tests / sizeof *tests);
}
