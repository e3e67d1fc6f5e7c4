/* Does the same with a ledger in SQLite and one in PostgreSQL, and compares what they say, word by word. Runs beside
 * private_postgresql.sh. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/edges/ledger.h"
#include "common/edges/ledger_address.h"
#include "common/edges/ledger_watch.h"
#include "tests/common/scratch.h"

struct script {
    FILE *out;
    char from_path[PATH_SIZE], to_path[PATH_SIZE], copy_path[PATH_SIZE];
    struct ledger *from, *to;
};

#define SAY(script, call)                                                                                              \
    do {                                                                                                               \
        struct err err_ = {0}, *err = &err_;                                                                           \
        enum status status_ = (call);                                                                                  \
        fprintf((script)->out, "%s: %s\n", #call, status_name(status_));                                               \
    } while (0)

static struct item *make_item(const char *source, const char *id, int64_t revision, double number) {
    char text[512];
    struct item *item = NULL;
    struct err err = {0};
    snprintf(text, sizeof text,
             "{\"v\":1,\"id\":\"%s\",\"source\":\"%s\",\"kind\":\"micrograph\",\"time\":1.5,\"revision\":%lld,"
             "\"columns\":{\"n\":%g,\"\xc3\xa5\":\"a\\\"b\"},\"particles\":{\"count\":%d}}",
             id, source, (long long)revision, number, (int)(10 * number));
    assert_ok(item_parse(text, strlen(text), &item, &err));
    return item;
}

static void send(struct script *s, const char *id, int64_t revision, double number, const char *edge) {
    struct item *item = make_item("w", id, revision, number);
    const struct ledger_send send = {edge, item};
    bool is_new = false;
    SAY(s, ledger_originate(s->from, item, LEDGER_DONE, NULL, &send, 1, &is_new, err));
    fprintf(s->out, "new %d\n", is_new);
    item_destroy(&item);
}

static void receive(struct script *s, const char *id, int64_t revision, double number, enum ledger_state state) {
    struct item *item = make_item("w", id, revision, number);
    struct ledger_arrival arrival = {.item = item};
    bool late = false;
    SAY(s, ledger_claim_items(s->to, &arrival, 1, 0, "token", err));
    fprintf(s->out, "claim %d state %d replaces %d source %s\n", arrival.claim, arrival.state, arrival.replaces,
            arrival.source);
    const struct ledger_file files[] = {{"p/a.mrc", "digest", true, 5, 7}, {"in.mrc", "", false, 6, 8}};
    const struct ledger_finish what = {.key = {"w", id},
                                       .revision = revision,
                                       .state = state,
                                       .reason = state == LEDGER_DONE ? NULL : "a name \xff that is not UTF-8",
                                       .item = item,
                                       .run_token = "token",
                                       .files = files,
                                       .file_count = 2};
    SAY(s, ledger_finish_items(s->to, &what, 1, &late, err));
    fprintf(s->out, "late %d\n", late);
    item_destroy(&item);
}

static enum status print_row(const struct ledger_row *row, void *context, struct err *err) {
    (void)err;
    struct script *s = context;
    /* SQLite alone keeps a text that is not UTF-8. */
    const char *reason = row->reason == NULL ? "-" : strncmp(row->reason, "a name", 6) == 0 ? "a name" : row->reason;
    json_t *item = json_loads(row->item_text, 0, NULL);
    char *text = json_dumps(item, JSON_COMPACT);
    fprintf(s->out, "row %s/%s r%lld state %d attempts %d instance %d reason %s %s\n", row->source, row->id,
            (long long)row->revision, row->state, row->attempts, row->instance, reason, text);
    assert_true(row->time_seen > 1e9 && row->time_changed >= row->time_seen);
    free(text);
    json_decref(item);
    return STATUS_OK;
}

static enum status print_parcel(const struct ledger_parcel_row *row, void *context, struct err *err) {
    (void)err;
    struct script *s = context;
    fprintf(s->out, "parcel %s %s/%s verdict %s waits %d\n", row->edge, row->source, row->id,
            row->verdict != NULL ? row->verdict : "-", isnan(row->time_acknowledged) != 0);
    return STATUS_OK;
}

