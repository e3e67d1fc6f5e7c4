/* Tests what a view shows of sessions that the test makes and changes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/edges/ledger_private.h"
#include "pipelines/launcher/view/view_path.h"
#include "pipelines/launcher/view/view_private.h"
#include "pipelines/launcher/view/view_scan.h"
#include "tests/common/scratch.h"

static struct session session;
static const double NOW = 1e9;
enum { NOBODY = 65534 };

static void put_text(const char *folder, const char *name, const char *text) {
    char path[PATH_SIZE];
    struct err err = {0};
    assert_ok(session_file(&session, folder, name, "", path, &err));
    assert_ok(file_make_parents(path, 0755, &err));
    assert_ok(file_write_whole(path, text, strlen(text), &err));
}

static struct ledger *make_ledger(const char *stage) {
    char path[PATH_SIZE];
    struct err err = {0};
    struct ledger *ledger;
    assert_ok(session_file(&session, "ledger", stage, ".sqlite", path, &err));
    assert_ok(file_make_parents(path, 0755, &err));
    assert_ok(ledger_open(path, NULL, false, &ledger, &err));
    return ledger;
}

#define STAGE(name, from)                                                                                              \
    "{\"name\": \"" name "\", \"program\": \"/x/icestream-" name "\", \"from\": [" from "],"                           \
    " \"instances\": [\"" name ".0\"], \"cumulative\": false}"

static struct ledger *watcher, *picker, *extractor;

static void make_session(const char *name) {
    session = (struct session){.lock = -1};
    scratch_path(name, session.path);
    put_text("log", "plan.json",
             "{\"run\": 1, \"stages\": [" STAGE("watcher", "") "," STAGE("picker", "\"watcher\"") "," STAGE(
                 "extractor", "\"picker\"") "]}");
    watcher = make_ledger("watcher");
    picker = make_ledger("picker");
    extractor = make_ledger("extractor");
}

static void end_session(void) {
    ledger_close(&watcher);
    ledger_close(&picker);
    ledger_close(&extractor);
}

static struct item *make_item(const char *source, const char *id, int64_t revision) {
    struct err err = {0};
    struct item *item;
    assert_ok(item_create(id, "micrograph", &item, &err));
    assert_ok(item_set_source(item, source, &err));
    if (revision > 0) assert_ok(item_set_revision(item, revision, &err));
    return item;
}

static void find(struct ledger *ledger, const char *source, const char *id, int64_t revision, const char *edge) {
    struct err err = {0};
    struct item *item = make_item(source, id, revision);
    bool new;
    const struct ledger_send send = {.edge = edge, .item = item};
    assert_ok(ledger_originate(ledger, item, LEDGER_DONE, NULL, &send, 1, &new, &err));
    assert_true(new);
    item_destroy(&item);
}

/* A stage takes an item and finishes it, unless state is in flight; `column`: a number that it adds. */
static void work(struct ledger *ledger, const char *source, const char *id, int64_t revision, enum ledger_state state,
                 const char *edge, const char *column, double value) {
    struct err err = {0};
    struct item *item = make_item(source, id, revision);
    enum ledger_claim claim;
    assert_ok(ledger_claim_item(ledger, item, 0, "token", &claim, &err));
    char path[64];
    snprintf(path, sizeof path, "columns.%s", column != NULL ? column : "none");
    if (column != NULL) assert_ok(item_set_number(item, path, value, &err));
    const struct ledger_send send = {.edge = edge, .item = item};
    const struct ledger_finish finish = {.key = {source, id},
                                         .revision = revision,
                                         .state = state,
                                         .reason = state == LEDGER_DONE ? NULL : "why not",
                                         .item = item,
                                         .instance = 0,
                                         .run_token = "token",
                                         .sends = &send,
                                         .send_count = state == LEDGER_DONE && edge != NULL};
    bool late = false;
    if (state != LEDGER_IN_FLIGHT) assert_ok(ledger_finish_items(ledger, &finish, 1, &late, &err));
    assert_false(late);
    item_destroy(&item);
}

