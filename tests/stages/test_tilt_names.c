/* Tests how an image finds its tilt series: by patterns of names, and by .mdoc files that appear and grow. */
#include "tests/common/scratch.h"

#include <math.h>
#include <string.h>

#include "stages/watcher/record.h"
#include "stages/watcher/tilt_names.h"

static void patterns(void **state) {
    (void)state;
    static const struct {
        const char *pattern, *name, *series;
        double angle;
        int number;
    } good[] = {
        {"{series}_{order}_{angle}_*.mrc", "TS_01_038_-57_0.mrc", "TS_01", -57, 38},
        {"{series}_{order}_{angle}.mrc", "TS_01_038_-57.5.mrc", "TS_01", -57.5, 38},
        {"{series}_{order}_{angle}.mrc", "a_1_2_003_+6.0.mrc", "a_1_2", 6, 3},
        {"{series}_{angle}_*.tif", "Position_1_001_0.00_20210806_143711_fractions.tif", "Position_1_001_0.00_20210806",
         143711, 0},
        {"{series}_{order}_{angle}_*_fractions.tif", "Position_1_001_0.00_20210806_143711_fractions.tif", "Position_1",
         0, 1},
        {"{series}[{angle}]-{order}.mrc", "lamella3[-12.00]-10.mrc", "lamella3", -12, 10},
    };
    static const char *const bad[][2] = {{"{series}_{order}_{angle}.mrc", "TS_01.mrc"},
                                         {"{series}_{order}_{angle}.mrc", "TS_01_003_-6.0.tif"},
                                         {"{series}_{angle}.mrc", "_3.mrc"},
                                         {"{series}_{order}_{angle}.mrc", ""}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct tilt_place place;
        bool found = tilt_pattern_match(good[i].pattern, good[i].name, &place);
        if (!found || strcmp(place.series, good[i].series) != 0 || fabs(place.angle - good[i].angle) > 1e-9 ||
            place.number != good[i].number)
            fail_msg("%s with %s: %d, series %s, angle %g, number %d", good[i].name, good[i].pattern, found,
                     found ? place.series : "", found ? place.angle : 0, found ? place.number : 0);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct tilt_place place;
        if (tilt_pattern_match(bad[i][0], bad[i][1], &place)) fail_msg("%s matches %s", bad[i][1], bad[i][0]);
    }
}

/* The search for a match ends even with dozens of stars, which could be tried for ever. */
static void unkind_patterns_end(void **state) {
    (void)state;
    char name[256], pattern[128] = "{series}";
    struct tilt_place place;
    memset(name, 'a', 250);
    name[250] = '\0';
    for (int i = 0; i < 40; i++)
        strcat(pattern, "*a");
    strcat(pattern, "{angle}");
    assert_false(tilt_pattern_match(pattern, name, &place));
}

static void patterns_are_checked(void **state) {
    (void)state;
    static const char *const bad[] = {"mdocs", "{series}.mrc", "{angle}.mrc", "{series}{series}_{angle}",
                                      "a/{series}_{angle}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct tilt_names *names = NULL;
        struct err err;
        assert_int_equal(tilt_names_create(bad[i], ".", true, &names, &err), STATUS_BAD_ARGUMENT);
        assert_non_null(strstr(err.message, bad[i]));
        assert_null(names);
    }
}

static void append(const char *name, const char *text) {
    char path[PATH_SIZE];
    scratch_path(name, path);
    FILE *file = fopen(path, "a");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    fclose(file);
}