static enum status print_file(const struct ledger_file_row *row, void *context, struct err *err) {
    (void)err;
    struct script *s = context;
    fprintf(s->out, "file %s/%s %s product %d size %lld time %lld %s\n", row->source, row->id, row->file.path,
            row->file.product, (long long)row->file.size, (long long)row->file.mtime_ns, row->file.digest);
    return STATUS_OK;
}

static enum status print_warning(const struct ledger_warning *warning, void *context, struct err *err) {
    (void)err;
    struct script *s = context;
    fprintf(s->out, "warning %s %s %s %lld %g %g\n", warning->stage, warning->id, warning->message,
            (long long)warning->count, warning->first, warning->last);
    return STATUS_OK;
}

static enum status print_again(struct ledger_key key, int64_t row, void *context, struct err *err) {
    (void)err;
    struct script *s = context;
    fprintf(s->out, "again %s/%s %lld\n", key.source, key.id, (long long)row);
    return STATUS_OK;
}

static enum status print_waiting(const struct ledger_waiting *parcel, void *context, bool *ret_stop, struct err *err) {
    (void)ret_stop;
    (void)err;
    struct script *s = context;
    json_t *item = json_loads(parcel->item_text, 0, NULL);
    char *text = json_dumps(item, JSON_COMPACT);
    fprintf(s->out, "waiting %s\n", text);
    free(text);
    json_decref(item);
    return STATUS_OK;
}

static void print_all(struct script *s) {
    int64_t number = -1;
    struct ledger_edge_counts counts = {0};
    struct ledger_counts own = {0};
    SAY(s, ledger_each(s->to, -1, print_row, s, err));
    SAY(s, ledger_each(s->to, LEDGER_FAILED, print_row, s, err));
    SAY(s, ledger_each_parcel(s->from, print_parcel, s, err));
    SAY(s, ledger_each_file(s->to, print_file, s, err));
    SAY(s, ledger_each_warning(s->to, print_warning, s, err));
    SAY(s, ledger_each_waiting(s->from, "w.0>p", 0, print_waiting, s, err));
    SAY(s, ledger_counts(s->to, &own, err));
    fprintf(s->out, "%lld %lld %lld %lld %lld\n", (long long)own.seen, (long long)own.done, (long long)own.rejected,
            (long long)own.failed, (long long)own.in_flight);
    for (int i = 0; i < 2; i++) {
        SAY(s, ledger_compare(s->from, "p", s->to_path, i == 1, &counts, err));
        fprintf(s->out, "%lld %lld %lld %lld %lld\n", (long long)counts.sent, (long long)counts.items,
                (long long)counts.waiting, (long long)counts.waiting_unseen, (long long)counts.lost);
    }
    SAY(s, ledger_sum(s->to, "$.particles.count", &number, err));
    fprintf(s->out, "sum %lld\n", (long long)number);
    SAY(s, ledger_count_unsent(s->from, ">p", &number, err));
    fprintf(s->out, "unsent %lld\n", (long long)number);
}

