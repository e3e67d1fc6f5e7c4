#include "stages/watcher/folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/stages/watched.h"

/* Each test watches a folder of its own and sets the time. */
static struct folder *watch(const char *name, struct folder_options options) {
    struct err err = {0};
    struct folder *folder = NULL;
    char path[PATH_SIZE];
    watched_folder(name);
    scratch_path(name, path);
    options.directory = path;
    options.pattern = options.pattern != NULL ? options.pattern : "*.mrc,*.tif,*.png";
    options.settle = options.settle > 0 ? options.settle : 10;
    options.stall = options.stall > 0 ? options.stall : 60;
    options.poll = 5;
    assert_ok(folder_create(&options, &folder, &err));
    return folder;
}

static struct folder_options plain(void) {
    return (struct folder_options){.recursive = true};
}

/* Sweeps and compares all that is found now: "id", "id?" for a duplicate, "id!" for a failed file, with spaces
 * between. */
static void expect(struct folder *folder, double now, const char *expected) {
    struct err err = {0};
    char text[4096] = "";
    assert_ok(folder_sweep(folder, now, &err));
    for (;;) {
        struct folder_find find;
        bool found;
        assert_ok(folder_next(folder, now, &find, &found, &err));
        if (!found) break;
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s%s", used > 0 ? " " : "", find.id,
                 find.verdict == FOLDER_READY       ? ""
                 : find.verdict == FOLDER_DUPLICATE ? "?"
                                                    : "!");
        assert_true(find.verdict == FOLDER_READY || find.reason[0] != '\0');
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
    struct folder *folder = watch("order", plain());
    expect(folder, 0, "b c sub/a");
    expect(folder, 1000, "");
    folder_destroy(&folder);
    folder_destroy(&folder);
    struct folder_options options = {.recursive = false, .order = FOLDER_NEWEST};
    watched_put("order/e.mrc", 8, 4, WATCHED_WHOLE);
    watched_date("order/e.mrc", 1000);
    folder = watch("order", options);
    expect(folder, 0, "c b e");
    folder_destroy(&folder);
}

static void pattern_picks_names_and_paths(void **state) {
    (void)state;
    watched_put("pattern/x_a.mrc", 8, 4, WATCHED_WHOLE);
    watched_put("pattern/y_a.MRC", 8, 4, WATCHED_WHOLE);
    watched_put("pattern/deep/y_b.mrc", 8, 4, WATCHED_WHOLE);
    watched_date("pattern/deep/y_b.mrc", 1000);
    watched_put("pattern/other/y_c.mrc", 8, 4, WATCHED_WHOLE);
    struct folder_options options = plain();
    options.pattern = " y_a.mrc , deep/*.mrc,";
    struct folder *folder = watch("pattern", options);
    expect(folder, 0, "deep/y_b y_a");
    folder_destroy(&folder);
    options.pattern = " , ";
    options.directory = "/";
    struct err err = {0};
    assert_int_equal(folder_create(&options, &folder, &err), STATUS_BAD_ARGUMENT);
    options.pattern = "*";
    options.directory = "/no/such/folder";
    assert_int_equal(folder_create(&options, &folder, &err), STATUS_NOT_FOUND);
}

static void ready_when_content_says_so(void **state) {
    (void)state;
    struct folder *folder = watch("grow", plain());
    for (long bytes = 0; bytes < 1024 + 64; bytes += 272) {
        watched_put("grow/a.mrc", 8, 8, bytes);
        expect(folder, (double)bytes, "");
        assert_int_equal(folder_pending(folder), 1);
    }
    watched_put("grow/a.mrc", 8, 8, WATCHED_WHOLE);
    expect(folder, 1100, "a");
    assert_int_equal(folder_pending(folder), 0);
    /* An old file need not be whole; this one is an hour old. Then a whole file is renamed into place. */
    watched_put("grow/.b.mrc.part", 8, 8, WATCHED_WHOLE);
    expect(folder, 1101, "");
    watched_rename("grow/.b.mrc.part", "grow/b.mrc");
    expect(folder, 1102, "b");
    folder_destroy(&folder);
}

