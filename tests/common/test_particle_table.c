/* Tests tables of particles: the source of each value, and the tables that must be refused. Each rule that stages share
 * has one test. */
#include "common/formats/particle_table.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/files.h"
#include "common/formats/image.h"
#include "common/formats/mrc.h"
#include "tests/common/scratch.h"

static struct star_file *file;
static struct particle_table *table;
static struct err err;
static bool ignored; /* aberrations */

static int close_table(void **state) {
    (void)state;
    particle_table_close(&table);
    star_destroy(&file);
    err = (struct err){0};
    return 0;
}

static enum status open_text(const char *text, double session) {
    close_table(NULL);
    assert_int_equal(star_parse("p.star", text, strlen(text), &file, NULL), STATUS_OK);
    return particle_table_open(file, "p.star", session, ignored, &table, &err);
}

/* Opens a table whose rows are images of a stack with 4 Å/px in its header. */
static enum status open_rows(const char *optics, const char *columns, const char *rows) {
    char text[1024];
    const struct particle_stack_header header = {.box = 64, .images = 9, .pixel_size = 4};
    snprintf(text, sizeof text, "%sdata_particles\n\nloop_\n_rlnImageName\n%s%s\n\n", optics, columns, rows);
    enum status status = open_text(text, NAN);
    if (status == STATUS_OK) particle_table_note_stack(table, &header);
    return status;
}

static struct particle_row read_row(size_t row) {
    struct particle_row values = {0};
    if (particle_table_row(table, row, &values, &err) != STATUS_OK) fail_msg("%s", err.message);
    return values;
}

static void expect_refusal(enum status status, const char *expected) {
    assert_int_not_equal(status, STATUS_OK);
    if (strstr(err.message, expected) == NULL) fail_msg("'%s', not '%s'", err.message, expected);
}

static void expect_row_refused(size_t row, const char *expected) {
    struct particle_row values;
    expect_refusal(particle_table_row(table, row, &values, &err), expected);
}

#define OPTICS(columns, row) "data_optics\n\nloop_\n_rlnOpticsGroup\n" columns row "\n\n"

static void a_table_of_any_name_with_images_is_found(void **state) {
    (void)state;
    static const char *const NAMES[] = {"particles", "images", "", "run_data"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        char text[256];
        snprintf(text, sizeof text,
                 "data_micrographs\n\nloop_\n_rlnVoltage\n300\n\ndata_%s\n\nloop_\n_rlnImageName\n1@a\n\n", NAMES[i]);
        assert_int_equal(open_text(text, NAN), STATUS_OK);
        assert_string_equal(star_table_name(particle_table_rows(table)), NAMES[i]);
    }
    expect_refusal(open_text("data_a\n\nloop_\n_rlnVoltage\n300\n\n", NAN), "no table of particles");
    expect_refusal(open_text("data_particles\n\nloop_\n_rlnVoltage\n300\n\n", NAN), "no column rlnImageName");
}

static void optics_come_from_the_group_then_the_row_then_the_defaults(void **state) {
    (void)state;
    assert_int_equal(open_rows(OPTICS("_rlnVoltage\n_rlnImagePixelSize\n", "3 200 1.5\n4 100 1.5"),
                               "_rlnOpticsGroup\n_rlnVoltage\n_rlnSphericalAberration\n", "1@a 4 120 1.4\n2@a 3 120 2"),
                     STATUS_OK);
    struct particle_row first = read_row(0), second = read_row(1);
    assert_int_equal(first.group, 1);
    assert_int_equal(second.group, 0);
    assert_true(first.optics.voltage == 100 && second.optics.voltage == 200);
    assert_true(first.optics.spherical_aberration == 1.4 && second.optics.spherical_aberration == 2);
    assert_true(first.optics.amplitude_contrast == 0.1 && first.optics.pixel_size == 1.5);
    assert_true(particle_table_rows_have_optics(table));
}

