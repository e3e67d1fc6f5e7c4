/* A selection that leaves a session knows what was rejected by hand after it was written. */
#include <stdio.h>
#include <string.h>

#include "common/formats/star.h"
#include "common/memory.h"
#include "pipelines/launcher/mark.h"
#include "tests/common/scratch.h"

static struct session session = {.lock = -1};

static void put(const char *name, const char *text) {
    struct err err = {0};
    char path[PATH_SIZE], folder[PATH_SIZE];
    assert_ok(path_join(session.path, name, path, sizeof path, &err));
    assert_ok(path_folder(path, folder, sizeof folder, &err));
    assert_ok(file_make_folders(folder, 0777, &err));
    assert_ok(file_write_whole(path, text, strlen(text), &err));
}

static const char ROWS[] =
    "data_optics\n\nloop_\n_rlnOpticsGroup #1\n1\n\ndata_particles\n\nloop_\n_rlnImageName #1\n"
    "_rlnCoordinateX #2\n_rlnCoordinateY #3\n_rlnClassNumber #4\n_rlnOpticsGroup #5\n"
    "1@extractor/a/m1.mrcs 1 1 1 1\n1@extractor/b/m1.mrcs 2 2 2 1\n2@extractor/b/m1.mrcs 3 3 3 1\n"
    "1@extractor/a/sub/m2.mrcs 4 4 1 1\n\n";

static void begin(const char *name) {
    scratch_path(name, session.path);
    put("log/plan.json",
        "{\"v\": 1, \"separate\": true, \"stages\": [{\"name\": \"classifier\", \"kind\": \"classifier\"}]}");
    put("classifier/latest_selected.star", ROWS);
}

/* Copies the selection and returns its rows' images, with blanks between them. */
static size_t select_rest(char images[1024]) {
    struct err err = {0};
    struct star_file *file = NULL;
    char from[PATH_SIZE], to[PATH_SIZE];
    size_t left_out = 99;
    assert_ok(path_join(session.path, "classifier/latest_selected.star", from, sizeof from, &err));
    assert_ok(path_join(session.path, "selected.star", to, sizeof to, &err));
    assert_ok(mark_write_selection(&session, "classifier", from, to, &left_out, &err));
    assert_ok(star_read(to, &file, &err));
    const struct star_table *t = star_table_find(file, "particles");
    images[0] = '\0';
    for (size_t row = 0; row < star_row_count(t); row++) {
        strcat(images, star_get(t, row, 0));
        strcat(images, " ");
    }
    assert_int_equal(star_row_count(star_table_find(file, "optics")), 1);
    assert_int_equal(star_column_count(t), 5);
    star_destroy(&file);
    return left_out;
}

static void without_marks_it_is_the_file(void **state) {
    (void)state;
    struct err err = {0};
    char images[1024], path[PATH_SIZE], *text = NULL;
    size_t length;
    begin("plain");
    assert_int_equal(select_rest(images), 0);
    assert_ok(path_join(session.path, "selected.star", path, sizeof path, &err));
    assert_ok(file_read_whole(path, 1 << 20, &text, &length, &err));
    assert_int_equal(length, strlen(ROWS));
    assert_memory_equal(text, ROWS, length);
    mem_free(&text);
}

static void rejected_particles_are_left_out(void **state) {
    (void)state;
    struct err err = {0};
    char images[1024];
    struct mark_result result;
    const struct mark_author author = {0};
    begin("marked");
    const struct ledger_key keys[] = {{"b", "m1"}, {"a", "sub/m2"}};
    assert_ok(mark_items(&session, keys, 1, CHOICE_REJECT, &author, &result, &err));
    assert_int_equal(result.number, 1);
    assert_int_equal(select_rest(images), 2);
    assert_string_equal(images, "1@extractor/a/m1.mrcs 1@extractor/a/sub/m2.mrcs ");
    assert_ok(mark_items(&session, keys, 2, CHOICE_REJECT, &author, &result, &err));
    assert_int_equal(result.changed, 1);
    assert_int_equal(select_rest(images), 3);
    assert_ok(mark_items(&session, keys, 2, CHOICE_NONE, &author, &result, &err));
    assert_int_equal(select_rest(images), 0);
    /* A class that was rejected. */
    put("changes/0004.star",
        "data_particles\n\nloop_\n_rlnImageName #1\n_rlnClassNumber #2\n1@extractor/a/m1.mrcs 7\n\n");
    put("changes/0004.json", "{\"number\": 4, \"changes\": [], \"members\": \"changes/0004.star\", \"choices\": "
                             "[{\"stage\": \"classifier\", "
                             "\"iteration\": 3, \"classes\": [7], \"choice\": \"reject\"}]}");
    assert_int_equal(select_rest(images), 1);
    assert_string_equal(images, "1@extractor/b/m1.mrcs 2@extractor/b/m1.mrcs 1@extractor/a/sub/m2.mrcs ");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(without_marks_it_is_the_file),
                                       cmocka_unit_test(rejected_particles_are_left_out)};
    return scratch_run("test_marks", tests, sizeof tests / sizeof *tests);
}
