/* Tests sockets of edges on the network: those that listen already when a process takes them, and those whose peer
 * moves. The test plays the launcher, which keeps the listening sockets. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/edges/transport.h"
#include "common/edges/transport_keys.h"
#include "tests/common/scratch.h"

enum { WAIT_MS = 20000, LOOKS = 5 };

static char public_key[TRANSPORT_KEY_SIZE], secret_key[TRANSPORT_KEY_SIZE];

/* Listens on a port that the system chooses; blocking, as another program may leave it. */
static int listening(char endpoint[64]) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(descriptor >= 0);
    assert_int_equal(bind(descriptor, (struct sockaddr *)&address, length), 0);
    assert_int_equal(listen(descriptor, 16), 0);
    assert_int_equal(getsockname(descriptor, (struct sockaddr *)&address, &length), 0);
    snprintf(endpoint, 64, "tcp://127.0.0.1:%d", ntohs(address.sin_port));
    return descriptor;
}

static struct transport *with_keys(void) {
    struct transport *transport = NULL;
    struct err err = {0};
    assert_ok(transport_create(public_key, secret_key, &transport, &err));
    return transport;
}

/* Opens the sending end on the socket that listens, as an instance does that has inherited it. */
static struct transport_socket *take(struct transport *transport, const char *endpoint, int kept) {
    struct transport_socket *socket = NULL;
    struct err err = {0};
    assert_ok(transport_adopt(transport, endpoint, dup(kept), &err));
    assert_ok(transport_open(transport, TRANSPORT_DATA_OUT, endpoint, 10, &socket, &err));
    return socket;
}

static void send_word(struct transport_socket *socket, const char *word) {
    struct err err = {0};
    struct transport_wait wait = {.socket = socket, .for_sending = true};
    bool sent = false;
    assert_ok(transport_poll(&wait, 1, WAIT_MS, &err));
    assert_true(wait.ready);
    assert_ok(transport_send(socket, word, strlen(word), &sent, &err));
    assert_true(sent);
}

static void expect_word(struct transport_socket *socket, const char *word) {
    struct err err = {0};
    struct transport_wait wait = {.socket = socket};
    const void *bytes = NULL;
    size_t length = 0;
    assert_ok(transport_poll(&wait, 1, WAIT_MS, &err));
    assert_true(wait.ready);
    assert_ok(transport_receive(socket, &bytes, &length, &err));
    assert_int_equal(length, strlen(word));
    assert_memory_equal(bytes, word, length);
}

static void an_endpoint_outlives_its_process(void **state) {
    (void)state;
    struct err err = {0};
    char endpoint[64];
    int kept = listening(endpoint);
    /* The receiver comes first: nobody accepts its connection yet. */
    struct transport *receiver = with_keys();
    struct transport_socket *in = NULL;
    assert_ok(transport_open(receiver, TRANSPORT_DATA_IN, endpoint, 10, &in, &err));
    for (int life = 0; life < 3; life++) {
        struct transport *sender = with_keys();
        struct transport_socket *out = take(sender, endpoint, kept);
        send_word(out, life == 0 ? "first" : life == 1 ? "second" : "third");
        expect_word(in, life == 0 ? "first" : life == 1 ? "second" : "third");
        transport_destroy(&sender);
        /* The port is still bound, so that nobody else can have it. */
        assert_true(fcntl(kept, F_GETFD) >= 0);
    }
    transport_destroy(&receiver);
    close(kept);
}

static void a_stranger_is_turned_away_from_an_inherited_socket(void **state) {
    (void)state;
    struct err err = {0};
    char endpoint[64], other_public[TRANSPORT_KEY_SIZE], other_secret[TRANSPORT_KEY_SIZE];
    int kept = listening(endpoint);
    struct transport *sender = with_keys(), *stranger = NULL, *receiver = with_keys();
    struct transport_socket *in = NULL, *ear = NULL, *out = take(sender, endpoint, kept);
    assert_ok(transport_make_keys(other_public, other_secret, &err));
    assert_ok(transport_create(other_public, other_secret, &stranger, &err));
    assert_ok(transport_open(stranger, TRANSPORT_DATA_IN, endpoint, 10, &ear, &err));
    while (transport_refused(sender) == 0) {
        struct transport_wait wait = {.socket = ear};
        assert_ok(transport_poll(&wait, 1, 10, &err));
        assert_false(wait.ready);
    }
    assert_ok(transport_open(receiver, TRANSPORT_DATA_IN, endpoint, 10, &in, &err));
    send_word(out, "ours");
    expect_word(in, "ours");
    transport_destroy(&stranger);
    transport_destroy(&receiver);
    transport_destroy(&sender);
    close(kept);
}

