/* Tests the folders of leases: what a new one takes over, where the promised names lead, and which folders stay. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file_notes.h"
#include "common/harness/lease_folders.h"
#include "common/memory.h"
#include "tests/common/scratch.h"

/* Makes a session of its own for each test. */
static void begin(const char *name, char session[PATH_SIZE]) {
    struct err err = {0};
    scratch_path(name, session);
    assert_ok(file_make_folders(session, 0777, &err));
}

static void put(const char *session, const char *name, const char *text) {
    char path[PATH_SIZE];
    struct err err = {0};
    assert_ok(path_join(session, name, path, sizeof path, &err));
    assert_ok(file_make_parents(path, 0777, &err));
    assert_ok(file_write_whole(path, text, strlen(text), &err));
}

static void expect(const char *session, const char *name, const char *text) {
    char path[PATH_SIZE];
    struct err err = {0};
    _cleanup_(mem_free) char *is = NULL;
    assert_ok(path_join(session, name, path, sizeof path, &err));
    if (text == NULL) {
        assert_false(file_exists(path));
        return;
    }
    assert_ok(file_read_whole(path, 1000, &is, NULL, &err));
    assert_string_equal(is, text);
}

static void take(const char *session, int64_t number, int64_t before) {
    struct err err = {0};
    assert_ok(lease_folders_make(session, "refiner", number, before, &err));
    assert_ok(lease_folders_promise(session, "refiner", number, &err));
    assert_true(lease_folders_promised(session, "refiner", number));
}

static void a_new_stage_has_an_empty_folder(void **state) {
    (void)state;
    char session[PATH_SIZE];
    begin("new", session);
    assert_int_equal(lease_folders_last(session, "refiner"), 0);
    take(session, 1, 0);
    assert_int_equal(lease_folders_last(session, "refiner"), 1);
    put(session, "refiner/map.mrc", "map");
    expect(session, "leases/refiner.1/refiner/map.mrc", "map");
}

/* Whoever still writes into the folder before changes nothing of what counts. */
static void a_late_writer_is_not_seen(void **state) {
    (void)state;
    char session[PATH_SIZE], path[PATH_SIZE];
    struct err err = {0};
    begin("late", session);
    take(session, 1, 0);
    put(session, "refiner/map.mrc", "first");
    put(session, "refiner/parts/a.star", "a");
    put(session, "refiner/history.jsonl", "{}\n");
    put(session, "refiner/.map.mrc.partial", "half");
    assert_ok(path_join(session, "refiner/latest.mrc", path, sizeof path, &err));
    assert_ok(file_link("map.mrc", path, &err));
    take(session, 2, 1);
    expect(session, "refiner/map.mrc", "first");
    expect(session, "refiner/parts/a.star", "a");
    expect(session, "refiner/latest.mrc", "first");
    expect(session, "refiner/.map.mrc.partial", NULL);
    put(session, "leases/refiner.1/refiner/map.mrc", "late");
    assert_ok(path_join(session, "leases/refiner.1/refiner/history.jsonl", path, sizeof path, &err));
    assert_ok(file_append_line(path, "{\"late\": 1}", &err));
    expect(session, "refiner/map.mrc", "first");
    expect(session, "refiner/history.jsonl", "{}\n");
    /* It may even turn the link back; the holder sees that. */
    assert_ok(lease_folders_promise(session, "refiner", 1, &err));
    assert_false(lease_folders_promised(session, "refiner", 2));
}

/* A lease that ended before it counted left a folder that nobody goes on from. */
static void the_folder_that_counts_is_taken_over(void **state) {
    (void)state;
    char session[PATH_SIZE];
    struct err err = {0};
    begin("counts", session);
    take(session, 1, 0);
    put(session, "refiner/map.mrc", "first");
    assert_ok(lease_folders_make(session, "refiner", 2, 1, &err));
    put(session, "leases/refiner.2/refiner/map.mrc", "never counted");
    assert_ok(lease_folders_promise(session, "refiner", 2, &err));
    take(session, 3, 1);
    expect(session, "refiner/map.mrc", "first");
    put(session, "leases/refiner.x/file", "of somebody");
    put(session, "leases/refiner-2.1/file", "of another stage");
    lease_folders_clear(session, "refiner", 3, 1);
    expect(session, "leases/refiner.1/refiner/map.mrc", "first");
    expect(session, "leases/refiner.2/refiner/map.mrc", NULL);
    expect(session, "leases/refiner.x/file", "of somebody");
    expect(session, "leases/refiner-2.1/file", "of another stage");
    expect(session, "refiner/map.mrc", "first");
}

/* One that stood still before it cleared wakes while another works, which has gone on from its folder. */
static void folders_of_later_leases_stay(void **state) {
    (void)state;
    char session[PATH_SIZE];
    begin("later", session);
    take(session, 3, 0);
    take(session, 4, 3);
    take(session, 5, 4);
    put(session, "refiner/map.mrc", "later");
    put(session, "leases/refiner.12/refiner/map.mrc", "being made");
    lease_folders_clear(session, "refiner", 4, 3);
    expect(session, "refiner/map.mrc", "later");
    expect(session, "leases/refiner.12/refiner/map.mrc", "being made");
}