static void incomplete_file_is_reported_once_and_taken_when_whole(void **state) {
    (void)state;
    struct folder *folder = watch("stall", plain());
    watched_put("stall/a.mrc", 8, 8, 1050);
    expect(folder, 0, "");
    watched_put("stall/a.mrc", 8, 8, 1060);
    watched_date("stall/a.mrc", 5000);
    expect(folder, 50, "");
    expect(folder, 109, "");
    assert_int_equal(folder_pending(folder), 1);
    expect(folder, 111, "a!");
    assert_int_equal(folder_pending(folder), 0);
    expect(folder, 500, "");
    watched_put("stall/a.mrc", 8, 8, WATCHED_WHOLE);
    expect(folder, 506, "a");
    expect(folder, 600, "");
    folder_destroy(&folder);
}

static void foreign_file_is_reported_after_settling(void **state) {
    (void)state;
    char text[2000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    watched_put_text("foreign/a.mrc", text);
    struct folder *folder = watch("foreign", plain());
    expect(folder, 0, "");
    expect(folder, 9, "");
    expect(folder, 11, "a!");
    expect(folder, 100, "");
    folder_destroy(&folder);
}

static void reserved_room_is_not_content(void **state) {
    (void)state;
    struct folder *folder = watch("reserved", plain());
    char path[PATH_SIZE];
    watched_put("reserved/a.mrc", 100, 100, 3000);
    scratch_path("reserved/a.mrc", path);
    assert_int_equal(truncate(path, 1024 + 10000), 0);
    expect(folder, 0, "");
    expect(folder, 5, "");
    watched_put("reserved/a.mrc", 100, 100, WATCHED_WHOLE);
    expect(folder, 6.5, "a");
    /* A micrograph whose last rows are zeros must wait until it has settled. */
    watched_put("reserved/b.mrc", 100, 100, WATCHED_WHOLE);
    scratch_path("reserved/b.mrc", path);
    static const char zeros[8024];
    int descriptor = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(descriptor >= 0 && pwrite(descriptor, zeros, sizeof zeros, 3000) == (ssize_t)sizeof zeros);
    assert_int_equal(close(descriptor), 0);
    expect(folder, 20, "");
    expect(folder, 31, "b");
    folder_destroy(&folder);
}

static void deleted_file_is_forgotten_until_it_comes_again(void **state) {
    (void)state;
    struct folder *folder = watch("deleted", plain());
    watched_put("deleted/a.mrc", 8, 8, 1030);
    expect(folder, 0, "");
    watched_remove("deleted/a.mrc");
    expect(folder, 5, "");
    assert_int_equal(folder_pending(folder), 0);
    expect(folder, 500, "");
    watched_put("deleted/a.mrc", 8, 8, WATCHED_WHOLE);
    expect(folder, 505, "a");
    /* A file written again after it was taken has the same id, which is done. */
    watched_remove("deleted/a.mrc");
    expect(folder, 510, "");
    watched_put("deleted/a.mrc", 16, 8, WATCHED_WHOLE);
    expect(folder, 515, "");
    folder_destroy(&folder);
}

static void duplicates_are_said_and_not_taken(void **state) {
    (void)state;
    struct folder *folder = watch("twice", plain());
    watched_put("twice/a.mrc", 8, 8, WATCHED_WHOLE);
    watched_date("twice/a.mrc", 1000);
    watched_put("twice/a.tif", 8, 8, WATCHED_WHOLE); /* another ending; the content shows the format */
    watched_link("a.mrc", "twice/link.mrc");
    watched_link("nothing.mrc", "twice/dangling.mrc");
    watched_link(".", "twice/round");
    expect(folder, 0, "a link? a.tif!");
    expect(folder, 100, "");
    /* The inode is known, but another file has it now. */
    watched_rename("twice/a.mrc", "twice/moved.mrc");
    watched_put("twice/a.mrc", 8, 8, WATCHED_WHOLE);
    expect(folder, 200, "moved");
    folder_destroy(&folder);
}

static void linked_files_and_folders_are_followed(void **state) {
    (void)state;
    watched_put("elsewhere/a.mrc", 8, 8, WATCHED_WHOLE);
    watched_put("elsewhere/in/b.mrc", 8, 8, WATCHED_WHOLE);
    struct folder *folder = watch("links", plain());
    watched_link("../elsewhere/a.mrc", "links/x.mrc");
    watched_link("../elsewhere/in", "links/folder");
    watched_date("elsewhere/a.mrc", 1000);
    expect(folder, 0, "x folder/b");
    folder_destroy(&folder);
}

/* Ten folders that link to each other have as many ways down as permutations. A link upwards leads to the whole disk. */
static void links_among_folders_are_entered_once(void **state) {
    (void)state;
    char name[64], target[64];
    struct folder *folder = watch("maze", plain());
    for (int i = 0; i < 10; i++) {
        snprintf(name, sizeof name, "maze/g%d/m%d.mrc", i, i);
        watched_put(name, 8, 8, WATCHED_WHOLE);
        watched_date(name, 1000 + i);
        for (int j = 0; j < 10; j++) {
            snprintf(name, sizeof name, "maze/g%d/a%d", i, j);
            snprintf(target, sizeof target, "../g%d", j);
            watched_link(target, name);
        }
    }
    watched_link("/", "maze/g0/root");
    watched_link("../..", "maze/g0/up");
    watched_link("g5", "maze/another");
    expect(folder, 0, "g0/m0 g1/m1 g2/m2 g3/m3 g4/m4 g5/m5 g6/m6 g7/m7 g8/m8 g9/m9");
    expect(folder, 1, "");
    folder_destroy(&folder);
}

static int skipped;

static void count_skipped(void *context, const char *path, const char *reason) {
    (void)context;
    skipped++;
    assert_non_null(strstr(reason, "session"));
    assert_non_null(strstr(path, "sessions/"));
}

static void folders_of_sessions_are_not_entered(void **state) {
    (void)state;
    struct folder_options options = plain();
    options.skipped = count_skipped;
    struct folder *folder = watch("sessions", options);
    watched_put("sessions/other/extractor/x.mrc", 8, 8, WATCHED_WHOLE);
    watched_put_text("sessions/other/graph.yaml", "");
    watched_folder("sessions/other/ledger");
    watched_put("sessions/graphs/a.mrc", 8, 8, WATCHED_WHOLE);
    watched_put_text("sessions/graphs/graph.yaml", "");
    watched_put("sessions/deep/er/extractor/y.mrc", 8, 8, WATCHED_WHOLE);
    watched_put_text("sessions/deep/er/log/plan.json", "{}");
    watched_folder("sessions/deep/er/ledger");
    expect(folder, 0, "graphs/a");
    assert_int_equal(skipped, 2);
    folder_destroy(&folder);
}

/* A sweep in slices finds the same as one at once; between slices files are handed out. */
static void a_sweep_in_slices_hands_out_files_early(void **state) {
    (void)state;
    struct err err = {0};
    char name[64];
    struct folder *folder = watch("slices", plain());
    watched_put("slices/first.mrc", 8, 8, WATCHED_WHOLE);
    for (int i = 0; i < 150; i++) {
        snprintf(name, sizeof name, "slices/g%03d/m.mrc", i);
        watched_put(name, 8, 8, WATCHED_WHOLE);
    }
    bool done = false, found;
    size_t slices = 0, early = 0, all = 0;
    for (; !done; slices++) {
        assert_ok(folder_sweep_for(folder, 0, 0, &done, &err));
        assert_int_equal(folder_is_swept(folder), done);
        for (found = true; found; all += found, early += found && !done) {
            struct folder_find find;
            assert_ok(folder_next(folder, 0, &find, &found, &err));
        }
    }
    assert_true(slices > 3 && early > 0);
    assert_int_equal(all, 151);
    folder_destroy(&folder);
}

/* Writes an MRC of 256 × 256 px whose middle is a hole. */
static void put_with_hole(const char *name) {
    char path[PATH_SIZE];
    unsigned char block[4096];
    watched_put(name, 256, 256, WATCHED_WHOLE);
    scratch_path(name, path);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fread(block, 1, sizeof block, file), sizeof block);
    assert_int_equal(ftruncate(fileno(file), 4096), 0);
    assert_int_equal(ftruncate(fileno(file), 1024 + 65536), 0);
    memset(block, 7, sizeof block);
    assert_int_equal(fseek(file, 1024 + 65536 - 4096, SEEK_SET), 0);
    assert_int_equal(fwrite(block, 1, sizeof block, file), sizeof block);
    assert_int_equal(fflush(file), 0);
    bool told = lseek(fileno(file), 0, SEEK_HOLE) < 1024 + 65536;
    assert_int_equal(fclose(file), 0);
    if (!told) skip(); /* this file system does not tell of holes */
}

