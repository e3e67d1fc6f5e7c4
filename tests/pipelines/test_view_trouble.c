/* Tests what a view shows of a session whose files are damaged, half written or away. */
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipelines/launcher/view/view_private.h"
#include "tests/common/scratch.h"

static struct session session;
static const double NOW = 1e9;

static void put_text(const char *folder, const char *name, const char *text) {
    char path[PATH_SIZE];
    struct err err = {0};
    assert_ok(session_file(&session, folder, name, "", path, &err));
    assert_ok(file_make_parents(path, 0755, &err));
    assert_ok(file_write_whole(path, text, strlen(text), &err));
}

#define STAGE(name, from, instance)                                                                                    \
    "{\"name\": \"" name "\", \"program\": \"/x/icestream-" name "\", \"from\": [" from "], \"instances\": [" instance \
    "]}"
#define WATCHER STAGE("watcher", "", "\"watcher.0\"")
#define PICKER STAGE("picker", "\"watcher\"", "\"picker.0\"")

static struct view *open_session(const char *name, const char *plan) {
    struct err err = {0};
    struct view *view;
    unsigned changed;
    session = (struct session){.lock = -1};
    scratch_path(name, session.path);
    put_text("log", "plan.json", plan);
    assert_ok(view_open(session.path, &view, &err));
    assert_ok(view_poll(view, NOW, &changed, &err));
    return view;
}

static enum status look(struct view *view) {
    unsigned changed;
    view->due = view->files_due = view->check_due = view->reread_due = view->exact_due = 0;
    return view_poll(view, NOW, &changed, NULL);
}

/* Whoever lists the tally asks the view for each of its stages. */
static void the_tally_has_no_more_stages_than_the_view(void **state) {
    (void)state;
    struct view *view = open_session("fewer", "{\"run\": 1, \"stages\": [" WATCHER "," PICKER "]}");
    assert_int_equal(view_tally(view)->count, 2);
    put_text("ledger", "watcher.sqlite",
             "this is no database, and longer than the head of one would have to be .........."
             "........................................................................");
    put_text("log", "plan.json", "{\"run\": 2, \"stages\": [" WATCHER "]}");
    assert_int_not_equal(look(view), STATUS_OK);
    assert_int_equal(view_stage_count(view), 1);
    assert_true(view_tally(view)->count <= view_stage_count(view));
    view_close(&view);
}

static void a_plan_that_lacks_names_is_not_taken(void **state) {
    (void)state;
    struct view *view = open_session("names", "{\"run\": 1, \"stages\": [" WATCHER "]}");
    put_text("log", "plan.json", "{\"run\": 2, \"stages\": [" STAGE("watcher", "", "7") "]}");
    assert_int_equal(look(view), STATUS_BAD_FORMAT);
    assert_int_equal(view_run(view), 1);
    put_text("log", "plan.json", "{\"run\": 3, \"stages\": [{\"name\": null}]}");
    assert_int_equal(look(view), STATUS_BAD_FORMAT);
    assert_string_equal(view_stage_name(view, 0), "watcher");
    put_text("log", "plan.json", "{\"run\": 4, \"sta");
    assert_int_equal(look(view), STATUS_BAD_FORMAT);
    assert_int_equal(view_run(view), 1);
    put_text("log", "plan.json", "{\"run\": 5, \"stages\": [" WATCHER "]}");
    assert_int_equal(look(view), STATUS_OK);
    assert_int_equal(view_run(view), 5);
    view_close(&view);
}

/* A log of a run that drains for hours. */
static void a_long_log_does_not_end_the_draining(void **state) {
    (void)state;
    enum { LENGTH = 300000 };
    struct view *view = open_session("drains", "{\"run\": 1, \"stages\": [" WATCHER "]}");
    char path[PATH_SIZE], *log = malloc(LENGTH + 1);
    struct err err = {0};
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    assert_non_null(log);
    put_text("log", "lock", "");
    assert_ok(session_file(&session, "log", "lock", "", path, &err));
    int lock = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(fcntl(lock, F_OFD_SETLK, &whole), 0);
    static const char begin[] = "2026 icestream INFO start run 1\n2026 icestream INFO notice draining: finishing\n";
    put_text("log", "icestream.log", begin);
    assert_int_equal(look(view), STATUS_OK);
    assert_int_equal(view_state(view), VIEW_DRAINING);
    memset(log, '.', LENGTH);
    memcpy(log, begin, sizeof begin - 1);
    log[LENGTH] = '\0';
    put_text("log", "icestream.log", log);
    assert_int_equal(look(view), STATUS_OK);
    assert_int_equal(view_state(view), VIEW_DRAINING);
    static const char again[] = "\n2026 icestream INFO start run 2\n";
    memcpy(log + LENGTH - sizeof again + 1, again, sizeof again - 1);
    put_text("log", "icestream.log", log);
    assert_int_equal(look(view), STATUS_OK);
    assert_int_equal(view_state(view), VIEW_RUNNING);
    free(log);
    close(lock);
    view_close(&view);
}

