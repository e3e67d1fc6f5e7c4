/* Tests a stage on files: items made from STAR files, images and folders; and the template stage on its command
 * line. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/formats/image.h"
#include "common/formats/mrc.h"
#include "common/harness/stage_private.h"
#include "tests/common/scratch.h"

static const struct stage_descriptor reader = {.name = "reader", .summary = "", .in = "micrograph", .out = ""};
static const struct stage_descriptor photographs = {
    .name = "photographs", .summary = "", .in = "micrograph", .out = "", .unscaled = true};
static const struct stage_descriptor picked = {.name = "picked", .summary = "", .in = "micrograph picks", .out = ""};
static const struct stage_descriptor joiner = {.name = "joiner", .summary = "", .in = "selection", .out = ""};

static void write_text(const char *name, const char *text) {
    char path[PATH_SIZE];
    struct err err = {0};
    scratch_path(name, path);
    assert_ok(file_make_parents(path, 0777, &err));
    assert_ok(file_write_whole(path, text, strlen(text), &err));
}

static void write_micrograph(const char *name, float brightness) {
    char path[PATH_SIZE];
    struct err err = {0};
    struct image image = {0};
    scratch_path(name, path);
    assert_ok(file_make_parents(path, 0777, &err));
    assert_ok(image_resize(&image, 8, 6, 1, &err));
    image.pixel_size = 1.25F;
    for (size_t i = 0; i < image_count(&image); i++)
        image.data[i] = brightness + (i % 2 == 0 ? 1.0F : -1.0F);
    assert_ok(mrc_write(path, &image, MRC_IMAGE, MRC_FLOAT32, &err));
    image_destroy(&image);
}

struct listed {
    struct stage *stage;
    struct item **items;
    size_t count;
};

/* input: names in the scratch folder, separated by commas. */
static enum status list(const struct stage_descriptor *descriptor, const char *input, const char *pixel_size,
                        struct listed *listed, struct err *err) {
    char full[4 * PATH_SIZE] = "", folder[PATH_SIZE], copy[512];
    snprintf(copy, sizeof copy, "%s", input);
    for (char *save = NULL, *name = strtok_r(copy, ",", &save); name; name = strtok_r(NULL, ",", &save)) {
        char path[PATH_SIZE];
        scratch_path(name, path);
        snprintf(full + strlen(full), sizeof full - strlen(full), "%s%s", full[0] != '\0' ? "," : "", path);
    }
    *listed = (struct listed){0};
    scratch_path("out/reader", folder);
    TRY(stage_create(descriptor, &listed->stage, err));
    TRY(stage_place(listed->stage, folder, err));
    if (pixel_size != NULL) TRY(stage_set(listed->stage, "pixel-size", pixel_size, "test", err));
    return stage_files_items(listed->stage, full, &listed->items, &listed->count, err);
}

static void clear(struct listed *listed) {
    stage_items_free(listed->items, listed->count);
    stage_destroy(&listed->stage);
}

static const char micrographs[] =
    "# version 30001\n\ndata_optics\n\nloop_\n_rlnOpticsGroupName #1\n_rlnOpticsGroup #2\n"
    "_rlnMicrographPixelSize #3\n_rlnVoltage #4\n_rlnSphericalAberration #5\n"
    "_rlnAmplitudeContrast #6\n"
    "first 1 1.5 200 1.4 0.07\nsecond 2 3.0 300 2.7 0.1\n\n"
    "data_micrographs\n\nloop_\n_rlnMicrographName #1\n_rlnOpticsGroup #2\n"
    "_rlnDefocusU #3\n_rlnCtfMaxResolution #4\n_rlnComment #5\n"
    "raw/a.mrc 2 15000.5 4.2 text\n./raw/sub/b.mrc 1 16000 nan 7x\n";

