/* Tests the sending side of an edge. The test plays the receiver: late, forgetful, dying, or sending nonsense. The test
 * also sets the clock. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/edges/outbox.h"
#include "tests/common/scratch.h"

static const char edge_name[] = "w.0>p";
enum { WINDOW = 3, WAIT_MS = 5000 };

struct edge {
    struct transport *upstream, *downstream;
    struct ledger *ledger;
    struct outbox *outbox;
    struct transport_socket *data, *acks; /* of the receiver */
    char data_endpoint[PATH_SIZE + 8], ack_endpoint[PATH_SIZE + 8];
};

static void open_receiver(struct edge *edge) {
    struct err err = {0};
    assert_ok(transport_create(NULL, NULL, &edge->downstream, &err));
    assert_ok(transport_open(edge->downstream, TRANSPORT_DATA_IN, edge->data_endpoint, 2, &edge->data, &err));
    assert_ok(transport_open(edge->downstream, TRANSPORT_ACK_OUT, edge->ack_endpoint, 100, &edge->acks, &err));
}

static void post(struct edge *edge, const char *id) {
    struct err err = {0};
    struct item *item = NULL;
    bool is_new;
    assert_ok(item_create(id, "micrograph", &item, &err));
    const struct ledger_send send = {edge_name, item};
    assert_ok(ledger_originate(edge->ledger, item, LEDGER_DONE, NULL, &send, 1, &is_new, &err));
    item_destroy(&item);
}

static int set_up(void **state) {
    static int number;
    struct edge *edge = calloc(1, sizeof *edge);
    struct err err = {0};
    char path[PATH_SIZE], name[32];
    assert_non_null(edge);
    number++;
    snprintf(name, sizeof name, "d%d", number);
    scratch_path(name, path);
    snprintf(edge->data_endpoint, sizeof edge->data_endpoint, "ipc://%s", path);
    snprintf(name, sizeof name, "a%d", number);
    scratch_path(name, path);
    snprintf(edge->ack_endpoint, sizeof edge->ack_endpoint, "ipc://%s", path);
    assert_ok(ledger_open(":memory:", "stage", false, &edge->ledger, &err));
    assert_ok(transport_create(NULL, NULL, &edge->upstream, &err));
    assert_ok(outbox_create(edge->upstream, edge->ledger, edge_name, edge->data_endpoint, edge->ack_endpoint, WINDOW,
                            &edge->outbox, &err));
    *state = edge;
    return 0;
}

static int tear_down(void **state) {
    struct edge *edge = *state;
    outbox_destroy(&edge->outbox);
    transport_destroy(&edge->downstream);
    transport_destroy(&edge->upstream);
    ledger_close(&edge->ledger);
    free(edge);
    return 0;
}

static void wait_for(struct transport_socket *socket, bool sending) {
    struct err err = {0};
    struct transport_wait wait = {.socket = socket, .for_sending = sending};
    assert_ok(transport_poll(&wait, 1, WAIT_MS, &err));
    assert_true(wait.ready);
}

/* Pumps until the receiver is connected and something was sent. */
static void pump(struct edge *edge, double now) {
    struct err err = {0};
    assert_ok(outbox_pump(edge->outbox, now, &err));
    while (outbox_blocked(edge->outbox)) {
        wait_for(outbox_data(edge->outbox), true);
        assert_ok(outbox_pump(edge->outbox, now, &err));
    }
}

static bool try_receive(struct edge *edge, struct message *message) {
    struct err err = {0};
    const void *bytes;
    size_t length;
    assert_ok(transport_receive(edge->data, &bytes, &length, &err));
    if (bytes == NULL) return false;
    assert_ok(message_decode(bytes, length, message, &err));
    return true;
}

/* Checks that the next message holds this item (NULL: the end). Returns its seq. */
static int64_t expect(struct edge *edge, const char *id, int attempt) {
    struct message message = {0};
    wait_for(edge->data, false);
    assert_true(try_receive(edge, &message));
    assert_int_equal(message.kind, id != NULL ? MESSAGE_ITEM : MESSAGE_END);
    if (id != NULL) assert_string_equal(item_id(message.item), id);
    assert_int_equal(message.attempt, attempt);
    int64_t seq = message.seq;
    message_clear(&message);
    return seq;
}

static void expect_nothing(struct edge *edge) {
    struct err err = {0};
    /* Checks that nothing is on its way. Order is kept within a pipe, so a message sent now would arrive after any
     * other. */
    struct transport_wait wait = {.socket = edge->data};
    assert_ok(transport_poll(&wait, 1, 20, &err));
    assert_false(wait.ready);
}

