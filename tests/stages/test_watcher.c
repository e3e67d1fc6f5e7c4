#include "stages/watcher/watcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/stages/watched.h"

/* Each test watches a folder of its own, with time in its hands. */
static struct watcher *watch(const char *folder, struct watcher_options options) {
    struct err err = {0};
    struct watcher *watcher = NULL;
    char path[PATH_SIZE];
    watched_folder(folder);
    scratch_path(folder, path);
    options.directory = path;
    options.pattern = options.pattern != NULL ? options.pattern : "*.mrc,*.tif,*.png";
    options.settle = options.settle > 0 ? options.settle : 10;
    options.stall = options.stall > 0 ? options.stall : 60;
    options.poll = 5;
    assert_ok(watcher_create(&options, &watcher, &err));
    return watcher;
}

static struct watcher_options plain(void) {
    return (struct watcher_options){.recursive = true};
}

/* All that is found now, after a sweep: "id", "id?" for a duplicate, "id!" for a failed one, with spaces between. */
static void expect(struct watcher *watcher, double now, const char *expected) {
    struct err err = {0};
    char text[4096] = "";
    assert_ok(watcher_sweep(watcher, now, &err));
    for (;;) {
        struct watcher_find find;
        bool found;
        assert_ok(watcher_next(watcher, now, &find, &found, &err));
        if (!found) break;
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s%s", used > 0 ? " " : "", find.id,
                 find.verdict == WATCHER_READY       ? ""
                 : find.verdict == WATCHER_DUPLICATE ? "?"
                                                     : "!");
        assert_true(find.verdict == WATCHER_READY || find.reason[0] != '\0');
    }
    assert_string_equal(text, expected);
}

static void what_is_there_comes_oldest_first(void **state) {
    (void)state;
    watched_put("order/b.mrc", 8, 4, WATCHED_WHOLE);
    watched_put("order/sub/a.mrc", 8, 4, WATCHED_WHOLE);
    watched_put("order/c.mrc", 8, 4, WATCHED_WHOLE);
    watched_put("order/notes.txt", 8, 4, WATCHED_WHOLE);
    watched_put("order/.hidden.mrc", 8, 4, WATCHED_WHOLE);
    watched_put("order/.folder/d.mrc", 8, 4, WATCHED_WHOLE);
    watched_date("order/b.mrc", 2000);
    watched_date("order/sub/a.mrc", 3000);
    watched_date("order/c.mrc", 2000);
    struct watcher *watcher = watch("order", plain());
    expect(watcher, 0, "b c sub/a");
    expect(watcher, 1000, "");
    watcher_destroy(&watcher);
    watcher_destroy(&watcher);
    struct watcher_options options = {.recursive = false, .order = WATCHER_NEWEST};
    watched_put("order/e.mrc", 8, 4, WATCHED_WHOLE);
    watched_date("order/e.mrc", 1000);
    watcher = watch("order", options);
    expect(watcher, 0, "c b e");
    watcher_destroy(&watcher);
}

static void pattern_picks_names_and_paths(void **state) {
    (void)state;
    watched_put("pattern/x_a.mrc", 8, 4, WATCHED_WHOLE);
    watched_put("pattern/y_a.MRC", 8, 4, WATCHED_WHOLE);
    watched_put("pattern/deep/y_b.mrc", 8, 4, WATCHED_WHOLE);
    watched_date("pattern/deep/y_b.mrc", 1000);
    watched_put("pattern/other/y_c.mrc", 8, 4, WATCHED_WHOLE);
    struct watcher_options options = plain();
    options.pattern = " y_a.mrc , deep/*.mrc,";
    struct watcher *watcher = watch("pattern", options);
    expect(watcher, 0, "deep/y_b y_a");
    watcher_destroy(&watcher);
    options.pattern = " , ";
    options.directory = "/";
    struct err err = {0};
    assert_int_equal(watcher_create(&options, &watcher, &err), STATUS_BAD_ARGUMENT);
    options.pattern = "*";
    options.directory = "/no/such/folder";
    assert_int_equal(watcher_create(&options, &watcher, &err), STATUS_NOT_FOUND);
}

static void ready_when_content_says_so(void **state) {
    (void)state;
    struct watcher *watcher = watch("grow", plain());
    for (long bytes = 0; bytes < 1024 + 64; bytes += 272) {
        watched_put("grow/a.mrc", 8, 8, bytes);
        expect(watcher, (double)bytes, "");
        assert_int_equal(watcher_pending(watcher), 1);
    }
    watched_put("grow/a.mrc", 8, 8, WATCHED_WHOLE);
    expect(watcher, 1100, "a");
    assert_int_equal(watcher_pending(watcher), 0);
    /* Age says nothing: an hour old, and still not whole; then renamed into place. */
    watched_put("grow/.b.mrc.part", 8, 8, WATCHED_WHOLE);
    expect(watcher, 1101, "");
    watched_rename("grow/.b.mrc.part", "grow/b.mrc");
    expect(watcher, 1102, "b");
    watcher_destroy(&watcher);
}

