/* Tests on which host an instance starts. */
#include <unistd.h>

#include "pipelines/launcher/host/placement.h"
#include "tests/common/scratch.h"

static const struct placement_wish anything = {.on = NULL};

/* The launcher's host, one with GPUs, and one that is away. */
static void three(struct placement_host hosts[3]) {
    hosts[0] = (struct placement_host){.name = "launcher", .there = true, .cores = 8};
    hosts[1] = (struct placement_host){.name = "gpus", .there = true, .cores = 16, .gpus = 2};
    hosts[2] = (struct placement_host){.name = "away", .cores = 64, .gpus = 4};
}

static void test_deals_replicas_out(void **state) {
    struct placement_host hosts[3];
    (void)state;
    three(hosts);
    assert_int_equal(placement_choose(&anything, hosts, 3), 0);
    hosts[0].same = hosts[0].all = 1;
    assert_int_equal(placement_choose(&anything, hosts, 3), 1);
    hosts[1].same = hosts[1].all = 1;
    /* As many of the stage on both: fewer for its cores are on the second. */
    assert_int_equal(placement_choose(&anything, hosts, 3), 1);
    hosts[1].all = 3;
    assert_int_equal(placement_choose(&anything, hosts, 3), 0);
    hosts[2].there = true;
    assert_int_equal(placement_choose(&anything, hosts, 3), 2);
}

static void test_kinds(void **state) {
    struct placement_host hosts[3];
    (void)state;
    three(hosts);
    assert_int_equal(placement_choose(&(struct placement_wish){.on = "gpu"}, hosts, 3), 1);
    hosts[0].same = 5;
    assert_int_equal(placement_choose(&(struct placement_wish){.on = "cpu"}, hosts, 3), 0);
    hosts[1].same = 7;
    assert_int_equal(placement_choose(&(struct placement_wish){.gpu = true}, hosts, 3), 1);
    hosts[1].there = false;
    assert_int_equal(placement_choose(&(struct placement_wish){.on = "gpu"}, hosts, 3), -1);
    /* An instance that can use a GPU can do without. */
    assert_int_equal(placement_choose(&(struct placement_wish){.gpu = true}, hosts, 3), 0);
    hosts[0].gpus = 1;
    assert_int_equal(placement_choose(&(struct placement_wish){.on = "cpu"}, hosts, 3), 0);
}

static void test_names(void **state) {
    struct placement_host hosts[3];
    char own[256] = "";
    (void)state;
    three(hosts);
    hosts[1].same = 9;
    assert_int_equal(placement_choose(&(struct placement_wish){.on = "gpus"}, hosts, 3), 1);
    assert_int_equal(placement_choose(&(struct placement_wish){.on = "away"}, hosts, 3), -1);
    assert_int_equal(placement_choose(&(struct placement_wish){.on = "launcher", .gpu = true}, hosts, 3), 0);
    assert_int_equal(gethostname(own, sizeof own - 1), 0);
    assert_int_equal(placement_choose(&(struct placement_wish){.on = own}, hosts, 3), 0);
    hosts[0].same = 10;
    assert_int_equal(placement_choose(&(struct placement_wish){.bound = true}, hosts, 3), 0);
    assert_int_equal(placement_choose(&(struct placement_wish){.bound = true, .on = "gpus"}, hosts, 3), 1);
}

static void test_moves(void **state) {
    struct placement_host hosts[3];
    (void)state;
    three(hosts);
    /* Alone: there is nothing to share. */
    assert_false(placement_should_move(&anything, hosts, 3, 0));
    hosts[0].same = hosts[0].all = 1;
    assert_true(placement_should_move(&anything, hosts, 3, 0));
    hosts[1].same = hosts[1].all = 1;
    assert_false(placement_should_move(&anything, hosts, 3, 0));
    assert_true(placement_should_move(&(struct placement_wish){.on = "gpu"}, hosts, 3, 0));
    assert_false(placement_should_move(&(struct placement_wish){.on = "away"}, hosts, 3, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_deals_replicas_out),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_moves),
    };
    return cmocka_run_group_tests_name("placement", tests, NULL, NULL);
}