static void holes_are_waited_for(void **state) {
    (void)state;
    struct folder *folder = watch("holes", plain());
    put_with_hole("holes/a.mrc");
    watched_put("holes/whole.mrc", 256, 256, WATCHED_WHOLE);
    expect(folder, 0, "whole");
    expect(folder, 59, "");
    watched_put("holes/a.mrc", 256, 256, WATCHED_WHOLE);
    expect(folder, 60, "a");
    /* A file that stays sparse is taken in the end. */
    put_with_hole("holes/b.mrc");
    expect(folder, 100, "");
    expect(folder, 159, "");
    expect(folder, 161, "b");
    folder_destroy(&folder);
}

static void folders_made_later_are_entered(void **state) {
    (void)state;
    struct folder *folder = watch("later", plain());
    struct err err = {0};
    expect(folder, 0, "");
    watched_put("later/grid2/square1/a b.mrc", 8, 8, WATCHED_WHOLE);
    watched_put("later/grid2/square1/\xc3\xa5ngstr\xc3\xb6m.mrc", 8, 8, WATCHED_WHOLE);
    watched_date("later/grid2/square1/a b.mrc", 1000);
    /* The only notice is about the folder. */
    char path[PATH_SIZE];
    scratch_path("later/grid2", path);
    assert_false(folder_wants_sweep(folder));
    assert_ok(folder_notice(folder, path, 1, &err));
    assert_true(folder_wants_sweep(folder));
    assert_ok(folder_sweep(folder, 1, &err));
    assert_false(folder_wants_sweep(folder));
    struct folder_find find;
    bool found;
    assert_ok(folder_next(folder, 1, &find, &found, &err));
    assert_true(found);
    assert_string_equal(find.id, "grid2/square1/a b");
    assert_string_equal(find.relative, "grid2/square1/a b.mrc");
    assert_int_equal(find.image.nx, 8);
    assert_true(find.image.pixel_size > 1.49f && find.image.pixel_size < 1.51f);
    expect(folder, 2, "grid2/square1/\xc3\xa5ngstr\xc3\xb6m");
    folder_destroy(&folder);
}

