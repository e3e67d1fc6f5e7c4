/* Tests the readers of .tlt, .xf and .mdoc: the contents of good files, the messages for bad ones, and real files if
 * they are there. */
#include "tests/common/scratch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/mdoc.h"
#include "common/formats/tilts.h"

static enum status angles_of(const char *text, double **ret_angles, int *ret_count, struct err *err) {
    return tilts_parse_angles("t.tlt", text, strlen(text), ret_angles, ret_count, err);
}

static void refuse_angles(const char *text, const char *said) {
    double *angles = NULL;
    int count = -1;
    struct err err = {0};
    assert_int_equal(angles_of(text, &angles, &count, &err), STATUS_BAD_FORMAT);
    if (strstr(err.message, said) == NULL) fail_msg("'%s' is not said, but: %s", said, err.message);
    assert_null(angles);
    assert_int_equal(count, -1);
}

static void angles_are_read(void **state) {
    (void)state;
    static const double expected[] = {-60, -57.5, 0, 90, -90, 1e-3};
    double *angles;
    int count;
    struct err err;
    assert_ok(angles_of("-60.00\r\n\n  -57.5 0.0 \n0\n+90\n-90\n\t1e-3", &angles, &count, &err));
    assert_int_equal(count, 6);
    for (int i = 0; i < count; i++)
        assert_true(fabs(angles[i] - expected[i]) < 1e-12);
    free(angles);
}

static void bad_angles_are_refused(void **state) {
    (void)state;
    refuse_angles("", "there is no angle in it");
    refuse_angles("\n \n", "there is no angle in it");
    refuse_angles("1\n2\nnan\n", "line 3: the value 'nan' is not a finite number");
    refuse_angles("1\ninf\n", "line 2");
    refuse_angles("1\n\n90.5\n", "line 3: a tilt of 90.5° lies beyond ±90°");
    refuse_angles("-91\n", "-91°");
    refuse_angles("1\n2 degrees\n", "line 2: 'degrees' stands where an angle in degrees is expected");
    refuse_angles("\x01\x02", "line 1");
    refuse_angles("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n", "more than 16 numbers");
}