static void a_missing_pixel_size_comes_from_magnification_session_or_header(void **state) {
    (void)state;
    const struct particle_stack_header header = {.box = 64, .images = 9, .pixel_size = 4};
    assert_int_equal(open_rows("", "_rlnMagnification\n_rlnDetectorPixelSize\n", "1@a 20000 5"), STATUS_OK);
    assert_true(fabs(read_row(0).optics.pixel_size - 2.5) < 1e-9);
    static const char PLAIN[] = "data_\n\nloop_\n_rlnImageName\n1@a\n\n";
    assert_int_equal(open_text(PLAIN, 3), STATUS_OK);
    particle_table_note_stack(table, &header);
    assert_true(read_row(0).optics.pixel_size == 3);
    assert_int_equal(open_text(PLAIN, NAN), STATUS_OK);
    particle_table_note_stack(table, &header);
    assert_true(read_row(0).optics.pixel_size == 4);
    assert_int_equal(open_text(PLAIN, NAN), STATUS_OK);
    expect_row_refused(0, "the pixel size is not known");
}

static void rows_may_have_pixel_sizes_of_their_own(void **state) {
    (void)state;
    assert_int_equal(open_rows("", "_rlnImagePixelSize\n", "1@a 1\n2@a 2.5"), STATUS_OK);
    assert_true(read_row(0).optics.pixel_size == 1 && read_row(1).optics.pixel_size == 2.5);
    expect_refusal(particle_check_pixel_size(0, "c", &err), "c: the pixel size is not known");
}

/* The group's values come before those of the row; "nan", "None" and an empty list state nothing. */
static void aberrations_come_from_the_group_then_the_row(void **state) {
    (void)state;
    char text[128];
    assert_int_equal(open_rows(OPTICS("_rlnBeamTiltX\n_rlnBeamTiltY\n_rlnMagMat01\n_rlnEvenZernike\n_rlnOddZernike\n",
                                      "1 6 -4 0.01 [0.5,0,-2] []\n2 nan None 0 None nan"),
                               "_rlnOpticsGroup\n_rlnBeamTiltX\n", "1@a 1 9\n2@a 2 9"),
                     STATUS_OK);
    const struct optics_aberrations first = *read_row(0).aberrations, second = *read_row(1).aberrations;
    assert_true(first.tilt[0] == 6 && first.tilt[1] == -4 && first.magnification[1] == 0.01);
    assert_true(first.magnification[0] == 1 && first.magnification[2] == 0 && first.magnification[3] == 1);
    assert_true(first.even_count == 3 && first.even[2] == -2 && first.odd_count == 0);
    assert_false(optics_aberrations_are_none(&first));
    assert_true(optics_aberrations_are_none(&second));
    assert_string_equal(optics_aberrations_name(&first, text, sizeof text),
                        "beam tilt 6, -4 mrad; magnification 1, 0.01; 0, 1; even Zernike");
    assert_int_equal(open_rows("", "_rlnBeamTiltY\n", "1@a 2\n2@a 3"), STATUS_OK);
    assert_true(read_row(0).aberrations->tilt[1] == 2);
    assert_true(read_row(1).aberrations->tilt[1] == 3);
    assert_true(particle_table_rows_have_optics(table));
    ignored = true;
    assert_int_equal(open_rows("", "_rlnBeamTiltY\n", "1@a 2\n"), STATUS_OK);
    assert_true(optics_aberrations_are_none(read_row(0).aberrations));
    ignored = false;
}

static void impossible_aberrations_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *column, *value, *expected;
    } BAD[] = {{"_rlnBeamTiltX\n", "much", "rlnBeamTiltX is \"much\"; a number is expected"},
               {"_rlnOddZernike\n", "[0,0,x]", "rlnOddZernike is \"[0,0,x]\"; coefficients in brackets"},
               {"_rlnMagMat00\n", "-1", "is impossible for a microscope"},
               {"_rlnEvenZernike\n", "[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1]", "more than 25"}};
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        char optics[256];
        snprintf(optics, sizeof optics, "data_optics\n\nloop_\n_rlnOpticsGroup\n%s1 %s\n\n", BAD[i].column,
                 BAD[i].value);
        expect_refusal(open_rows(optics, "", "1@a"), BAD[i].expected);
    }
}