static void mdocs_grow(void **state) {
    (void)state;
    char folder[PATH_SIZE];
    struct tilt_names *names = NULL;
    struct tilt_place place;
    struct err err, problem;
    bool changed;
    assert_int_equal(scratch_shell("mkdir -p '%s'", (scratch_path("in/sub", folder), folder)), 0);
    scratch_path("in", folder);
    assert_ok(tilt_names_create("mdoc", folder, true, &names, &err));
    assert_ok(tilt_names_refresh(names, &changed, &problem, &err));
    assert_false(changed);
    append("in/sub/TS.mrc.mdoc",
           "PixelSpacing = 2\n[T = Tilt axis angle = 80]\n[ZValue = 0]\nTiltAngle = 0\nSubFramePath = C:\\x\\t0.tif\n"
           "DateTime = 08-Oct-21  07:39:08\n");
    append("in/TS_t0.tif.mdoc", "PixelSpacing = 2\n[FrameSet = 0]\nTiltAngle = 9\nSubFramePath = C:\\x\\t0.tif\n");
    assert_ok(tilt_names_refresh(names, &changed, &problem, &err));
    assert_true(changed && problem.status == STATUS_OK);
    assert_true(tilt_names_find(names, "sub/t0.mrc", &place));
    assert_string_equal(place.series, "sub/TS");
    assert_true(place.number == 1 && fabs(place.angle) < 1e-9 && fabs(place.axis - 80) < 1e-9 &&
                fabs(place.pixel_size - 2) < 1e-9);
    assert_true(fabs(place.time - 1633678748) < 0.5);
    assert_false(tilt_names_find(names, "sub/t1.mrc", &place));
    append("in/t8.tif.mdoc", "PixelSpacing = 2\n[FrameSet = 0]\nTiltAngle = 9\nSubFramePath = C:\\x\\t8.tif\n");
    assert_ok(tilt_names_refresh(names, &changed, &problem, &err));
    assert_false(tilt_names_find(names, "t8.tif", &place)); /* an .mdoc of frames does not name a series */
    assert_ok(tilt_names_refresh(names, &changed, &problem, &err));
    assert_false(changed);
    append("in/sub/TS.mrc.mdoc", "[ZValue = 1]\nTiltAngle = -3\nSubFramePath = C:\\x\\t1.tif\n");
    assert_ok(tilt_names_refresh(names, &changed, &problem, &err));
    assert_true(changed && tilt_names_find(names, "sub/t1.mrc", &place));
    assert_true(place.number == 2 && fabs(place.angle + 3) < 1e-9);
    append("in/broken.mdoc", "\x01\x02\n");
    assert_ok(tilt_names_refresh(names, &changed, &problem, &err));
    assert_true(problem.status == STATUS_BAD_FORMAT && strstr(problem.message, "broken.mdoc") != NULL);
    assert_ok(tilt_names_refresh(names, &changed, &problem, &err));
    assert_int_equal(problem.status, STATUS_OK); /* reported once */
    tilt_names_destroy(&names);
}

/* An item carries the values that the .mdoc has for its tilt, and no others. The pixel size in the header wins. */
static void items_tell_of_their_tilts(void **state) {
    (void)state;
    const struct stage_session session = {
        .pixel_size = NAN, .voltage = NAN, .spherical_aberration = NAN, .amplitude_contrast = NAN};
    struct tilt_place place = {"TS", 3, 2, 1, 1633678748, 80, 10};
    struct record_source source = {.path = "/data/t1.mrc",
                                   .id = "t1",
                                   .root = "",
                                   .image = {IMAGE_MRC, 64, 64, 1, 20},
                                   .session = &session,
                                   .row = -1,
                                   .tilt = &place};
    struct item *item = NULL;
    struct err err;
    assert_ok(record_make(&source, &item, &err));
    assert_true(fabs(item_number(item, "tilt.time", NAN) - 1633678748) < 0.5);
    assert_true(fabs(item_number(item, "tilt.pixel_size", NAN) - 10) < 1e-9);
    assert_true(fabs(item_number(item, "optics.pixel_size", NAN) - 20) < 1e-9);
    item_destroy(&item);
    place.time = place.pixel_size = place.axis = NAN;
    assert_ok(record_make(&source, &item, &err));
    assert_false(item_has(item, "tilt.time") || item_has(item, "tilt.pixel_size") || item_has(item, "tilt.axis"));
    item_destroy(&item);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(patterns), cmocka_unit_test(unkind_patterns_end),
                                       cmocka_unit_test(patterns_are_checked), cmocka_unit_test(mdocs_grow),
                                       cmocka_unit_test(items_tell_of_their_tilts)};
    return scratch_run("tilt-names", tests, sizeof tests / sizeof *tests);
}
