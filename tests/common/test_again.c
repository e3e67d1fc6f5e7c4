/* Items that a stage wants again: its record, and what the ledgers of the stage and of its sender make of it. */
#include <stdio.h>
#include <string.h>

#include "common/edges/ledger.h"
#include "common/harness/again.h"
#include "tests/common/scratch.h"

static struct err err;

static void a_record_comes_back(void **state) {
    (void)state;
    char folder[PATH_SIZE];
    struct again again = {.number = 3, .column = "icestreamPickEpoch", .spared = 20}, back = {0};
    scratch_path("record", folder);
    assert_ok(file_make_folders(folder, 0777, &err));
    assert_int_equal(again_read(folder, &back, &err), STATUS_NOT_FOUND);
    assert_ok(again_write(folder, &again, &err));
    assert_ok(again_read(folder, &back, &err));
    assert_int_equal(back.number, 3);
    assert_string_equal(back.column, "icestreamPickEpoch");
    assert_int_equal(back.spared, 20);
}

static void one_in_so_many_is_spared(void **state) {
    (void)state;
    char id[32];
    int spared = 0;
    for (int i = 0; i < 2000; i++) {
        snprintf(id, sizeof id, "mic_%04d", i);
        assert_true(again_spares(20, id) == again_spares(20, id));
        assert_false(again_spares(0, id));
        spared += again_spares(20, id);
    }
    assert_in_range(spared, 60, 140); /* 100, and four standard deviations */
}

static void a_damaged_record_is_refused(void **state) {
    (void)state;
    static const char *const texts[] = {
        "",
        "{\"number\": 1",
        "{\"number\": 0, \"column\": \"a\"}",
        "{\"number\": 1, \"column\": \"\"}",
        "{\"number\": 1, \"column\": \"a') OR 1\"}",
        "{\"number\": \"1\", \"column\": \"a\"}",
        "[1]",
    };
    char folder[PATH_SIZE], path[PATH_SIZE];
    struct again again = {.number = 7};
    scratch_path("damaged", folder);
    assert_ok(file_make_folders(folder, 0777, &err));
    assert_ok(path_join(folder, AGAIN_RECORD, path, sizeof path, &err));
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_ok(file_write_whole(path, texts[i], strlen(texts[i]), &err));
        assert_int_equal(again_read(folder, &again, &err), STATUS_BAD_FORMAT);
        assert_int_equal(again.number, 7);
    }
}

/* The ledgers of a stage and of its sender. */
struct pair {
    struct ledger *sender, *stage;
};

static struct item *make_item(const char *id, double epoch, int64_t revision) {
    struct item *item = NULL;
    assert_ok(item_create(id, "micrograph", &item, &err));
    assert_ok(item_set_source(item, "watcher", &err));
    if (epoch >= 0) assert_ok(item_set_number(item, "columns.icestreamPickEpoch", epoch, &err));
    if (revision > 0) assert_ok(item_set_revision(item, revision, &err));
    return item;
}

/* Claims an item, and finishes it in a state. */
static void do_item(struct ledger *ledger, const struct item *item, enum ledger_state how) {
    enum ledger_claim claim;
    bool late = true;
    assert_ok(ledger_claim_item(ledger, item, 0, "t", &claim, &err));
    const struct ledger_finish what = {.key = item_key(item),
                                       .revision = item_revision(item),
                                       .state = how,
                                       .item = item,
                                       .instance = 0,
                                       .run_token = "t"};
    assert_ok(ledger_finish_items(ledger, &what, 1, &late, &err));
    assert_false(late);
}

/* Makes an item that the sender has sent, and the stage has done. epoch: of its column; -1: it has none. */
static void put(struct pair *p, const char *id, double epoch, enum ledger_state how) {
    struct item *item = make_item(id, epoch, 0);
    struct ledger_parcel parcel = {0};
    bool is_new = false, found = false;
    int64_t first = 0;
    const struct ledger_send send = {"watcher.0>picker", item};
    assert_ok(ledger_originate(p->sender, item, LEDGER_DONE, NULL, &send, 1, &is_new, &err));
    assert_ok(ledger_next_parcel(p->sender, send.edge, 0, &parcel, &found, &err));
    const struct ledger_verdict verdict = {parcel.seq, "done"};
    assert_ok(ledger_acknowledge_all(p->sender, send.edge, &verdict, 1, &first, &err));
    ledger_parcel_clear(&parcel);
    do_item(p->stage, item, how);
    item_destroy(&item);
}