static void notices_hasten_and_strangers_are_ignored(void **state) {
    (void)state;
    struct folder *folder = watch("notice", plain());
    struct err err = {0};
    char path[PATH_SIZE];
    watched_put("notice/a.mrc", 8, 8, 1030);
    scratch_path("notice/a.mrc", path);
    assert_ok(folder_notice(folder, path, 0, &err));
    struct folder_find find;
    bool found;
    assert_ok(folder_next(folder, 0, &find, &found, &err));
    assert_false(found);
    watched_put("notice/a.mrc", 8, 8, WATCHED_WHOLE);
    assert_ok(folder_next(folder, 0.01, &find, &found, &err));
    assert_false(found); /* not due yet */
    assert_ok(folder_notice(folder, path, 0.02, &err));
    assert_ok(folder_notice(folder, "/elsewhere/b.mrc", 0.02, &err));
    scratch_path("notice-other/b.mrc", path);
    assert_ok(folder_notice(folder, path, 0.02, &err));
    assert_ok(folder_next(folder, 0.02, &find, &found, &err));
    assert_true(found && find.verdict == FOLDER_READY);
    assert_ok(folder_next(folder, 0.02, &find, &found, &err));
    assert_false(found);
    folder_destroy(&folder);
}

static void names_that_cannot_be_ids_are_reported(void **state) {
    (void)state;
    watched_put("names/a\nb.mrc", 8, 8, WATCHED_WHOLE);
    watched_put("names/c\xff.mrc", 8, 8, WATCHED_WHOLE);
    watched_date("names/a\nb.mrc", 1000);
    watched_put("names/d.m\xffrc", 8, 8, WATCHED_WHOLE);
    struct folder_options options = plain();
    options.pattern = "*";
    struct folder *folder = watch("names", options);
    watched_put("names/c\xfe.mrc", 8, 8, WATCHED_WHOLE);
    watched_date("names/c\xfe.mrc", 2000);
    watched_put("names/it's \"e\".mrc", 8, 8, WATCHED_WHOLE);
    /* Hashes distinguish two names that differ only in an unreadable byte. */
    expect(folder, 0,
           "a?b~6876b90b7b789ed3! c?~5a1d3a8737a32029! c?~ed65fba4100a62f2! d~57b01620c3ab9243! it's \"e\"!");
    expect(folder, 100, "");
    folder_destroy(&folder);
}

