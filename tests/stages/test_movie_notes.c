/* Tests what the watcher takes from the notes beside a movie: the XML of EPU and the .mdoc of SerialEM. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/formats/epu.h"
#include "common/formats/mrc.h"
#include "common/harness/stage_private.h"
#include "stages/watcher/movie_notes.h"
#include "stages/watcher/tilt_names.h"
#include "stages/watcher/watcher.h"
#include "tests/stages/watched.h"

enum { FRAMES = 4 };

/* The elements of EPU's file that are read, in its order and namespaces. */
static const char EPU_XML[] =
    "<MicroscopeImage xmlns=\"http://schemas.datacontract.org/2004/07/Fei.SharedObjects\" "
    "xmlns:i=\"http://www.w3.org/2001/XMLSchema-instance\"><CustomData "
    "xmlns:a=\"http://schemas.microsoft.com/2003/10/Serialization/Arrays\"><a:KeyValueOfstringanyType>"
    "<a:Key>DoseOnCamera</a:Key><a:Value i:type=\"b:double\">2777.1</a:Value></a:KeyValueOfstringanyType>"
    "<a:KeyValueOfstringanyType><a:Key>Dose</a:Key><a:Value i:type=\"b:double\" "
    "xmlns:b=\"http://www.w3.org/2001/XMLSchema\">4.2E+21</a:Value></a:KeyValueOfstringanyType></CustomData>"
    "<microscopeData><gun><AccelerationVoltage>200000</AccelerationVoltage></gun><optics><BeamShift "
    "xmlns:a=\"http://schemas.datacontract.org/2004/07/Fei.Types\"><a:_x>%g</a:_x><a:_y>%g</a:_y></BeamShift>"
    "<BeamTilt xmlns:a=\"http://schemas.datacontract.org/2004/07/Fei.Types\"><a:_x>9</a:_x><a:_y>9</a:_y></BeamTilt>"
    "</optics><stage><ATolerance>1</ATolerance><Position xmlns:a=\"http://schemas.datacontract.org/2004/07/Fei.Types\">"
    "<a:A>0.001</a:A><a:B>0</a:B><a:X>-0.00012345</a:X><a:Y>0.0002</a:Y><a:Z>1E-05</a:Z></Position></stage>"
    "</microscopeData><SpatialScale><pixelSize><x><numericValue>8.3E-11</numericValue>"
    "<unit xmlns:a=\"x\"><a:_x>m</a:_x></unit></x><y><numericValue>8.4E-11</numericValue></y></pixelSize>"
    "</SpatialScale></MicroscopeImage>\n";

static const char FRAMES_MDOC[] =
    "T = SerialEM: Krios  08-Oct-21  07:39:08\nVoltage = 300\n\n[FrameSet = 0]\n"
    "TiltAngle = 0.01\nPixelSpacing = 1.05\nExposureDose = %s\nFrameDosesAndNumber = 1.5 %d\n"
    "StagePosition = 12.5 -603.25\nMultishotHoleAndPosition = %s\nDateTime = 08-Oct-21  07:39:08\n";

static void put_movie(const char *name) {
    struct err err = {0};
    struct mrc_writer *writer = NULL;
    char path[PATH_SIZE];
    float frame[8 * 6];
    scratch_path(name, path);
    assert_ok(file_make_parents(path, 0700, &err));
    assert_ok(mrc_writer_create(path, 8, 6, 0, MRC_STACK, MRC_INT8, &writer, &err));
    for (int f = 0; f < FRAMES; f++) {
        for (int i = 0; i < 8 * 6; i++)
            frame[i] = (float)(1 + (f + i) % 5);
        assert_ok(mrc_writer_append(writer, frame, &err));
    }
    assert_ok(mrc_writer_finish(&writer, &err));
}

static void put_epu(const char *name, double x, double y) {
    char text[sizeof EPU_XML + 64];
    snprintf(text, sizeof text, EPU_XML, x, y);
    watched_put_text(name, text);
}

