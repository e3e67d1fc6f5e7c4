/* Tests the watcher as a stage: items, CTF values, the ledger, micrographs.star, and the notices of the system. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/edges/ledger.h"
#include "common/formats/image_formats.h"
#include "common/formats/star.h"
#include "common/harness/stage_private.h"
#include "stages/watcher/left_out.h"
#include "stages/watcher/notices.h"
#include "stages/watcher/watcher.h"
#include "tests/stages/watched.h"

/* Runs once over the files that are there, without waiting. */
static enum status try_run(const char *session, const char *const *more, struct stage_results *ret_results,
                           struct err *err) {
    char root[PATH_SIZE], ledger[PATH_SIZE + 16], directory[PATH_SIZE + 8];
    watched_folder(session);
    scratch_path(session, root);
    snprintf(ledger, sizeof ledger, "%s/l.sqlite", root);
    snprintf(directory, sizeof directory, "%s/raw", root);
    const char *key_values[32] = {"directory", directory, "until_idle", "0", "settle", "0"};
    for (int i = 0; more != NULL && more[i] != NULL; i++)
        key_values[6 + i] = more[i];
    return stage_run_results(&watcher_stage, root, ledger, key_values, NULL, 0, ret_results, err);
}

static struct stage_results run(const char *session, const char *const *more) {
    struct err err = {0};
    struct stage_results results = {0};
    assert_ok(try_run(session, more, &results, &err));
    return results;
}

static const struct item *emitted(const struct stage_results *results, const char *id) {
    for (size_t i = 0; i < results->emitted_count; i++)
        if (strcmp(item_id(results->emitted[i]), id) == 0) return results->emitted[i];
    fail_msg("%s was not emitted", id);
    return NULL;
}

/* The help names the endings that the table of formats has. */
static void the_default_pattern_takes_micrographs_and_photographs(void **state) {
    (void)state;
    char expected[256] = "By default ", movies[256] = "";
    const char *ending, *found = NULL, *start = "";
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; (ending = image_ending(i, pass == 0 ? IMAGE_AS_MICROGRAPH : IMAGE_AS_PHOTOGRAPH)) != NULL;
             i++)
            snprintf(expected + strlen(expected), sizeof expected - strlen(expected), "%s*%s",
                     pass > 0 || i > 0 ? "," : "", ending);
    for (size_t i = 0; (ending = image_ending(i, IMAGE_AS_MOVIE)) != NULL; i++)
        snprintf(movies + strlen(movies), sizeof movies - strlen(movies), "%s*%s", i > 0 ? "," : "", ending);
    snprintf(expected + strlen(expected), sizeof expected - strlen(expected), ", and of movies %s.", movies);
    for (size_t i = 0; i < watcher_stage.param_count; i++)
        if (strcmp(watcher_stage.params[i].name, "pattern") == 0) found = watcher_stage.params[i].help;
    assert_non_null(found);
    start = strstr(found, "By default");
    assert_non_null(start);
    assert_string_equal(start, expected);
}