static void rows_of_micrographs_become_items(void **state) {
    (void)state;
    struct listed listed;
    struct err err = {0};
    write_micrograph("in/raw/a.mrc", 10);
    write_micrograph("in/raw/sub/b.mrc", 20);
    write_text("in/micrographs.star", micrographs);
    assert_ok(list(&reader, "in/micrographs.star", NULL, &listed, &err));
    assert_int_equal(listed.count, 2);
    const struct item *a = listed.items[0], *b = listed.items[1];
    assert_string_equal(item_id(a), "raw/a");
    assert_string_equal(item_id(b), "raw/sub/b");
    assert_string_equal(item_string(a, "optics.group"), "second");
    assert_true(item_number(a, "optics.pixel_size", 0) == 3.0 && item_number(a, "optics.voltage", 0) == 300);
    assert_true(item_number(b, "optics.pixel_size", 0) == 1.5 && item_number(b, "optics.voltage", 0) == 200);
    assert_true(item_number(b, "optics.amplitude_contrast", 0) == 0.07);
    assert_true(item_number(a, "columns.rlnDefocusU", 0) == 15000.5);
    assert_true(item_number(a, "micrograph.nx", 0) == 8 && item_number(a, "micrograph.ny", 0) == 6);
    assert_false(item_has(b, "columns.rlnCtfMaxResolution") || item_has(b, "columns.rlnComment"));
    assert_false(item_has(b, "columns.rlnOpticsGroup"));
    char absolute[PATH_SIZE], expected[PATH_SIZE];
    assert_ok(stage_resolve(listed.stage, item_string(a, "micrograph.path"), absolute, &err));
    scratch_path("in/raw/a.mrc", expected);
    assert_string_equal(absolute, expected);
    clear(&listed);
    /* A value from the command line replaces the value from the file. */
    assert_ok(list(&reader, "in/micrographs.star", "1.1", &listed, &err));
    assert_true(item_number(listed.items[0], "optics.pixel_size", 0) == 1.1);
    clear(&listed);
}

static void two_star_files_are_joined_by_micrograph(void **state) {
    (void)state;
    struct listed listed;
    struct err err = {0};
    write_micrograph("in/raw/a.mrc", 10);
    write_micrograph("in/raw/sub/b.mrc", 20);
    write_text("in/micrographs.star", micrographs);
    write_text("in/raw/a_pick.star", "data_\n");
    write_text("in/autopick.star", "data_coordinate_files\n\nloop_\n_rlnMicrographName #1\n"
                                   "_rlnMicrographCoordinates #2\nraw/a.mrc raw/a_pick.star\nraw/c.mrc raw/c.star\n");
    assert_ok(list(&reader, "in/micrographs.star,in/autopick.star", NULL, &listed, &err));
    assert_int_equal(listed.count, 3);
    assert_true(item_has(listed.items[0], "picks.star") && item_has(listed.items[0], "columns.rlnDefocusU"));
    assert_false(item_has(listed.items[1], "picks"));
    assert_string_equal(item_string(listed.items[2], "micrograph.path"), "raw/c.mrc");
    clear(&listed);
}

static void picks_of_micrographs_elsewhere_keep_their_names(void **state) {
    (void)state;
    struct listed listed;
    struct err err = {0};
    char text[2 * PATH_SIZE], micrograph[PATH_SIZE];
    write_micrograph("far/raw/a.mrc", 10);
    write_text("far/micrographs.star", "data_\n\nloop_\n_rlnMicrographName\n_rlnDefocusU\nraw/a.mrc 20000\n");
    write_text("out/picks/raw/a_autopick.star", "data_\n");
    scratch_path("far/raw/a.mrc", micrograph);
    snprintf(text, sizeof text,
             "data_coordinate_files\n\nloop_\n_rlnMicrographName #1\n_rlnMicrographCoordinates #2\n"
             "%s picks/raw/a_autopick.star\n",
             micrograph);
    write_text("out/picks/autopick.star", text);
    assert_ok(list(&picked, "out/picks,far/micrographs.star", NULL, &listed, &err));
    assert_int_equal(listed.count, 1);
    assert_string_equal(item_id(listed.items[0]), "raw/a");
    assert_true(item_has(listed.items[0], "picks.star") && item_has(listed.items[0], "columns.rlnDefocusU"));
    clear(&listed);
    assert_int_equal(list(&picked, "far", NULL, &listed, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.message, "there is no autopick.star in this folder"));
    clear(&listed);
}

static void particles_are_one_item(void **state) {
    (void)state;
    struct listed listed;
    struct err err = {0};
    write_text("in/particles.star", "data_particles\n\nloop_\n_rlnImageName #1\n_rlnMicrographName #2\n"
                                    "000001@a.mrcs a.mrc\n000002@a.mrcs a.mrc\n");
    assert_ok(list(&reader, "in/particles.star", NULL, &listed, &err));
    assert_int_equal(listed.count, 1);
    assert_string_equal(item_kind(listed.items[0]), "particles");
    assert_true(item_number(listed.items[0], "particles.count", 0) == 2);
    clear(&listed);
    assert_ok(list(&joiner, "in/particles.star", NULL, &listed, &err));
    assert_string_equal(item_kind(listed.items[0]), "selection");
    assert_true(item_has(listed.items[0], "selection.star"));
    clear(&listed);
}

