#include "stages/watcher/ctf_match.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/stages/watched.h"

/* Makes a CTF file whose rows have these names, and DefocusU 10000, 10001, … */
static struct ctf_rows *rows_of(const char *const *names) {
    struct err err = {0};
    struct ctf_rows *rows = NULL;
    char text[4096] = "data_\nloop_\n_rlnMicrographName\n_rlnDefocusU\n", path[PATH_SIZE];
    for (int i = 0; names[i] != NULL; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s %d\n", names[i], 10000 + i);
    watched_put_text("rows.star", text);
    scratch_path("rows.star", path);
    assert_ok(ctf_rows_open(path, &rows, &err));
    return rows;
}

static void put(const char *name) {
    watched_put(name, 8, 4, WATCHED_WHOLE);
}

static struct folder *watch(const char *name) {
    struct err err = {0};
    struct folder *folder = NULL;
    char path[PATH_SIZE];
    watched_folder(name);
    scratch_path(name, path);
    struct folder_options options = {
        .directory = path, .pattern = "*.mrc,*.tif", .recursive = true, .settle = 10, .stall = 60, .poll = 5};
    assert_ok(folder_create(&options, &folder, &err));
    assert_ok(folder_sweep(folder, 0, &err));
    return folder;
}

/* Returns the row of a file below the folder, or -1. `why`, unless NULL, must be part of the reason. */
static long row_of(const char *const *names, const struct folder *folder, const char *top, const char *relative,
                   const char *why) {
    struct ctf_match match;
    struct ctf_rows *rows = rows_of(names);
    char name[PATH_SIZE], path[PATH_SIZE], whole[PATH_SIZE];
    snprintf(name, sizeof name, "%s/%s", top, relative);
    scratch_path(name, path);
    assert_non_null(realpath(path, whole));
    ctf_match_find(rows, folder, whole, relative, &match);
    assert_true(match.row >= 0 ? match.why[0] == '\0' : match.why[0] != '\0');
    if (why != NULL && strstr(match.why, why) == NULL) fail_msg("\"%s\" lacks \"%s\"", match.why, why);
    ctf_rows_close(&rows);
    return match.row;
}

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

static void copies_are_known_by_their_base_name(void **state) {
    (void)state;
    put("copies/a.mrc");
    put("copies/b.tif");
    struct folder *folder = watch("copies");
    const char *const *names = NAMES("/data/job2/a.mrc", "MotionCorr/job2/b.mrc");
    assert_int_equal(row_of(names, folder, "copies", "a.mrc", NULL), 0);
    assert_int_equal(row_of(names, folder, "copies", "b.tif", NULL), 1);
    assert_int_equal(row_of(NAMES("c.mrc"), folder, "copies", "a.mrc", "has no row in"), -1);
    assert_int_equal(row_of(NAMES("x/a.mrc", "y/a.mrc"), folder, "copies", "a.mrc", "fit equally well"), -1);
    /* Rows of one name: the later one. */
    assert_int_equal(row_of(NAMES("x/a.mrc", "x/b.mrc", "x/a.mrc"), folder, "copies", "a.mrc", NULL), 2);
    folder_destroy(&folder);
}

static void a_row_stays_with_the_file_that_it_fits_best(void **state) {
    (void)state;
    put("grids/g1/a.mrc");
    put("grids/g2/a.mrc");
    put("grids/g2/b.mrc");
    struct folder *folder = watch("grids");
    const char *const *first = NAMES("g1/a.mrc", "g1/b.mrc");
    assert_int_equal(row_of(first, folder, "grids", "g1/a.mrc", NULL), 0);
    assert_int_equal(row_of(first, folder, "grids", "g2/a.mrc", "no row of its own"), -1);
    /* g1/b.mrc is not there yet, but its folder is. */
    assert_int_equal(row_of(first, folder, "grids", "g2/b.mrc", "fits the folder"), -1);
    const char *const *both = NAMES("g1/a.mrc", "g1/b.mrc", "g2/a.mrc", "g2/b.mrc");
    assert_int_equal(row_of(both, folder, "grids", "g1/a.mrc", NULL), 0);
    assert_int_equal(row_of(both, folder, "grids", "g2/a.mrc", NULL), 2);
    assert_int_equal(row_of(both, folder, "grids", "g2/b.mrc", NULL), 3);
    folder_destroy(&folder);
}

static void a_base_name_of_two_files_is_nobodys(void **state) {
    (void)state;
    put("shared/g1/a.mrc");
    put("shared/g2/a.mrc");
    put("shared/g2/b.mrc");
    struct folder *folder = watch("shared");
    const char *const *names = NAMES("a.mrc", "b.mrc");
    assert_int_equal(row_of(names, folder, "shared", "g1/a.mrc", "as well"), -1);
    assert_int_equal(row_of(names, folder, "shared", "g2/a.mrc", "as well"), -1);
    assert_int_equal(row_of(names, folder, "shared", "g2/b.mrc", NULL), 1);
    folder_destroy(&folder);
}

/* A link is another name of one file; another ending makes no other micrograph; a folder that is gone has no files. */
static void names_of_one_file_are_no_rivals(void **state) {
    (void)state;
    struct err err = {0};
    put("one/g1/a.mrc");
    put("one/g1/a.tif");
    watched_folder("one/g2");
    watched_link("../g1/a.mrc", "one/g2/a.mrc");
    put("one/old/b.mrc");
    struct folder *folder = watch("one");
    assert_int_equal(row_of(NAMES("a.mrc"), folder, "one", "g1/a.mrc", NULL), 0);
    watched_rename("one/old", "one/new");
    assert_ok(folder_sweep(folder, 1, &err));
    struct folder_find find;
    for (bool found = true; found;)
        assert_ok(folder_next(folder, 1, &find, &found, &err));
    assert_int_equal(row_of(NAMES("old/b.mrc"), folder, "one", "new/b.mrc", NULL), 0);
    folder_destroy(&folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_are_known_by_their_base_name),
        cmocka_unit_test(a_row_stays_with_the_file_that_it_fits_best),
        cmocka_unit_test(a_base_name_of_two_files_is_nobodys),
        cmocka_unit_test(names_of_one_file_are_no_rivals),
    };
    return scratch_run("ctf-match", tests, sizeof tests / sizeof *tests);
}
