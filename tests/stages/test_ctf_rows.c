#include "common/harness/micrograph_table.h"
#include "stages/watcher/ctf_rows.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/formats/star.h"
#include "stages/watcher/record.h"
#include "tests/stages/watched.h"

static const char OPTICS[] = "data_optics\n\nloop_\n_rlnOpticsGroupName #1\n_rlnOpticsGroup #2\n"
                             "_rlnMicrographOriginalPixelSize #3\n_rlnMicrographPixelSize #4\n_rlnVoltage #5\n"
                             "_rlnSphericalAberration #6\n_rlnAmplitudeContrast #7\n"
                             "first 1 0.8 1.6 300 2.7 0.07\nsecond 2 1.1 1.1 200 1.4 0.1\n\n";
static const char MICROGRAPHS[] =
    "data_micrographs\n\nloop_\n_rlnMicrographName #1\n_rlnOpticsGroup #2\n_rlnDefocusU #3\n"
    "_rlnDefocusV #4\n_rlnDefocusAngle #5\n_rlnCtfImage #6\n_rlnCtfFigureOfMerit #7\n"
    "MotionCorr/job2/grid1/mic_1.mrc 1 15000 14500 30 mic_1.ctf:mrc 0.2\n"
    "MotionCorr/job2/grid2/mic_1.mrc 2 25000 24500 60 mic_1.ctf:mrc 0.03\n"
    "mic_2.mrc 1 11000 10000 10 x 0.1\n";

static struct ctf_rows *open_rows(const char *name, const char *text) {
    struct err err = {0};
    struct ctf_rows *rows = NULL;
    char path[PATH_SIZE];
    watched_put_text(name, text);
    scratch_path(name, path);
    assert_ok(ctf_rows_open(path, &rows, &err));
    return rows;
}

static struct ctf_rows *both(const char *name) {
    char text[4096];
    snprintf(text, sizeof text, "%s%s", OPTICS, MICROGRAPHS);
    return open_rows(name, text);
}

static long find(const struct ctf_rows *rows, const char *path) {
    bool several;
    return ctf_rows_find(rows, path, &several);
}

static void rows_match_by_path_else_by_name(void **state) {
    (void)state;
    struct ctf_rows *rows = both("match.star");
    bool several;
    assert_int_equal(ctf_rows_find(rows, "/data/grid1/mic_1.mrc", &several), 0);
    assert_int_equal(ctf_rows_find(rows, "/data/grid2/mic_1.tif", &several), 1);
    assert_false(several);
    assert_int_equal(ctf_rows_find(rows, "/data/grid3/mic_1.mrc", &several), -1);
    assert_true(several);
    assert_int_equal(ctf_rows_find(rows, "/data/grid3/mic_2.mrc", &several), 2);
    assert_int_equal(ctf_rows_find(rows, "/data/grid3/mic_22.mrc", &several), -1);
    assert_int_equal(ctf_rows_find(rows, "/data/grid3/xmic_2.mrc", &several), -1);
    assert_false(several);
    ctf_rows_close(&rows);
    ctf_rows_close(&rows);
}

static struct record_source source_of(const struct ctf_rows *rows, long row, const struct stage_session *session) {
    return (struct record_source){
        .path = "/session/raw/mic_1.mrc",
        .id = "mic_1",
        .root = "/session",
        .image = {.nx = 20, .ny = 10, .nz = 1, .pixel_size = 3},
        .session = session,
        .rows = rows,
        .row = row,
    };
}

/* One place has many names. */
static void parts_that_lead_nowhere_do_not_count(void **state) {
    (void)state;
    struct ctf_rows *rows =
        open_rows("plain.star", "data_\nloop_\n_rlnMicrographName\n_rlnDefocusU\n./raw//x/../g1/mic.mrc 1\n"
                                "../y/../g2/./mic.mrc 2\n");
    bool several;
    long first = ctf_rows_find(rows, "/data/raw/g1/mic.mrc", &several);
    assert_int_equal(first, 0);
    assert_true(ctf_rows_fits_whole(ctf_rows_fit(rows, first, "/data/raw/g1/mic.mrc")));
    assert_int_equal(ctf_rows_find(rows, "/data/raw/g2/mic.mrc", &several), 1);
    ctf_rows_close(&rows);
}