static void items_carry_what_is_known(void **state) {
    (void)state;
    struct err err = {0};
    watched_put("s1/raw/g/a b.mrc", 8, 6, WATCHED_WHOLE);
    watched_put_sized("s1/raw/g/c.mrc", 8, 6, 2, WATCHED_WHOLE);
    watched_put("s1/raw/g/broken.mrc", 8, 6, 1030);
    watched_put_text("s1/ctf.star",
                     "data_optics\nloop_\n_rlnOpticsGroup\n_rlnOpticsGroupName\n_rlnVoltage\n1 mine 200\n\n"
                     "data_micrographs\nloop_\n_rlnMicrographName\n_rlnOpticsGroup\n_rlnDefocusU\n"
                     "'x/a b.mrc' 1 12000\n");
    char star[PATH_SIZE];
    scratch_path("s1/ctf.star", star);
    const char *more[] = {"ctf", star, "pixel_size", "1.5", "ctf_wait", "0", "ctf_missing", "without", NULL};
    struct stage_results results = run("s1", more);
    assert_int_equal(results.emitted_count, 2);
    const struct item *a = emitted(&results, "g/a b"), *c = emitted(&results, "g/c");
    assert_string_equal(item_string(a, "micrograph.path"), "raw/g/a b.mrc");
    assert_true(item_number(a, "micrograph.nx", 0) == 8 && item_number(a, "micrograph.ny", 0) == 6);
    assert_true(item_number(a, "columns.rlnDefocusU", 0) == 12000);
    assert_true(item_number(a, "optics.voltage", 0) == 200);
    assert_string_equal(item_string(a, "optics.group"), "mine");
    assert_false(item_has(c, "columns.rlnDefocusU"));
    assert_true(item_number(c, "optics.pixel_size", 0) == 1.5); /* the session's, although the header says 2 */
    int failed = 0;
    for (size_t i = 0; i < results.outcome_count; i++)
        if (results.outcomes[i].state == LEDGER_FAILED) {
            failed++;
            assert_string_equal(results.outcomes[i].id, "g/broken");
            assert_non_null(strstr(results.outcomes[i].reason, "broken.mrc"));
        }
    assert_int_equal(failed, 1);
    stage_results_clear(&results);

    struct star_file *file = NULL;
    scratch_path("s1/watcher/micrographs.star", star);
    assert_ok(star_read(star, &file, &err));
    struct star_table *table = star_table_find(file, "micrographs");
    assert_int_equal(star_row_count(table), 2);
    assert_true(star_column_find(table, "rlnDefocusU") >= 0);
    star_destroy(&file);
}

static void nothing_goes_twice_and_what_failed_may_go_later(void **state) {
    (void)state;
    watched_put("s2/raw/a.mrc", 8, 6, WATCHED_WHOLE);
    watched_put("s2/raw/b.mrc", 8, 6, 1030);
    struct stage_results results = run("s2", NULL);
    assert_int_equal(results.emitted_count, 1);
    assert_int_equal(results.outcome_count, 2);
    stage_results_clear(&results);
    results = run("s2", NULL);
    assert_int_equal(results.emitted_count, 0);
    assert_int_equal(results.outcome_count, 0);
    stage_results_clear(&results);
    watched_put("s2/raw/b.mrc", 8, 6, WATCHED_WHOLE);
    watched_put("s2/raw/c.mrc", 8, 6, WATCHED_WHOLE);
    watched_date("s2/raw/c.mrc", 1000);
    const char *sweeps_only[] = {"notices", "false", NULL};
    results = run("s2", sweeps_only);
    assert_int_equal(results.emitted_count, 2);
    assert_string_equal(item_id(results.emitted[0]), "c");
    assert_string_equal(item_id(results.emitted[1]), "b");
    stage_results_clear(&results);
    char path[PATH_SIZE];
    struct err err = {0};
    struct ledger *ledger = NULL;
    struct ledger_counts counts = {0};
    scratch_path("s2/l.sqlite", path);
    assert_ok(ledger_open(path, NULL, true, &ledger, &err));
    assert_ok(ledger_counts(ledger, &counts, &err));
    assert_int_equal(counts.done, 3);
    assert_int_equal(counts.failed, 0);
    ledger_close(&ledger);
}

static void rules_reject_by_ctf_column(void **state) {
    (void)state;
    watched_put("s3/raw/a.mrc", 8, 6, WATCHED_WHOLE);
    watched_put("s3/raw/b.mrc", 8, 6, WATCHED_WHOLE);
    watched_put_text("s3/ctf.star", "data_\nloop_\n_rlnMicrographName\n_rlnCtfFigureOfMerit\na.mrc 0.2\nb.mrc 0.03\n");
    char star[PATH_SIZE];
    scratch_path("s3/ctf.star", star);
    const char *more[] = {"ctf", star, "reject_if", "rlnCtfFigureOfMerit < 0.1", NULL};
    struct stage_results results = run("s3", more);
    assert_int_equal(results.emitted_count, 1);
    assert_int_equal(results.outcome_count, 2);
    stage_results_clear(&results);
}