static void incomplete_file_is_reported_once_and_taken_when_whole(void **state) {
    (void)state;
    struct watcher *watcher = watch("stall", plain());
    watched_put("stall/a.mrc", 8, 8, 1050);
    expect(watcher, 0, "");
    watched_put("stall/a.mrc", 8, 8, 1060);
    watched_date("stall/a.mrc", 5000);
    expect(watcher, 50, "");
    expect(watcher, 109, "");
    assert_int_equal(watcher_pending(watcher), 1);
    expect(watcher, 111, "a!");
    assert_int_equal(watcher_pending(watcher), 0);
    expect(watcher, 500, "");
    watched_put("stall/a.mrc", 8, 8, WATCHED_WHOLE);
    expect(watcher, 506, "a");
    expect(watcher, 600, "");
    watcher_destroy(&watcher);
}

static void foreign_file_is_reported_after_settling(void **state) {
    (void)state;
    char text[2000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    watched_put_text("foreign/a.mrc", text);
    struct watcher *watcher = watch("foreign", plain());
    expect(watcher, 0, "");
    expect(watcher, 9, "");
    expect(watcher, 11, "a!");
    expect(watcher, 100, "");
    watcher_destroy(&watcher);
}

static void reserved_room_is_not_content(void **state) {
    (void)state;
    struct watcher *watcher = watch("reserved", plain());
    char path[PATH_SIZE];
    watched_put("reserved/a.mrc", 100, 100, 3000);
    scratch_path("reserved/a.mrc", path);
    assert_int_equal(truncate(path, 1024 + 10000), 0);
    expect(watcher, 0, "");
    expect(watcher, 5, "");
    watched_put("reserved/a.mrc", 100, 100, WATCHED_WHOLE);
    expect(watcher, 6.5, "a");
    /* A micrograph whose last rows really are zero has to wait until it has settled. */
    watched_put("reserved/b.mrc", 100, 100, 3000);
    scratch_path("reserved/b.mrc", path);
    assert_int_equal(truncate(path, 1024 + 10000), 0);
    expect(watcher, 20, "");
    expect(watcher, 31, "b");
    watcher_destroy(&watcher);
}

static void deleted_file_is_forgotten_until_it_comes_again(void **state) {
    (void)state;
    struct watcher *watcher = watch("deleted", plain());
    watched_put("deleted/a.mrc", 8, 8, 1030);
    expect(watcher, 0, "");
    watched_remove("deleted/a.mrc");
    expect(watcher, 5, "");
    assert_int_equal(watcher_pending(watcher), 0);
    expect(watcher, 500, "");
    watched_put("deleted/a.mrc", 8, 8, WATCHED_WHOLE);
    expect(watcher, 505, "a");
    /* Written again after it was taken: the same id, and it is done. */
    watched_remove("deleted/a.mrc");
    expect(watcher, 510, "");
    watched_put("deleted/a.mrc", 16, 8, WATCHED_WHOLE);
    expect(watcher, 515, "");
    watcher_destroy(&watcher);
}

static void duplicates_are_said_and_not_taken(void **state) {
    (void)state;
    struct watcher *watcher = watch("twice", plain());
    watched_put("twice/a.mrc", 8, 8, WATCHED_WHOLE);
    watched_date("twice/a.mrc", 1000);
    watched_put("twice/a.tif", 8, 8, WATCHED_WHOLE); /* another ending; formats are told by content */
    watched_link("a.mrc", "twice/link.mrc");
    watched_link("nothing.mrc", "twice/dangling.mrc");
    watched_link(".", "twice/round");
    expect(watcher, 0, "a link? a?");
    expect(watcher, 100, "");
    /* The inode is known, but what has it now is not what had it then: another file. */
    watched_rename("twice/a.mrc", "twice/moved.mrc");
    watched_put("twice/a.mrc", 8, 8, WATCHED_WHOLE);
    expect(watcher, 200, "moved");
    watcher_destroy(&watcher);
}

static void linked_files_and_folders_are_followed(void **state) {
    (void)state;
    watched_put("elsewhere/a.mrc", 8, 8, WATCHED_WHOLE);
    watched_put("elsewhere/in/b.mrc", 8, 8, WATCHED_WHOLE);
    struct watcher *watcher = watch("links", plain());
    watched_link("../elsewhere/a.mrc", "links/x.mrc");
    watched_link("../elsewhere/in", "links/folder");
    watched_date("elsewhere/a.mrc", 1000);
    expect(watcher, 0, "x folder/b");
    watcher_destroy(&watcher);
}

static void folders_made_later_are_entered(void **state) {
    (void)state;
    struct watcher *watcher = watch("later", plain());
    struct err err = {0};
    expect(watcher, 0, "");
    watched_put("later/grid2/square1/a b.mrc", 8, 8, WATCHED_WHOLE);
    watched_put("later/grid2/square1/\xc3\xa5ngstr\xc3\xb6m.mrc", 8, 8, WATCHED_WHOLE);
    watched_date("later/grid2/square1/a b.mrc", 1000);
    /* Said by a notice about the folder alone. */
    char path[PATH_SIZE];
    scratch_path("later/grid2", path);
    assert_ok(watcher_notice(watcher, path, 1, &err));
    struct watcher_find find;
    bool found;
    assert_ok(watcher_next(watcher, 1, &find, &found, &err));
    assert_true(found);
    assert_string_equal(find.id, "grid2/square1/a b");
    assert_string_equal(find.relative, "grid2/square1/a b.mrc");
    assert_int_equal(find.image.nx, 8);
    assert_true(find.image.pixel_size > 1.49f && find.image.pixel_size < 1.51f);
    expect(watcher, 2, "grid2/square1/\xc3\xa5ngstr\xc3\xb6m");
    watcher_destroy(&watcher);
}

static void notices_hasten_and_strangers_are_ignored(void **state) {
    (void)state;
    struct watcher *watcher = watch("notice", plain());
    struct err err = {0};
    char path[PATH_SIZE];
    watched_put("notice/a.mrc", 8, 8, 1030);
    scratch_path("notice/a.mrc", path);
    assert_ok(watcher_notice(watcher, path, 0, &err));
    struct watcher_find find;
    bool found;
    assert_ok(watcher_next(watcher, 0, &find, &found, &err));
    assert_false(found);
    watched_put("notice/a.mrc", 8, 8, WATCHED_WHOLE);
    assert_ok(watcher_next(watcher, 0.01, &find, &found, &err));
    assert_false(found); /* not due yet */
    assert_ok(watcher_notice(watcher, path, 0.02, &err));
    assert_ok(watcher_notice(watcher, "/elsewhere/b.mrc", 0.02, &err));
    scratch_path("notice-other/b.mrc", path);
    assert_ok(watcher_notice(watcher, path, 0.02, &err));
    assert_ok(watcher_next(watcher, 0.02, &find, &found, &err));
    assert_true(found && find.verdict == WATCHER_READY);
    assert_ok(watcher_next(watcher, 0.02, &find, &found, &err));
    assert_false(found);
    watcher_destroy(&watcher);
}

static void names_that_cannot_be_ids_are_reported(void **state) {
    (void)state;
    watched_put("names/a\nb.mrc", 8, 8, WATCHED_WHOLE);
    watched_put("names/c\xff.mrc", 8, 8, WATCHED_WHOLE);
    watched_date("names/a\nb.mrc", 1000);
    watched_put("names/d.m\xffrc", 8, 8, WATCHED_WHOLE);
    struct watcher_options options = plain();
    options.pattern = "*";
    struct watcher *watcher = watch("names", options);
    watched_put("names/c\xfe.mrc", 8, 8, WATCHED_WHOLE);
    watched_date("names/c\xfe.mrc", 2000);
    watched_put("names/it's \"e\".mrc", 8, 8, WATCHED_WHOLE);
    /* The hashes tell two names apart that differ in a byte that cannot be shown. */
    expect(watcher, 0,
           "a?b~6876b90b7b789ed3! c?~5a1d3a8737a32029! c?~ed65fba4100a62f2! d~57b01620c3ab9243! it's \"e\"!");
    expect(watcher, 100, "");
    watcher_destroy(&watcher);
}

static void session_inside_the_folder_is_left_out(void **state) {
    (void)state;
    watched_put("whole/a.mrc", 8, 8, WATCHED_WHOLE);
    watched_put("whole/session/refiner/run_class001.mrc", 8, 8, WATCHED_WHOLE);
    char path[PATH_SIZE];
    scratch_path("whole/session", path);
    struct watcher_options options = plain();
    options.skip[1] = path;
    struct watcher *watcher = watch("whole", options);
    expect(watcher, 0, "a");
    watcher_destroy(&watcher);
}

static enum status remember(void *context, const char *id, enum watcher_past *ret_past, struct err *err) {
    (void)err;
    ++*(int *)context;
    *ret_past = strcmp(id, "done") == 0     ? WATCHER_SETTLED
                : strcmp(id, "failed") == 0 ? WATCHER_FAILED_THEN
                                            : WATCHER_UNSEEN;
    return STATUS_OK;
}

static void what_an_earlier_run_did_is_not_done_again(void **state) {
    (void)state;
    int asked = 0;
    struct watcher_options options = plain();
    options.context = &asked;
    options.past = remember;
    watched_put("resumed/done.mrc", 8, 8, WATCHED_WHOLE);
    watched_put("resumed/failed.mrc", 8, 8, 1030);
    watched_put("resumed/new.mrc", 8, 8, WATCHED_WHOLE);
    struct watcher *watcher = watch("resumed", options);
    expect(watcher, 0, "new");
    assert_int_equal(watcher_pending(watcher), 0); /* the failed one is not waited for */
    expect(watcher, 100, "");
    watched_put("resumed/failed.mrc", 8, 8, WATCHED_WHOLE);
    expect(watcher, 110, "failed");
    assert_int_equal(asked, 3);
    watcher_destroy(&watcher);
}

static void thumbnails_are_not_micrographs(void **state) {
    (void)state;
    /* The smallest PNG: 1 × 1, grey. */
    static const unsigned char png[] = {
        0x89, 'P',  'N',  'G',  0x0d, 0x0a, 0x1a, 0x0a, 0,    0,    0,    0x0d, 'I',  'H',  'D',  'R',  0,
        0,    0,    1,    0,    0,    0,    1,    8,    0,    0,    0,    0,    0x3a, 0x7e, 0x9b, 0x55, 0,
        0,    0,    0x0a, 'I',  'D',  'A',  'T',  0x78, 0x9c, 0x63, 0x60, 0,    0,    0,    2,    0,    1,
        0x48, 0xaf, 0xa4, 0x71, 0,    0,    0,    0,    'I',  'E',  'N',  'D',  0xae, 0x42, 0x60, 0x82};
    struct watcher *watcher = watch("thumbnails", plain());
    static const char *const names[] = {"thumbnails/a.png", "thumbnails/b.png"};
    for (int i = 0; i < 2; i++) {
        char path[PATH_SIZE];
        struct err err = {0};
        scratch_path(names[i], path);
        assert_ok(file_write_whole(path, png, sizeof png, &err));
    }
    expect(watcher, 0, "");
    watched_put("thumbnails/a.mrc", 8, 8, 1030);
    expect(watcher, 8, "");
    expect(watcher, 12, "a? b");
    watched_put("thumbnails/a.mrc", 8, 8, WATCHED_WHOLE);
    expect(watcher, 20, "a");
    watcher_destroy(&watcher);
}

static void ten_thousand_files_cost_each_the_same(void **state) {
    (void)state;
    struct watcher *watcher = watch("many", plain());
    enum { COUNT = 10000 };
    for (int i = 0; i < COUNT; i++) {
        char name[64];
        snprintf(name, sizeof name, "many/%d/mic_%05d.mrc", i % 10, i);
        watched_put(name, 4, 4, i % 2 == 0 ? WATCHED_WHOLE : 1030);
    }
    struct err err = {0};
    int taken = 0;
    assert_ok(watcher_sweep(watcher, 0, &err));
    for (double now = 0; now < 3; now++) {
        struct watcher_find find;
        bool found;
        do {
            assert_ok(watcher_next(watcher, now, &find, &found, &err));
            taken += found;
        } while (found);
        assert_ok(watcher_sweep(watcher, now, &err));
    }
    assert_int_equal(taken, COUNT / 2);
    assert_int_equal(watcher_pending(watcher), COUNT / 2);
    watcher_destroy(&watcher);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_there_comes_oldest_first),
        cmocka_unit_test(pattern_picks_names_and_paths),
        cmocka_unit_test(ready_when_content_says_so),
        cmocka_unit_test(incomplete_file_is_reported_once_and_taken_when_whole),
        cmocka_unit_test(foreign_file_is_reported_after_settling),
        cmocka_unit_test(reserved_room_is_not_content),
        cmocka_unit_test(deleted_file_is_forgotten_until_it_comes_again),
        cmocka_unit_test(duplicates_are_said_and_not_taken),
        cmocka_unit_test(linked_files_and_folders_are_followed),
        cmocka_unit_test(folders_made_later_are_entered),
        cmocka_unit_test(notices_hasten_and_strangers_are_ignored),
        cmocka_unit_test(names_that_cannot_be_ids_are_reported),
        cmocka_unit_test(session_inside_the_folder_is_left_out),
        cmocka_unit_test(what_an_earlier_run_did_is_not_done_again),
        cmocka_unit_test(thumbnails_are_not_micrographs),
        cmocka_unit_test(ten_thousand_files_cost_each_the_same),
    };
    return scratch_run("watcher", tests, sizeof tests / sizeof *tests);
}