static void acknowledge(struct ledger *ledger, const char *edge, const char *verdict) {
    struct err err = {0};
    struct ledger_parcel parcel;
    bool found;
    int64_t first;
    assert_ok(ledger_next_parcel(ledger, edge, -1, &parcel, &found, &err));
    assert_true(found);
    const struct ledger_verdict answer = {parcel.seq, verdict};
    assert_ok(ledger_acknowledge_all(ledger, edge, &answer, 1, &first, &err));
    ledger_parcel_clear(&parcel);
}

static struct view *open_it(void) {
    struct err err = {0};
    struct view *view;
    assert_ok(view_open(session.path, &view, &err));
    return view;
}

/* Polls at once, whatever the view would wait for. */
static unsigned look(struct view *view) {
    struct err err = {0};
    unsigned changed = 0;
    view->due = view->files_due = view->check_due = view->reread_due = view->exact_due = 0;
    view->suspect_due = view->compare_due = 0;
    assert_ok(view_poll(view, NOW, &changed, &err));
    return changed;
}

/* As the programs poll: without what is done seldom. */
static unsigned glance(struct view *view) {
    struct err err = {0};
    unsigned changed = 0;
    view->due = view->files_due = 0;
    view->check_due = view->reread_due = view->exact_due = view->suspect_due = view->compare_due = INFINITY;
    assert_ok(view_poll(view, NOW, &changed, &err));
    return changed;
}

static const struct view_row *row_of(const struct view *view, const char *source, const char *id) {
    int64_t row = view_find_item(view, source, id);
    assert_true(row >= 0);
    return view_row(view, (size_t)row);
}

/* Checks that exactly these rows changed after a revision; names: "mic_1 mic_2", in the order of rows. */
static void assert_changed(const struct view *view, uint64_t revision, const char *names) {
    char found[1024] = "";
    for (int64_t row = view_rows_since(view, revision, 0); row >= 0;
         row = view_rows_since(view, revision, (size_t)row + 1)) {
        if (found[0] != '\0') strcat(found, " ");
        strcat(found, view_row(view, (size_t)row)->name);
    }
    assert_string_equal(found, names);
}

/* The view's numbers are those that whole ledgers give, and those of its rows. */
static void assert_counts(struct view *view) {
    struct err err = {0};
    struct tally exact;
    assert_ok(view_tally_now(view, TALLY_COUNTS, &exact, &err));
    const struct tally *shown = view_tally(view);
    assert_int_equal(shown->count, exact.count);
    for (size_t i = 0; i < exact.count; i++) {
        const struct tally_stage *a = &shown->stages[i], *b = &exact.stages[i];
        assert_int_equal(a->seen, b->seen);
        assert_int_equal(a->done, b->done);
        assert_int_equal(a->rejected, b->rejected);
        assert_int_equal(a->failed, b->failed);
        assert_int_equal(a->in_flight, b->in_flight);
        assert_int_equal(a->waiting, b->waiting);
    }
    tally_clear(&exact);
}