/* At the first start a broken table is a wrong setting. Later micrographs wait for it, and go on without only where
 * something else tells their pixel size. */
static void a_broken_ctf_table_does_not_keep_a_session_from_going_on(void **state) {
    (void)state;
    static const char good[] = "data_optics\nloop_\n_rlnOpticsGroup\n_rlnMicrographPixelSize\n1 1.5\n\n"
                               "data_micrographs\nloop_\n_rlnMicrographName\n_rlnOpticsGroup\n_rlnDefocusU\n"
                               "a.mrc 1 12000\nb.mrc 1 13000\nc.mrc 1 14000\n";
    struct err err = {0};
    struct stage_results results = {0};
    char star[PATH_SIZE];
    scratch_path("s5/ctf.star", star);
    const char *alone[] = {"ctf", star, "ctf_wait", "0", "ctf_missing", "without", NULL};
    const char *with_size[] = {"ctf", star, "ctf_wait", "0", "ctf_missing", "without", "pixel_size", "1.5", NULL};
    watched_put("s5/raw/a.mrc", 8, 6, WATCHED_WHOLE);
    watched_put_text("s5/ctf.star", "data_optics\nloop_\n_rlnOpticsGr");
    assert_int_not_equal(try_run("s5", with_size, &results, &err), STATUS_OK);
    assert_non_null(strstr(err.message, "ctf.star"));
    watched_put_text("s5/ctf.star", good);
    results = run("s5", alone);
    assert_int_equal(results.emitted_count, 1);
    stage_results_clear(&results);
    watched_put("s5/raw/b.mrc", 8, 6, WATCHED_WHOLE);
    watched_put_text("s5/ctf.star", "data_optics\nloop_\n_rlnOpticsGr");
    results = run("s5", with_size);
    assert_int_equal(results.emitted_count, 1);
    assert_false(item_has(emitted(&results, "b"), "columns.rlnDefocusU"));
    stage_results_clear(&results);
    watched_put("s5/raw/c.mrc", 8, 6, WATCHED_WHOLE);
    assert_int_not_equal(try_run("s5", alone, &results, &err), STATUS_OK);
    assert_non_null(strstr(err.message, "1 micrographs wait for watcher.ctf"));
    watched_put_text("s5/ctf.star", good);
    results = run("s5", alone);
    assert_int_equal(results.emitted_count, 1);
    assert_true(item_number(emitted(&results, "c"), "columns.rlnDefocusU", 0) == 14000);
    assert_true(item_number(emitted(&results, "c"), "optics.pixel_size", 0) == 1.5);
    stage_results_clear(&results);
}

/* Counts the items that failed, each for want of its row. */
static int failed_for_row(const struct stage_results *results) {
    int failed = 0;
    for (size_t i = 0; i < results->outcome_count; i++)
        if (results->outcomes[i].state == LEDGER_FAILED) {
            failed++;
            assert_non_null(strstr(results->outcomes[i].reason, "ctf_wait"));
        }
    return failed;
}

/* A micrograph without a row fails, and goes on in a later run when the row has come. The table need not be there when
 * the session begins. */