static void what_is_no_number_is_refused(void **state) {
    (void)state;
    assert_int_equal(open_rows("", "_rlnDefocusU\n", "1@a 1e4\n2@a many"), STATUS_OK);
    read_row(0);
    expect_row_refused(1, "row 2: rlnDefocusU is \"many\"; a number is expected");
    expect_refusal(open_rows(OPTICS("_rlnVoltage\n", "1 high"), "", "1@a"), "rlnVoltage is \"high\"");
    expect_refusal(open_rows(OPTICS("_rlnVoltage\n", "1 nan"), "", "1@a"), "rlnVoltage is NaN");
    expect_refusal(open_rows("data_optics\n\nloop_\n_rlnVoltage\n300\n\n", "", "1@a"), "no column rlnOpticsGroup");
}

static void a_group_must_be_in_the_optics_table(void **state) {
    (void)state;
    assert_int_equal(open_rows(OPTICS("_rlnVoltage\n", "1 200"), "_rlnOpticsGroup\n", "1@a 7"), STATUS_OK);
    expect_row_refused(0, "row 1 is of optics group 7");
    assert_int_equal(open_rows(OPTICS("_rlnVoltage\n", "5 200"), "", "1@a"), STATUS_OK);
    assert_true(read_row(0).optics.voltage == 200);
    char own[32];
    assert_string_equal(particle_table_group_name(table, 0, own), "opticsGroup5");
}

static void premultiplied_particles_are_refused(void **state) {
    (void)state;
    static const char IN_GROUP[] = OPTICS("_rlnCtfDataAreCtfPremultiplied\n", "1 1\n2 0");
    assert_int_equal(open_rows(IN_GROUP, "_rlnOpticsGroup\n", "1@a 2\n2@a 1"), STATUS_OK);
    read_row(0); /* a group that no row names is ignored */
    expect_row_refused(1, "multiplied by their CTF");
    assert_int_equal(open_rows("", "_rlnCtfDataAreCtfPremultiplied\n", "1@a 1"), STATUS_OK);
    expect_row_refused(0, "multiplied by their CTF");
}

static void images_are_numbered_from_one(void **state) {
    (void)state;
    static const char *const BAD[] = {"a.mrcs", "0@a.mrcs", "-1@a.mrcs", "1@", "one@a.mrcs", "1.5@a.mrcs"};
    struct particle_image image;
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        assert_int_equal(open_rows("", "", BAD[i]), STATUS_OK);
        expect_refusal(particle_table_image(table, 0, &image, &err), "row 1: rlnImageName is");
    }
    assert_int_equal(open_rows("", "", "000012@b/a.mrcs"), STATUS_OK);
    assert_int_equal(particle_table_image(table, 0, &image, &err), STATUS_OK);
    assert_int_equal(image.number, 12);
    assert_string_equal(image.stack, "b/a.mrcs");
    assert_int_equal(particle_table_check_image(table, 0, &image, "/b/a.mrcs", 12, &err), STATUS_OK);
    expect_refusal(particle_table_check_image(table, 0, &image, "/b/a.mrcs", 11, &err), "image 12 was asked for");
}

static void a_defocus_of_zero_is_no_ctf(void **state) {
    (void)state;
    assert_int_equal(open_rows("", "_rlnDefocusU\n_rlnDefocusV\n", "1@a 0 0\n2@a 1e4 0"), STATUS_OK);
    assert_false(read_row(0).has_ctf);
    assert_true(read_row(1).has_ctf);
    assert_int_equal(open_rows("", "", "1@a"), STATUS_OK);
    assert_false(read_row(0).has_ctf);
}

static void a_broken_number_is_no_ctf(void **state) {
    (void)state;
    assert_int_equal(open_rows("", "_rlnDefocusU\n_rlnDefocusV\n_rlnPhaseShift\n",
                               "1@a nan nan 0\n2@a 1e4 nan 0\n3@a 1e4 1e4 nan\n4@a 1e4 1e4 0\n5@a 1e4 inf 0"),
                     STATUS_OK);
    for (size_t row = 0; row < 3; row++) {
        const struct particle_row values = read_row(row);
        assert_true(!values.has_ctf && values.defocus_u == 0 && values.defocus_v == 0 && values.phase_shift == 0);
    }
    assert_true(read_row(3).has_ctf);
    expect_row_refused(4, "row 5: rlnDefocusV is \"inf\"");
}