static void shows_an_exposure_on_its_way(void **state) {
    (void)state;
    make_session("way");
    struct view *view = open_it();
    assert_int_equal(look(view) & VIEW_ROWS, 0);
    assert_int_equal(view_row_count(view), 0);
    assert_true(isnan(view_last_time(view)));

    find(watcher, "watcher", "mic_1", 0, "watcher.0>picker");
    assert_int_equal(glance(view) & (VIEW_ROWS | VIEW_COUNTS), VIEW_ROWS | VIEW_COUNTS);
    const struct view_row *row = row_of(view, "watcher", "mic_1");
    assert_int_equal(row->number, 1);
    assert_int_equal(row->state, LEDGER_IN_FLIGHT);
    assert_int_equal(row->stage, 1); /* on its way to the picker */
    assert_int_equal(row->reached, 0);
    assert_int_equal(view_queue(view, 1), 1);
    assert_counts(view);

    work(picker, "watcher", "mic_1", 0, LEDGER_IN_FLIGHT, NULL, NULL, 0);
    glance(view);
    row = row_of(view, "watcher", "mic_1");
    assert_int_equal(row->state, LEDGER_IN_FLIGHT);
    assert_int_equal(row->reached, 1);
    assert_int_equal(row->attempts, 1);
    assert_counts(view);

    work(picker, "watcher", "mic_1", 0, LEDGER_DONE, "picker.0>extractor", "rlnDefocusU", 12500);
    acknowledge(watcher, "watcher.0>picker", "done");
    work(extractor, "watcher", "mic_1", 0, LEDGER_REJECTED, NULL, "rlnDefocusU", 12500);
    glance(view);
    row = row_of(view, "watcher", "mic_1");
    assert_int_equal(row->state, LEDGER_REJECTED);
    assert_int_equal(row->stage, 2);
    assert_string_equal(row->reason, "why not");
    int column = view_column_find(view, "rlnDefocusU");
    assert_true(column >= 0);
    assert_true(view_value(view, 0, (size_t)column) == 12500);
    assert_counts(view);

    uint64_t revision = view_revision(view);
    assert_int_equal(glance(view) & (VIEW_ROWS | VIEW_COUNTS), 0);
    assert_int_equal(view_revision(view), revision);
    view_close(&view);
    end_session();
}

static void shows_exactly_the_rows_that_changed(void **state) {
    (void)state;
    make_session("changed");
    struct view *view = open_it();
    for (int i = 1; i <= 3; i++) {
        char id[16];
        snprintf(id, sizeof id, "mic_%d", i);
        find(watcher, "watcher", id, 0, "watcher.0>picker");
    }
    look(view);
    assert_changed(view, 0, "mic_1 mic_2 mic_3");
    uint64_t revision = view_revision(view);
    work(picker, "watcher", "mic_2", 0, LEDGER_DONE, "picker.0>extractor", "rlnDefocusU", 1);
    glance(view);
    assert_changed(view, revision, "mic_2");
    revision = view_revision(view);
    work(picker, "watcher", "mic_1", 0, LEDGER_FAILED, NULL, NULL, 0);
    work(extractor, "watcher", "mic_2", 0, LEDGER_DONE, NULL, "rlnDefocusU", 1);
    glance(view);
    assert_changed(view, revision, "mic_1 mic_2");
    assert_changed(view, view_revision(view), "");
    assert_counts(view);
    view_close(&view);
    end_session();
}

/* An item fails and is tried again, to the same end, between two looks. */
static void notices_a_retry(void **state) {
    (void)state;
    struct err err = {0};
    int64_t count;
    make_session("retry");
    find(watcher, "watcher", "mic_1", 0, "watcher.0>picker");
    find(watcher, "watcher", "mic_2", 0, "watcher.0>picker");
    for (int i = 1; i <= 2; i++) {
        work(picker, "watcher", i == 1 ? "mic_1" : "mic_2", 0, LEDGER_FAILED, NULL, NULL, 0);
        acknowledge(watcher, "watcher.0>picker", "failed");
    }
    struct view *view = open_it();
    look(view);
    uint64_t revision = view_revision(view);
    const struct ledger_key key = {"watcher", "mic_2"};
    assert_ok(ledger_withdraw(watcher, ">picker", key, &err));
    assert_ok(ledger_retry(picker, &key, &count, &err));
    assert_int_equal(count, 1);
    work(picker, "watcher", "mic_2", 0, LEDGER_FAILED, NULL, NULL, 0);
    acknowledge(watcher, "watcher.0>picker", "failed");
    glance(view);
    assert_changed(view, revision, "mic_2");
    assert_int_equal(row_of(view, "watcher", "mic_2")->attempts, 2);
    view_close(&view);
    end_session();
}

