/* Tests the memory budget: the arithmetic, and how the machine's limits are read from folders that stand for /proc and
 * /sys. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/budget.h"
#include "common/files.h"
#include "common/machine_memory.h"
#include "common/memory.h"
#include "tests/common/scratch.h"

static const size_t GB = 1000000000;

static void memory_is_divided(void **state) {
    (void)state;
    struct budget b = budget_divide(0, 24 * GB, 2 * GB, SIZE_MAX, 4);
    assert_int_equal(b.limit, 22 * GB);
    assert_int_equal(b.share, 22 * GB / 4);
    b = budget_divide(3 * GB, 24 * GB, 2 * GB, SIZE_MAX, 1);
    assert_int_equal(b.limit, 3 * GB);
    assert_int_equal(b.share, 3 * GB);
    /* The reserve leaves half of a small machine. */
    assert_int_equal(budget_divide(0, 2 * GB, 8 * GB, SIZE_MAX, 1).limit, GB);
    /* RLIMIT_AS counts whatever the user wishes. */
    assert_int_equal(budget_divide(3 * GB, 24 * GB, 2 * GB, GB, 2).limit, GB);
    assert_int_equal(budget_divide(3 * GB, 24 * GB, 2 * GB, GB, 2).share, GB / 2);
    b = budget_divide(0, SIZE_MAX, 2 * GB, SIZE_MAX, 3);
    assert_true(b.limit == SIZE_MAX && b.share == SIZE_MAX);
}

static enum budget_verdict judge(size_t need, size_t held, size_t touched, size_t room) {
    const struct budget budget = {.limit = 10 * GB, .share = 5 * GB};
    const struct budget_item item = {
        .need = need, .held = held, .after = held + need, .touched = touched, .room = room, .alone = held == 0};
    return budget_judge(&budget, &item);
}

static void items_are_admitted(void **state) {
    (void)state;
    assert_int_equal(judge(2 * GB, 3 * GB, 3 * GB, 2 * GB), BUDGET_FITS);
    assert_int_equal(judge(2 * GB + 1, 3 * GB, 3 * GB, 9 * GB), BUDGET_FULL);
    /* Alone it may have more than the share, and never more than the limit. */
    assert_int_equal(judge(10 * GB, 0, 0, 10 * GB), BUDGET_FITS);
    assert_int_equal(judge(10 * GB + 1, 0, 0, SIZE_MAX), BUDGET_NEVER);
    assert_int_equal(judge(10 * GB + 1, GB, 0, SIZE_MAX), BUDGET_NEVER);
    /* Memory that others were promised and have not taken yet is not free. */
    assert_int_equal(judge(GB, 3 * GB, 3 * GB, GB), BUDGET_FITS);
    assert_int_equal(judge(GB, 3 * GB, 2 * GB, GB), BUDGET_SHORT);
    assert_int_equal(judge(GB, 3 * GB, 2 * GB, 2 * GB), BUDGET_FITS);
    /* More in use than was promised makes no room. */
    assert_int_equal(judge(GB, 3 * GB, 9 * GB, GB - 1), BUDGET_SHORT);
    assert_int_equal(judge(GB, 0, 9 * GB, GB - 1), BUDGET_SHORT);
    assert_int_equal(judge(0, 0, 0, 0), BUDGET_FITS);
    assert_int_equal(judge(SIZE_MAX, 0, 0, SIZE_MAX), BUDGET_NEVER);
    /* In a lane whose buffers are large enough, nothing new is needed. */
    const struct budget budget = {.limit = 10 * GB, .share = 5 * GB};
    struct budget_item again = {.need = GB, .held = 3 * GB, .after = 3 * GB, .touched = GB, .room = 0};
    assert_int_equal(budget_judge(&budget, &again), BUDGET_FITS);
    again.after++;
    assert_int_equal(budget_judge(&budget, &again), BUDGET_SHORT);
}

/* Writes a file below the scratch folder. */
static void put(const char *root, const char *name, const char *text) {
    char path[PATH_SIZE];
    assert_int_equal(path_join(root, name, path, sizeof path, NULL), STATUS_OK);
    assert_int_equal(file_make_parents(path, 0777, NULL), STATUS_OK);
    assert_int_equal(file_write_whole(path, text, strlen(text), NULL), STATUS_OK);
}

/* Makes a machine of its own for a test. */
static void begin(const char *name, char root[PATH_SIZE]) {
    scratch_path(name, root);
    put(root, "proc/meminfo", "MemTotal:       24000000 kB\nMemFree:  1 kB\nMemAvailable:   20000000 kB\n");
    put(root, "proc/self/statm", "3000 1000 1 1 0 1 0\n");
}

static void the_machine_alone(void **state) {
    (void)state;
    char root[PATH_SIZE];
    begin("alone", root);
    struct machine_memory m = machine_memory_read(root);
    assert_int_equal(m.total, 24000000ull * 1024);
    assert_int_equal(m.available, 20000000ull * 1024);
    assert_int_equal(m.resident, 1000 * (size_t)sysconf(_SC_PAGESIZE));
    assert_int_equal(m.address_used, 3000 * (size_t)sysconf(_SC_PAGESIZE));
}

