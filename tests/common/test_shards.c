/* A cache of records in shards: what was kept is found again, also in a later run, and what was lost, cut, altered or
 * exchanged is not given out. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/shards.h"
#include "tests/common/scratch.h"

enum { SIZE = 200, LARGE = 300, FEW = 50, MANY = SHARD_RECORDS + 100 };

static struct err err;

static struct digest_value key_of(int i) {
    return digest_memory(&i, sizeof i);
}

static void fill(int i, unsigned char *bytes, size_t size) {
    for (size_t j = 0; j < size; j++)
        bytes[j] = (unsigned char)((size_t)i * 31 + j * 7 + j / 256);
}

static size_t size_of(int i) {
    return i % 3 == 2 ? LARGE : SIZE;
}

static void put(struct shards *s, int first, int end) {
    unsigned char bytes[LARGE];
    for (int i = first; i < end; i++) {
        fill(i, bytes, size_of(i));
        shards_write(s, key_of(i), bytes, size_of(i));
    }
}

/* Returns how many of the records are found. Each that is found must be right. */
static int found(struct shards *s, int first, int end) {
    unsigned char bytes[LARGE], expected[LARGE];
    int count = 0;
    for (int i = first; i < end; i++) {
        size_t size = shards_read(s, key_of(i), bytes, sizeof bytes);
        if (size == 0) continue;
        fill(i, expected, size_of(i));
        assert_int_equal(size, size_of(i));
        assert_memory_equal(bytes, expected, size);
        count++;
    }
    return count;
}

static struct shards_report report(struct shards *s) {
    struct shards_report r;
    shards_report(s, &r);
    return r;
}

/* Makes a folder for shards and another one that owns them. */
static void folders(const char *name, char folder[PATH_SIZE], char owner[PATH_SIZE]) {
    char both[PATH_SIZE];
    scratch_path(name, both);
    snprintf(folder, PATH_SIZE, "%.4000s/disk", both);
    snprintf(owner, PATH_SIZE, "%.4000s/session", both);
    assert_ok(file_make_folders(owner, 0755, &err));
}

static struct shards *opened(const char *folder, const char *owner, size_t most) {
    struct shards *s = NULL;
    assert_ok(shards_open(folder, owner, most, &s, &err));
    return s;
}

static void records_are_found_again(void **state) {
    (void)state;
    char folder[PATH_SIZE], owner[PATH_SIZE];
    unsigned char small[SIZE - 1];
    folders("again", folder, owner);
    struct shards *s = opened(folder, owner, 0);
    assert_int_equal(found(s, 0, FEW), 0);
    put(s, 0, MANY);
    put(s, 0, MANY); /* known already */
    assert_int_equal(found(s, 0, MANY + 5), MANY);
    assert_int_equal(shards_read(s, key_of(0), small, sizeof small), 0);
    assert_int_equal(report(s).records, MANY);
    assert_int_equal(report(s).damaged, 0);
    size_t bytes = report(s).bytes;
    shards_close(&s, false);
    s = opened(folder, owner, 0);
    assert_int_equal(report(s).found, MANY);
    assert_int_equal(report(s).bytes, bytes);
    put(s, 0, 2 * MANY); /* goes on in the shards that are not full */
    assert_int_equal(found(s, 0, 2 * MANY), 2 * MANY);
    assert_int_equal(scratch_shell("test $(ls %s/*/*.shard | wc -l) = 3", folder), 0);
    shards_close(&s, true);
    assert_int_equal(scratch_shell("test -z \"$(ls %s)\"", folder), 0);
}

/* Damages the files while they are open, and between two runs. Records 0, 1, 3, 4 … lie in the first shard. */
static void damaged_records_are_not_given_out(void **state) {
    (void)state;
    static const struct {
        const char *command;
        int least, most; /* of FEW records that are still found */
    } damages[] = {
        {"printf x | dd conv=notrunc bs=1 seek=205 of=000001.shard", FEW - 1, FEW - 1},
        {"truncate -s 1000 000001.shard", FEW / 3 + 5, FEW / 3 + 5},
        {"truncate -s 0 000002.shard", 34, 34},
        {"rm 000001.shard", FEW / 3, FEW},
        {"cp 000002.shard 000001.shard", FEW / 3, FEW / 3},
        {"rm 000001.index", FEW / 3, FEW},
        {"printf xyz | dd conv=notrunc bs=1 seek=90 of=000001.index", FEW - 2, FEW},
        {"truncate -s 500 000001.index", FEW / 3, FEW},
        {"cp 000002.index 000001.index", FEW / 3, FEW},
        {"cp 000002.index 000009.index; cp 000001.shard 000009.shard", FEW, FEW},
        {"head -c 3000 /dev/urandom > 000001.index", FEW / 3, FEW},
        {"P=$(pwd); cd ..; rm -r $P; mkdir -m 700 $P", 0, FEW},
    };
    char folder[PATH_SIZE], owner[PATH_SIZE], command[PATH_SIZE];
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++)
        for (int between = 0; between < 2; between++) {
            char name[32];
            snprintf(name, sizeof name, "damage%zu%d", i, between);
            folders(name, folder, owner);
            struct shards *s = opened(folder, owner, 0);
            put(s, 0, FEW);
            if (between) shards_close(&s, false);
            snprintf(command, sizeof command, "cd %.3000s/icestream-*; ( %s ) 2>/dev/null", folder, damages[i].command);
            assert_int_equal(scratch_shell("%s", command), 0);
            if (between) s = opened(folder, owner, 0);
            int count = found(s, 0, FEW);
            if (count < damages[i].least || count > damages[i].most)
                fail_msg("%s (%d): %d of %d records are found", damages[i].command, between, count, FEW);
            assert_int_equal(found(s, 0, FEW), count);
            put(s, 0, FEW); /* they are kept anew, unless the folder itself is gone */
            assert_true(found(s, 0, FEW) == FEW || i + 1 == sizeof damages / sizeof *damages);
            shards_close(&s, false);
        }
}