/* A revision goes through the whole pipeline between two looks, and once more with the view looking in between. */
static void notices_a_revision(void **state) {
    (void)state;
    make_session("revision");
    find(watcher, "watcher", "mic_1", 0, "watcher.0>picker");
    find(watcher, "watcher", "mic_2", 0, "watcher.0>picker");
    for (int i = 1; i <= 2; i++) {
        const char *id = i == 1 ? "mic_1" : "mic_2";
        work(picker, "watcher", id, 0, LEDGER_DONE, "picker.0>extractor", "rlnDefocusU", i);
        acknowledge(watcher, "watcher.0>picker", "done");
        work(extractor, "watcher", id, 0, LEDGER_DONE, NULL, "rlnDefocusU", i);
        acknowledge(picker, "picker.0>extractor", "done");
    }
    struct view *view = open_it();
    look(view);
    uint64_t revision = view_revision(view), epoch = view_epoch(view);
    find(watcher, "watcher", "mic_1", 1, "watcher.0>picker");
    work(picker, "watcher", "mic_1", 1, LEDGER_DONE, "picker.0>extractor", "rlnDefocusU", 7);
    acknowledge(watcher, "watcher.0>picker", "done");
    work(extractor, "watcher", "mic_1", 1, LEDGER_DONE, NULL, "rlnDefocusU", 7);
    acknowledge(picker, "picker.0>extractor", "done");
    glance(view);
    assert_changed(view, revision, "mic_1");
    const size_t column = (size_t)view_column_find(view, "rlnDefocusU");
    assert_true(view_value(view, 0, column) == 7);
    assert_int_equal(view_row(view, 0)->item_revision, 1);

    revision = view_revision(view);
    find(watcher, "watcher", "mic_2", 1, "watcher.0>picker");
    glance(view);
    assert_changed(view, revision, "mic_2");
    work(picker, "watcher", "mic_2", 1, LEDGER_DONE, "picker.0>extractor", "rlnDefocusU", 8);
    glance(view);
    work(extractor, "watcher", "mic_2", 1, LEDGER_REJECTED, NULL, NULL, 0);
    acknowledge(watcher, "watcher.0>picker", "done");
    glance(view);
    assert_int_equal(row_of(view, "watcher", "mic_2")->state, LEDGER_REJECTED);
    acknowledge(picker, "picker.0>extractor", "rejected");
    glance(view);
    assert_int_equal(view_epoch(view), epoch);
    assert_counts(view);
    view_close(&view);
    end_session();
}

static void tells_two_sources_apart(void **state) {
    (void)state;
    session = (struct session){.lock = -1};
    scratch_path("sources", session.path);
    put_text("log", "plan.json",
             "{\"run\": 1, \"stages\": [" STAGE("left", "") "," STAGE("right", "") "," STAGE(
                 "picker", "\"left\",\"right\"") "]}");
    struct ledger *left = make_ledger("left"), *right = make_ledger("right");
    picker = make_ledger("picker");
    find(left, "left", "mic_1", 0, "left.0>picker");
    find(right, "right", "mic_1", 0, "right.0>picker");
    work(picker, "right", "mic_1", 0, LEDGER_REJECTED, NULL, "rlnDefocusU", 5);
    struct view *view = open_it();
    look(view);
    assert_int_equal(view_row_count(view), 2);
    const struct view_row *one = row_of(view, "left", "mic_1"), *other = row_of(view, "right", "mic_1");
    assert_string_equal(one->name, "left/mic_1");
    assert_int_equal(one->state, LEDGER_IN_FLIGHT);
    assert_int_equal(other->state, LEDGER_REJECTED);
    assert_int_equal(one->number, 1);
    assert_int_equal(other->number, 2);
    assert_true(view_find(view, 2) == view_find_item(view, "right", "mic_1"));
    assert_true(isnan(view_value(view, (size_t)view_find(view, 1), 0)));
    assert_true(view_value(view, (size_t)view_find(view, 2), 0) == 5);
    assert_counts(view);
    view_close(&view);
    ledger_close(&left);
    ledger_close(&right);
    ledger_close(&picker);
}

