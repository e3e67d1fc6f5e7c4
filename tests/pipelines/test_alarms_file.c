/* Tests the file of a session's alarms: torn lines, lines of others, and a file that is longer than anybody reads. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pipelines/launcher/alarms/alarms_file.h"
#include "tests/common/scratch.h"

static json_t *fires(const char *subject, double time) {
    return json_pack("{s:f, s:s, s:s, s:s}", "time", time, "event", "fires", "alarm", "disk", "subject", subject);
}

static void append(const char *path, json_t *line) {
    struct err err = {0};
    assert_ok(alarms_file_append(path, line, &err));
}

static void put_bytes(const char *path, const char *bytes) {
    int descriptor = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(write(descriptor, bytes, strlen(bytes)), strlen(bytes));
    close(descriptor);
}

static struct alarm_table *table_new(void) {
    struct alarm_table *table = calloc(1, sizeof *table);
    assert_non_null(table);
    return table;
}

static void each_line_counts_once(void **state) {
    (void)state;
    char path[PATH_SIZE];
    int64_t offset = 0;
    struct err err = {0};
    struct alarm_table *table = table_new();
    scratch_path("once.jsonl", path);
    assert_ok(alarms_file_read(path, false, &offset, table, &err));
    assert_int_equal(offset, 0);
    append(path, fires("a", 1));
    put_bytes(path, "{\"event\": \"fires\", \"al");
    assert_ok(alarms_file_read(path, false, &offset, table, &err));
    assert_int_equal(table->count, 1);
    const int64_t before = offset;
    assert_ok(alarms_file_read(path, false, &offset, table, &err));
    assert_int_equal(offset, before);
    append(path, fires("b", 2)); /* ends the torn line */
    put_bytes(path, "null\n[]\n{\"event\": 7}\n{\"event\": \"fires\", \"alarm\": \"no such\"}\n");
    table->alarms[0].started = 77; /* a line that is read again would set it back */
    assert_ok(alarms_file_read(path, false, &offset, table, &err));
    assert_int_equal(table->count, 2);
    assert_true(table->alarms[0].started == 77);
    assert_string_equal(table->alarms[1].subject, "b");
    /* Somebody puts a shorter file in its place. */
    assert_int_equal(unlink(path), 0);
    append(path, fires("c", 3));
    assert_ok(alarms_file_read(path, false, &offset, table, &err));
    assert_int_equal(table->count, 3);
    free(table);
}

static void of_a_long_file_the_end_counts(void **state) {
    (void)state;
    char path[PATH_SIZE];
    int64_t offset = 0;
    struct err err = {0};
    struct alarm_table *table = table_new();
    scratch_path("long.jsonl", path);
    append(path, fires("early", 1));
    assert_int_equal(truncate(path, 100 << 20), 0);
    append(path, fires("late", 2));
    assert_ok(alarms_file_read(path, false, &offset, table, &err));
    assert_int_equal(table->count, 1);
    assert_string_equal(table->alarms[0].subject, "late");
    append(path, fires("later", 3));
    assert_ok(alarms_file_read(path, false, &offset, table, &err));
    assert_int_equal(table->count, 2);
    free(table);
}

static void what_cannot_be_written_is_said(void **state) {
    (void)state;
    struct err err = {0};
    if (access("/dev/full", W_OK) == 0) {
        assert_int_equal(alarms_file_append("/dev/full", fires("a", 1), &err), STATUS_UNAVAILABLE);
        assert_non_null(strstr(err.message, "/dev/full"));
    }
    char path[PATH_SIZE];
    scratch_path("no/such/folder/alarms.jsonl", path);
    assert_int_not_equal(alarms_file_append(path, fires("a", 1), &err), STATUS_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_line_counts_once),
        cmocka_unit_test(of_a_long_file_the_end_counts),
        cmocka_unit_test(what_cannot_be_written_is_said),
    };
    return scratch_run("alarms-file", tests, sizeof tests / sizeof tests[0]);
}