/* Answers of the server, one after the other. */
struct answers {
    int64_t numbers[4];
    int asked, count;
};

static enum status answer(void *context, int64_t *ret_number, struct err *err) {
    struct answers *answers = context;
    FAIL_IF(answers->asked == answers->count, err, STATUS_UNAVAILABLE, "the server is away");
    *ret_number = answers->numbers[answers->asked++];
    return STATUS_OK;
}

/* It asks, stands still, and another takes the lease, lets the name lead to its folder, and ends. */
static void who_stood_still_sets_the_link_right(void **state) {
    (void)state;
    char session[PATH_SIZE];
    struct err err = {0};
    struct answers late = {.numbers = {1, 3, 3}, .count = 3}, alone = {.numbers = {1, 1}, .count = 2};
    begin("still", session);
    take(session, 1, 0);
    assert_ok(lease_folders_lead(session, "refiner", answer, &alone, &err));
    assert_int_equal(alone.asked, 2);
    assert_true(lease_folders_promised(session, "refiner", 1));
    take(session, 3, 1);
    assert_ok(lease_folders_lead(session, "refiner", answer, &late, &err));
    assert_int_equal(late.asked, 3);
    assert_true(lease_folders_promised(session, "refiner", 3));
    struct answers away = {0};
    assert_int_equal(lease_folders_lead(session, "refiner", answer, &away, &err), STATUS_UNAVAILABLE);
    assert_true(lease_folders_promised(session, "refiner", 3));
}

/* A stage that finds the disk full begins again and again, each time with another lease. */
static void a_full_disk_is_not_filled_further(void **state) {
    (void)state;
    char session[PATH_SIZE];
    struct err err = {0};
    struct rlimit before, small;
    begin("full", session);
    take(session, 1, 0);
    put(session, "refiner/history.jsonl", "{\"iteration\": 1}\n");
    put(session, "refiner/parts/a.star", "a");
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){.rlim_cur = 4, .rlim_max = before.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    enum status status = lease_folders_make(session, "refiner", 2, 1, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    assert_int_not_equal(status, STATUS_OK);
    assert_non_null(strstr(err.message, "cannot be copied"));
    expect(session, "leases/refiner.2", NULL);
    expect(session, "refiner/parts/a.star", "a");
}

/* A session that kept its ledgers in files, or that comes back from a backup, has a folder in place of the link. */
static void a_folder_becomes_a_link(void **state) {
    (void)state;
    char session[PATH_SIZE];
    begin("folder", session);
    put(session, "refiner/map.mrc", "of before");
    take(session, 7, 6);
    expect(session, "refiner/map.mrc", "of before");
    expect(session, "leases/refiner.7/refiner/map.mrc", "of before");
    assert_int_equal(lease_folders_last(session, "refiner"), 7);
}

static void a_link_of_the_user_is_refused(void **state) {
    (void)state;
    char session[PATH_SIZE], path[PATH_SIZE];
    struct err err = {0};
    begin("link", session);
    put(session, "elsewhere/map.mrc", "map");
    assert_ok(path_join(session, "refiner", path, sizeof path, &err));
    assert_ok(file_link("elsewhere", path, &err));
    assert_int_equal(lease_folders_make(session, "refiner", 1, 0, &err), STATUS_BAD_ARGUMENT);
    assert_non_null(strstr(err.message, "a link to elsewhere"));
    expect(session, "refiner/map.mrc", "map");
}

/* ---- Files wait for the lease ---- */

static enum status unless(const void *context, struct err *err) {
    const bool *holds = context;
    FAIL_IF(!*holds, err, STATUS_UNAVAILABLE, "the lease could not be renewed");
    return STATUS_OK;
}

static void no_file_is_placed_without_the_lease(void **state) {
    (void)state;
    char session[PATH_SIZE], path[PATH_SIZE];
    bool holds = true;
    struct err err = {0};
    struct file_notes notes;
    begin("holds", session);
    put(session, "map.mrc", "before");
    assert_ok(path_join(session, "map.mrc", path, sizeof path, &err));
    file_notes_init(&notes);
    notes.may_write = unless;
    notes.may_write_context = &holds;
    file_observe(&notes.observer);
    assert_ok(file_write_whole(path, "first", 5, &err));
    holds = false;
    assert_int_equal(file_write_whole(path, "second", 6, &err), STATUS_UNAVAILABLE);
    file_observe(NULL);
    expect(session, "map.mrc", "first");
    expect(session, ".map.mrc.partial", NULL);
    assert_int_equal(notes.count, 1);
    file_notes_clear(&notes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_stage_has_an_empty_folder),      cmocka_unit_test(a_late_writer_is_not_seen),
        cmocka_unit_test(the_folder_that_counts_is_taken_over), cmocka_unit_test(a_folder_becomes_a_link),
        cmocka_unit_test(a_link_of_the_user_is_refused),        cmocka_unit_test(no_file_is_placed_without_the_lease),
        cmocka_unit_test(folders_of_later_leases_stay),         cmocka_unit_test(who_stood_still_sets_the_link_right),
        cmocka_unit_test(a_full_disk_is_not_filled_further),
    };
    return scratch_run("lease_folders", tests, sizeof tests / sizeof *tests);
}