static void transforms_are_read(void **state) {
    (void)state;
    static const char text[] =
        "   0.1020875   0.9947760  -0.9947760   0.1020875       2.395      -3.871\n1 0 0 1 0 0\n";
    struct tilt_transform *transforms = NULL;
    int count = 0;
    struct err err;
    assert_ok(tilts_parse_transforms("t.xf", text, strlen(text), &transforms, &count, &err));
    assert_int_equal(count, 2);
    assert_true(fabs(transforms[0].a12 - 0.994776) < 1e-9 && fabs(transforms[0].a21 + 0.994776) < 1e-9);
    assert_true(fabs(transforms[0].dx - 2.395) < 1e-9 && fabs(transforms[0].dy + 3.871) < 1e-9);
    free(transforms);
    static const char *const bad[][2] = {{"1 0 0 1 0\n", "line 1 holds 5 numbers: six are expected"},
                                         {"1 0 0 1 0 0\n0 0 0 0 0 0\n", "line 2: the matrix 0 0 0 0"},
                                         {"1 2 2 4 0 0\n", "changes areas 0-fold"},
                                         {"1 0 0 1 1e9 0\n", "leads out of any image"},
                                         {"1 0 0 nan 0 0\n", "'nan' is not a finite number"},
                                         {"", "there is no transform"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        transforms = NULL;
        assert_int_equal(tilts_parse_transforms("t.xf", bad[i][0], strlen(bad[i][0]), &transforms, &count, &err),
                         STATUS_BAD_FORMAT);
        if (strstr(err.message, bad[i][1]) == NULL) fail_msg("'%s' is not said, but: %s", bad[i][1], err.message);
        assert_null(transforms);
    }
}

static void lists_of_views(void **state) {
    (void)state;
    static bool listed[TILTS_MAX + 1];
    int greatest;
    struct err err;
    assert_ok(tilts_parse_list("exclude", " 3, 7-9 ,12", listed, &greatest, &err));
    assert_int_equal(greatest, 12);
    for (int n = 0; n <= 13; n++)
        assert_int_equal(listed[n], n == 3 || (n >= 7 && n <= 9) || n == 12);
    assert_ok(tilts_parse_list("exclude", "", listed, &greatest, &err));
    assert_int_equal(greatest, 0);
    static const char *const bad[] = {"0", "3-", "9-7", "a", "1;2", "-3", "99999999", "3 4", "1.5"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(tilts_parse_list("exclude", bad[i], listed, &greatest, &err), STATUS_BAD_ARGUMENT);
        assert_non_null(strstr(err.message, bad[i]));
    }
}

static const char MDOC[] =
    "PixelSpacing = 5.4\r\nImageFile = TS_01.mrc\r\n\r\n[T = SerialEM: somewhere]\r\n"
    "[T =     Tilt axis angle = 85.3, binning = 4  spot = 8]\r\n\r\n"
    "[ZValue = 0]\r\nTiltAngle = 0.001\r\nSubFramePath = D:\\a\\TS_01_000_0.0.tif\r\n\r\n"
    "[ZValue = 1]\r\nTiltAngle = 3.001\r\nExposureDose = 2.5\r\nSubFramePath = D:\\a\\TS_01_001_3.0.tif\r\n\r\n"
    "[ZValue = 2]\r\nTiltAngle = 3.002\r\nSubFramePath = D:\\b\\TS_01_001_3.0.tif\r\n";

static void mdoc_is_read(void **state) {
    (void)state;
    struct mdoc mdoc;
    struct err err;
    assert_ok(mdoc_parse("t.mdoc", MDOC, strlen(MDOC), &mdoc, &err));
    assert_int_equal(mdoc.count, 3);
    assert_string_equal(mdoc.image_file, "TS_01.mrc");
    assert_true(fabs(mdoc.pixel_size - 5.4) < 1e-9 && fabs(mdoc.tilt_axis - 85.3) < 1e-9);
    assert_false(mdoc.montage || mdoc.frames);
    assert_true(fabs(mdoc.tilts[1].angle - 3.001) < 1e-9 && fabs(mdoc.tilts[1].dose - 2.5) < 1e-9);
    assert_true(isnan(mdoc.tilts[0].dose));
    assert_int_equal(mdoc_find(&mdoc, "/data/TS_01_000_0.0.tif"), 0);
    assert_int_equal(mdoc_find(&mdoc, "TS_01_000_0.0.mrc"), 0);
    assert_int_equal(mdoc_find(&mdoc, "TS_01_001_3.0.tif"), 2); /* this tilt was recorded again */
    assert_int_equal(mdoc_find(&mdoc, "TS_01_001_6.0.tif"), -1);
    assert_int_equal(mdoc_find(&mdoc, "TS_01_001_3"), -1);
    mdoc_clear(&mdoc);
    /* Each beginning of a file that is still growing. */
    for (size_t length = 0; length < strlen(MDOC); length++) {
        enum status status = mdoc_parse("t.mdoc", MDOC, length, &mdoc, &err);
        if (status == STATUS_OK) mdoc_clear(&mdoc);
    }
}

static struct mdoc two_takes(const char *first, const char *second) {
    char text[512];
    struct mdoc mdoc = {0};
    struct err err;
    int used = snprintf(text, sizeof text,
                        "a = 1\n[ZValue = 0]\nTiltAngle = 3\nDateTime = %s\nSubFramePath = D:\\a\\t.tif\n"
                        "[ZValue = 1]\nTiltAngle = 3\nDateTime = %s\nSubFramePath = D:\\b\\t.tif\n",
                        first, second);
    assert_true(used > 0 && used < (int)sizeof text);
    assert_ok(mdoc_parse("t.mdoc", text, strlen(text), &mdoc, &err));
    return mdoc;
}

/* A sorted file does not list its tilts in the order of recording. */
static void times_tell_which_is_later(void **state) {
    (void)state;
    static const struct {
        const char *first, *second;
        int later;
    } cases[] = {
        {"08-Oct-21  10:59:00", "08-Oct-21  10:03:59", 0},   {"08-Oct-21  10:03:59", "08-Oct-2021  10:59:00", 1},
        {"01-Jan-24  00:00:01", "31-Dec-2023  23:59:59", 0}, {"01-Mar-24  00:00:00", "29-Feb-24  23:00:00", 0},
        {"08-Oct-21  10:59:00", "08-Oct-21  10:59:00", 1},   {"08-Oct-21  10:59:00", "yesterday", 1},
        {"08-Okt-21  10:59:00", "08-Oct-21  10:03:59", 1},   {"", "08-Oct-21  10:03:59", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mdoc mdoc = two_takes(cases[i].first, cases[i].second);
        if (mdoc_find(&mdoc, "t.mrc") != cases[i].later)
            fail_msg("'%s', then '%s': %g s, %g s", cases[i].first, cases[i].second, mdoc.tilts[0].time,
                     mdoc.tilts[1].time);
        mdoc_clear(&mdoc);
    }
    struct mdoc mdoc = two_takes("08-Oct-21  07:39:08", "29-Feb-2024 23:59:60");
    /* The output of `date -u -d '2021-10-08 07:39:08' +%s`. */
    assert_true(fabs(mdoc.tilts[0].time - 1633678748) < 0.5 && fabs(mdoc.tilts[1].time - 1709251200) < 0.5);
    mdoc_clear(&mdoc);
    mdoc = two_takes("99-Oct-21  07:39:08", "08-Oct-21  25:39:08");
    assert_true(isnan(mdoc.tilts[0].time) && isnan(mdoc.tilts[1].time));
    mdoc_clear(&mdoc);
}

/* Programs that process images on the way change endings and points in names. */
static void points_in_names(void **state) {
    (void)state;
    static const char text[] = "a = 1\n[ZValue = 0]\nTiltAngle = -6\nSubFramePath = D:\\TS_01_003_-6.0.tif\n"
                               "[ZValue = 1]\nTiltAngle = 3\nSubFramePath = D:\\TS_01_004_3_5.tif\n"
                               "[ZValue = 2]\nTiltAngle = 4\nSubFramePath = D:\\TS_01_004_3.5.tif\n";
    struct mdoc mdoc;
    struct err err;
    assert_ok(mdoc_parse("t.mdoc", text, strlen(text), &mdoc, &err));
    assert_int_equal(mdoc_find(&mdoc, "/data/TS_01_003_-6_0.mrc"), 0);
    assert_int_equal(mdoc_find(&mdoc, "TS_01_003_-6.0.mrc"), 0);
    assert_int_equal(mdoc_find(&mdoc, "TS_01_003_-6_1.mrc"), -1);
    assert_int_equal(mdoc_find(&mdoc, "TS_01_003_-6-0.mrc"), -1);
    assert_int_equal(mdoc_find(&mdoc, "TS_01_004_3_5.mrc"), 1); /* the name with its points wins */
    assert_int_equal(mdoc_find(&mdoc, "TS_01_004_3.5.mrc"), 2);
    mdoc_clear(&mdoc);
}

/* The watcher and the reconstructor must give a series the same name, from whichever file they learn it. */
static void a_series_is_named_after_its_mdoc_or_its_stack(void **state) {
    (void)state;
    static const char *const same[] = {"a/TS_01",          "a/TS_01.mdoc",      "a/TS_01.mrc.mdoc", "a/TS_01.mrcs.mdoc",
                                       "a/TS_01.ali.mdoc", "a/TS_01.eer.mdoc",  "a/TS_01.st.MDOC",  "a/TS_01.st",
                                       "a/TS_01.ALI",      "a/TS_01.tiff.mdoc", "a/TS_01.mrcs"};
    static const char *const others[][2] = {{"TS_01.st.mrc.mdoc", "TS_01.st"}, /* only one ending is removed */
                                            {"TS_01_12.0.mdoc", "TS_01_12.0"},
                                            {"TS_01.rec", "TS_01.rec"},
                                            {".mdoc", ".mdoc"},
                                            {"TS_01.mdoc.mrc", "TS_01.mdoc"}};
    char name[PATH_SIZE];
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        mdoc_series_name(same[i], name, sizeof name);
        assert_string_equal(name, "a/TS_01");
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        mdoc_series_name(others[i][0], name, sizeof name);
        assert_string_equal(name, others[i][1]);
    }
    mdoc_series_name("a/TS_01.mdoc", name, 5);
    assert_string_equal(name, "a/TS");
}

static void whole_names_first(void **state) {
    (void)state;
    static const char text[] = "a = 1\n[ZValue = 0]\nTiltAngle = 0\nSubFramePath = C:\\t.mrc\n"
                               "[ZValue = 1]\nTiltAngle = 3\nSubFramePath = C:\\t.tif\n";
    struct mdoc mdoc;
    struct err err;
    assert_ok(mdoc_parse("t.mdoc", text, strlen(text), &mdoc, &err));
    assert_int_equal(mdoc_find(&mdoc, "t.mrc"), 0);
    assert_int_equal(mdoc_find(&mdoc, "t.tif"), 1);
    assert_int_equal(mdoc_find(&mdoc, "t.eer"), 1);
    mdoc_clear(&mdoc);
}

static void bad_mdocs_are_refused(void **state) {
    (void)state;
    static const char *const bad[][2] = {
        {"\x93NUMPY", "this is not an .mdoc"},
        {"a = 1\n[ZValue = 0]\nTiltAngle = 95\n", "line 3: a tilt of 95°"},
        {"a = 1\n[ZValue = 0]\nTiltAngle = nan\n", "TiltAngle = 'nan' is not a number"},
        {"a = 1\n[ZValue = -1]\n", "ZValue -1"},
        {"a = 1\n[ZValue = x]\n", "ZValue = 'x' is not a number"},
        {"a = 1\n[ZValue = 123456]\n", "ZValue 123456"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct mdoc mdoc = {.count = 7};
        struct err err = {0};
        assert_int_equal(mdoc_parse("t.mdoc", bad[i][0], strlen(bad[i][0]), &mdoc, &err), STATUS_BAD_FORMAT);
        if (strstr(err.message, bad[i][1]) == NULL) fail_msg("'%s' is not said, but: %s", bad[i][1], err.message);
        assert_int_equal(mdoc.count, 7);
    }
}

/* Number of sections, angle of the last one, tilt axis, and whether the .mdoc is of frames or of a montage. */
struct real {
    const char *path;
    int count;
    double last, axis;
    bool frames, montage;
};

static void real_mdocs(void **state) {
    (void)state;
    static const struct real files[] = {
        {"mdocfile/tests/test_data/tilt_series.mdoc", 41, 60.0001, 85.3, false, false},
        {"mdocfile/tests/test_data/frame_set_single.mdoc", 1, 32.984, NAN, true, false},
        {"mdocfile/tests/test_data/montage_section.mdoc", 62, -0.00654056, -86.7, false, true},
        {"tiltstack/tests/test_data/mdoc/TS_01.mrc.mdoc", 41, 60.0001, 85.3, false, false},
        {"cylindra/tests/dummy.mrc.mdoc", 3, 59.99, 177, false, false},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[PATH_SIZE];
        struct mdoc mdoc;
        struct err err;
        if (!scratch_data(files[i].path, path)) skip();
        assert_ok(mdoc_read(path, &mdoc, &err));
        if (mdoc.count != files[i].count || fabs(mdoc.tilts[mdoc.count - 1].angle - files[i].last) > 2 ||
            mdoc.frames != files[i].frames || mdoc.montage != files[i].montage ||
            (isnan(files[i].axis) ? !isnan(mdoc.tilt_axis) : fabs(mdoc.tilt_axis - files[i].axis) > 1e-9))
            fail_msg("%s: %d sections, last angle %g, axis %g, frames %d, montage %d", path, mdoc.count,
                     mdoc.tilts[mdoc.count - 1].angle, mdoc.tilt_axis, mdoc.frames, mdoc.montage);
        mdoc_clear(&mdoc);
    }
}

static void real_angles_and_transforms(void **state) {
    (void)state;
    static const char *const pairs[][3] = {
        {"etomofiles/test_data/TS_001/TS_001.tlt", "etomofiles/test_data/TS_001/TS_001.xf", "40"},
        {"cryoet_alignment/tests/data/convert/imod_1/tilt_1.tlt",
         "cryoet_alignment/tests/data/convert/imod_1/tilt_1.xf", "59"},
        {"cryoet_alignment/tests/data/test.rawtlt", "cryoet_alignment/tests/data/test.xf", "3"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char path[PATH_SIZE];
        double *angles;
        struct tilt_transform *transforms;
        int count;
        struct err err;
        if (!scratch_data(pairs[i][0], path)) skip();
        assert_ok(tilts_read_angles(path, &angles, &count, &err));
        assert_int_equal(count, atoi(pairs[i][2]));
        free(angles);
        assert_true(scratch_data(pairs[i][1], path));
        assert_ok(tilts_read_transforms(path, &transforms, &count, &err));
        assert_int_equal(count, atoi(pairs[i][2]));
        for (int t = 0; t < count; t++)
            assert_true(fabs(transforms[t].a11 * transforms[t].a22 - transforms[t].a12 * transforms[t].a21 - 1) < 0.1);
        free(transforms);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(angles_are_read),     cmocka_unit_test(bad_angles_are_refused),
        cmocka_unit_test(transforms_are_read), cmocka_unit_test(lists_of_views),
        cmocka_unit_test(mdoc_is_read),        cmocka_unit_test(a_series_is_named_after_its_mdoc_or_its_stack),
        cmocka_unit_test(whole_names_first),   cmocka_unit_test(times_tell_which_is_later),
        cmocka_unit_test(points_in_names),     cmocka_unit_test(bad_mdocs_are_refused),
        cmocka_unit_test(real_mdocs),          cmocka_unit_test(real_angles_and_transforms),
    };
    return scratch_run("tilts", tests, sizeof tests / sizeof *tests);
}
