/* Tests how much time the parts of an instance spent on what. The test sets the clock. */
#include <string.h>

#include "common/harness/parts.h"
#include "tests/common/scratch.h"

/* Two threads load, one computes. Process first sets up for 2 s, loads overlap, and the run lasts from 10 s to 20 s. */
static struct parts example(void) {
    struct parts parts = {0};
    parts.part[PART_LOAD].threads = 2;
    parts.part[PART_PROCESS].threads = 1;
    parts.part[PART_STORE].threads = 3;
    parts.part[PART_LEDGER].threads = 1;
    parts_begin(&parts, 10);
    parts_begin(&parts, 11);
    parts_enter(&parts, PART_LOAD, 10);
    parts_enter(&parts, PART_LOAD, 11);
    parts_leave(&parts, PART_LOAD, 13);
    parts_leave(&parts, PART_LOAD, 14);
    parts_enter(&parts, PART_PROCESS, 13);
    parts_leave(&parts, PART_PROCESS, 18);
    parts.setup = 2;
    parts_enter(&parts, PART_STORE, 14);
    return parts;
}

static void work_is_added_up_over_threads(void **state) {
    (void)state;
    struct parts parts = example();
    double busy;
    /* One load for 1 s, two loads for 2 s, one load for 1 s: 6 thread-seconds of 2 threads. */
    assert_float_equal(parts_busy(&parts, PART_LOAD, 15), 3, 1e-12);
    assert_float_equal(parts_busy(&parts, PART_PROCESS, 30), 5, 1e-12);
    /* A part that is still at work counts up to now. */
    assert_float_equal(parts_busy(&parts, PART_STORE, 20), 2, 1e-12);
    assert_int_equal(parts_slowest(&parts, 20, &busy), PART_PROCESS);
    assert_float_equal(busy, 5, 1e-12);
    parts_leave(&parts, PART_STORE, 20);
    assert_float_equal(parts_busy(&parts, PART_STORE, 99), 2, 1e-12);
}

static void wall_time_goes_from_the_first_item_to_the_end(void **state) {
    (void)state;
    struct parts parts = {0};
    parts_end(&parts, 5);
    assert_float_equal(parts_wall(&parts, 6), 0, 0);
    parts = example();
    assert_float_equal(parts_wall(&parts, 16), 6, 1e-12);
    parts_end(&parts, 20);
    assert_float_equal(parts_wall(&parts, 99), 10, 1e-12);
}

static void a_line_says_it_all(void **state) {
    (void)state;
    struct parts parts = example();
    char line[512], little[20];
    parts_leave(&parts, PART_STORE, 20);
    parts_end(&parts, 20);
    parts_line(&parts, 200, 25, line, sizeof line);
    assert_string_equal(line,
                        "200 done in 10 s, 50 ms each: load 2 × 3 s busy (30 %), process 1 × 5 s busy (50 %), 2 s "
                        "of it set-up, store 3 × 2 s busy (20 %), ledger 1 × 0 s busy (0 %); process is the "
                        "slowest: wall/slowest 2.00");
    parts_line(&parts, 200, 25, little, sizeof little);
    assert_string_equal(little, "200 done in 10 s, 5");
    struct parts none = {0};
    parts_line(&none, 0, 25, line, sizeof line);
    assert_non_null(strstr(line, "0 done in 0 s, 0 ms each"));
}

static void json_has_busy_and_waiting_of_each_part(void **state) {
    (void)state;
    struct parts parts = example();
    json_t *root = parts_json(&parts, 20);
    assert_non_null(root);
    assert_float_equal(json_number_value(json_object_get(root, "wall")), 10, 1e-12);
    assert_float_equal(json_number_value(json_object_get(root, "setup")), 2, 1e-12);
    assert_string_equal(json_string_value(json_object_get(root, "slowest")), "process");
    const json_t *load = json_object_get(root, "load");
    assert_int_equal(json_integer_value(json_object_get(load, "threads")), 2);
    assert_float_equal(json_number_value(json_object_get(load, "busy")), 3, 1e-12);
    assert_float_equal(json_number_value(json_object_get(load, "waiting")), 7, 1e-12);
    assert_non_null(json_object_get(root, "ledger"));
    json_decref(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_is_added_up_over_threads),
        cmocka_unit_test(wall_time_goes_from_the_first_item_to_the_end),
        cmocka_unit_test(a_line_says_it_all),
        cmocka_unit_test(json_has_busy_and_waiting_of_each_part),
    };
    return scratch_run("parts", tests, sizeof tests / sizeof *tests);
}