static void shows_a_session_with_a_missing_ledger(void **state) {
    (void)state;
    char path[PATH_SIZE];
    struct err err = {0};
    make_session("missing");
    find(watcher, "watcher", "mic_1", 0, "watcher.0>picker");
    work(picker, "watcher", "mic_1", 0, LEDGER_DONE, "picker.0>extractor", NULL, 0);
    acknowledge(watcher, "watcher.0>picker", "done");
    work(extractor, "watcher", "mic_1", 0, LEDGER_DONE, NULL, "rlnDefocusU", 3);
    acknowledge(picker, "picker.0>extractor", "done");
    end_session();
    assert_ok(session_file(&session, "ledger", "picker", ".sqlite", path, &err));
    assert_int_equal(unlink(path), 0);
    struct view *view = open_it();
    look(view);
    assert_int_equal(view_row_count(view), 1);
    assert_int_equal(view_row(view, 0)->state, LEDGER_IN_FLIGHT);
    assert_int_equal(view_row(view, 0)->stage, 1);
    const char *reason;
    assert_false(view_adds_up(view, &reason));
    assert_non_null(strstr(reason, "picker"));
    assert_counts(view);
    view_close(&view);
    /* The source's: the next stage makes the rows. */
    assert_ok(session_file(&session, "ledger", "watcher", ".sqlite", path, &err));
    assert_int_equal(unlink(path), 0);
    view = open_it();
    look(view);
    assert_int_equal(view_row_count(view), 1);
    view_close(&view);
}

/* A copy on a medium that nobody can write to, without the files beside the ledgers that SQLite makes. */
static void shows_a_copy_on_a_read_only_folder(void **state) {
    (void)state;
    make_session("original");
    find(watcher, "watcher", "mic_1", 0, "watcher.0>picker");
    work(picker, "watcher", "mic_1", 0, LEDGER_REJECTED, NULL, "rlnDefocusU", 3);
    acknowledge(watcher, "watcher.0>picker", "rejected");
    end_session();
    char copy[PATH_SIZE];
    scratch_path("copy", copy);
    assert_int_equal(
        scratch_shell("cp -a '%s' '%s' && chmod -R a-w '%s' && chmod a+rx '%s/..'", session.path, copy, copy, copy), 0);
    snprintf(session.path, sizeof session.path, "%s", copy);
    /* The right of the administrator to write everywhere would hide what is tested. */
    bool administrator = geteuid() == 0;
    if (administrator) assert_int_equal(seteuid(NOBODY), 0);
    struct view *view = open_it();
    look(view);
    assert_int_equal(view_row_count(view), 1);
    assert_int_equal(view_row(view, 0)->state, LEDGER_REJECTED);
    assert_counts(view);
    view_close(&view);
    if (administrator) assert_int_equal(seteuid(0), 0);
    assert_int_equal(scratch_shell("chmod -R u+w '%s'", copy), 0);
}

/* Rows that were taken out of the ledger of their source: the table begins anew, in another epoch. */
static void begins_anew_when_rows_are_gone(void **state) {
    (void)state;
    struct err err = {0};
    make_session("gone");
    struct item *item = make_item("watcher", "mic_1", 0);
    bool new;
    assert_ok(ledger_originate(watcher, item, LEDGER_FAILED, "unreadable", NULL, 0, &new, &err));
    item_destroy(&item);
    find(watcher, "watcher", "mic_2", 0, "watcher.0>picker");
    struct view *view = open_it();
    look(view);
    assert_int_equal(view_row_count(view), 2);
    assert_string_equal(row_of(view, "watcher", "mic_1")->reason, "unreadable");
    uint64_t epoch = view_epoch(view);
    int64_t count;
    assert_ok(ledger_retry(watcher, NULL, &count, &err));
    look(view);
    assert_true(view_epoch(view) > epoch);
    assert_int_equal(view_row_count(view), 1);
    assert_int_equal(view_row(view, 0)->number, 2);
    assert_counts(view);
    view_close(&view);
    end_session();
}