static void session_stands_before_optics_before_header(void **state) {
    (void)state;
    struct err err = {0};
    struct ctf_rows *rows = both("optics.star");
    struct item *item = NULL;
    struct stage_session session = {NAN, 120, NAN, NAN};
    struct record_source source = source_of(rows, 1, &session);
    assert_ok(record_make(&source, &item, &err));
    assert_string_equal(item_string(item, "micrograph.path"), "raw/mic_1.mrc");
    assert_string_equal(item_string(item, "optics.group"), "second");
    assert_true(item_number(item, "optics.pixel_size", 0) == 1.1);
    assert_true(item_number(item, "optics.voltage", 0) == 120);
    assert_true(item_number(item, "optics.spherical_aberration", 0) == 1.4);
    assert_true(item_number(item, "columns.rlnDefocusU", 0) == 25000);
    assert_true(item_number(item, "columns.rlnCtfFigureOfMerit", 0) == 0.03);
    assert_false(item_has(item, "columns.rlnCtfImage"));
    assert_false(item_has(item, "columns.rlnOpticsGroup"));
    item_destroy(&item);
    /* Without a CTF file the header and the usual values of microscopes count. */
    session.voltage = NAN;
    source = source_of(NULL, -1, &session);
    source.path = "/elsewhere/mic_1.mrc";
    assert_ok(record_make(&source, &item, &err));
    assert_string_equal(item_string(item, "micrograph.path"), "/elsewhere/mic_1.mrc");
    assert_true(item_number(item, "optics.pixel_size", 0) == 3);
    assert_true(item_number(item, "optics.original_pixel_size", 0) == 3);
    assert_true(item_number(item, "optics.voltage", 0) == 300);
    assert_true(item_number(item, "optics.amplitude_contrast", 0) == 0.1);
    item_destroy(&item);
    source.image.pixel_size = 0;
    assert_int_equal(record_make(&source, &item, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.message, "session.pixel_size"));
    ctf_rows_close(&rows);
}

static void older_files_carry_optics_in_each_row(void **state) {
    (void)state;
    struct ctf_rows *rows =
        open_rows("old.star", "data_\n\nloop_\n_rlnMicrographName #1\n_rlnDefocusU #2\n_rlnVoltage #3\n"
                              "_rlnMagnification #4\n_rlnDetectorPixelSize #5\n"
                              "Micrographs/a.mrc 12345.6 200 50000 7.0\n");
    struct ctf_optics optics;
    ctf_rows_optics(rows, find(rows, "/x/a.mrc"), &optics);
    assert_float_equal(optics.pixel_size, 1.4, 1e-9);
    assert_float_equal(optics.voltage, 200, 1e-9);
    assert_true(isnan(optics.amplitude_contrast));
    ctf_rows_close(&rows);
}

static void file_that_grows_is_read_again(void **state) {
    (void)state;
    struct err err = {0};
    struct ctf_rows *rows = open_rows("grows.star", "data_\nloop_\n_rlnMicrographName\n_rlnDefocusU\na.mrc 1\n");
    bool changed;
    watched_date("grows.star", 1000);
    assert_ok(ctf_rows_refresh(rows, &changed, &err));
    assert_true(changed);
    assert_ok(ctf_rows_refresh(rows, &changed, &err));
    assert_false(changed);
    assert_int_equal(find(rows, "b.mrc"), -1);
    /* A half-written file is reported once; the rows read before stay. */
    watched_put_text("grows.star", "data_\nloop_\n_rlnMicrographName\n_rlnDefocusU\na.mrc 1\nb.mrc");
    assert_int_not_equal(ctf_rows_refresh(rows, &changed, &err), STATUS_OK);
    assert_false(changed);
    assert_ok(ctf_rows_refresh(rows, &changed, &err));
    assert_int_equal(find(rows, "a.mrc"), 0);
    watched_put_text("grows.star", "data_\nloop_\n_rlnMicrographName\n_rlnDefocusU\na.mrc 1\nb.mrc 2\n");
    assert_ok(ctf_rows_refresh(rows, &changed, &err));
    assert_true(changed);
    assert_int_equal(find(rows, "b.mrc"), 1);
    ctf_rows_close(&rows);
    char path[PATH_SIZE];
    watched_put_text("nothing.star", "data_\nloop_\n_rlnDefocusU\n1\n");
    scratch_path("nothing.star", path);
    assert_int_equal(ctf_rows_open(path, &rows, &err), STATUS_BAD_FORMAT);
    scratch_path("missing.star", path);
    assert_int_equal(ctf_rows_open(path, &rows, &err), STATUS_NOT_FOUND);
}