static void session_inside_the_folder_is_left_out(void **state) {
    (void)state;
    watched_put("whole/a.mrc", 8, 8, WATCHED_WHOLE);
    watched_put("whole/session/refiner/run_class001.mrc", 8, 8, WATCHED_WHOLE);
    char path[PATH_SIZE];
    scratch_path("whole/session", path);
    struct folder_options options = plain();
    options.skip[1] = path;
    struct folder *folder = watch("whole", options);
    expect(folder, 0, "a");
    folder_destroy(&folder);
}

static enum status remember(void *context, const char *id, enum folder_past *ret_past, struct err *err) {
    (void)err;
    ++*(int *)context;
    *ret_past = strcmp(id, "done") == 0     ? FOLDER_SETTLED
                : strcmp(id, "failed") == 0 ? FOLDER_FAILED_THEN
                                            : FOLDER_UNSEEN;
    return STATUS_OK;
}

static void what_an_earlier_run_did_is_not_done_again(void **state) {
    (void)state;
    int asked = 0;
    struct folder_options options = plain();
    options.context = &asked;
    options.past = remember;
    watched_put("resumed/done.mrc", 8, 8, WATCHED_WHOLE);
    watched_put("resumed/failed.mrc", 8, 8, 1030);
    watched_put("resumed/new.mrc", 8, 8, WATCHED_WHOLE);
    struct folder *folder = watch("resumed", options);
    expect(folder, 0, "new");
    assert_int_equal(folder_pending(folder), 0); /* the failed file is not pending */
    expect(folder, 100, "");
    watched_put("resumed/failed.mrc", 8, 8, WATCHED_WHOLE);
    expect(folder, 110, "failed");
    assert_int_equal(asked, 3);
    folder_destroy(&folder);
}

static void thumbnails_are_not_micrographs(void **state) {
    (void)state;
    struct folder *folder = watch("thumbnails", plain());
    watched_picture("thumbnails/a.png");
    watched_picture("thumbnails/b.png");
    expect(folder, 0, "");
    watched_put("thumbnails/a.mrc", 8, 8, 1030);
    expect(folder, 8, "");
    expect(folder, 12, "a? b");
    watched_put("thumbnails/a.mrc", 8, 8, WATCHED_WHOLE);
    expect(folder, 20, "a");
    folder_destroy(&folder);
}

/* Only what the pattern takes makes a picture one of a micrograph. */
static void a_sibling_that_nobody_wants_makes_no_thumbnail(void **state) {
    (void)state;
    struct folder_options options = plain();
    options.pattern = "*.png";
    struct folder *folder = watch("unwanted", options);
    watched_picture("unwanted/a.png");
    watched_put("unwanted/a.mrc", 8, 8, WATCHED_WHOLE);
    expect(folder, 0, "");
    expect(folder, 12, "a");
    folder_destroy(&folder);
    /* Endings in capitals count, too. */
    folder = watch("capitals", plain());
    watched_picture("capitals/a.png");
    watched_put("capitals/a.MRC", 8, 8, WATCHED_WHOLE);
    expect(folder, 0, "a");
    expect(folder, 12, "a.png?");
    folder_destroy(&folder);
}