/* Items that fail together, when no parcel tells of it. */
static void notices_what_fails_together(void **state) {
    (void)state;
    struct err err = {0};
    make_session("together");
    find(watcher, "watcher", "mic_1", 0, "watcher.0>picker");
    work(picker, "watcher", "mic_1", 0, LEDGER_DONE, NULL, NULL, 0);
    acknowledge(watcher, "watcher.0>picker", "done");
    struct view *view = open_it();
    look(view);
    const struct ledger_key key = {"watcher", "mic_1"};
    int64_t changed;
    assert_ok(ledger_revise(picker, &key, 1, "no map", &changed, &err));
    look(view);
    assert_int_equal(view_row(view, 0)->state, LEDGER_FAILED);
    assert_string_equal(view_row(view, 0)->reason, "no map");
    assert_counts(view);
    view_close(&view);
    end_session();
}

/* Changes a ledger as a person does, behind everybody's back. */
static void meddle(struct ledger *ledger, const char *sql) {
    assert_int_equal(sqlite3_exec(ledger->db, sql, NULL, NULL, NULL), SQLITE_OK);
}

/* A second attempt at a source, and a reason that somebody mended by hand: no parcel, and the same counts. */
static void notices_another_reason(void **state) {
    (void)state;
    make_session("reason");
    find(watcher, "watcher", "mic_1", 0, "watcher.0>picker");
    find(watcher, "watcher", "mic_2", 0, "watcher.0>picker");
    work(picker, "watcher", "mic_1", 0, LEDGER_FAILED, NULL, NULL, 0);
    work(picker, "watcher", "mic_2", 0, LEDGER_REJECTED, NULL, NULL, 0);
    acknowledge(watcher, "watcher.0>picker", "failed");
    acknowledge(watcher, "watcher.0>picker", "rejected");
    struct view *view = open_it();
    look(view);
    uint64_t revision = view_revision(view);
    meddle(picker, "UPDATE items SET reason = 'another', time_changed = time_changed + 1 WHERE id = 'mic_1'");
    look(view);
    assert_changed(view, revision, "mic_1");
    assert_string_equal(view_row(view, 0)->reason, "another");
    revision = view_revision(view);
    meddle(picker, "UPDATE items SET reason = 'by hand' WHERE id = 'mic_2'");
    look(view);
    assert_changed(view, revision, "mic_2");
    assert_string_equal(view_row(view, 1)->reason, "by hand");
    assert_counts(view);
    view_close(&view);
    end_session();
}

/* One look at ledgers that do not add up is not the last word: they are looked at twice more within a minute, however
 * long that takes, and again what is sound is believed at once. */
static void looks_again_at_what_does_not_add_up(void **state) {
    (void)state;
    make_session("unsound");
    find(watcher, "watcher", "mic_1", 0, "watcher.0>picker");
    work(picker, "watcher", "mic_1", 0, LEDGER_DONE, NULL, NULL, 0);
    acknowledge(watcher, "watcher.0>picker", "done");
    struct view *view = open_it();
    look(view);
    assert_true(view_adds_up(view, NULL));
    meddle(picker, "CREATE TABLE aside AS SELECT * FROM items; DELETE FROM items");
    look(view);
    assert_false(view_adds_up(view, NULL));
    assert_true(view->exact_due <= view_clock() + 25);
    meddle(picker, "INSERT INTO items SELECT * FROM aside");
    look(view);
    assert_true(view_adds_up(view, NULL));
    assert_counts(view);
    view_close(&view);
    end_session();
}