static void revise(struct script *s) {
    const struct ledger_key a = {"w", "a"}, b = {"", "b"}, keys[] = {a, b, {"w", "none"}};
    int64_t number = -1;
    bool is = false;
    SAY(s, ledger_each_again(s->to, "n", 3, 0, 10, print_again, s, err));
    SAY(s, ledger_send_revised(s->from, ">p", a, 4, 3, &is, err));
    fprintf(s->out, "sent %d\n", is);
    SAY(s, ledger_send_revised(s->from, ">p", a, 5, 0, &is, err));
    fprintf(s->out, "sent while the last one waits %d\n", is);
    SAY(s, ledger_latest_revision(s->from, a, &number, err));
    fprintf(s->out, "latest %lld\n", (long long)number);
    SAY(s, ledger_waiting_for(s->from, ">p", &number, err));
    fprintf(s->out, "waiting for %lld\n", (long long)number);
    SAY(s, ledger_awaits(s->from, ">p", a, &is, err));
    fprintf(s->out, "awaits %d\n", is);
    print_all(s);
    SAY(s, ledger_take_back(s->from, ">p", a, err));
    SAY(s, ledger_was_sent(s->from, ">q", a, &is, err));
    fprintf(s->out, "was sent %d\n", is);
    SAY(s, ledger_revise(s->to, keys, 3, "all of them failed", &number, err));
    fprintf(s->out, "revised %lld\n", (long long)number);
    print_all(s);
    SAY(s, ledger_revise(s->to, keys, 3, NULL, &number, err));
    fprintf(s->out, "mended %lld\n", (long long)number);
    SAY(s, ledger_fail_done(s->to, b, "its file is gone", err));
    SAY(s, ledger_retry(s->to, &b, &number, err));
    fprintf(s->out, "retried %lld\n", (long long)number);
    SAY(s, ledger_withdraw(s->from, ">p", b, err));
    SAY(s, ledger_redo(s->to, a, &is, err));
    fprintf(s->out, "redone %d\n", is);
    SAY(s, ledger_retry(s->to, NULL, &number, err));
    fprintf(s->out, "retried %lld\n", (long long)number);
    print_all(s);
}

static enum status print_watched(int64_t number, const struct ledger_row *row, void *context, struct err *err) {
    fprintf(((struct script *)context)->out, "%lld: ", (long long)number);
    return row->item_text[0] != '\0' ? print_row(row, context, err) : STATUS_OK;
}

static void watch(struct script *s) {
    struct ledger_watch *watch = NULL;
    int64_t before = 0, after = 0, counts[LEDGER_FAILED + 1], seq = 0;
    bool answered = false;
    SAY(s, ledger_watch_open(s->to_path, "p", "session", 1, &watch, err));
    assert_non_null(watch);
    SAY(s, ledger_watch_version(watch, &before, err));
    SAY(s, ledger_watch_version(watch, &after, err));
    fprintf(s->out, "nothing changed %d\n", before == after);
    SAY(s, ledger_release_instance(s->to, 0, err));
    receive(s, "d", 0, 4, LEDGER_DONE);
    SAY(s, ledger_watch_version(watch, &after, err));
    fprintf(s->out, "changed %d\n", before != after);
    SAY(s, ledger_watch_rows(watch, LEDGER_LOOK_AFTER, 1, print_watched, s, err));
    SAY(s, ledger_watch_rows(watch, LEDGER_LOOK_IN_FLIGHT, 0, print_watched, s, err));
    SAY(s, ledger_watch_rows(watch, LEDGER_LOOK_ONE, 2, print_watched, s, err));
    SAY(s, ledger_watch_outlines(watch, print_watched, s, err));
    SAY(s, ledger_watch_counts(watch, counts, err));
    for (int i = 0; i <= LEDGER_FAILED; i++)
        fprintf(s->out, "%lld ", (long long)counts[i]);
    ledger_watch_close(&watch);
    SAY(s, ledger_watch_open(s->from_path, "w", "", 1, &watch, err));
    SAY(s, ledger_watch_parcels(watch, LEDGER_PARCELS_AFTER, 1, print_parcel, s, err));
    SAY(s, ledger_watch_parcels(watch, LEDGER_PARCELS_WAITING, 0, print_parcel, s, err));
    SAY(s, ledger_watch_last_seq(watch, &seq, err));
    SAY(s, ledger_watch_is_answered(watch, seq, &answered, err));
    fprintf(s->out, "last %lld answered %d\n", (long long)seq, answered);
    ledger_watch_close(&watch);
}

static void reconcile(struct script *s) {
    struct ledger_mended mended = {0};
    struct ledger_edge edge = {"w.0>p", "w", "p", s->to_path, false, true};
    SAY(s, ledger_reconcile(s->from, &edge, LEDGER_BACK, &mended, err));
    SAY(s, ledger_reconcile(s->from, &edge, LEDGER_AGAIN, &mended, err));
    edge.passes_on = true;
    SAY(s, ledger_reconcile(s->from, &edge, LEDGER_BACK, &mended, err));
    SAY(s, ledger_reconcile(s->from, &edge, LEDGER_AGAIN, &mended, err));
    fprintf(s->out, "mended %lld %lld %lld\n", (long long)mended.items, (long long)mended.parcels,
            (long long)mended.again);
    print_all(s);
}