static void a_micrograph_without_a_row_fails_until_the_row_comes(void **state) {
    (void)state;
    char star[PATH_SIZE];
    scratch_path("s6/ctf.star", star);
    const char *more[] = {"ctf", star, "ctf_wait", "0", "pixel_size", "1.5", NULL};
    watched_put("s6/raw/a.mrc", 8, 6, WATCHED_WHOLE);
    watched_put("s6/raw/b.mrc", 8, 6, WATCHED_WHOLE);
    struct stage_results results = run("s6", more);
    assert_int_equal(results.emitted_count, 0);
    assert_int_equal(failed_for_row(&results), 2);
    stage_results_clear(&results);
    watched_put_text("s6/ctf.star", "");
    results = run("s6", more);
    assert_int_equal(results.emitted_count, 0);
    stage_results_clear(&results);
    watched_put_text("s6/ctf.star", "data_\nloop_\n_rlnMicrographName\n_rlnDefocusU\nb.mrc 13000\n");
    results = run("s6", more);
    assert_int_equal(results.emitted_count, 1);
    assert_true(item_number(emitted(&results, "b"), "columns.rlnDefocusU", 0) == 13000);
    stage_results_clear(&results);
    watched_put_text("s6/ctf.star", "data_\nloop_\n_rlnMicrographName\n_rlnDefocusU\nb.mrc 13000\na.mrc 12000\n");
    results = run("s6", more);
    assert_int_equal(results.emitted_count, 1);
    assert_true(item_number(emitted(&results, "a"), "columns.rlnDefocusU", 0) == 12000);
    stage_results_clear(&results);
}

/* The first file decides as little as any other. */
static void unknown_pixel_size_fails_its_file_alone(void **state) {
    (void)state;
    struct err err = {0};
    struct stage_results results = {0};
    char root[PATH_SIZE], directory[PATH_SIZE];
    watched_put_sized("s4/raw/a.mrc", 8, 6, 0, WATCHED_WHOLE);
    watched_date("s4/raw/a.mrc", 1000);
    watched_put("s4/raw/b.mrc", 8, 6, WATCHED_WHOLE);
    scratch_path("s4", root);
    scratch_path("s4/raw", directory);
    const char *key_values[] = {"directory", directory, "until_idle", "0", NULL};
    assert_ok(stage_run_results(&watcher_stage, root, ":memory:", key_values, NULL, 0, &results, &err));
    assert_int_equal(results.emitted_count, 1);
    assert_string_equal(item_id(results.emitted[0]), "b");
    assert_int_equal(results.outcome_count, 2);
    assert_string_equal(results.outcomes[0].id, "a");
    assert_int_equal(results.outcomes[0].state, LEDGER_FAILED);
    assert_non_null(strstr(results.outcomes[0].reason, "session.pixel_size"));
    stage_results_clear(&results);
    watched_put_text("s4/graph.yaml", "x");
    key_values[1] = root;
    assert_int_equal(stage_run_results(&watcher_stage, root, ":memory:", key_values, NULL, 0, &results, &err),
                     STATUS_BAD_ARGUMENT);
}

static void the_system_tells_of_files_and_folders(void **state) {
    (void)state;
    struct err err = {0};
    struct notices *notices = NULL;
    char folder[PATH_SIZE], expected[PATH_SIZE], path[PATH_SIZE];
    watched_folder("told");
    scratch_path("told", folder);
    assert_ok(notices_open(&notices, &err));
    assert_int_equal(notices_next(notices, path, sizeof path), NOTICE_NONE);
    assert_ok(notices_add(notices, folder, &err));
    assert_ok(notices_add(notices, folder, &err));
    assert_int_equal(notices_next(notices, path, sizeof path), NOTICE_NONE);
    watched_put("told/a b.mrc", 8, 6, WATCHED_WHOLE);
    watched_rename("told/a b.mrc", "told/c\nd.mrc");
    watched_folder("told/sub");
    const char *const names[] = {"told/a b.mrc", "told/a b.mrc", "told/c\nd.mrc", "told/sub"};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(notices_next(notices, path, sizeof path), NOTICE_PATH);
        scratch_path(names[i], expected);
        assert_string_equal(path, expected);
    }
    assert_int_equal(notices_next(notices, path, sizeof path), NOTICE_NONE);
    scratch_path("told/missing", path);
    assert_int_equal(notices_add(notices, path, &err), STATUS_NOT_FOUND);
    /* A folder that was removed and created again is watched again. */
    scratch_path("told/sub", folder);
    assert_ok(notices_add(notices, folder, &err));
    scratch_shell("rmdir '%s'", folder);
    assert_int_equal(notices_next(notices, path, sizeof path), NOTICE_NONE);
    watched_folder("told/sub");
    assert_int_equal(notices_next(notices, path, sizeof path), NOTICE_PATH);
    assert_ok(notices_add(notices, folder, &err));
    watched_put("told/sub/e.mrc", 8, 6, WATCHED_WHOLE);
    assert_int_equal(notices_next(notices, path, sizeof path), NOTICE_PATH);
    notices_close(&notices);
    notices_close(&notices);
}

