/* Tests which files a replay puts where, and when. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipelines/launcher/replay.h"
#include "tests/common/scratch.h"

static void put(const char *name, const char *text, long seconds) {
    char path[PATH_SIZE];
    struct err err = {0};
    scratch_path(name, path);
    assert_ok(file_make_parents(path, 0755, &err));
    assert_ok(file_write_whole(path, text, strlen(text), &err));
    const struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void record(const char *folder) {
    char name[256];
    snprintf(name, sizeof name, "%s/third.mrc", folder);
    put(name, "333333", 1030);
    snprintf(name, sizeof name, "%s/grid/second.mrc", folder);
    put(name, "2222", 1010);
    snprintf(name, sizeof name, "%s/first.mrc", folder);
    put(name, "11", 1000);
    snprintf(name, sizeof name, "%s/.hidden.mrc.partial", folder);
    put(name, "x", 1001);
}

static struct replay make(const char *folder, double speed, const char *const *faults, size_t count) {
    char path[PATH_SIZE];
    struct err err = {0};
    struct replay replay;
    scratch_path(folder, path);
    assert_ok(replay_create(path, speed, faults, count, &replay, &err));
    return replay;
}

static void test_order_and_pace(void **state) {
    (void)state;
    record("pace");
    struct replay replay = make("pace", 2, NULL, 0);
    assert_int_equal(replay.count, 3);
    assert_string_equal(replay.files[0].path, "first.mrc");
    assert_string_equal(replay.files[1].path, "grid/second.mrc");
    assert_string_equal(replay.files[2].path, "third.mrc");
    assert_float_equal(replay.files[1].due, 5, 1e-6);
    assert_float_equal(replay.files[2].due, 15, 1e-6);
    assert_float_equal(replay.longest_gap, 10, 1e-6);
    replay_clear(&replay);
}

static void test_all_at_once(void **state) {
    (void)state;
    struct err err = {0};
    char target[PATH_SIZE], path[PATH_SIZE];
    struct stat info;
    record("once");
    struct replay replay = make("once", INFINITY, NULL, 0);
    scratch_path("once-target", target);
    assert_ok(replay_begin(&replay, target, &err));
    assert_ok(replay_advance(&replay, &err));
    assert_true(replay_all_in(&replay));
    scratch_path("once-target/grid/second.mrc", path);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size, 4);
    assert_int_equal(info.st_mtim.tv_sec, 1010);
    scratch_path("once-target/.hidden.mrc.partial", path);
    assert_false(file_exists(path));
    replay_clear(&replay);
    /* Run again: all files are there. */
    replay = make("once", 1, NULL, 0);
    assert_ok(replay_begin(&replay, target, &err));
    assert_true(replay_all_in(&replay));
    replay_clear(&replay);
}

static void test_goes_on(void **state) {
    (void)state;
    struct err err = {0};
    char target[PATH_SIZE];
    record("goes-on");
    put("goes-on-target/first.mrc", "11", 1000);
    struct replay replay = make("goes-on", 1, NULL, 0);
    scratch_path("goes-on-target", target);
    assert_ok(replay_begin(&replay, target, &err));
    assert_int_equal(replay.next, 1);
    assert_ok(replay_advance(&replay, &err)); /* the second file is due at once */
    assert_int_equal(replay.next, 2);
    replay_clear(&replay);
}

static void test_faults(void **state) {
    (void)state;
    struct err err = {0};
    char target[PATH_SIZE], path[PATH_SIZE];
    struct stat info;
    static const char *const faults[] = {"corrupt:3", "duplicate:2", "kill:lowpass-picker@5"};
    record("faults");
    struct replay replay = make("faults", INFINITY, faults, 3);
    assert_int_equal(replay.count, 4);
    assert_int_equal(replay.expected, 3);
    assert_int_equal(replay.kill_count, 1);
    assert_string_equal(replay.kills[0].stage, "lowpass-picker");
    assert_int_equal(replay.kills[0].after, 5);
    scratch_path("faults-target", target);
    assert_ok(replay_begin(&replay, target, &err));
    assert_ok(replay_advance(&replay, &err));
    scratch_path("faults-target/third.mrc", path);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size, 3);
    scratch_path("faults-target/grid/second.mrc", path);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_nlink, 1); /* the copy has replaced the link */
    assert_int_equal(info.st_size, 4);
    replay_clear(&replay);

    static const char *const delay[] = {"delay:1:12.5"};
    replay = make("faults", 1, delay, 1);
    assert_string_equal(replay.files[1].path, "first.mrc");
    assert_float_equal(replay.files[1].due, 12.5, 1e-6);
    replay_clear(&replay);
}

static void test_bad_faults(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",        "corrupt",  "corrupt:", "corrupt:0", "corrupt:9",  "kill:",        "kill:@3",       "kill:a",
        "kill:a@", "kill:a@x", "delay:1",  "delay:1:",  "delay:1:-2", "delay:1:soon", "duplicate:1:2", "other:1"};
    char path[PATH_SIZE];
    record("bad");
    scratch_path("bad", path);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct replay replay;
        struct err err = {0};
        if (replay_create(path, 1, &bad[i], 1, &replay, &err) == STATUS_OK) fail_msg("'%s' was taken", bad[i]);
    }
}

static void test_not_into_itself(void **state) {
    (void)state;
    struct err err = {0};
    char target[PATH_SIZE];
    record("self");
    struct replay replay = make("self", 1, NULL, 0);
    scratch_path("self/session/replay", target);
    assert_int_equal(replay_begin(&replay, target, &err), STATUS_BAD_ARGUMENT);
    replay_clear(&replay);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_pace), cmocka_unit_test(test_all_at_once),
        cmocka_unit_test(test_goes_on),        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_bad_faults),     cmocka_unit_test(test_not_into_itself),
    };
    return scratch_run("replay", tests, sizeof tests / sizeof tests[0]);
}