/* A copy is a file in both cases. */
static void back_up(struct script *s) {
    struct ledger *copy = NULL, *before = s->to;
    SAY(s, ledger_backup(s->to, s->copy_path, err));
    SAY(s, ledger_open(s->copy_path, "p", true, &copy, err));
    assert_non_null(copy);
    s->to = copy;
    SAY(s, ledger_each(s->to, -1, print_row, s, err));
    SAY(s, ledger_each_file(s->to, print_file, s, err));
    SAY(s, ledger_each_warning(s->to, print_warning, s, err));
    const struct ledger_owner owner = ledger_owner(s->to);
    fprintf(s->out, "of %s %s\n", owner.stage, owner.session);
    ledger_close(&copy);
    s->to = before;
}

static void play(struct script *s) {
    const struct ledger_warning warnings[] = {
        {"p", "one", "first", 2, 5, 6}, {"p", "one", "later", 3, 4, 9}, {"icestream", "two", "other", 1, 7, 7}};
    const struct ledger_verdict verdicts[] = {{1, "done"}, {2, "failed"}};
    const struct ledger_key nobody = {"", "nobody"};
    int64_t first = 0;
    int ended = 0;
    bool is = true;
    SAY(s, ledger_open(s->from_path, "w", false, &s->from, err));
    SAY(s, ledger_open(s->to_path, "p", false, &s->to, err));
    assert_true(s->from != NULL && s->to != NULL);
    SAY(s, ledger_own(s->to, "p", "session", err));
    SAY(s, ledger_check_owner(s->to, "q", "session", err));
    for (int i = 0; i < 4; i++)
        send(s, (const char *[]){"a", "b", "c", "d"}[i], 0, i, "w.0>p");
    send(s, "a", 2, 0, "w.0>p");
    SAY(s, ledger_acknowledge_all(s->from, "w.0>p", verdicts, 2, &first, err));
    receive(s, "a", 0, 1, LEDGER_DONE);
    receive(s, "a", 2, 1.5, LEDGER_DONE);
    receive(s, "b", 0, 2, LEDGER_DONE);
    receive(s, "c", 0, 2, LEDGER_FAILED);
    SAY(s, ledger_acknowledge_all(s->from, "w.0>p", (const struct ledger_verdict[]){{5, "done"}}, 1, &first, err));
    SAY(s, ledger_warn(s->to, warnings, 3, err));
    SAY(s, ledger_end_input(s->to, "w.0>p", 1, err));
    SAY(s, ledger_end_input(s->to, "w.0>p", 1, err));
    SAY(s, ledger_end_output(s->to, 0, 1, err));
    SAY(s, ledger_ended_inputs(s->to, 1, &ended, err));
    SAY(s, ledger_output_ended(s->to, 0, 2, &is, err));
    fprintf(s->out, "ended %d %d\n", ended, is);
    SAY(s, ledger_lookup(s->to, nobody, &is, NULL, err));
    fprintf(s->out, "known %d\n", is);
    SAY(s, ledger_crashed(s->to, (struct ledger_key){"w", "c"}, 1, "it died", &is, err));
    print_all(s);
    revise(s);
    watch(s);
    reconcile(s);
    back_up(s);
    ledger_close(&s->from);
    ledger_close(&s->to);
}

/* Returns what the script has said. */
static char *transcript(const char *url) {
    struct script s = {0};
    struct err err = {0};
    char *text = NULL;
    size_t length;
    if (url != NULL) {
        assert_ok(ledger_server_take(url, "same", "/folder", "", &err));
        assert_ok(ledger_address_print(url, "same", "w", s.from_path, PATH_SIZE, &err));
        assert_ok(ledger_address_print(url, "same", "p", s.to_path, PATH_SIZE, &err));
    } else {
        scratch_path("w.sqlite", s.from_path);
        scratch_path("p.sqlite", s.to_path);
    }
    scratch_path(url != NULL ? "of_server.sqlite" : "of_file.sqlite", s.copy_path);
    s.out = open_memstream(&text, &length);
    play(&s);
    fclose(s.out);
    return text;
}

