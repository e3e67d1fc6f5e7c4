/* Tests what a ledger in PostgreSQL does when its connection is lost: between two calls, and while it commits. A relay
 * stands between the two; it cuts the connection before or after a COMMIT has passed. Runs beside
 * private_postgresql.sh. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/edges/ledger.h"
#include "common/edges/ledger_address.h"
#include "common/files.h"
#include "tests/common/scratch.h"

enum cut { CUT_NEVER, CUT_BEFORE_COMMIT, CUT_AFTER_COMMIT };

struct relay {
    pthread_t thread;
    int listener, port, server_port;
    int wake[2], told[2]; /* a byte in the one cuts the connection, and comes back from the other */
    _Atomic(int) cut;     /* enum cut; NEVER once it has happened */
    _Atomic(int) count;   /* connections so far */
    _Atomic(bool) leaves; /* after a cut, nobody is let in until `away` is false again */
    _Atomic(bool) away;
};

static int port_of_server(void) {
    const char *url = getenv("ICESTREAM_TEST_POSTGRESQL_TCP"), *port = strrchr(url, ':');
    return atoi(port + 1);
}

static int dial(int port) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(descriptor, (struct sockaddr *)&address, sizeof address) == 0) return descriptor;
    close(descriptor);
    return -1;
}

static bool pass(const char *bytes, ssize_t length, int to) {
    for (ssize_t done = 0; done < length;) {
        ssize_t wrote = send(to, bytes + done, (size_t)(length - done), MSG_NOSIGNAL);
        if (wrote <= 0) return false;
        done += wrote;
    }
    return true;
}

static bool commits(const char *bytes, ssize_t length) {
    return memmem(bytes, (size_t)length, "COMMIT", strlen("COMMIT")) != NULL;
}

/* Passes what comes from one side on to the other. Returns whether the connection goes on. */
static bool carry(struct relay *relay, int from, int to, bool to_server) {
    char bytes[1 << 16];
    ssize_t length = recv(from, bytes, sizeof bytes, 0);
    if (length <= 0) return false;
    int cut = atomic_load(&relay->cut);
    bool commit = to_server && commits(bytes, length);
    if (commit && cut == CUT_BEFORE_COMMIT) {
        atomic_store(&relay->cut, CUT_NEVER);
        return false;
    }
    if (!pass(bytes, length, to)) return false;
    if (!commit || cut != CUT_AFTER_COMMIT) return true;
    /* The answer has come, so it is done, and nobody hears of it. */
    (void)!recv(to, bytes, sizeof bytes, 0);
    atomic_store(&relay->away, atomic_load(&relay->leaves));
    atomic_store(&relay->cut, CUT_NEVER);
    return false;
}

static void serve(struct relay *relay, int client) {
    int server = dial(relay->server_port);
    bool woken = false;
    struct pollfd ends[] = {{client, POLLIN, 0}, {server, POLLIN, 0}, {relay->wake[0], POLLIN, 0}};
    atomic_fetch_add(&relay->count, 1);
    for (bool on = server >= 0; on;) {
        poll(ends, 3, -1);
        if (ends[2].revents != 0) {
            char byte;
            woken = read(relay->wake[0], &byte, 1) == 1;
            break;
        }
        if (ends[0].revents != 0) on = carry(relay, client, server, true);
        if (on && ends[1].revents != 0) on = carry(relay, server, client, false);
    }
    close(client);
    if (server >= 0) close(server);
    if (woken) (void)!write(relay->told[1], "x", 1);
}

static void *work(void *context) {
    struct relay *relay = context;
    for (;;) {
        int client = accept4(relay->listener, NULL, NULL, SOCK_CLOEXEC);
        if (client < 0) return NULL;
        if (atomic_load(&relay->away))
            close(client);
        else
            serve(relay, client);
    }
}

static void relay_begin(struct relay *relay) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    *relay = (struct relay){.server_port = port_of_server()};
    relay->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(relay->listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(relay->listener, 8), 0);
    assert_int_equal(getsockname(relay->listener, (struct sockaddr *)&address, &length), 0);
    assert_int_equal(pipe(relay->wake), 0);
    assert_int_equal(pipe(relay->told), 0);
    relay->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&relay->thread, NULL, work, relay), 0);
}