static void begin(struct pair *p, const char *name) {
    char own[64], path[PATH_SIZE];
    snprintf(own, sizeof own, "%s-sender.sqlite", name);
    scratch_path(own, path);
    assert_ok(ledger_open(path, "watcher", false, &p->sender, &err));
    snprintf(own, sizeof own, "%s-stage.sqlite", name);
    scratch_path(own, path);
    assert_ok(ledger_open(path, "picker", false, &p->stage, &err));
    put(p, "a", 0, LEDGER_DONE);
    put(p, "b", 1, LEDGER_DONE);
    put(p, "c", -1, LEDGER_DONE);
    put(p, "d", 0, LEDGER_FAILED);
    put(p, "e", 0, LEDGER_DONE);
}

static void end(struct pair *p) {
    ledger_close(&p->sender);
    ledger_close(&p->stage);
}

static int64_t last_row; /* that was visited */

static enum status note(struct ledger_key key, int64_t row, void *context, struct err *e) {
    (void)e;
    last_row = row;
    assert_string_equal(key.source, "watcher");
    strcat(context, key.id);
    return STATUS_OK;
}

static void assert_wanted_before(const struct pair *p, int number, int64_t before, int most, const char *expected) {
    char found[64] = "";
    assert_ok(ledger_each_again(p->stage, "icestreamPickEpoch", number, before, most, note, found, &err));
    assert_string_equal(found, expected);
}

static void assert_wanted(const struct pair *p, int number, int most, const char *expected) {
    assert_wanted_before(p, number, 0, most, expected);
}

static bool waits(const struct pair *p, const char *id) {
    bool awaits = false;
    assert_ok(ledger_awaits(p->sender, ">picker", (struct ledger_key){"watcher", id}, &awaits, &err));
    return awaits;
}

/* The last ones first; those of this number or a later one, and those that failed, are not wanted. */
static void earlier_items_are_wanted_once_for_each_number(void **state) {
    (void)state;
    struct pair p;
    struct ledger_parcel parcel = {0};
    bool sent = false, found = false;
    begin(&p, "wanted");
    assert_wanted(&p, 1, 10, "eca");
    assert_wanted(&p, 1, 2, "ec");
    assert_wanted_before(&p, 1, last_row, 2, "a"); /* goes on behind the last visited one */
    assert_wanted_before(&p, 1, last_row, 2, "");
    assert_wanted(&p, 2, 10, "ecba");
    assert_ok(ledger_send_revised(p.sender, ">picker", (struct ledger_key){"watcher", "e"}, 1, 1, &sent, &err));
    assert_true(sent && waits(&p, "e"));
    assert_ok(ledger_next_parcel(p.sender, "watcher.0>picker", 0, &parcel, &found, &err));
    struct item *item = NULL;
    assert_ok(item_parse(parcel.item_text, strlen(parcel.item_text), &item, &err));
    ledger_parcel_clear(&parcel);
    assert_int_equal(item_revision(item), 1);
    assert_true(item_number(item, "again", 0) == 1);
    /* Done once more, even with the same column, it is not wanted for this number; but for the next one. */
    do_item(p.stage, item, LEDGER_DONE);
    item_destroy(&item);
    assert_wanted(&p, 1, 10, "ca");
    assert_wanted(&p, 2, 10, "ecba");
    end(&p);
}

static void what_nobody_has_begun_is_taken_back(void **state) {
    (void)state;
    struct pair p;
    bool sent = false;
    int64_t revision = 0;
    const struct ledger_key a = {"watcher", "a"}, b = {"watcher", "b"};
    begin(&p, "back");
    assert_ok(ledger_send_revised(p.sender, ">picker", a, 1, 1, &sent, &err));
    assert_ok(ledger_send_revised(p.sender, ">picker", b, 1, 0, &sent, &err));
    assert_true(waits(&p, "a") && waits(&p, "b"));
    assert_ok(ledger_take_back(p.sender, ">picker", a, &err));
    assert_ok(ledger_take_back(p.sender, ">picker", b, &err)); /* a person has sent it: it stays */
    assert_true(!waits(&p, "a") && waits(&p, "b"));
    assert_wanted(&p, 1, 10, "eca");
    /* It can be sent again, in a revision of its own. */
    assert_ok(ledger_latest_revision(p.sender, a, &revision, &err));
    assert_int_equal(revision, 1);
    assert_ok(ledger_send_revised(p.sender, ">picker", a, 2, 1, &sent, &err));
    assert_true(sent && waits(&p, "a"));
    end(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_comes_back),
        cmocka_unit_test(one_in_so_many_is_spared),
        cmocka_unit_test(a_damaged_record_is_refused),
        cmocka_unit_test(earlier_items_are_wanted_once_for_each_number),
        cmocka_unit_test(what_nobody_has_begun_is_taken_back),
    };
    return scratch_run("again", tests, sizeof tests / sizeof *tests);
}