/* Returns the item of a row with these values of DefocusU, V, angle and figure of merit. */
static struct item *item_of(const char *values, char broken[512], bool *ret_of_ctf) {
    struct err err = {0};
    struct item *item = NULL;
    char text[512];
    snprintf(text, sizeof text,
             "data_m\nloop_\n_rlnMicrographName\n_rlnCtfImage\n_rlnDefocusU\n_rlnDefocusV\n_rlnDefocusAngle\n"
             "_rlnCtfFigureOfMerit\n_note\na.mrc nan %s some\n",
             values);
    struct ctf_rows *rows = open_rows("cells.star", text);
    *ret_of_ctf = ctf_rows_broken(rows, 0, broken, 512);
    assert_ok(item_create("a", "micrograph", &item, &err));
    assert_ok(ctf_rows_columns(rows, 0, item, &err));
    ctf_rows_close(&rows);
    return item;
}

static void cells_that_are_no_numbers_are_no_values(void **state) {
    (void)state;
    static const char *const BAD[] = {"nan", "-nan", "inf", "-inf", "abc", "''", "1e999", "15000A", "1,5"};
    char broken[512], values[128];
    bool of_ctf;
    struct item *item = item_of("15000 14000 30 0.2", broken, &of_ctf);
    assert_string_equal(broken, "");
    assert_true(!of_ctf && item_number(item, "columns.rlnDefocusU", 0) == 15000);
    item_destroy(&item);
    for (size_t i = 0; i < 4 * sizeof BAD / sizeof *BAD; i++) {
        const char *cells[4] = {"15000", "14000", "30", "0.2"};
        cells[i % 4] = BAD[i / 4];
        snprintf(values, sizeof values, "%s %s %s %s", cells[0], cells[1], cells[2], cells[3]);
        item = item_of(values, broken, &of_ctf);
        assert_non_null(strstr(broken, "row 1 of data_m: rln"));
        assert_int_equal(of_ctf, i % 4 < 3);
        assert_int_equal(item_has(item, "columns.rlnDefocusU"), i % 4 == 3);
        assert_int_equal(item_has(item, "columns.rlnDefocusV"), i % 4 == 3);
        assert_int_equal(item_has(item, "columns.rlnCtfFigureOfMerit"), i % 4 != 3);
        assert_false(item_has(item, "columns.rlnCtfImage"));
        item_destroy(&item);
    }
    item = item_of("nan abc inf ''", broken, &of_ctf);
    assert_non_null(strstr(broken, "rlnDefocusU is \"nan\", row 1 of data_m: rlnDefocusV is \"abc\""));
    item_destroy(&item);
}

static void broken_optics_are_named(void **state) {
    (void)state;
    char broken[512];
    struct ctf_optics optics;
    struct ctf_rows *rows = open_rows("broken-optics.star", "data_optics\nloop_\n_rlnOpticsGroup\n_rlnVoltage\n"
                                                            "_rlnOpticsGroupName\n1 nan nan\n\ndata_micrographs\n"
                                                            "loop_\n_rlnMicrographName\na.mrc\n");
    ctf_rows_broken_optics(rows, broken, sizeof broken);
    assert_string_equal(broken, "row 1 of data_optics: rlnVoltage is \"nan\"");
    ctf_rows_optics(rows, 0, &optics);
    assert_true(isnan(optics.voltage));
    ctf_rows_close(&rows);
}

static double defocus_of(const struct ctf_rows *rows, const char *name) {
    struct err err = {0};
    struct item *item = NULL;
    long row = find(rows, name);
    if (row < 0) return 0;
    assert_ok(item_create("x", "micrograph", &item, &err));
    assert_ok(ctf_rows_columns(rows, row, item, &err));
    double defocus = item_number(item, "columns.rlnDefocusU", 0);
    item_destroy(&item);
    return defocus;
}