static void reads_what_lies_beside(void **state) {
    (void)state;
    struct err err = {0};
    make_session("beside");
    put_text("", "graph.yaml",
             "session: {pixel_size: 1.5}\nstages:\n  watcher: {directory: /d}\n  picker: {from: watcher, box: 64}\n"
             "  extractor: {from: picker}\n");
    put_text("picker", "history.jsonl", "{\"n\": 1}\nbroken\n{\"n\": 2}\n{\"n\":");
    put_text("log", "picker.0.heartbeat.json", "{\"pid\": 1, \"note\": \"waits\"}");
    struct view *view = open_it();
    assert_int_equal(look(view) & (VIEW_BEATS | VIEW_HISTORY | VIEW_STATE), VIEW_BEATS | VIEW_HISTORY | VIEW_STATE);
    assert_int_equal(json_array_size(view_history(view, "picker")), 2);
    assert_int_equal(json_array_size(view_history(view, "watcher")), 0);
    assert_string_equal(json_string_value(json_object_get(view_heartbeat(view, "picker.0"), "note")), "waits");
    assert_null(view_heartbeat(view, "watcher.0"));
    const json_t *stages = json_object_get(view_graph(view), "stages");
    assert_int_equal(json_integer_value(json_object_get(json_object_get(stages, "picker"), "box")), 64);
    assert_int_equal(look(view), 0);
    put_text("picker", "history.jsonl", "{\"n\": 1}\n{\"n\": 2}\n{\"n\": 3}\n");
    assert_int_equal(look(view), VIEW_HISTORY);
    assert_int_equal(json_array_size(view_history(view, "picker")), 3);

    find(watcher, "watcher", "mic_1", 0, "watcher.0>picker");
    look(view);
    assert_int_equal(view_state(view), VIEW_STOPPED);
    work(picker, "watcher", "mic_1", 0, LEDGER_REJECTED, NULL, "rlnDefocusU", 4);
    acknowledge(watcher, "watcher.0>picker", "rejected");
    assert_true(look(view) & VIEW_STATE);
    assert_int_equal(view_state(view), VIEW_FINISHED);
    json_t *json;
    assert_ok(view_item(view, 0, &json, &err));
    assert_int_equal(json_array_size(json_object_get(json, "stages")), 2);
    const json_t *last = json_array_get(json_object_get(json, "stages"), 1);
    assert_string_equal(json_string_value(json_object_get(last, "state")), "rejected");
    assert_string_equal(json_string_value(json_object_get(last, "reason")), "why not");
    json_decref(json);
    view_close(&view);
    end_session();
}

/* As many as a long session has: all are read at once, what comes then is not kept waiting for what that took, and only
 * it is read. */
static void follows_a_long_session(void **state) {
    (void)state;
    enum { ROWS = 100000, BATCH = 1000 };
    struct err err = {0};
    static struct item *items[BATCH];
    static struct ledger_origin origins[BATCH];
    static bool new[BATCH];
    make_session("long");
    for (int first = 0; first < ROWS; first += BATCH) {
        for (int i = 0; i < BATCH; i++) {
            char id[32];
            snprintf(id, sizeof id, "mic_%06d", first + i);
            items[i] = make_item("watcher", id, 0);
            assert_ok(item_set_column(items[i], "rlnDefocusU", first + i, &err));
            origins[i] = (struct ledger_origin){.item = items[i], .state = LEDGER_REJECTED, .reason = "why not"};
        }
        assert_ok(ledger_originate_items(watcher, origins, BATCH, new, &err));
        for (int i = 0; i < BATCH; i++)
            item_destroy(&items[i]);
    }
    struct view *view = open_it();
    look(view);
    assert_int_equal(view_row_count(view), ROWS);
    assert_true(view->due <= view_clock() + 1);
    assert_true(view_value(view, ROWS - 1, (size_t)view_column_find(view, "rlnDefocusU")) == ROWS - 1);
    assert_counts(view);
    uint64_t revision = view_revision(view);
    find(watcher, "watcher", "one_more", 0, "watcher.0>picker");
    glance(view);
    assert_changed(view, revision, "one_more");
    assert_true(view->due <= view_clock() + 4);
    assert_counts(view);
    view_close(&view);
    end_session();
}

static void assert_place(const char *path, const char *square, const char *hole) {
    const struct view_place place = view_place(path);
    assert_string_equal(place.square, square);
    assert_string_equal(place.hole, hole);
}