static void old_star_files_hold_their_optics_in_the_rows(void **state) {
    (void)state;
    struct listed listed;
    struct err err = {0};
    write_text("old/micrographs.star", "data_\n\nloop_\n_rlnMicrographName\n_rlnVoltage\n_rlnDetectorPixelSize\n"
                                       "_rlnMagnification\nx/y/m.mrc 200 5 50000\n");
    assert_ok(list(&reader, "old/micrographs.star", NULL, &listed, &err));
    assert_string_equal(item_id(listed.items[0]), "x/y/m");
    assert_true(item_number(listed.items[0], "optics.pixel_size", 0) == 1.0);
    assert_true(item_number(listed.items[0], "optics.voltage", 0) == 200);
    assert_true(item_number(listed.items[0], "optics.spherical_aberration", 0) == 2.7);
    clear(&listed);
}

static void images_and_folders(void **state) {
    (void)state;
    struct listed listed;
    struct err err = {0};
    write_micrograph("folder/b.mrc", 1);
    write_micrograph("folder/a.mrc", 2);
    write_micrograph("folder/sub/c.mrc", 3);
    write_text("folder/readme.txt", "no image");
    write_text("folder/.hidden.mrc", "no image");
    assert_ok(list(&reader, "folder", NULL, &listed, &err));
    assert_int_equal(listed.count, 3);
    assert_string_equal(item_id(listed.items[0]), "a");
    assert_string_equal(item_id(listed.items[1]), "b");
    assert_string_equal(item_id(listed.items[2]), "sub/c");
    /* The pixel size of the header counts only if nothing else gives one. */
    assert_true(item_number(listed.items[0], "optics.pixel_size", 0) == 1.25);
    clear(&listed);
    assert_ok(list(&reader, "folder/sub/c.mrc", "2", &listed, &err));
    assert_string_equal(item_id(listed.items[0]), "c");
    assert_true(item_number(listed.items[0], "optics.pixel_size", 0) == 2);
    clear(&listed);
}

static void path_is(const struct stage_descriptor *descriptor, const char *input, const char *expected) {
    struct listed listed;
    struct err err = {0};
    assert_ok(list(descriptor, input, "1", &listed, &err));
    assert_int_equal(listed.count, 1);
    assert_non_null(strstr(item_string(listed.items[0], "micrograph.path"), expected));
    clear(&listed);
}

static void names_are_refused(const struct stage_descriptor *descriptor, const char *input, const char *says) {
    struct listed listed;
    struct err err = {0};
    assert_int_equal(list(descriptor, input, "1", &listed, &err), STATUS_BAD_ARGUMENT);
    if (strstr(err.message, says) == NULL) fail_msg("'%s' is not in: %s", says, err.message);
    clear(&listed);
}

/* Both images would write products of the same name, and the later would replace the earlier. */
static void images_that_differ_in_their_endings(void **state) {
    (void)state;
    write_micrograph("pair/a.mrc", 1);
    write_micrograph("pair/a.tif", 2);
    names_are_refused(&reader, "pair", "pair/a.tif would give files of the same name (a…)");
    write_micrograph("one/a.mrc", 1);
    write_micrograph("two/a.mrc", 2);
    names_are_refused(&reader, "one/a.mrc,two/a.mrc", "two/a.mrc would give files of the same name (a…)");
    path_is(&reader, "one/a.mrc,one/a.mrc", "one/a.mrc");
    /* A picture beside a micrograph is its preview, whichever comes first. For drops, pictures are the images
     * themselves. */
    write_micrograph("before/a.jpg", 1);
    write_micrograph("before/a.mrc", 1);
    write_micrograph("after/a.mrc", 1);
    write_micrograph("after/a.png", 1);
    path_is(&reader, "before", "before/a.mrc");
    path_is(&reader, "after", "after/a.mrc");
    names_are_refused(&photographs, "after", "after/a.png would give files of the same name (a…)");
    write_text("table/list.csv", "path\n../pair/a.mrc\n../pair/a.tif\n");
    names_are_refused(&photographs, "table/list.csv", "list.csv: line 3: ");
}

