/* Tests digests, and the notes of what a thread and its worker read and write. */
#include <stdlib.h>
#include <string.h>

#include "common/digest.h"
#include "common/file_notes.h"
#include "common/worker.h"
#include "tests/common/scratch.h"

/* `xxhsum -H2` prints the first one. */
static void digests_follow_the_content(void **state) {
    (void)state;
    struct err err = {0};
    static char large[3 << 20];
    char path[PATH_SIZE], digest[DIGEST_SIZE], other[DIGEST_SIZE];
    int64_t size = -1;
    scratch_path("digested", path);
    assert_ok(file_write_whole(path, "", 0, &err));
    assert_ok(digest_file(path, digest, &size, &err));
    assert_string_equal(digest, "99aa06d3014798d86001c324468d497f");
    assert_int_equal(size, 0);
    memset(large, 7, sizeof large);
    assert_ok(file_write_whole(path, large, sizeof large, &err));
    assert_ok(digest_file(path, digest, &size, &err));
    assert_int_equal(size, sizeof large);
    large[sizeof large - 1] ^= 1;
    assert_ok(file_write_whole(path, large, sizeof large, &err));
    assert_ok(digest_file(path, other, NULL, &err));
    assert_string_not_equal(digest, other);
    scratch_path("nothing", path);
    assert_int_equal(digest_file(path, digest, NULL, &err), STATUS_NOT_FOUND);
}

static enum status write_one(void *context, struct err *err) {
    return file_write_whole(context, "by the worker", 13, err);
}

static void notes_hold_what_was_read_and_written(void **state) {
    (void)state;
    struct err err = {0};
    struct file_notes notes;
    struct worker *worker = NULL;
    char before[PATH_SIZE], made[PATH_SIZE], workers[PATH_SIZE], digest[DIGEST_SIZE];
    char *text = NULL;
    scratch_path("before", before);
    scratch_path("made", made);
    scratch_path("workers", workers);
    assert_ok(file_write_whole(before, "text", 4, &err));
    file_notes_init(&notes);
    assert_null(file_observe(&notes.observer));
    for (int i = 0; i < 2; i++) { /* a file that is read twice is one note */
        assert_ok(file_read_whole(before, 100, &text, NULL, &err));
        free(text);
    }
    assert_ok(file_write_whole(made, "product", 7, &err));
    assert_ok(worker_create(&worker, &err));
    worker_start(worker, write_one, workers);
    assert_ok(worker_wait(worker, &err));
    assert_ptr_equal(file_observe(NULL), &notes.observer);
    assert_ok(file_write_whole(before, "unobserved", 10, &err));
    assert_int_equal(notes.count, 3);
    const struct file_note *list = notes.list;
    assert_string_equal(file_note_path(&notes, &list[0]), before);
    assert_false(list[0].written);
    assert_int_equal(list[0].size, 4);
    assert_string_equal(list[0].digest, "");
    assert_string_equal(file_note_path(&notes, &list[1]), made);
    assert_true(list[1].written);
    assert_ok(digest_file(made, digest, NULL, &err));
    assert_string_equal(list[1].digest, digest);
    assert_string_equal(file_note_path(&notes, &list[2]), workers);
    file_observe(&notes.observer);
    assert_ok(file_remove(made, &err));
    assert_ok(file_remove(made, &err)); /* it is gone already */
    file_observe(NULL);
    assert_false(file_exists(made));
    assert_int_equal(notes.count, 5);
    assert_string_equal(file_note_path(&notes, &notes.list[3]), made);
    assert_int_equal(notes.list[3].size, FILE_REMOVED);
    worker_destroy(&worker);
    file_notes_empty(&notes);
    assert_int_equal(notes.count, 0);
    file_notes_clear(&notes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digests_follow_the_content),
        cmocka_unit_test(notes_hold_what_was_read_and_written),
    };
    return scratch_run("digest", tests, sizeof tests / sizeof *tests);
}