static void finds_squares_and_holes(void **state) {
    (void)state;
    assert_place("Images-Disc1/GridSquare_7701/Data/FoilHole_8812_Data_9901_9902_20260101_101010_Fractions", "7701",
                 "8812");
    assert_place("Images-Disc1_GridSquare_7701_Data_FoilHole_8812_Data_9901_9902_20260101_101010", "7701", "8812");
    assert_place("FoilHole_8812_Data_9901_9902_20260101_101010_EER", "", "8812");
    assert_place("grid1/square12_hole3_0001", "12", "3");
    assert_place("grid1/L1_12-3_0001", "12", "3");
    assert_place("mov_2026-11-23_0001", "", "");
    assert_place("mov_00001", "", "");
    assert_place("GridSquare_123456789012345678901234567890_x", "", "");
}

static enum status add_number(const char *name, size_t length, double value, void *context, struct err *err) {
    (void)err;
    sprintf((char *)context + strlen(context), "%.*s=%g ", (int)length, name, value);
    return STATUS_OK;
}

static void reads_numbers_of_an_item(void **state) {
    (void)state;
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"{\"columns\": {\"a\": 1.5, \"b\": null, \"c\": -2e3, \"d\": \"7\"}, \"picks\": {\"star\": \"x\", "
         "\"count\":3}}",
         "a=1.5 c=-2000 picks.count=3 "},
        {"{\"x\": {\"columns\": {\"a\": 1}}, \"y\": [\"}\", {\"columns\": 2}], \"columns\": {\"q\\\"\": 4}}",
         "q\\\"=4 "},
        {"{\"columns\": {\"a\": 1", ""},
        {"{\"columns\": {\"a\": 1, \"b", ""},
        {"[{\"columns\": {\"a\": 1}}]", ""},
        {"", ""},
        {"{\"columns\": {\"a\": 1e999}}", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char found[256] = "";
        struct err err = {0};
        assert_ok(view_scan(cases[i].text, add_number, found, &err));
        assert_string_equal(found, cases[i].expected);
    }
    assert_int_equal(view_scan_shows("{\"display\": {\"thumb\": \"a/b_thumb.jpg\", \"ctf\": null, \"motion\": \"c\"}, "
                                     "\"picks\": {\"star\": \"d\"}, \"x\": {\"micrograph\": {\"path\": \"e\"}}}"),
                     VIEW_THUMB | VIEW_MOTION | VIEW_PICKS);
    assert_int_equal(view_scan_shows("{\"micrograph\": {\"path\": \"a\"}}"), VIEW_MICROGRAPH);
    assert_int_equal(view_scan_shows("{\"display\": {\"spectrum\": \"a\""), 0);
    char path[32];
    assert_true(view_scan_text("{\"movie\": {\"n\": 1, \"path\": \"a/b\"}}", "movie", "path", path, sizeof path));
    assert_string_equal(path, "a/b");
    assert_false(view_scan_text("{\"movie\": {\"path\": \"a/b\"}}", "movie", "path", path, 3));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shows_an_exposure_on_its_way),
        cmocka_unit_test(shows_exactly_the_rows_that_changed),
        cmocka_unit_test(notices_a_retry),
        cmocka_unit_test(notices_a_revision),
        cmocka_unit_test(tells_two_sources_apart),
        cmocka_unit_test(shows_a_session_with_a_missing_ledger),
        cmocka_unit_test(shows_a_copy_on_a_read_only_folder),
        cmocka_unit_test(begins_anew_when_rows_are_gone),
        cmocka_unit_test(notices_what_fails_together),
        cmocka_unit_test(notices_another_reason),
        cmocka_unit_test(looks_again_at_what_does_not_add_up),
        cmocka_unit_test(reads_what_lies_beside),
        cmocka_unit_test(follows_a_long_session),
        cmocka_unit_test(finds_squares_and_holes),
        cmocka_unit_test(reads_numbers_of_an_item),
    };
    return scratch_run("view", tests, sizeof tests / sizeof tests[0]);
}