static void a_scale_of_zero_is_none(void **state) {
    (void)state;
    assert_int_equal(open_rows("", "_rlnDefocusU\n_rlnCtfScalefactor\n", "1@a 1e4 0\n2@a 1e4 0.5"), STATUS_OK);
    assert_true(read_row(0).scale == 1 && read_row(1).scale == 0.5);
    assert_true(read_row(0).defocus_v == 1e4);
}

static void boxes_are_even_and_from_16_to_2048_px(void **state) {
    (void)state;
    static const int BAD[] = {14, 17, 2050};
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++)
        expect_refusal(particle_check_box(BAD[i], "a", &err), "the box must be even, at least 16 px");
    assert_int_equal(particle_check_box(16, "a", &err), STATUS_OK);
    assert_int_equal(particle_check_box(2048, "b", &err), STATUS_OK);
}

static void particle_images_are_square(void **state) {
    (void)state;
    char folder[PATH_SIZE], path[PATH_SIZE];
    struct particle_stack_header header;
    struct image image = {0};
    scratch_path("square", folder);
    assert_int_equal(file_make_folders(folder, 0755, NULL), STATUS_OK);
    assert_int_equal(path_join(folder, "a.mrcs", path, sizeof path, NULL), STATUS_OK);
    for (int height = 20; height <= 22; height += 2) {
        assert_int_equal(image_resize(&image, 20, height, 3, NULL), STATUS_OK);
        image.pixel_size = 2;
        assert_int_equal(mrc_write(path, &image, MRC_STACK, MRC_FLOAT32, NULL), STATUS_OK);
        enum status status = particle_stack_read(path, &header, &err);
        if (height != 20) expect_refusal(status, "must be square");
    }
    image_destroy(&image);
    assert_true(header.box == 20 && header.images == 3 && header.pixel_size == 2);
}

static void put_file(const char *folder, const char *name, char path[PATH_SIZE]) {
    assert_int_equal(path_join(folder, name, path, PATH_SIZE, NULL), STATUS_OK);
    assert_int_equal(file_make_parents(path, 0755, NULL), STATUS_OK);
    assert_int_equal(file_write_whole(path, "", 0, NULL), STATUS_OK);
}

/* A stack beside its table is used, even if the session has another stack of the same common name (particles.mrcs). */
static void a_stack_is_looked_for_beside_the_table_then_below_the_root(void **state) {
    (void)state;
    char root[PATH_SIZE], star[PATH_SIZE], both[PATH_SIZE], beside[PATH_SIZE], below[PATH_SIZE], found[PATH_SIZE];
    scratch_path("root", root);
    put_file(root, "import/p.star", star);
    put_file(root, "both.mrcs", both);
    put_file(root, "import/both.mrcs", beside);
    put_file(root, "extractor/below.mrcs", below);
    assert_true(particle_stack_find(root, star, "both.mrcs", found));
    assert_string_equal(found, beside);
    assert_true(particle_stack_find(root, star, "extractor/below.mrcs", found));
    assert_string_equal(found, below);
    assert_true(particle_stack_find(root, star, both, found));
    assert_string_equal(found, both);
    assert_false(particle_stack_find(root, star, "nowhere.mrcs", found));
    assert_false(particle_stack_find(NULL, star, "extractor/below.mrcs", found));
}

#define TEST(name) cmocka_unit_test_teardown(name, close_table)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_table_of_any_name_with_images_is_found),
        TEST(optics_come_from_the_group_then_the_row_then_the_defaults),
        TEST(a_missing_pixel_size_comes_from_magnification_session_or_header),
        TEST(rows_may_have_pixel_sizes_of_their_own),
        TEST(aberrations_come_from_the_group_then_the_row),
        TEST(impossible_aberrations_are_refused),
        TEST(what_is_no_number_is_refused),
        TEST(a_group_must_be_in_the_optics_table),
        TEST(premultiplied_particles_are_refused),
        TEST(images_are_numbered_from_one),
        TEST(a_defocus_of_zero_is_no_ctf),
        TEST(a_broken_number_is_no_ctf),
        TEST(a_scale_of_zero_is_none),
        TEST(a_stack_is_looked_for_beside_the_table_then_below_the_root),
        TEST(boxes_are_even_and_from_16_to_2048_px),
        TEST(particle_images_are_square),
    };
    return scratch_run("particle_table", tests, sizeof tests / sizeof *tests);
}