static void put_mdoc(const char *name, const char *dose, const char *shot) {
    char text[sizeof FRAMES_MDOC + 64];
    snprintf(text, sizeof text, FRAMES_MDOC, dose, FRAMES, shot);
    watched_put_text(name, text);
}

static bool near(double a, double b) {
    return fabs(a - b) <= 1e-9 * fabs(b);
}

static void epu_is_read(void **state) {
    (void)state;
    struct err err = {0};
    struct epu_image image;
    char text[sizeof EPU_XML + 64];
    size_t length = (size_t)snprintf(text, sizeof text, EPU_XML, -0.031, 0.012);
    assert_ok(epu_parse("a.xml", text, length, &image, &err));
    assert_true(near(image.pixel_size, 0.83) && near(image.voltage, 200) && near(image.dose, 42));
    assert_true(near(image.shift_x, -0.031) && near(image.shift_y, 0.012));
    assert_true(near(image.stage_x, -123.45) && near(image.stage_y, 200));
    /* Each beginning of the file is one that is still written. */
    const char *end = strstr(text, "</MicroscopeImage");
    for (size_t cut = 0; cut < (size_t)(end - text); cut++) {
        enum status status = epu_parse("a.xml", text, cut, &image, &err);
        if (status != STATUS_TRUNCATED) fail_msg("%zu bytes: %s", cut, status_name(status));
        assert_non_null(strstr(err.message, "a.xml"));
    }
    static const char other[] = "<html><body>no image</body></html>";
    assert_int_equal(epu_parse("b.xml", other, strlen(other), &image, &err), STATUS_BAD_FORMAT);
    static const char empty[] = "<MicroscopeImage><pixelSize/><BeamShift><_x>a</_x></BeamShift></MicroscopeImage>";
    assert_ok(epu_parse("c.xml", empty, strlen(empty), &image, &err));
    assert_true(isnan(image.pixel_size) && isnan(image.dose) && isnan(image.shift_x) && isnan(image.shift_y));
    assert_true(isnan(image.stage_x) && isnan(image.stage_y));
}