static void the_limit_is_kept(void **state) {
    (void)state;
    char folder[PATH_SIZE], owner[PATH_SIZE];
    folders("limit", folder, owner);
    struct shards *s = opened(folder, owner, 10 * LARGE);
    put(s, 0, FEW);
    int count = found(s, 0, FEW);
    assert_in_range(count, 10, 10 * LARGE / SIZE);
    assert_true(report(s).stopped && report(s).bytes <= 10 * LARGE);
    assert_non_null(strstr(report(s).why, "full"));
    shards_close(&s, false);
    s = opened(folder, owner, 0); /* a later run may take more */
    put(s, 0, FEW);
    assert_int_equal(found(s, 0, FEW), FEW);
    assert_false(report(s).stopped);
    shards_close(&s, true);
}

static size_t disk_size, disk_free; /* as the test wants them; 0: as they are */

int __real_fstatvfs(int descriptor, struct statvfs *ret_disk);
int __wrap_fstatvfs(int descriptor, struct statvfs *ret_disk);
int __wrap_fstatvfs(int descriptor, struct statvfs *ret_disk) {
    if (disk_size == 0) return __real_fstatvfs(descriptor, ret_disk);
    *ret_disk = (struct statvfs){.f_frsize = 1, .f_blocks = disk_size, .f_bavail = disk_free};
    return 0;
}

/* A twentieth of the disk stays free, or 10 GiB of a large one. */
static void a_margin_stays_free(void **state) {
    (void)state;
    static const struct {
        size_t size, left; /* GiB */
        bool stops;
    } disks[] = {{100, 6, false}, {100, 4, true}, {1000, 11, false}, {1000, 9, true}};
    char folder[PATH_SIZE], owner[PATH_SIZE];
    for (size_t i = 0; i < sizeof disks / sizeof *disks; i++) {
        folders("margin", folder, owner);
        struct shards *s = opened(folder, owner, 0);
        disk_size = disks[i].size << 30;
        disk_free = disks[i].left << 30;
        put(s, 0, FEW);
        disk_size = 0;
        assert_int_equal(report(s).stopped, disks[i].stops);
        assert_int_equal(found(s, 0, FEW), disks[i].stops ? 0 : FEW);
        if (disks[i].stops) assert_non_null(strstr(report(s).why, "the disk has"));
        shards_close(&s, true);
    }
}

static void owners_do_not_meet(void **state) {
    (void)state;
    char folder[PATH_SIZE], owner[PATH_SIZE], other[PATH_SIZE + 8];
    struct shards *second = NULL;
    folders("owners", folder, owner);
    snprintf(other, sizeof other, "%s2", owner);
    assert_ok(file_make_folders(other, 0755, &err));
    struct shards *s = opened(folder, owner, 0);
    put(s, 0, FEW);
    assert_int_equal(shards_open(folder, owner, 0, &second, &err), STATUS_UNAVAILABLE);
    assert_non_null(strstr(err.message, "another process uses"));
    second = opened(folder, other, 0);
    assert_int_equal(found(second, 0, FEW), 0);
    put(second, 0, FEW);
    shards_close(&second, true);
    assert_int_equal(found(s, 0, FEW), FEW);
    shards_close(&s, false);
}

/* Parts whose owner is gone are removed, but for what others have put there; parts in use and those whose owner exists
 * stay. */