static enum status hand_over(struct edge *edge, const void *bytes, size_t length, bool *acknowledged) {
    struct err err = {0};
    struct message message = {0};
    enum status status = message_decode(bytes, length, &message, &err);
    if (status == STATUS_OK) status = outbox_answer(edge->outbox, &message, &err);
    message_clear(&message);
    int64_t count = 0;
    if (status == STATUS_OK) status = outbox_strike_off(edge->outbox, &count, &err);
    *acknowledged = count > 0;
    return status;
}

static void answer(struct edge *edge, enum message_kind kind, int64_t seq, const char *token, bool expect_first) {
    struct err err = {0};
    struct message message = {.kind = kind, .seq = seq, .instance = 0, .verdict = "done"};
    snprintf(message.edge, sizeof message.edge, "%s", edge_name);
    snprintf(message.token, sizeof message.token, "%s", token);
    char *text = NULL;
    size_t length;
    const void *bytes;
    bool sent, acknowledged = false;
    assert_ok(message_encode(&message, NULL, &text, &length, &err));
    assert_ok(transport_send(edge->acks, text, length, &sent, &err));
    assert_true(sent);
    free(text);
    wait_for(outbox_acks(edge->outbox), false);
    assert_ok(transport_receive(outbox_acks(edge->outbox), &bytes, &length, &err));
    assert_int_equal(hand_over(edge, bytes, length, &acknowledged), STATUS_OK);
    assert_int_equal(acknowledged, expect_first);
}

static void a_late_receiver_gets_all_within_the_window(void **state) {
    struct edge *edge = *state;
    struct err err = {0};
    for (int i = 0; i < 5; i++)
        post(edge, (const char *[]){"a", "b", "c", "d", "e"}[i]);
    assert_ok(outbox_pump(edge->outbox, 0, &err));
    assert_true(outbox_blocked(edge->outbox));
    open_receiver(edge);
    pump(edge, 0);
    int64_t a = expect(edge, "a", 1), b = expect(edge, "b", 1);
    expect(edge, "c", 1);
    expect_nothing(edge);
    answer(edge, MESSAGE_GOT, a, "t", false);
    answer(edge, MESSAGE_ACK, b, "t", true);
    answer(edge, MESSAGE_ACK, b, "t", false);
    pump(edge, 0);
    expect(edge, "d", 1);
    expect_nothing(edge);
}

static void what_nobody_has_got_comes_again(void **state) {
    struct edge *edge = *state;
    open_receiver(edge);
    post(edge, "a");
    post(edge, "b");
    pump(edge, 100);
    int64_t a = expect(edge, "a", 1);
    int64_t b = expect(edge, "b", 1);
    answer(edge, MESSAGE_GOT, a, "t", false);
    pump(edge, 109);
    expect_nothing(edge);
    pump(edge, 111);
    assert_int_equal(expect(edge, "b", 2), b);
    pump(edge, 130);
    expect_nothing(edge);
    pump(edge, 132);
    assert_int_equal(expect(edge, "b", 3), b);
    answer(edge, MESSAGE_ACK, b, "t", true);
    answer(edge, MESSAGE_ACK, a, "t", true);
    pump(edge, 1000);
    expect_nothing(edge);
}

/* The acknowledgement may be lost, or the hello of a receiver's next life. */
static void what_is_not_acknowledged_for_long_comes_again(void **state) {
    struct edge *edge = *state;
    open_receiver(edge);
    outbox_set_pause(edge->outbox, 1);
    post(edge, "a");
    pump(edge, 100);
    int64_t a = expect(edge, "a", 1);
    answer(edge, MESSAGE_GOT, a, "t", false);
    pump(edge, 105);
    expect_nothing(edge);
    pump(edge, 107);
    assert_int_equal(expect(edge, "a", 2), a);
    answer(edge, MESSAGE_ACK, a, "t", true);
    pump(edge, 1000);
    expect_nothing(edge);
}

/* A receiver that acknowledges at once gets more items at a time than a slow receiver. */
static void the_window_follows_the_rate(void **state) {
    struct edge *edge = *state;
    struct err err = {0};
    enum { COUNT = 60 };
    double now = 1;
    open_receiver(edge);
    for (int i = 0; i < COUNT; i++) {
        char id[16];
        snprintf(id, sizeof id, "i%02d", i);
        post(edge, id);
    }
    assert_int_equal(outbox_window(edge->outbox), WINDOW);
    int most = 0;
    for (int got = 0; got < COUNT; now += 0.01) {
        struct message message = {0};
        assert_ok(outbox_pump(edge->outbox, now, &err));
        struct transport_wait wait = {.socket = edge->data};
        assert_ok(transport_poll(&wait, 1, 50, &err));
        for (; try_receive(edge, &message); got++) {
            char id[16];
            snprintf(id, sizeof id, "i%02d", got);
            assert_string_equal(item_id(message.item), id);
            answer(edge, MESSAGE_ACK, message.seq, "t", true);
            message_clear(&message);
        }
        if (outbox_window(edge->outbox) > most) most = outbox_window(edge->outbox);
    }
    assert_true(most > 2 * WINDOW);
    for (int i = 0; i < 3; i++)
        assert_ok(outbox_pump(edge->outbox, now += 1, &err));
    assert_int_equal(outbox_window(edge->outbox), WINDOW);
}