static const char ROW[] = "ATOM      1  CA  GLY A   1      11.104   6.134  -6.504  1.00  0.00           C\n";

/* Beside micrographs, structures go on without a pixel size and without CTF values. */
static void structures_go_on(void **state) {
    (void)state;
    char text[256];
    snprintf(text, sizeof text, "%sEND\n", ROW);
    watched_put_text("s7/raw/g/a.pdb", text);
    watched_put_text("s7/raw/b.CIF", "data_b\n");
    watched_put_text("s7/raw/c.pdb", "");
    snprintf(text, sizeof text, "%s%.30s", ROW, ROW);
    watched_put_text("s7/raw/d.pdb", text);
    watched_put("s7/raw/e.mrc", 8, 6, WATCHED_WHOLE);
    watched_put_text("s7/raw/notes.txt", "END\n");
    const char *more[] = {"pattern", "*.pdb,*.cif,*.mrc", "pixel_size", "1.5", NULL};
    struct stage_results results = run("s7", more);
    assert_int_equal(results.emitted_count, 3);
    const struct item *a = emitted(&results, "g/a");
    assert_string_equal(item_kind(a), "structure");
    assert_string_equal(item_string(a, "structure.path"), "raw/g/a.pdb");
    assert_false(item_has(a, "optics") || item_has(a, "micrograph"));
    assert_string_equal(item_kind(emitted(&results, "b")), "structure");
    assert_string_equal(item_kind(emitted(&results, "e")), "micrograph");
    int failed = 0;
    for (size_t i = 0; i < results.outcome_count; i++)
        failed +=
            results.outcomes[i].state == LEDGER_FAILED &&
            strstr(results.outcomes[i].reason,
                   results.outcomes[i].id[0] == 'c' ? "the file is empty" : "ends before the coordinates") != NULL;
    assert_int_equal(failed, 2);
    stage_results_clear(&results);
}

/* Returns the text of what the watcher left out. */
static char *left_out(const char *session) {
    char path[PATH_SIZE], *text = NULL;
    struct err err = {0};
    snprintf(path, sizeof path, "%s/watcher/left_out.json", session);
    char whole[PATH_SIZE];
    scratch_path(path, whole);
    assert_ok(file_read_whole(whole, 1 << 20, &text, NULL, &err));
    return text;
}

/* A run that took the picture, and a later one to which the micrograph has come: in whichever order they are looked
 * at. A third run, after a restart, does nothing again. */