/* A file cut anywhere gives no value that the whole file does not give; the whole file is then read. */
static void half_a_file_is_waited_for(void **state) {
    (void)state;
    char whole[4096], part[4096], path[PATH_SIZE];
    size_t length = (size_t)snprintf(whole, sizeof whole, "%s%s", OPTICS,
                                     "data_micrographs\n\nloop_\n_rlnMicrographName #1\n_rlnOpticsGroup #2\n"
                                     "_rlnDefocusU #3\na.mrc 1 15000.5\nb.mrc 2 16000.5\n");
    int awaited = 0;
    scratch_path("half.star", path);
    for (size_t kept = 0; kept <= length; kept++) {
        struct ctf_rows *rows = NULL;
        struct err err = {0}, problem = {0};
        bool changed;
        snprintf(part, sizeof part, "%.*s", (int)kept, whole);
        watched_put_text("half.star", part);
        assert_ok(ctf_rows_await(path, &rows, &problem, &err));
        assert_int_equal(ctf_rows_are_read(rows), problem.status == STATUS_OK);
        awaited += !ctf_rows_are_read(rows);
        if (!ctf_rows_are_read(rows)) assert_non_null(strstr(problem.message, "half.star"));
        double a = defocus_of(rows, "/x/a.mrc"), b = defocus_of(rows, "/x/b.mrc");
        assert_true((a == 0 || a == 15000.5) && (b == 0 || b == 16000.5));
        if (kept < length) assert_true(b == 0);
        watched_put_text("half.star", whole);
        assert_ok(ctf_rows_refresh(rows, &changed, &err));
        assert_true(kept == length || changed);
        assert_true(defocus_of(rows, "/x/a.mrc") == 15000.5 && defocus_of(rows, "/x/b.mrc") == 16000.5);
        ctf_rows_close(&rows);
    }
    assert_true(awaited > 100);
    /* Some programs end their files without a line break. */
    struct ctf_rows *rows = NULL;
    struct err err = {0};
    snprintf(part, sizeof part, "%.*s", (int)length - 1, whole);
    watched_put_text("half.star", part);
    watched_date("half.star", 1000);
    assert_ok(ctf_rows_open(path, &rows, &err));
    assert_true(defocus_of(rows, "/x/b.mrc") == 16000.5);
    ctf_rows_close(&rows);
}

enum { ROUNDS = 400 };

static void table_of_micrographs_reads_back(void **state) {
    (void)state;
    struct err err = {0};
    struct ctf_rows *rows = both("table.star"), *again = NULL;
    struct micrograph_table *table = NULL;
    struct item *items[3] = {NULL};
    assert_ok(micrograph_table_create(&table, &err));
    for (long row = 0; row < 3; row++) {
        struct stage_session session = {NAN, NAN, NAN, NAN};
        struct record_source source = source_of(rows, row, &session);
        source.path = row == 0   ? "/session/raw/grid1/mic_1.mrc"
                      : row == 1 ? "/session/raw/grid2/mic_1.mrc"
                                 : "/m/mic_2.mrc";
        assert_ok(record_make(&source, &items[row], &err));
    }
    assert_ok(item_set_number(items[1], "columns.onlyHere", 7, &err));
    for (int i = 0; i < 3; i++)
        assert_ok(micrograph_table_note(table, items[i], &err));
    char path[PATH_SIZE];
    scratch_path("micrographs.star", path);
    assert_ok(micrograph_table_begin(table, path, &err));
    /* More rows than one piece of the table holds. */
    for (int i = 0; i < 3 * ROUNDS; i++)
        assert_ok(micrograph_table_add(table, items[i % 3], &err));
    assert_ok(micrograph_table_commit(table, &err));
    micrograph_table_destroy(&table);
    for (int i = 0; i < 3; i++)
        item_destroy(&items[i]);
    struct star_file *file = NULL;
    assert_ok(star_read(path, &file, &err));
    const struct star_table *written = star_table_find(file, "micrographs");
    assert_int_equal(star_row_count(written), 3 * ROUNDS);
    for (size_t i = 0; i < 3 * ROUNDS; i++) {
        const char *only = star_get(written, i, star_column_find(written, "onlyHere"));
        assert_string_equal(only, i % 3 == 1 ? "7.000000" : "nan");
    }
    star_destroy(&file);
    assert_ok(ctf_rows_open(path, &again, &err));
    long row = find(again, "/session/raw/grid2/mic_1.mrc");
    struct ctf_optics optics;
    ctf_rows_optics(again, row, &optics);
    assert_int_equal(row % 3, 1);
    assert_string_equal(optics.group, "second");
    assert_float_equal(optics.spherical_aberration, 1.4, 1e-6);
    ctf_rows_optics(again, 2, &optics);
    assert_string_equal(optics.group, "first");
    ctf_rows_close(&again);
    ctf_rows_close(&rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_match_by_path_else_by_name),
        cmocka_unit_test(parts_that_lead_nowhere_do_not_count),
        cmocka_unit_test(session_stands_before_optics_before_header),
        cmocka_unit_test(older_files_carry_optics_in_each_row),
        cmocka_unit_test(file_that_grows_is_read_again),
        cmocka_unit_test(half_a_file_is_waited_for),
        cmocka_unit_test(cells_that_are_no_numbers_are_no_values),
        cmocka_unit_test(broken_optics_are_named),
        cmocka_unit_test(table_of_micrographs_reads_back),
    };
    return scratch_run("ctf-rows", tests, sizeof tests / sizeof *tests);
}
