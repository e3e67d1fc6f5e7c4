/* Tests two incarnations of an instance that run at once, the earlier one on a host that is lost and does not know it. In
 * PostgreSQL beside private_postgresql.sh, else in SQLite. */
#include <stdlib.h>
#include <string.h>

#include "common/edges/ledger.h"
#include "common/edges/ledger_address.h"
#include "tests/common/scratch.h"

enum { EARLY = 0x1fffffe, LATE = 0x2000001, TOKEN_SIZE = LEDGER_LIFE_SIZE + 8 };

static struct ledger *open_ledger(void) {
    struct ledger *ledger = NULL;
    struct err err = {0};
    char path[PATH_SIZE];
    const char *server = getenv("ICESTREAM_TEST_POSTGRESQL");
    if (server != NULL)
        assert_ok(ledger_address_print(server, "lives", "stage", path, sizeof path, &err));
    else
        scratch_path("lives.sqlite", path);
    assert_ok(ledger_open(path, "stage", false, &ledger, &err));
    return ledger;
}

static struct item *make_item(const char *id) {
    struct item *item = NULL;
    struct err err = {0};
    assert_ok(item_create(id, "micrograph", &item, &err));
    return item;
}

static enum ledger_claim claim(struct ledger *ledger, const char *id, int instance, const char *token) {
    struct err err = {0};
    enum ledger_claim result = CLAIM_NEW;
    struct item *item = make_item(id);
    assert_ok(ledger_claim_item(ledger, item, instance, token, &result, &err));
    item_destroy(&item);
    return result;
}

/* Returns whether the outcome counts. */
static bool finish(struct ledger *ledger, const char *id, int instance, const char *token) {
    struct err err = {0};
    struct item *item = make_item(id);
    const struct ledger_finish what = {
        .key = {"", id}, .state = LEDGER_DONE, .item = item, .instance = instance, .run_token = token};
    bool late = false;
    assert_ok(ledger_finish_items(ledger, &what, 1, &late, &err));
    item_destroy(&item);
    return !late;
}

static void token_of(int64_t life, const char *rest, char token[TOKEN_SIZE]) {
    ledger_life_print(life, token);
    strcat(token, rest);
}

static void test_later_lives(void **state) {
    char early[TOKEN_SIZE], late[TOKEN_SIZE];
    struct err err = {0};
    (void)state;
    struct ledger *ledger = open_ledger();
    token_of(EARLY, "ff", early);
    token_of(LATE, "00", late);
    assert_int_equal(claim(ledger, "a", 0, early), CLAIM_NEW);
    assert_int_equal(claim(ledger, "a", 0, late), CLAIM_AGAIN);
    assert_int_equal(claim(ledger, "a", 0, early), CLAIM_ELSEWHERE);
    assert_int_equal(claim(ledger, "a", 0, late), CLAIM_HERE);
    assert_int_equal(claim(ledger, "b", 0, early), CLAIM_NEW);
    assert_int_equal(claim(ledger, "c", 1, early), CLAIM_NEW);
    assert_false(finish(ledger, "a", 0, early));
    assert_ok(ledger_release_earlier(ledger, 0, LATE, &err));
    assert_int_equal(claim(ledger, "b", 1, "u0"), CLAIM_AGAIN);
    assert_int_equal(claim(ledger, "c", 0, late), CLAIM_ELSEWHERE);
    assert_true(finish(ledger, "a", 0, late));
    ledger_close(&ledger);
}

/* Tokens without a life, as those of others are: whoever asks is the later one. */
static void test_tokens_without_lives(void **state) {
    char token[TOKEN_SIZE];
    struct err err = {0};
    (void)state;
    struct ledger *ledger = open_ledger();
    token_of(LATE, "00", token);
    assert_int_equal(claim(ledger, "d", 0, "Later"), CLAIM_NEW);
    assert_int_equal(claim(ledger, "d", 0, token), CLAIM_AGAIN);
    assert_int_equal(claim(ledger, "d", 0, "Later"), CLAIM_AGAIN);
    assert_ok(ledger_release_instance(ledger, 0, &err));
    assert_int_equal(claim(ledger, "d", 1, token), CLAIM_AGAIN);
    ledger_close(&ledger);
}

int main(void) {
    const char *server = getenv("ICESTREAM_TEST_POSTGRESQL");
    if (server != NULL && ledger_server_take(server, "lives", "/folder", "", NULL) != STATUS_OK) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_later_lives), cmocka_unit_test(test_tokens_without_lives)};
    return scratch_run("ledger-lives", tests, sizeof tests / sizeof *tests);
}