static void notes_lie_beside_movies(void **state) {
    (void)state;
    struct err err = {0}, problem = {0};
    struct movie_notes notes;
    bool found = true;
    char path[PATH_SIZE];
    put_epu("beside/FoilHole_1_Data_2.xml", 0.1, 0.2);
    put_mdoc("beside/b.tif.mdoc", "33", "2 5");
    put_mdoc("beside/c.mdoc", "0", "1 -2 0");
    watched_put_text("beside/series.mdoc", "[ZValue = 0]\nTiltAngle = 3\nExposureDose = 3\n");
    watched_put_text("beside/e.xml", "<MicroscopeImage><pix");
    const struct {
        const char *movie;
        bool found;
        double dose;
        const char *shot;
    } cases[] = {{"FoilHole_1_Data_2_Fractions.tiff", true, 42, ""},
                 {"FoilHole_1_Data_2_fractions.mrc", true, 42, ""},
                 {"FoilHole_1_Data_2_EER.eer", true, 42, ""},
                 {"FoilHole_1_Data_2.eer", true, 42, ""},
                 {"b.tif", true, 33, "2_5"},
                 {"c.mrcs", true, 1.5 * FRAMES, "1_-2_0"},
                 {"series.mrc", false, NAN, ""},
                 {"none.tif", false, NAN, ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[128];
        snprintf(name, sizeof name, "beside/%s", cases[i].movie);
        scratch_path(name, path);
        assert_ok(movie_notes_read(path, &notes, &found, &problem, &err));
        assert_int_equal(problem.status, STATUS_OK);
        if (found != cases[i].found || (found && !near(notes.dose, cases[i].dose)) ||
            strcmp(notes.shot, cases[i].shot) != 0)
            fail_msg("%s: found %d, dose %g, shot '%s'", cases[i].movie, found, notes.dose, notes.shot);
    }
    scratch_path("beside/e_EER.eer", path);
    assert_ok(movie_notes_read(path, &notes, &found, &problem, &err));
    assert_false(found);
    assert_int_equal(problem.status, STATUS_TRUNCATED);
}

static void shifts_make_groups(void **state) {
    (void)state;
    static struct shift_groups groups, again;
    assert_int_equal(shift_groups_find(&groups, 0.01, 0.10, 0.10), 1);
    assert_int_equal(shift_groups_find(&groups, 0.01, 0.14, 0.10), 2);
    assert_int_equal(shift_groups_find(&groups, 0.01, 0.105, 0.104), 1);
    assert_int_equal(shift_groups_find(&groups, 0.01, 0.137, 0.099), 2);
    assert_int_equal(shift_groups_find(&groups, 0.01, 0.12, 0.10), 3);
    shift_groups_restore(&again, 3, 0.12, 0.10);
    shift_groups_restore(&again, 0, 0, 0);
    shift_groups_restore(&again, SHIFT_GROUPS_MAX + 1, 0, 0);
    assert_int_equal(shift_groups_find(&again, 0.01, 0.121, 0.10), 3);
    assert_int_equal(shift_groups_find(&again, 0.01, 0.5, 0.5), 4);
    for (int i = 0; i < 2 * SHIFT_GROUPS_MAX; i++)
        assert_in_range(shift_groups_find(&again, 0.01, i, 7), 1, SHIFT_GROUPS_MAX);
    assert_in_range(shift_groups_find(&again, 0.01, 1.7e308, 1.7e308), 1, SHIFT_GROUPS_MAX);
}

/* ---- The stage ---- */

static struct stage_results run(const char *session, const char *const *more) {
    struct err err = {0};
    struct stage_results results = {0};
    char root[PATH_SIZE], ledger[PATH_SIZE + 16], directory[PATH_SIZE + 8];
    watched_folder(session);
    scratch_path(session, root);
    snprintf(ledger, sizeof ledger, "%s/l.sqlite", root);
    snprintf(directory, sizeof directory, "%s/raw", root);
    const char *key_values[32] = {"directory", directory, "until_idle", "0", "settle", "0", "movies", "true"};
    for (int i = 0; more != NULL && more[i] != NULL; i++)
        key_values[8 + i] = more[i];
    assert_ok(stage_run_results(&watcher_stage, root, ledger, key_values, NULL, 0, &results, &err));
    return results;
}

static const struct item *emitted(const struct stage_results *results, const char *id) {
    for (size_t i = 0; i < results->emitted_count; i++)
        if (strcmp(item_id(results->emitted[i]), id) == 0) return results->emitted[i];
    fail_msg("%s was not emitted", id);
    return NULL;
}

static void expect_group(const struct stage_results *results, const char *id, const char *group) {
    assert_string_equal(item_string(emitted(results, id), "optics.group"), group);
}

static void items_carry_the_notes(void **state) {
    (void)state;
    put_movie("s1/raw/a_Fractions.mrc");
    put_epu("s1/raw/a.xml", 0.1, 0.2);
    put_movie("s1/raw/b_Fractions.mrc");
    put_epu("s1/raw/b.xml", 0.15, 0.2);
    put_movie("s1/raw/s.mrc");
    put_mdoc("s1/raw/s.mrc.mdoc", "20", "2 5");
    put_movie("s1/raw/without.mrc");
    struct stage_results results = run("s1", (const char *[]){"order", "oldest", "pixel_size", "1.05", NULL});
    assert_int_equal(results.emitted_count, 4);
    const struct item *a = emitted(&results, "a_Fractions"), *s = emitted(&results, "s");
    assert_true(near(item_number(a, "movie.dose_per_frame", 0), 42.0 / FRAMES));
    assert_true(near(item_number(a, "optics.voltage", 0), 200) && near(item_number(a, "optics.pixel_size", 0), 1.05));
    assert_true(near(item_number(s, "movie.dose_per_frame", 0), 20.0 / FRAMES));
    expect_group(&results, "s", "beamShift_2_5");
    assert_true(near(item_number(a, "movie.stage_x", 0), -123.45) && near(item_number(a, "movie.stage_y", 0), 200));
    assert_true(near(item_number(s, "movie.stage_x", 0), 12.5) && near(item_number(s, "movie.stage_y", 0), -603.25));
    assert_false(item_has(emitted(&results, "without"), "movie.stage_x"));
    expect_group(&results, "without", "opticsGroup1");
    assert_false(item_has(emitted(&results, "without"), "movie.dose_per_frame"));
    char first[64];
    snprintf(first, sizeof first, "%s", item_string(a, "optics.group"));
    assert_string_not_equal(first, item_string(emitted(&results, "b_Fractions"), "optics.group"));
    stage_results_clear(&results);
    /* A session that goes on knows its groups, and names what is new after them. */
    put_movie("s1/raw/c_Fractions.mrc");
    put_epu("s1/raw/c.xml", 0.102, 0.199);
    put_movie("s1/raw/d_Fractions.mrc");
    put_epu("s1/raw/d.xml", 0.3, 0.3);
    results = run("s1", (const char *[]){"pixel_size", "1.05", NULL});
    assert_int_equal(results.emitted_count, 2);
    expect_group(&results, "c_Fractions", first);
    expect_group(&results, "d_Fractions", "beamShift003");
    stage_results_clear(&results);
}

static void the_notes_give_what_the_session_does_not(void **state) {
    (void)state;
    put_movie("s2/raw/a.mrc");
    put_epu("s2/raw/a.xml", 0.1, 0.2);
    struct stage_results results = run("s2", (const char *[]){"shift_radius", "0", NULL});
    assert_int_equal(results.emitted_count, 1);
    assert_true(near(item_number(emitted(&results, "a"), "optics.pixel_size", 0), 0.83));
    expect_group(&results, "a", "opticsGroup1");
    stage_results_clear(&results);
}

/* A tilt keeps the dose of the series before it, by the times of the .mdoc and not by its order. */
static void tilts_keep_their_dose(void **state) {
    (void)state;
    watched_put_text("s3/raw/TS.mdoc",
                     "PixelSpacing = 1.5\nVoltage = 300\n\n"
                     "[ZValue = 0]\nTiltAngle = -3\nExposureDose = 3.5\nSubFramePath = X:\\f\\t_-3.mrc\n"
                     "DateTime = 08-Oct-21  07:42:00\n\n"
                     "[ZValue = 1]\nTiltAngle = 0\nExposureDose = 3\nSubFramePath = X:\\f\\t_0.mrc\n"
                     "DateTime = 08-Oct-21  07:40:00\n\n"
                     "[ZValue = 2]\nTiltAngle = 3\nExposureDose = 3.25\nSubFramePath = X:\\f\\t_3.mrc\n"
                     "DateTime = 08-Oct-21  07:41:00\n");
    put_movie("s3/raw/t_-3.mrc");
    put_movie("s3/raw/t_0.mrc");
    put_movie("s3/raw/t_3.mrc");
    struct stage_results results = run("s3", (const char *[]){"series", "mdoc", NULL});
    assert_int_equal(results.emitted_count, 3);
    const struct {
        const char *id;
        double angle, dose, prior;
    } tilts[] = {{"t_0", 0, 3, 0}, {"t_3", 3, 3.25, 3}, {"t_-3", -3, 3.5, 6.25}};
    for (int i = 0; i < 3; i++) {
        const struct item *item = emitted(&results, tilts[i].id);
        assert_string_equal(item_kind(item), "movie");
        assert_string_equal(item_string(item, "tilt.series"), "TS");
        assert_true(item_number(item, "tilt.angle", NAN) == tilts[i].angle);
        assert_true(near(item_number(item, "movie.dose_per_frame", NAN), tilts[i].dose / FRAMES));
        assert_true(near(item_number(item, "movie.pre_exposure", NAN), tilts[i].prior));
    }
    stage_results_clear(&results);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(epu_is_read),           cmocka_unit_test(notes_lie_beside_movies),
        cmocka_unit_test(shifts_make_groups),    cmocka_unit_test(items_carry_the_notes),
        cmocka_unit_test(tilts_keep_their_dose), cmocka_unit_test(the_notes_give_what_the_session_does_not),
    };
    return scratch_run("movie-notes", tests, sizeof tests / sizeof *tests);
}