static void a_picture_of_an_earlier_run_makes_way(void **state) {
    (void)state;
    static const char *const orders[] = {"oldest", "newest"};
    for (int i = 0; i < 2; i++) {
        char session[8], picture[64], micrograph[64], path[PATH_SIZE];
        snprintf(session, sizeof session, "p%d", i);
        snprintf(micrograph, sizeof micrograph, "%s/raw/F0.mrc", session);
        snprintf(picture, sizeof picture, "%s/raw/F0.png", session);
        const char *more[] = {"pixel_size", "1.5", "order", orders[i], NULL};
        watched_picture(picture);
        struct stage_results results = run(session, more);
        assert_int_equal(results.emitted_count, 1);
        assert_string_equal(item_string(results.emitted[0], "micrograph.path"), "raw/F0.png");
        stage_results_clear(&results);
        watched_put(micrograph, 8, 6, WATCHED_WHOLE);
        results = run(session, more);
        assert_int_equal(results.emitted_count, 1);
        assert_string_equal(item_id(results.emitted[0]), "F0");
        assert_string_equal(item_string(results.emitted[0], "micrograph.path"), "raw/F0.mrc");
        assert_true(item_revision(results.emitted[0]) > 0);
        stage_results_clear(&results);
        for (int again = 0; again < 2; again++) {
            results = run(session, more);
            assert_int_equal(results.emitted_count, 0);
            assert_int_equal(results.outcome_count, 0);
            stage_results_clear(&results);
            char *text = left_out(session);
            assert_non_null(strstr(text, "raw/F0.png"));
            assert_null(strstr(text, "raw/F0.mrc\""));
            free(text);
        }
        struct err err = {0};
        struct ledger *ledger = NULL;
        struct ledger_counts counts = {0};
        snprintf(picture, sizeof picture, "%s/l.sqlite", session);
        scratch_path(picture, path);
        assert_ok(ledger_open(path, NULL, true, &ledger, &err));
        assert_ok(ledger_counts(ledger, &counts, &err));
        assert_int_equal(counts.seen, 1);
        ledger_close(&ledger);
    }
}

/* The list keeps the latest of what it is told, and is not told twice of one thing. */
static void the_list_of_what_is_left_out_is_bounded(void **state) {
    (void)state;
    char path[PATH_SIZE], name[64], *text = NULL;
    struct err err = {0};
    struct left_out *list = NULL;
    json_t *rows;
    watched_folder("list");
    scratch_path("list/left_out.json", path);
    for (int run = 0; run < 2; run++) {
        assert_ok(left_out_open(path, &list, &err));
        for (int i = 0; i < LEFT_OUT_MAX + 10; i++) {
            snprintf(name, sizeof name, "/raw/%d\xff.jpg", i);
            assert_ok(left_out_add(list, name, "because", &err));
        }
        assert_ok(left_out_add(list, "/raw/900?.jpg", "because", &err));
        assert_ok(left_out_add(list, "/raw/900?.jpg", "another reason", &err));
        left_out_remove(list, "/raw/901?.jpg");
        left_out_remove(list, "/raw/none.jpg");
        assert_ok(left_out_write(list, &err));
        left_out_close(&list);
    }
    assert_ok(file_read_whole(path, 1 << 24, &text, NULL, &err));
    rows = json_loads(text, 0, NULL);
    free(text);
    assert_int_equal(json_array_size(rows), LEFT_OUT_MAX - 1);
    const json_t *last = json_array_get(rows, LEFT_OUT_MAX - 2);
    assert_string_equal(json_string_value(json_object_get(last, "path")), "/raw/900?.jpg");
    assert_string_equal(json_string_value(json_object_get(last, "reason")), "another reason");
    json_decref(rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_pattern_takes_micrographs_and_photographs),
        cmocka_unit_test(structures_go_on),
        cmocka_unit_test(items_carry_what_is_known),
        cmocka_unit_test(nothing_goes_twice_and_what_failed_may_go_later),
        cmocka_unit_test(rules_reject_by_ctf_column),
        cmocka_unit_test(a_broken_ctf_table_does_not_keep_a_session_from_going_on),
        cmocka_unit_test(a_micrograph_without_a_row_fails_until_the_row_comes),
        cmocka_unit_test(unknown_pixel_size_fails_its_file_alone),
        cmocka_unit_test(the_system_tells_of_files_and_folders),
        cmocka_unit_test(a_picture_of_an_earlier_run_makes_way),
        cmocka_unit_test(the_list_of_what_is_left_out_is_bounded),
    };
    return scratch_run("watcher-stage", tests, sizeof tests / sizeof *tests);
}