static void both_say_the_same(void **state) {
    (void)state;
    struct err err = {0};
    char path[PATH_SIZE];
    char *file = transcript(NULL), *server = transcript(getenv("ICESTREAM_TEST_POSTGRESQL"));
    scratch_path("file.txt", path);
    assert_ok(file_write_whole(path, file, strlen(file), &err));
    scratch_path("server.txt", path);
    assert_ok(file_write_whole(path, server, strlen(server), &err));
    assert_true(strlen(file) > 10000);
    if (strcmp(file, server) != 0) fail_msg("they differ: compare file.txt and server.txt");
    free(file);
    free(server);
}

/* A program of others keeps a file beside ledgers in PostgreSQL. */
static void a_file_and_a_server_are_compared(void **state) {
    (void)state;
    struct err err = {0};
    char paths[2][2][PATH_SIZE];
    struct ledger_edge_counts counts[2][2];
    for (int stage = 0; stage < 2; stage++) {
        scratch_path(stage == 0 ? "w.sqlite" : "p.sqlite", paths[0][stage]);
        assert_ok(ledger_address_print(getenv("ICESTREAM_TEST_POSTGRESQL"), "same", stage == 0 ? "w" : "p",
                                       paths[1][stage], PATH_SIZE, &err));
    }
    for (int waiting = 0; waiting < 2; waiting++) {
        for (int from = 0; from < 2; from++) {
            struct ledger *ledger = NULL;
            assert_ok(ledger_open(paths[from][0], "w", true, &ledger, &err));
            for (int to = 0; to < 2; to++)
                assert_ok(ledger_compare(ledger, "p", paths[to][1], waiting == 1, &counts[from][to], &err));
            ledger_close(&ledger);
        }
        assert_true(counts[0][0].waiting > 0);
        for (int i = 1; i < 4; i++)
            assert_memory_equal(&counts[0][0], &counts[i / 2][i % 2], sizeof counts[0][0]);
    }
}

/* An exported ledger is brought back to the server, and numbers go on after its last ones. */
static void a_file_is_brought_back(void **state) {
    (void)state;
    struct err err = {0};
    char path[PATH_SIZE], address[PATH_SIZE];
    struct script s = {.out = stderr};
    struct ledger_counts counts;
    scratch_path("of_server.sqlite", path);
    assert_ok(ledger_address_print(getenv("ICESTREAM_TEST_POSTGRESQL"), "back", "p", address, PATH_SIZE, &err));
    assert_int_equal(ledger_bring(path, "p", address, &err), STATUS_BAD_STATE);
    assert_ok(ledger_server_take(getenv("ICESTREAM_TEST_POSTGRESQL"), "back", "/folder", "", &err));
    for (int i = 0; i < 2; i++) /* once is enough, and twice does nothing */
        assert_ok(ledger_bring(path, "p", address, &err));
    assert_ok(ledger_open(address, "p", false, &s.to, &err));
    assert_ok(ledger_counts(s.to, &counts, &err));
    assert_int_equal(counts.seen, 4);
    struct item *item = make_item("w", "new", 0, 1);
    enum ledger_claim is = CLAIM_HERE;
    assert_ok(ledger_claim_item(s.to, item, 0, "token", &is, &err));
    assert_int_equal(is, CLAIM_NEW);
    item_destroy(&item);
    ledger_close(&s.to);
    bool there = true;
    assert_ok(ledger_exists(address, &there, &err));
    assert_true(there);
    assert_ok(ledger_server_forget(getenv("ICESTREAM_TEST_POSTGRESQL"), "back", &err));
    assert_ok(ledger_exists(address, &there, &err));
    assert_false(there);
    assert_int_equal(ledger_open(address, "p", true, &s.to, &err), STATUS_NOT_FOUND);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(both_say_the_same),
                                       cmocka_unit_test(a_file_and_a_server_are_compared),
                                       cmocka_unit_test(a_file_is_brought_back)};
    return scratch_run("ledger_same", tests, sizeof tests / sizeof *tests);
}