/* A dead receiver's message about items it holds may arrive after the hello of its next life. */
static void a_late_word_of_the_dead_counts_for_nothing(void **state) {
    struct edge *edge = *state;
    open_receiver(edge);
    post(edge, "a");
    pump(edge, 0);
    int64_t a = expect(edge, "a", 1);
    answer(edge, MESSAGE_HELLO, 0, "second", false);
    pump(edge, 1);
    assert_int_equal(expect(edge, "a", 2), a);
    answer(edge, MESSAGE_GOT, a, "first", false);
    pump(edge, 22);
    assert_int_equal(expect(edge, "a", 3), a);
    /* Items that the dead receiver finished stay finished. */
    answer(edge, MESSAGE_ACK, a, "first", true);
}

/* A wrong number must not strike off an item that nobody has seen. */
static void what_was_not_sent_cannot_be_acknowledged(void **state) {
    struct edge *edge = *state;
    struct err err = {0};
    for (int i = 0; i < 5; i++)
        post(edge, (const char *[]){"a", "b", "c", "d", "e"}[i]);
    assert_ok(outbox_pump(edge->outbox, 0, &err));
    for (int64_t seq = 1; seq < 8; seq++) {
        struct message message = {.kind = MESSAGE_ACK, .seq = seq, .edge = "w.0>p", .token = "t", .verdict = "done"};
        int64_t struck = 0;
        assert_int_equal(outbox_answer(edge->outbox, &message, &err), STATUS_NOT_FOUND);
        assert_ok(outbox_strike_off(edge->outbox, &struck, &err));
        assert_int_equal(struck, 0);
    }
    open_receiver(edge);
    pump(edge, 0);
    int64_t a = expect(edge, "a", 1);
    struct message message = {.kind = MESSAGE_ACK, .seq = a, .edge = "w.0>p", .token = "t", .verdict = "maybe"};
    assert_int_equal(outbox_answer(edge->outbox, &message, &err), STATUS_BAD_FORMAT);
    answer(edge, MESSAGE_ACK, a, "t", true);
    expect(edge, "b", 1);
    expect(edge, "c", 1);
    pump(edge, 0);
    expect(edge, "d", 1);
}

static void a_new_life_gets_what_the_last_one_held(void **state) {
    struct edge *edge = *state;
    open_receiver(edge);
    post(edge, "a");
    pump(edge, 0);
    int64_t a = expect(edge, "a", 1);
    answer(edge, MESSAGE_GOT, a, "first", false);
    /* A second hello of the same life changes nothing. */
    answer(edge, MESSAGE_HELLO, 0, "first", false);
    pump(edge, 1);
    expect_nothing(edge);
    transport_destroy(&edge->downstream);
    open_receiver(edge);
    answer(edge, MESSAGE_HELLO, 0, "second", false);
    pump(edge, 2);
    assert_int_equal(expect(edge, "a", 2), a);
    answer(edge, MESSAGE_ACK, a, "second", true);
}

static void a_restarted_sender_goes_on_from_the_ledger(void **state) {
    struct edge *edge = *state;
    struct err err = {0};
    open_receiver(edge);
    post(edge, "a");
    post(edge, "b");
    pump(edge, 0);
    int64_t a = expect(edge, "a", 1);
    int64_t b = expect(edge, "b", 1);
    answer(edge, MESSAGE_ACK, a, "t", true);
    outbox_destroy(&edge->outbox);
    transport_destroy(&edge->upstream);
    assert_ok(transport_create(NULL, NULL, &edge->upstream, &err));
    assert_ok(outbox_create(edge->upstream, edge->ledger, edge_name, edge->data_endpoint, edge->ack_endpoint, WINDOW,
                            &edge->outbox, &err));
    pump(edge, 1);
    assert_int_equal(expect(edge, "b", 1), b);
    answer(edge, MESSAGE_ACK, b, "t", true);
}

static int64_t waiting_of(struct edge *edge) {
    struct err err = {0};
    int64_t count = -1;
    assert_ok(ledger_unacknowledged(edge->ledger, edge_name, &count, &err));
    return count;
}

static void a_withdrawn_acknowledgement_is_sent_again(void **state) {
    struct edge *edge = *state;
    struct err err = {0};
    open_receiver(edge);
    post(edge, "a");
    pump(edge, 0);
    int64_t a = expect(edge, "a", 1);
    answer(edge, MESSAGE_ACK, a, "t", true);
    assert_ok(ledger_withdraw(edge->ledger, ">p", (struct ledger_key){"", "a"}, &err));
    pump(edge, 1);
    assert_true(expect(edge, "a", 1) > a);
    assert_int_equal(waiting_of(edge), 1);
}