/* Sweeps and takes the one file that is found. */
static struct folder_find next(struct folder *folder, double now) {
    struct err err = {0};
    struct folder_find find = {0};
    bool found;
    assert_ok(folder_sweep(folder, now, &err));
    assert_ok(folder_next(folder, now, &find, &found, &err));
    assert_true(found);
    return find;
}

static void a_later_micrograph_takes_the_place_of_its_picture(void **state) {
    (void)state;
    struct folder *folder = watch("pair", plain());
    watched_picture("pair/F0.png");
    expect(folder, 0, "");
    expect(folder, 12, "F0");
    assert_int_equal(folder_revision(folder, "F0"), 0);
    watched_put("pair/F0.mrc", 8, 8, 1030);
    expect(folder, 14, "");
    watched_put("pair/F0.mrc", 8, 8, WATCHED_WHOLE);
    struct folder_find find = next(folder, 16);
    assert_int_equal(find.verdict, FOLDER_READY);
    assert_string_equal(find.id, "F0");
    assert_string_equal(find.relative, "F0.mrc");
    assert_string_equal(find.instead_of, "F0.png");
    int64_t revision = folder_revision(folder, "F0");
    assert_true(revision > 0);
    expect(folder, 100, "");
    /* Another micrograph of this name is still a mistake, and a picture that comes later is one of the micrograph. */
    watched_put("pair/F0.tif", 8, 8, WATCHED_WHOLE);
    expect(folder, 101, "F0.tif!");
    watched_picture("pair/G0.png");
    watched_put("pair/G0.mrc", 8, 8, WATCHED_WHOLE);
    watched_date("pair/G0.mrc", 1000);
    expect(folder, 102, "G0 G0.png?");
    assert_int_equal(folder_revision(folder, "F0"), revision);
    /* A file that cannot become a micrograph fails under its own name, and the picture stays. */
    watched_picture("pair/H0.png");
    expect(folder, 110, "");
    expect(folder, 122, "H0");
    watched_put_text("pair/H0.mrc", "no micrograph");
    expect(folder, 123, "");
    expect(folder, 300, "H0.mrc!");
    assert_int_equal(folder_revision(folder, "H0"), 0);
    folder_destroy(&folder);
}

static void ten_thousand_files_cost_each_the_same(void **state) {
    (void)state;
    struct folder *folder = watch("many", plain());
    enum { COUNT = 10000 };
    for (int i = 0; i < COUNT; i++) {
        char name[64];
        snprintf(name, sizeof name, "many/%d/mic_%05d.mrc", i % 10, i);
        watched_put(name, 4, 4, i % 2 == 0 ? WATCHED_WHOLE : 1030);
    }
    struct err err = {0};
    int taken = 0;
    assert_ok(folder_sweep(folder, 0, &err));
    for (double now = 0; now < 3; now++) {
        struct folder_find find;
        bool found;
        do {
            assert_ok(folder_next(folder, now, &find, &found, &err));
            taken += found;
        } while (found);
        assert_ok(folder_sweep(folder, now, &err));
    }
    assert_int_equal(taken, COUNT / 2);
    assert_int_equal(folder_pending(folder), COUNT / 2);
    folder_destroy(&folder);
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
        cmocka_unit_test(links_among_folders_are_entered_once),
        cmocka_unit_test(folders_of_sessions_are_not_entered),
        cmocka_unit_test(a_sweep_in_slices_hands_out_files_early),
        cmocka_unit_test(holes_are_waited_for),
        cmocka_unit_test(folders_made_later_are_entered),
        cmocka_unit_test(notices_hasten_and_strangers_are_ignored),
        cmocka_unit_test(names_that_cannot_be_ids_are_reported),
        cmocka_unit_test(session_inside_the_folder_is_left_out),
        cmocka_unit_test(what_an_earlier_run_did_is_not_done_again),
        cmocka_unit_test(thumbnails_are_not_micrographs),
        cmocka_unit_test(a_sibling_that_nobody_wants_makes_no_thumbnail),
        cmocka_unit_test(a_later_micrograph_takes_the_place_of_its_picture),
        cmocka_unit_test(ten_thousand_files_cost_each_the_same),
    };
    return scratch_run("watcher", tests, sizeof tests / sizeof *tests);
}