static void what_does_not_listen_there_is_not_taken(void **state) {
    (void)state;
    struct err err = {0};
    char endpoint[64], other[64];
    int kept = listening(endpoint), second = listening(other);
    struct transport *transport = with_keys();
    int deaf = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const int wrong[] = {deaf, file, second, 9999};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(transport_adopt(transport, endpoint, wrong[i], &err), STATUS_BAD_ARGUMENT);
        assert_non_null(strstr(err.message, endpoint));
        assert_int_equal(fcntl(wrong[i], F_GETFD), -1); /* closed */
    }
    /* One that is adopted and never used is closed with the transport. */
    int unused = dup(kept);
    assert_ok(transport_adopt(transport, endpoint, unused, &err));
    assert_int_equal(fcntl(unused, F_GETFD), FD_CLOEXEC);
    transport_destroy(&transport);
    assert_int_equal(fcntl(unused, F_GETFD), -1);
    close(kept);
}

static void a_receiver_follows_its_sender(void **state) {
    (void)state;
    struct err err = {0};
    char before[64], after[64];
    int kept[2] = {listening(before), listening(after)};
    struct transport *old = with_keys(), *fresh = with_keys(), *receiver = with_keys();
    struct transport_socket *in = NULL, *out = take(old, before, kept[0]), *new_out = take(fresh, after, kept[1]);
    assert_ok(transport_open(receiver, TRANSPORT_DATA_IN, before, 10, &in, &err));
    send_word(out, "before");
    expect_word(in, "before");
    bool moved = true;
    assert_ok(transport_move(receiver, in, before, &moved, &err));
    assert_false(moved);
    assert_ok(transport_move(receiver, in, after, &moved, &err));
    assert_true(moved);
    send_word(new_out, "after");
    expect_word(in, "after");
    /* The old sender loses its peer, and the end of that connection is not taken for the new one's. */
    bool sent = true;
    while (sent)
        assert_ok(transport_send(out, "late", 4, &sent, &err));
    transport_destroy(&old);
    for (int i = 0; i < LOOKS; i++) {
        int renewed = -1;
        assert_ok(transport_mend(receiver, &renewed, &err));
        assert_int_equal(renewed, 0);
    }
    send_word(new_out, "still");
    expect_word(in, "still");
    /* An endpoint that is none leaves the socket as it is. */
    assert_int_not_equal(transport_move(receiver, in, "nowhere", NULL, &err), STATUS_OK);
    send_word(new_out, "as it was");
    expect_word(in, "as it was");
    assert_int_equal(transport_move(fresh, new_out, before, NULL, &err), STATUS_BAD_STATE);
    transport_destroy(&receiver);
    transport_destroy(&fresh);
    close(kept[0]);
    close(kept[1]);
}

static void answers_reach_the_sender_that_has_moved(void **state) {
    (void)state;
    struct err err = {0};
    char before[64], after[64];
    int kept[2] = {listening(before), listening(after)};
    struct transport *fresh = with_keys(), *receiver = with_keys();
    struct transport_socket *acks = NULL, *in = NULL;
    bool sent = false;
    assert_ok(transport_open(receiver, TRANSPORT_ACK_OUT, before, 10, &acks, &err));
    /* Nobody listens there any more: this answer is lost, and does not hold up the next ones. */
    assert_ok(transport_send(acks, "lost", 4, &sent, &err));
    assert_ok(transport_move(receiver, acks, after, NULL, &err));
    assert_ok(transport_adopt(fresh, after, dup(kept[1]), &err));
    assert_ok(transport_open(fresh, TRANSPORT_ACK_IN, after, 10, &in, &err));
    assert_ok(transport_send(acks, "hello", 5, &sent, &err));
    assert_true(sent);
    expect_word(in, "hello");
    transport_destroy(&receiver);
    transport_destroy(&fresh);
    close(kept[0]);
    close(kept[1]);
}

int main(void) {
    struct err err = {0};
    if (transport_make_keys(public_key, secret_key, &err) != STATUS_OK) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_endpoint_outlives_its_process),
        cmocka_unit_test(a_stranger_is_turned_away_from_an_inherited_socket),
        cmocka_unit_test(what_does_not_listen_there_is_not_taken),
        cmocka_unit_test(a_receiver_follows_its_sender),
        cmocka_unit_test(answers_reach_the_sender_that_has_moved),
    };
    return scratch_run("transport", tests, sizeof tests / sizeof *tests);
}