/* A receiver that has failed an item may have answered before somebody puts the item back; its answer comes after. */
static void an_answer_from_before_a_retry_is_void(void **state) {
    struct edge *edge = *state;
    struct err err = {0};
    open_receiver(edge);
    post(edge, "a");
    pump(edge, 0);
    int64_t before = expect(edge, "a", 1);
    assert_ok(ledger_withdraw(edge->ledger, ">p", (struct ledger_key){"", "a"}, &err));
    pump(edge, 1);
    int64_t again = expect(edge, "a", 1);
    answer(edge, MESSAGE_ACK, before, "t", false);
    assert_int_equal(waiting_of(edge), 1);
    answer(edge, MESSAGE_ACK, again, "t", true);
    assert_int_equal(waiting_of(edge), 0);
}

static void the_end_comes_last_and_until_acknowledged(void **state) {
    struct edge *edge = *state;
    open_receiver(edge);
    post(edge, "a");
    outbox_end(edge->outbox);
    pump(edge, 0);
    int64_t a = expect(edge, "a", 1);
    expect_nothing(edge);
    answer(edge, MESSAGE_ACK, a, "t", true);
    pump(edge, 0);
    assert_int_equal(expect(edge, NULL, 1), 0);
    assert_false(outbox_ended(edge->outbox));
    pump(edge, 1);
    expect_nothing(edge);
    pump(edge, 3);
    expect(edge, NULL, 2);
    answer(edge, MESSAGE_ACK, 0, "t", false);
    assert_true(outbox_ended(edge->outbox));
    pump(edge, 100);
    expect_nothing(edge);
}

static void nonsense_changes_nothing(void **state) {
    struct edge *edge = *state;
    open_receiver(edge);
    post(edge, "a");
    pump(edge, 0);
    int64_t a = expect(edge, "a", 1);
    static const char *const nonsense[] = {
        "",
        "nonsense",
        "{\"v\":1,\"kind\":\"ack\",\"edge\":\"other.0>p\",\"seq\":1,\"instance\":0,\"token\":\"t\"}",
        "{\"v\":1,\"kind\":\"end\",\"edge\":\"w.0>p\",\"seq\":1}",
        "{\"v\":2,\"kind\":\"ack\",\"edge\":\"w.0>p\",\"seq\":1,\"instance\":0,\"token\":\"t\"}",
    };
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
        bool acknowledged = false;
        assert_int_not_equal(hand_over(edge, nonsense[i], strlen(nonsense[i]), &acknowledged), STATUS_OK);
        assert_false(acknowledged);
    }
    answer(edge, MESSAGE_GOT, a + 1000, "t", false);
    /* An end that was never sent cannot be acknowledged. */
    struct err err = {0};
    struct message end = {.kind = MESSAGE_ACK, .edge = "w.0>p", .token = "t", .verdict = "end"};
    assert_int_equal(outbox_answer(edge->outbox, &end, &err), STATUS_NOT_FOUND);
    assert_false(outbox_ended(edge->outbox));
    answer(edge, MESSAGE_ACK, a, "t", true);
}

static void the_network_needs_keys(void **state) {
    (void)state;
    struct err err = {0};
    struct transport *transport = NULL;
    struct transport_socket *socket = NULL;
    assert_ok(transport_create(NULL, NULL, &transport, &err));
    assert_int_equal(transport_open(transport, TRANSPORT_DATA_OUT, "tcp://127.0.0.1:*", 1, &socket, &err),
                     STATUS_BAD_ARGUMENT);
    assert_int_equal(transport_open(transport, TRANSPORT_DATA_OUT, "inproc://x", 1, &socket, &err),
                     STATUS_BAD_ARGUMENT);
    assert_int_equal(transport_open(transport, TRANSPORT_DATA_OUT, "ipc:///nowhere/at/all", 1, &socket, &err),
                     STATUS_UNAVAILABLE);
    transport_destroy(&transport);
    assert_int_equal(transport_create("short", "short", &transport, &err), STATUS_BAD_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_late_receiver_gets_all_within_the_window, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_nobody_has_got_comes_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_not_acknowledged_for_long_comes_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_window_follows_the_rate, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_late_word_of_the_dead_counts_for_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_was_not_sent_cannot_be_acknowledged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_new_life_gets_what_the_last_one_held, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_restarted_sender_goes_on_from_the_ledger, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_withdrawn_acknowledgement_is_sent_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_answer_from_before_a_retry_is_void, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_end_comes_last_and_until_acknowledged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nonsense_changes_nothing, set_up, tear_down),
        cmocka_unit_test(the_network_needs_keys),
    };
    return scratch_run("outbox", tests, sizeof tests / sizeof *tests);
}