static void a_history_that_cannot_be_read_stays(void **state) {
    (void)state;
    char path[PATH_SIZE];
    struct err err = {0};
    struct view *view = open_session("history", "{\"run\": 1, \"stages\": [" WATCHER "]}");
    put_text("watcher", "history.jsonl", "{\"iteration\": 1}\n{\"iteration\": 2}\n{\"iterat");
    assert_int_equal(look(view), STATUS_OK);
    assert_int_equal(json_array_size(view_history(view, "watcher")), 2);
    assert_ok(session_file(&session, "watcher", "history.jsonl", "", path, &err));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0755), 0);
    assert_int_equal(look(view), STATUS_OK);
    assert_int_equal(json_array_size(view_history(view, "watcher")), 2);
    assert_int_equal(rmdir(path), 0);
    put_text("watcher", "history.jsonl", "{\"iteration\": 1}\n{\"iteration\": 2}\n{\"iteration\": 3}\n");
    assert_int_equal(look(view), STATUS_OK);
    assert_int_equal(json_array_size(view_history(view, "watcher")), 3);
    view_close(&view);
}

static void a_session_that_is_gone_is_still_shown(void **state) {
    (void)state;
    char away[PATH_SIZE + 8];
    struct view *view = open_session("gone", "{\"run\": 1, \"stages\": [" WATCHER "]}");
    snprintf(away, sizeof away, "%s.away", session.path);
    assert_int_equal(rename(session.path, away), 0);
    assert_int_not_equal(look(view), STATUS_OK);
    assert_string_equal(view_stage_name(view, 0), "watcher");
    assert_int_equal(view_tally(view)->count, 1);
    assert_int_not_equal(access(session.path, F_OK), 0);
    assert_int_equal(rename(away, session.path), 0);
    assert_int_equal(look(view), STATUS_OK);
    view_close(&view);
}

/* A session that is moved away goes file by file as far as the view can see. */
static void rows_stay_while_a_ledger_is_away(void **state) {
    (void)state;
    struct err err = {0};
    struct item *item;
    struct ledger *ledger;
    char path[PATH_SIZE], away[PATH_SIZE + 8];
    bool new;
    struct view *view = open_session("away", "{\"run\": 1, \"stages\": [" WATCHER "]}");
    assert_ok(session_file(&session, "ledger", "watcher", ".sqlite", path, &err));
    assert_ok(file_make_parents(path, 0755, &err));
    assert_ok(ledger_open(path, NULL, false, &ledger, &err));
    assert_ok(item_create("one", "micrograph", &item, &err));
    assert_ok(item_set_source(item, "watcher", &err));
    assert_ok(ledger_originate(ledger, item, LEDGER_DONE, NULL, NULL, 0, &new, &err));
    item_destroy(&item);
    assert_int_equal(look(view), STATUS_OK);
    assert_int_equal(view_row_count(view), 1);
    const uint64_t epoch = view_epoch(view);
    snprintf(away, sizeof away, "%s.away", path);
    assert_int_equal(look(view), STATUS_OK);
    assert_int_equal(rename(path, away), 0);
    assert_int_equal(look(view), STATUS_OK);
    assert_int_equal(view_row_count(view), 1);
    assert_int_equal(rename(away, path), 0);
    assert_int_equal(look(view), STATUS_OK);
    assert_true(view_row_count(view) == 1 && view_epoch(view) == epoch);
    ledger_close(&ledger);
    view_close(&view);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tally_has_no_more_stages_than_the_view),
        cmocka_unit_test(a_plan_that_lacks_names_is_not_taken),
        cmocka_unit_test(a_long_log_does_not_end_the_draining),
        cmocka_unit_test(a_history_that_cannot_be_read_stays),
        cmocka_unit_test(a_session_that_is_gone_is_still_shown),
        cmocka_unit_test(rows_stay_while_a_ledger_is_away),
    };
    return scratch_run("view-trouble", tests, sizeof tests / sizeof tests[0]);
}
