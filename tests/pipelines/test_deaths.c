/* Tests the rule by which the launcher finds the item that ends a stage, and the count of the memory killer. */
#include "pipelines/launcher/run/deaths.h"

#include <stdio.h>

#include "pipelines/launcher/run/memory_kills.h"
#include "tests/common/scratch.h"

static enum deaths_verdict die(struct deaths *deaths, int64_t finished, size_t begun, const char *alone) {
    return deaths_count(deaths, &(struct death){.finished = finished, .begun = begun, .alone = alone});
}

static enum deaths_verdict die_of_memory(struct deaths *deaths, int64_t finished, size_t begun, const char *alone) {
    const struct death death = {.finished = finished, .begun = begun, .alone = alone, .memory = true};
    return deaths_count(deaths, &death);
}

static void one_of_several_items_is_found(void **state) {
    (void)state;
    struct deaths deaths = {0};
    assert_int_equal(die(&deaths, 10, 3, NULL), DEATHS_NONE);
    assert_int_equal(deaths.one_by_one, 0);
    assert_int_equal(die(&deaths, 10, 3, NULL), DEATHS_ONE_BY_ONE);
    assert_int_equal(deaths.one_by_one, 3);
    /* One of the others is finished, so that the row begins anew; the stage still takes its items one by one. */
    assert_int_equal(die(&deaths, 11, 1, "bad"), DEATHS_SUSPECT);
    assert_int_equal(deaths.one_by_one, 3);
    assert_int_equal(die(&deaths, 11, 1, "bad"), DEATHS_SUSPECT);
    assert_int_equal(die(&deaths, 11, 1, "bad"), DEATHS_SET_ASIDE);
    /* A second one waits behind it. */
    assert_int_equal(die(&deaths, 13, 1, "worse"), DEATHS_SUSPECT);
    assert_int_equal(die(&deaths, 13, 1, "worse"), DEATHS_SUSPECT);
    assert_int_equal(die(&deaths, 13, 1, "worse"), DEATHS_SET_ASIDE);
    /* Three items have passed since: the stage takes as many as fit again. */
    assert_int_equal(die(&deaths, 18, 2, NULL), DEATHS_NONE);
    assert_int_equal(deaths.one_by_one, 0);
}

static void an_item_by_itself_is_found_at_the_third_death(void **state) {
    (void)state;
    struct deaths deaths = {0};
    assert_int_equal(die(&deaths, 0, 1, "bad"), DEATHS_SUSPECT);
    assert_int_equal(die(&deaths, 0, 1, "bad"), DEATHS_SUSPECT);
    assert_int_equal(die(&deaths, 0, 1, "bad"), DEATHS_SET_ASIDE);
    assert_int_equal(die(&deaths, 1, 1, "next"), DEATHS_SUSPECT);
}

/* Whoever kills a healthy stage, however often, finds items finished between. */
static void a_stage_that_goes_on_blames_nobody(void **state) {
    (void)state;
    struct deaths deaths = {0};
    for (int i = 0; i < 100; i++) {
        enum deaths_verdict verdict = die(&deaths, i, 1 + (size_t)i % 3, "slow");
        assert_true(verdict == DEATHS_NONE || verdict == DEATHS_SUSPECT);
    }
    assert_int_equal(deaths.one_by_one, 0);
}

/* Each of two replicas has an item that ends it: their deaths alternate. */
static void two_causes_at_once_are_both_found(void **state) {
    (void)state;
    struct deaths deaths = {0};
    for (int i = 0; i < 4; i++)
        assert_int_equal(die(&deaths, 5, 1, i % 2 == 0 ? "a" : "b"), DEATHS_SUSPECT);
    assert_int_equal(die(&deaths, 5, 1, "a"), DEATHS_SET_ASIDE);
    assert_int_equal(die(&deaths, 7, 1, "b"), DEATHS_SET_ASIDE);
    assert_int_equal(die(&deaths, 9, 1, "c"), DEATHS_SUSPECT);
    assert_int_equal(deaths.steps, 7);
}

/* Far more suspects than there are entries: the rule goes on. */
static void suspects_may_be_many(void **state) {
    (void)state;
    struct deaths deaths = {0};
    char name[16];
    for (int i = 0; i < 3 * DEATHS_SUSPECTS; i++) {
        snprintf(name, sizeof name, "%d", i);
        assert_int_equal(die(&deaths, 0, 1, name), DEATHS_SUSPECT);
    }
    assert_int_equal(die(&deaths, 0, 1, "bad"), DEATHS_SUSPECT);
    assert_int_equal(die(&deaths, 0, 1, "bad"), DEATHS_SUSPECT);
    assert_int_equal(die(&deaths, 0, 1, "bad"), DEATHS_SET_ASIDE);
}