static void groups_of_version_2(void **state) {
    (void)state;
    char root[PATH_SIZE];
    begin("second", root);
    put(root, "proc/self/cgroup", "0::/user.slice/job/task\n");
    put(root, "sys/fs/cgroup/user.slice/job/task/memory.max", "max\n");
    put(root, "sys/fs/cgroup/user.slice/job/task/memory.high", "max\n");
    assert_int_equal(machine_memory_read(root).total, 24000000ull * 1024);
    /* A limit of a group above counts; of memory.max and memory.high the lower one. */
    put(root, "sys/fs/cgroup/user.slice/job/memory.max", "8000000000\n");
    put(root, "sys/fs/cgroup/user.slice/job/memory.high", "6000000000\n");
    put(root, "sys/fs/cgroup/user.slice/job/memory.current", "5000000000\n");
    put(root, "sys/fs/cgroup/user.slice/job/memory.stat", "anon 1\ninactive_file 1500000000\nfile 7\n");
    struct machine_memory m = machine_memory_read(root);
    assert_int_equal(m.total, 6 * GB);
    assert_int_equal(m.available, 2500000000u); /* the kernel gives up file cache */
    /* The innermost group may be the tightest. */
    put(root, "sys/fs/cgroup/user.slice/job/task/memory.max", "1000000000\n");
    put(root, "sys/fs/cgroup/user.slice/job/task/memory.current", "1200000000\n");
    m = machine_memory_read(root);
    assert_int_equal(m.total, GB);
    assert_int_equal(m.available, 0);
    /* A limit of the root of the mount, as inside a container. */
    put(root, "proc/self/cgroup", "0::/\n");
    put(root, "sys/fs/cgroup/memory.max", "2000000000\n");
    put(root, "sys/fs/cgroup/memory.current", "500000000\n");
    m = machine_memory_read(root);
    assert_int_equal(m.total, 2 * GB);
    assert_int_equal(m.available, 1500000000u);
}

static void groups_of_version_1(void **state) {
    (void)state;
    char root[PATH_SIZE];
    begin("first", root);
    put(root, "proc/self/cgroup", "5:cpu,cpuacct:/a\n4:hugetlb,memory:/docker/x\n1:name=systemd:/memory\n");
    put(root, "sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes", "9223372036854771712\n");
    put(root, "sys/fs/cgroup/memory/docker/x/memory.usage_in_bytes", "1\n");
    assert_int_equal(machine_memory_read(root).total, 24000000ull * 1024);
    put(root, "sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "4000000000\n");
    put(root, "sys/fs/cgroup/memory/docker/memory.usage_in_bytes", "3000000000\n");
    put(root, "sys/fs/cgroup/memory/docker/memory.stat", "inactive_file 9\ntotal_inactive_file 500000000\n");
    struct machine_memory m = machine_memory_read(root);
    assert_int_equal(m.total, 4 * GB);
    assert_int_equal(m.available, 1500000000u);
}

static void nothing_can_be_read(void **state) {
    (void)state;
    char root[PATH_SIZE];
    scratch_path("nothing", root);
    struct machine_memory m = machine_memory_read(root);
    assert_true(m.total == SIZE_MAX && m.available == SIZE_MAX && m.resident == 0);
    put(root, "proc/meminfo", "MemTotal: -\nMemAvailable: x kB\n");
    put(root, "proc/self/cgroup", "nonsense\n0:\n::\n");
    m = machine_memory_read(root);
    assert_true(m.available == SIZE_MAX);
    /* This machine has memory. */
    m = machine_memory_read("");
    assert_true(m.total > 0 && m.total < SIZE_MAX && m.resident > 0);
}

static void room_keeps_a_reserve(void **state) {
    (void)state;
    struct machine_memory m = {.total = 9 * GB, .available = 3 * GB, .address_limit = SIZE_MAX};
    assert_int_equal(machine_memory_room(&m, GB), 2 * GB);
    assert_int_equal(machine_memory_room(&m, 4 * GB), 0);
    m.address_limit = 2 * GB;
    m.address_used = GB;
    assert_int_equal(machine_memory_room(&m, GB), GB - MEM_HEADROOM);
    m.address_used = 3 * GB;
    assert_int_equal(machine_memory_room(&m, 0), 0);
    m.address_used = 0;
    m.available = SIZE_MAX;
    assert_int_equal(machine_memory_room(&m, 4 * GB), 2 * GB - MEM_HEADROOM);
}

static void sizes_do_not_overflow(void **state) {
    (void)state;
    assert_int_equal(mem_bytes(3, 5), 15);
    assert_true(mem_bytes(SIZE_MAX / 2, 3) == SIZE_MAX);
    assert_int_equal(mem_sum(3, 5), 8);
    assert_true(mem_sum(SIZE_MAX - 1, 3) == SIZE_MAX);
    assert_true(mem_would_fit(1 << 20));
    assert_false(mem_would_fit(SIZE_MAX));
    assert_false(mem_would_fit(PTRDIFF_MAX / 2));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_divided),    cmocka_unit_test(items_are_admitted),
        cmocka_unit_test(the_machine_alone),    cmocka_unit_test(groups_of_version_2),
        cmocka_unit_test(groups_of_version_1),  cmocka_unit_test(nothing_can_be_read),
        cmocka_unit_test(room_keeps_a_reserve), cmocka_unit_test(sizes_do_not_overflow),
    };
    return scratch_run("budget", tests, sizeof tests / sizeof *tests);
}