static void what_is_no_input_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *input, *message;
        enum status status;
    } bad[] = {
        {"nothing.star", "nothing.star: there is no such file or folder", STATUS_NOT_FOUND},
        {"other.star", "no table with micrographs", STATUS_BAD_FORMAT},
        {"empty", "there is no image in this folder", STATUS_NOT_FOUND},
    };
    write_text("other.star", "data_general\n\n_rlnFinalResolution 3.5\n");
    write_text("empty/readme.txt", "");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct listed listed;
        struct err err = {0};
        assert_int_equal(list(&reader, bad[i].input, NULL, &listed, &err), bad[i].status);
        assert_non_null(strstr(err.message, bad[i].message));
        assert_int_equal(listed.count, 0);
        clear(&listed);
    }
}

/* Runs the template as a user would, and compares its exit codes and products. */
static void the_template_stage_runs(void **state) {
    (void)state;
    const char *bin = getenv("ICESTREAM_BIN");
    char work[PATH_SIZE], path[PATH_SIZE];
    struct err err = {0};
    if (bin == NULL) {
        print_message("ICESTREAM_BIN is not set: skipped\n");
        skip();
    }
    write_micrograph("t/in/dark.mrc", 10);
    write_micrograph("t/in/bright.mrc", 100);
    scratch_path("t", work);
    assert_int_equal(
        scratch_shell("cd %s && %s/icestream-brightness --i in --o out --darkest 50 --threads 1 2>err", work, bin), 0);
    assert_int_equal(scratch_shell("grep -qx 'mean 100 deviation 1' %s/out/bright_brightness.txt", work), 0);
    assert_int_equal(scratch_shell("grep -qx 'icestream-brightness: 1 done, 1 rejected, 0 failed' %s/err", work), 0);
    scratch_path("t/out/dark_brightness.txt", path);
    assert_false(file_exists(path));
    write_text("t/in/broken.mrc", "not an image");
    assert_int_equal(scratch_shell("cd %s && %s/icestream-brightness --i in --o out 2>err", work, bin), 3);
    assert_int_equal(scratch_shell("grep -q 'WARN failed broken: .*broken.mrc' %s/err", work), 0);
    assert_int_equal(scratch_shell("cd %s && %s/icestream-brightness --i in --o out --reject-if 'brightnessMean > 50,"
                                   "brightnessDeviation > 5' --verbose 2>err",
                                   work, bin),
                     3);
    assert_int_equal(scratch_shell("grep -q 'INFO rejected bright: brightnessMean 100 > 50 (reject_if)' %s/err", work),
                     0);
    static const char *const usage[] = {"--i in",
                                        "--o out",
                                        "--i in --o out --darkets 3",
                                        "in out",
                                        "--i in --o",
                                        "--i in --o out --device tpu",
                                        "--i in --o out --lanes 99"};
    for (size_t i = 0; i < sizeof usage / sizeof *usage; i++)
        assert_int_equal(scratch_shell("cd %s && %s/icestream-brightness %s 2>err", work, bin, usage[i]), 2);
    assert_int_equal(scratch_shell("cd %s && %s/icestream-brightness --i gone --o out 2>err", work, bin), 2);
    assert_int_equal(scratch_shell("%s/icestream-brightness --help | grep -q -- '--darkest NUMBER'", bin), 0);
    assert_int_equal(scratch_shell("%s/icestream-brightness --describe > %s/describe.json", bin, work), 0);
    char *text = NULL;
    scratch_path("t/describe.json", path);
    assert_ok(file_read_whole(path, 1 << 20, &text, NULL, &err));
    json_t *described = json_loads(text, 0, NULL);
    free(text);
    assert_string_equal(json_string_value(json_object_get(described, "name")), "brightness");
    assert_string_equal(json_string_value(json_object_get(described, "in")), "micrograph");
    assert_true(json_array_size(json_object_get(described, "params")) == 1);
    assert_true(json_array_size(json_object_get(described, "common_params")) == 10);
    json_decref(described);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_micrographs_become_items),
        cmocka_unit_test(two_star_files_are_joined_by_micrograph),
        cmocka_unit_test(picks_of_micrographs_elsewhere_keep_their_names),
        cmocka_unit_test(particles_are_one_item),
        cmocka_unit_test(old_star_files_hold_their_optics_in_the_rows),
        cmocka_unit_test(images_and_folders),
        cmocka_unit_test(images_that_differ_in_their_endings),
        cmocka_unit_test(what_is_no_input_is_refused),
        cmocka_unit_test(the_template_stage_runs),
    };
    return scratch_run("stage-files", tests, sizeof tests / sizeof *tests);
}