static void end(struct relay *relay, struct ledger *ledger) {
    ledger_close(&ledger); /* first: relay->thread ends once no connection is open */
    shutdown(relay->listener, SHUT_RDWR);
    pthread_join(relay->thread, NULL);
    close(relay->listener);
    for (int i = 0; i < 2; i++) {
        close(relay->wake[i]);
        close(relay->told[i]);
    }
}

static void cut_now(struct relay *relay) {
    char byte;
    assert_int_equal(write(relay->wake[1], "x", 1), 1);
    assert_int_equal(read(relay->told[0], &byte, 1), 1);
}

/* Opens a ledger through a relay. stage: another one in each test. */
static struct ledger *begin(struct relay *relay, const char *stage) {
    struct ledger *ledger = NULL;
    struct err err = {0};
    char url[96], path[PATH_SIZE];
    relay_begin(relay);
    snprintf(url, sizeof url, "postgresql://secret@127.0.0.1:%d/postgres", relay->port);
    assert_ok(ledger_address_print(url, "lost", stage, path, PATH_SIZE, &err));
    assert_ok(ledger_server_take(getenv("ICESTREAM_TEST_POSTGRESQL_TCP"), "lost", "/folder", "", &err));
    assert_ok(ledger_open(path, stage, false, &ledger, &err));
    return ledger;
}

static struct item *make_item(const char *id) {
    struct item *item = NULL;
    struct err err = {0};
    assert_ok(item_create(id, "micrograph", &item, &err));
    return item;
}

static enum status finish(struct ledger *ledger, const char *id, bool *ret_late, struct err *err) {
    struct item *item = make_item(id);
    struct ledger_send send = {"s.0>next", item};
    const struct ledger_finish what = {
        .key = {"", id}, .state = LEDGER_DONE, .item = item, .run_token = "token", .sends = &send, .send_count = 1};
    enum status status = ledger_finish_items(ledger, &what, 1, ret_late, err);
    item_destroy(&item);
    return status;
}

static enum status claim(struct ledger *ledger, const char *id, enum ledger_claim *ret_claim, struct err *err) {
    struct item *item = make_item(id);
    enum status status = ledger_claim_item(ledger, item, 0, "token", ret_claim, err);
    item_destroy(&item);
    return status;
}

static void expect_counts(struct ledger *ledger, int64_t done, int64_t in_flight, int64_t outbox) {
    struct ledger_counts counts;
    struct err err = {0};
    assert_ok(ledger_counts(ledger, &counts, &err));
    assert_int_equal(counts.done, done);
    assert_int_equal(counts.in_flight, in_flight);
    assert_int_equal(counts.outbox, outbox);
}

/* A stage that claims or finishes an item does not learn that the answer was lost: nothing is late, and nothing is
 * double. */
static void a_lost_answer_is_found_again(void **state) {
    (void)state;
    struct relay relay;
    struct err err = {0};
    enum ledger_claim is = CLAIM_ELSEWHERE;
    bool late = true;
    struct ledger *ledger = begin(&relay, "after");
    atomic_store(&relay.cut, CUT_AFTER_COMMIT);
    assert_ok(claim(ledger, "a", &is, &err));
    assert_int_equal(atomic_load(&relay.cut), CUT_NEVER);
    assert_int_equal(is, CLAIM_NEW);
    expect_counts(ledger, 0, 1, 0);
    atomic_store(&relay.cut, CUT_AFTER_COMMIT);
    assert_ok(finish(ledger, "a", &late, &err));
    assert_int_equal(atomic_load(&relay.cut), CUT_NEVER);
    assert_false(late);
    assert_string_equal(err.message, "");
    expect_counts(ledger, 1, 0, 1);
    assert_int_equal(atomic_load(&relay.count), 3);
    end(&relay, ledger);
}