static void what_nobody_needs_is_removed(void **state) {
    (void)state;
    char folder[PATH_SIZE], owner[PATH_SIZE], gone[PATH_SIZE + 8], used[PATH_SIZE + 8];
    folders("gone", folder, owner);
    snprintf(gone, sizeof gone, "%s-gone", owner);
    snprintf(used, sizeof used, "%s-used", owner);
    struct shards *s = opened(folder, owner, 0), *in_use = opened(folder, used, 0);
    put(s, 0, FEW);
    shards_close(&s, false);
    s = opened(folder, gone, 0);
    put(s, 0, FEW);
    shards_close(&s, false);
    assert_int_equal(
        scratch_shell("mkdir %s/icestream-strange; touch %s/icestream-strange/000001.shard", folder, folder), 0);
    assert_int_equal(scratch_shell("test $(ls %s | wc -l) = 4", folder), 0);
    char last[PATH_SIZE + 8];
    snprintf(last, sizeof last, "%s-last", owner);
    s = opened(folder, last, 0);
    shards_close(&s, true);
    assert_int_equal(scratch_shell("test $(ls %s | wc -l) = 3", folder), 0);
    put(in_use, 0, FEW);
    assert_int_equal(found(in_use, 0, FEW), FEW);
    shards_close(&in_use, true);
    s = opened(folder, owner, 0);
    assert_int_equal(report(s).found, FEW);
    shards_close(&s, false);
}

/* A folder that cannot be made, or is a file. */
static void trouble_is_told(void **state) {
    (void)state;
    char folder[PATH_SIZE], owner[PATH_SIZE], inside[PATH_SIZE + 8];
    struct shards *s = NULL;
    folders("trouble", folder, owner);
    assert_ok(file_write_whole(folder, "x", 1, &err));
    snprintf(inside, sizeof inside, "%s/here", folder);
    assert_int_not_equal(shards_open(folder, owner, 0, &s, &err), STATUS_OK);
    assert_int_not_equal(shards_open(inside, owner, 0, &s, &err), STATUS_OK);
    assert_null(s);
}

static int descriptors(void) {
    int count = 0;
    DIR *all = opendir("/proc/self/fd");
    assert_non_null(all);
    while (readdir(all) != NULL)
        count++;
    closedir(all);
    return count;
}

/* Each size has a shard of its own. Only some of them are open at a time. */
static void many_shards_take_turns(void **state) {
    (void)state;
    enum { SIZES = 150 };
    unsigned char bytes[SIZE + SIZES], expected[SIZE + SIZES];
    char folder[PATH_SIZE], owner[PATH_SIZE];
    folders("many", folder, owner);
    struct shards *s = opened(folder, owner, 0);
    int before = descriptors();
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < SIZES; i++) {
            fill(i + round, bytes, (size_t)(SIZE + i));
            shards_write(s, key_of(SIZES * round + i), bytes, (size_t)(SIZE + i));
        }
    for (int again = 0; again < 2; again++)
        for (int i = 0; i < 2 * SIZES; i++) {
            size_t size = shards_read(s, key_of(i), bytes, sizeof bytes);
            assert_int_equal(size, SIZE + i % SIZES);
            fill(i % SIZES + i / SIZES, expected, size);
            assert_memory_equal(bytes, expected, size);
        }
    assert_in_range(descriptors() - before, 1, 140);
    shards_close(&s, true);
    assert_int_equal(descriptors(), before - 1); /* the owner's file, too */
}

struct user {
    struct shards *shards;
    pthread_t thread;
    int seen;
};

static void *use(void *argument) {
    struct user *u = argument;
    for (int i = 0; i < 600; i++) {
        put(u->shards, i, i + 1);
        u->seen += found(u->shards, i / 2, i / 2 + 1);
    }
    return NULL;
}

static void threads_share_it(void **state) {
    (void)state;
    enum { USERS = 4 };
    char folder[PATH_SIZE], owner[PATH_SIZE];
    struct user users[USERS] = {0};
    folders("threads", folder, owner);
    struct shards *s = opened(folder, owner, 0);
    for (int i = 0; i < USERS; i++) {
        users[i].shards = s;
        assert_int_equal(pthread_create(&users[i].thread, NULL, use, &users[i]), 0);
    }
    for (int i = 0; i < USERS; i++) {
        assert_int_equal(pthread_join(users[i].thread, NULL), 0);
        assert_int_equal(users[i].seen, 600);
    }
    assert_int_equal(report(s).damaged, 0);
    shards_close(&s, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_are_found_again),
        cmocka_unit_test(damaged_records_are_not_given_out),
        cmocka_unit_test(the_limit_is_kept),
        cmocka_unit_test(owners_do_not_meet),
        cmocka_unit_test(what_nobody_needs_is_removed),
        cmocka_unit_test(trouble_is_told),
        cmocka_unit_test(threads_share_it),
        cmocka_unit_test(a_margin_stays_free),
        cmocka_unit_test(many_shards_take_turns),
    };
    return scratch_run("shards", tests, sizeof tests / sizeof *tests);
}
