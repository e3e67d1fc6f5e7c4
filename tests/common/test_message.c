/* Tests items and messages: their content, and what is refused. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/edges/item.h"
#include "common/edges/message.h"
#include "tests/common/scratch.h"

static void members_are_named_by_path(void **state) {
    (void)state;
    struct item *item = NULL, *copy = NULL;
    struct err err = {0};
    const char *text;
    double number;
    assert_ok(item_create("grid1/mic_0001", "micrograph", &item, &err));
    assert_ok(item_set_string(item, "micrograph.path", "raw/ü.mrc", &err));
    assert_ok(item_set_number(item, "optics.pixel_size", 1.62, &err));
    assert_ok(item_set_number(item, "picks.count", 42, &err));
    assert_ok(item_need_string(item, "micrograph.path", &text, &err));
    assert_string_equal(text, "raw/ü.mrc");
    assert_ok(item_need_number(item, "optics.pixel_size", &number, &err));
    assert_true(number == 1.62);
    assert_true(item_has(item, "picks") && !item_has(item, "picks.star") && !item_has(item, "picks..count"));
    assert_true(item_number(item, "picks.count.deeper", -1) == -1);
    assert_int_equal(item_need_number(item, "picks.star", &number, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.message, "grid1/mic_0001"));
    assert_int_equal(item_set_number(item, "optics.voltage", NAN, &err), STATUS_BAD_ARGUMENT);
    assert_int_equal(item_set_string(item, "note", "\xff\xfe", &err), STATUS_BAD_ARGUMENT);
    assert_int_equal(item_set_number(item, "", 1, &err), STATUS_BAD_ARGUMENT);
    char *printed = item_print(item);
    assert_non_null(strstr(printed, "\"pixel_size\":1.62}"));
    assert_non_null(strstr(printed, "\"count\":42}"));
    struct item *again = NULL;
    assert_ok(item_parse(printed, strlen(printed), &again, &err));
    char *reprinted = item_print(again);
    assert_string_equal(printed, reprinted);
    assert_ok(item_clone(item, &copy, &err));
    assert_ok(item_set_number(copy, "picks.count", 1, &err));
    assert_true(item_number(item, "picks.count", 0) == 42);
    free(printed);
    free(reprinted);
    item_destroy(&item);
    item_destroy(&again);
    item_destroy(&copy);
    item_destroy(&copy);
}

static void bad_items_are_refused(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",
        "[]",
        "{}",
        "{\"v\":1}",
        "{\"v\":1,\"id\":\"a\"}",
        "{\"v\":1,\"id\":\"a\",\"kind\":\"\"}",
        "{\"v\":1,\"id\":\"../a\",\"kind\":\"m\"}",
        "{\"v\":1,\"id\":\"/a\",\"kind\":\"m\"}",
        "{\"v\":1,\"id\":\"a//b\",\"kind\":\"m\"}",
        "{\"v\":1,\"id\":\"a/./b\",\"kind\":\"m\"}",
        "{\"v\":1,\"id\":\"a/\",\"kind\":\"m\"}",
        "{\"v\":1,\"id\":\"a\\nb\",\"kind\":\"m\"}",
        "{\"v\":2,\"id\":\"a\",\"kind\":\"m\"}",
        "{\"v\":0,\"id\":\"a\",\"kind\":\"m\"}",
        "{\"v\":1,\"id\":\"a\",\"kind\":\"m\"",
        "{\"v\":1,\"id\":\"a\",\"id\":\"b\",\"kind\":\"m\"}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct item *item = NULL;
        struct err err = {0};
        if (item_parse(bad[i], strlen(bad[i]), &item, &err) == STATUS_OK) fail_msg("accepted: %s", bad[i]);
        assert_null(item);
        assert_true(err.message[0] != '\0');
    }
    struct item *item = NULL;
    char id[ITEM_ID_MAX + 2];
    memset(id, 'a', sizeof id - 1);
    id[sizeof id - 1] = '\0';
    assert_int_equal(item_create(id, "m", &item, NULL), STATUS_BAD_FORMAT);
    assert_int_equal(item_create("a..b/..c", "m", &item, NULL), STATUS_OK);
    item_destroy(&item);
}

static void messages_survive_the_way(void **state) {
    (void)state;
    struct message message = {.kind = MESSAGE_ITEM, .edge = "a.0>b", .seq = 7, .attempt = 2}, back;
    struct err err = {0};
    char *text = NULL;
    size_t length;
    assert_ok(item_create("m", "micrograph", &message.item, &err));
    assert_ok(message_encode(&message, NULL, &text, &length, &err));
    assert_ok(message_decode(text, length, &back, &err));
    assert_true(back.kind == MESSAGE_ITEM && back.seq == 7 && back.attempt == 2);
    assert_string_equal(back.edge, "a.0>b");
    assert_string_equal(item_id(back.item), "m");
    free(text);
    message_clear(&back);
    message_clear(&message);
    message = (struct message){
        .kind = MESSAGE_ACK, .edge = "a.0>b", .seq = 7, .instance = 3, .token = "t", .verdict = "rejected"};
    assert_ok(message_encode(&message, NULL, &text, &length, &err));
    assert_ok(message_decode(text, length, &back, &err));
    assert_true(back.kind == MESSAGE_ACK && back.instance == 3 && back.item == NULL);
    assert_string_equal(back.verdict, "rejected");
    free(text);
}

static void bad_frames_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text;
        enum status status;
    } bad[] = {
        {"", STATUS_BAD_FORMAT},
        {"hello", STATUS_BAD_FORMAT},
        {"\x00\x01\x02", STATUS_BAD_FORMAT},
        {"{\"v\":1,\"kind\":\"end\",\"edge\":\"e\",\"seq\":0", STATUS_BAD_FORMAT},
        {"{\"v\":2,\"kind\":\"end\",\"edge\":\"e\",\"seq\":0}", STATUS_UNSUPPORTED},
        {"{\"v\":1,\"kind\":\"what\",\"edge\":\"e\",\"seq\":0}", STATUS_BAD_FORMAT},
        {"{\"v\":1,\"kind\":\"end\",\"seq\":0}", STATUS_BAD_FORMAT},
        {"{\"v\":1,\"kind\":\"end\",\"edge\":\"e\\u0007\",\"seq\":0}", STATUS_BAD_FORMAT},
        {"{\"v\":1,\"kind\":\"end\",\"edge\":\"e\",\"seq\":-1}", STATUS_BAD_FORMAT},
        {"{\"v\":1,\"kind\":\"end\",\"edge\":\"e\",\"seq\":1.5}", STATUS_BAD_FORMAT},
        {"{\"v\":1,\"kind\":\"item\",\"edge\":\"e\",\"seq\":1}", STATUS_BAD_FORMAT},
        {"{\"v\":1,\"kind\":\"item\",\"edge\":\"e\",\"seq\":1,\"item\":{\"v\":1}}", STATUS_BAD_FORMAT},
        {"{\"v\":1,\"kind\":\"ack\",\"edge\":\"e\",\"seq\":1}", STATUS_BAD_FORMAT},
        {"{\"v\":1,\"kind\":\"ack\",\"edge\":\"e\",\"seq\":1,\"instance\":0,\"token\":7}", STATUS_BAD_FORMAT},
        {"{\"v\":1,\"kind\":\"got\",\"edge\":\"e\",\"seq\":1,\"instance\":99999999999,\"token\":\"t\"}",
         STATUS_BAD_FORMAT},
    };
    struct err err = {0};
    struct message message = {.seq = -5};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (message_decode(bad[i].text, strlen(bad[i].text), &message, &err) != bad[i].status)
            fail_msg("%s: %s", bad[i].text, err.message);
        assert_int_equal(message.seq, -5);
    }
    size_t huge = MESSAGE_SIZE_MAX + 1;
    char *text = calloc(huge, 1);
    assert_int_equal(message_decode(text, huge, &message, &err), STATUS_BAD_FORMAT);
    memset(text, '[', huge);
    assert_int_equal(message_decode(text, huge - 1, &message, &err), STATUS_BAD_FORMAT);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_named_by_path),
        cmocka_unit_test(bad_items_are_refused),
        cmocka_unit_test(messages_survive_the_way),
        cmocka_unit_test(bad_frames_are_refused),
    };
    return scratch_run("message", tests, sizeof tests / sizeof *tests);
}