/* A COMMIT that did not reach the server leaves nothing, and takes place when it is repeated. */
static void a_lost_commit_has_left_nothing(void **state) {
    (void)state;
    struct relay relay;
    struct err err = {0};
    enum ledger_claim is = CLAIM_ELSEWHERE;
    bool late = true;
    struct ledger *ledger = begin(&relay, "before");
    assert_ok(claim(ledger, "a", &is, &err));
    atomic_store(&relay.cut, CUT_BEFORE_COMMIT);
    assert_int_equal(finish(ledger, "a", &late, &err), STATUS_UNAVAILABLE);
    assert_int_equal(atomic_load(&relay.cut), CUT_NEVER);
    assert_null(strstr(err.message, "word"));
    expect_counts(ledger, 0, 1, 0);
    assert_ok(finish(ledger, "a", &late, &err));
    assert_false(late);
    expect_counts(ledger, 1, 0, 1);
    end(&relay, ledger);
}

/* Between two calls the connection may come and go. */
static void a_lost_connection_is_made_anew(void **state) {
    (void)state;
    struct relay relay;
    struct err err = {0};
    enum ledger_claim is = CLAIM_ELSEWHERE;
    struct ledger *ledger = begin(&relay, "between");
    cut_now(&relay);
    assert_ok(claim(ledger, "a", &is, &err));
    assert_int_equal(is, CLAIM_NEW);
    cut_now(&relay);
    expect_counts(ledger, 0, 1, 0);
    assert_int_equal(atomic_load(&relay.count), 3);
    end(&relay, ledger);
}

/* A stage that waits for the server; what another thread is told meanwhile. */
struct waiting {
    struct relay *relay;
    struct ledger *ledger;
    enum status told;
    int calls;
};

static void *another(void *context) {
    struct waiting *waiting = context;
    enum ledger_claim is;
    struct err err = {0};
    waiting->told = claim(waiting->ledger, "b", &is, &err);
    return NULL;
}

static bool let_come_back(void *context) {
    struct waiting *waiting = context;
    pthread_t thread;
    waiting->calls++;
    assert_int_equal(pthread_create(&thread, NULL, another, waiting), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    atomic_store(&waiting->relay->away, false);
    return true;
}

static bool give_up(void *context) {
    struct waiting *waiting = context;
    waiting->calls++;
    return false;
}

/* A thread that waits for the answer to a COMMIT does not block the other threads of the stage, which learn that they
 * must wait, and does not repeat the transaction. */
static void a_stage_waits_without_the_ledger(void **state) {
    (void)state;
    struct relay relay;
    struct err err = {0};
    enum ledger_claim is = CLAIM_ELSEWHERE;
    struct ledger *ledger = begin(&relay, "waits");
    struct waiting waiting = {.relay = &relay, .ledger = ledger, .told = STATUS_OK};
    ledger_on_wait(ledger, let_come_back, &waiting);
    atomic_store(&relay.leaves, true);
    atomic_store(&relay.cut, CUT_AFTER_COMMIT);
    ledger_hold(ledger);
    assert_ok(claim(ledger, "a", &is, &err));
    ledger_let_go(ledger);
    assert_int_equal(is, CLAIM_NEW);
    assert_int_equal(waiting.told, STATUS_UNAVAILABLE);
    assert_int_equal(waiting.calls, 1);
    expect_counts(ledger, 0, 1, 0);
    assert_ok(claim(ledger, "b", &is, &err));
    assert_int_equal(is, CLAIM_NEW);
    end(&relay, ledger);
}

/* A stage that is to end does not wait for a server that is away. */
static void a_stage_that_ends_gives_up(void **state) {
    (void)state;
    struct relay relay;
    struct err err = {0};
    enum ledger_claim is = CLAIM_ELSEWHERE;
    struct ledger *ledger = begin(&relay, "ends");
    struct waiting waiting = {.relay = &relay, .ledger = ledger};
    ledger_on_wait(ledger, give_up, &waiting);
    atomic_store(&relay.leaves, true);
    atomic_store(&relay.cut, CUT_AFTER_COMMIT);
    assert_int_equal(claim(ledger, "a", &is, &err), STATUS_UNAVAILABLE);
    assert_non_null(strstr(err.message, "not known"));
    assert_int_equal(waiting.calls, 1);
    end(&relay, ledger);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_answer_is_found_again),   cmocka_unit_test(a_lost_commit_has_left_nothing),
        cmocka_unit_test(a_lost_connection_is_made_anew), cmocka_unit_test(a_stage_waits_without_the_ledger),
        cmocka_unit_test(a_stage_that_ends_gives_up),
    };
    return scratch_run("ledger_lost", tests, sizeof tests / sizeof *tests);
}