static void deaths_without_an_item_are_neutral(void **state) {
    (void)state;
    struct deaths deaths = {0};
    for (int i = 0; i < 10; i++)
        assert_int_equal(die(&deaths, 0, 0, NULL), DEATHS_NONE);
    assert_int_equal(deaths.steps, 0);
    assert_int_equal(deaths.idle, 10);
    assert_int_equal(die(&deaths, 0, 1, "bad"), DEATHS_SUSPECT);
    assert_int_equal(die(&deaths, 0, 0, NULL), DEATHS_NONE);
    assert_int_equal(die(&deaths, 0, 1, "bad"), DEATHS_SUSPECT);
    assert_int_equal(die(&deaths, 0, 1, "bad"), DEATHS_SET_ASIDE);
    /* Items that were finished before a death without items count as progress: the suspicion against "b" begins anew. */
    assert_int_equal(die(&deaths, 1, 1, "b"), DEATHS_SUSPECT);
    assert_int_equal(die(&deaths, 1, 1, "b"), DEATHS_SUSPECT);
    assert_int_equal(die(&deaths, 2, 0, NULL), DEATHS_NONE);
    assert_int_equal(deaths.idle, 1);
    assert_int_equal(die(&deaths, 2, 1, "b"), DEATHS_SUSPECT);
}

/* Items only wait beside the stage's own work, and the stage leaves this work first. */
static void own_work_comes_before_items(void **state) {
    (void)state;
    struct deaths deaths = {0};
    const struct death death = {.begun = 1, .alone = "tilt", .own_work = true};
    for (int i = 1; i <= DEATHS_IDLE; i++) {
        assert_int_equal(deaths_count(&deaths, &death), DEATHS_NONE);
        assert_int_equal(deaths.idle, i);
    }
    assert_int_equal(deaths_count(&deaths, &death), DEATHS_SUSPECT);
    assert_int_equal(deaths_count(&deaths, &death), DEATHS_SUSPECT);
    assert_int_equal(deaths_count(&deaths, &death), DEATHS_SET_ASIDE);
}

/* The other replicas finish items without end, and the memory killer comes for the same item again and again. */
static void the_memory_killer_counts_beside_finished_items(void **state) {
    (void)state;
    struct deaths deaths = {0};
    assert_int_equal(die_of_memory(&deaths, 10, 3, NULL), DEATHS_NONE);
    assert_int_equal(die_of_memory(&deaths, 20, 3, NULL), DEATHS_ONE_BY_ONE);
    assert_int_equal(die_of_memory(&deaths, 21, 1, "huge"), DEATHS_SUSPECT);
    assert_int_equal(die_of_memory(&deaths, 22, 1, "huge"), DEATHS_SUSPECT);
    assert_int_equal(die_of_memory(&deaths, 23, 1, "huge"), DEATHS_SET_ASIDE);
}

/* Each death that brings the cause closer is a step; the limit on restarts does not count these. */
static void steps_are_bounded(void **state) {
    (void)state;
    struct deaths deaths = {0};
    for (int i = 0; i < 50; i++)
        (void)die(&deaths, 0, 3, NULL);
    assert_int_equal(deaths.steps, 1);
}

static void the_memory_killers_count_is_read(void **state) {
    (void)state;
    char path[PATH_SIZE];
    struct memory_kills kills;
    struct err err = {0};
    scratch_path("events", path);
    static const char none[] = "low 0\nmax 3\noom 4\noom_group_kill 9\noom_kill 2\n", one[] = "oom 5\noom_kill 3\n";
    assert_ok(file_write_whole(path, none, sizeof none - 1, &err));
    memory_kills_open(&kills, path);
    memory_kills_look(&kills);
    assert_false(memory_kills_grew(&kills));
    assert_ok(file_write_whole(path, one, sizeof one - 1, &err));
    assert_true(memory_kills_grew(&kills));
    memory_kills_look(&kills);
    assert_true(memory_kills_grew(&kills));
    memory_kills_look(&kills);
    assert_false(memory_kills_grew(&kills));
    memory_kills_open(&kills, "/nowhere/at/all");
    assert_false(memory_kills_grew(&kills));
    memory_kills_open(&kills, NULL);
    memory_kills_look(&kills);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_of_several_items_is_found),
        cmocka_unit_test(an_item_by_itself_is_found_at_the_third_death),
        cmocka_unit_test(a_stage_that_goes_on_blames_nobody),
        cmocka_unit_test(two_causes_at_once_are_both_found),
        cmocka_unit_test(suspects_may_be_many),
        cmocka_unit_test(deaths_without_an_item_are_neutral),
        cmocka_unit_test(own_work_comes_before_items),
        cmocka_unit_test(the_memory_killer_counts_beside_finished_items),
        cmocka_unit_test(steps_are_bounded),
        cmocka_unit_test(the_memory_killers_count_is_read),
    };
    return scratch_run("deaths", tests, sizeof tests / sizeof tests[0]);
}
