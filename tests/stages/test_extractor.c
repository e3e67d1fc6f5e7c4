/* Tests the extractor as a stage, in process: what it passes on, leaves out, and refuses. */
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/files.h"
#include "common/formats/image_formats.h"
#include "common/formats/mrc.h"
#include "common/formats/star.h"
#include "common/harness/stage.h"
#include "stages/extractor/extractor.h"

enum { NX = 90, NY = 70 };

static char folder[PATH_MAX];

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        struct err err = {0};                                                                                          \
        if ((call) != STATUS_OK) fail_msg("%s:%d: %s", err.file, err.line, err.message);                               \
    } while (0)

static void place(const char *name, char *path) {
    snprintf(path, PATH_MAX, "%.200s/%s", folder, name);
}

static int make_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/test_extractor_XXXXXX");
    assert_non_null(mkdtemp(folder));
    struct image image = {0};
    char path[PATH_MAX];
    unsigned seed = 7;
    OK(image_resize(&image, NX, NY, 1, &err));
    image.pixel_size = 2;
    for (int i = 0; i < NX * NY; i++) {
        seed = seed * 1664525u + 1013904223u;
        image.data[i] = (float)(seed >> 8) / 16777216.0f;
    }
    place("mic.mrc", path);
    OK(mrc_write(path, &image, MRC_IMAGE, MRC_FLOAT32, &err));
    image_destroy(&image);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    char command[PATH_MAX + 16];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) == 0 ? 0 : -1;
}

static struct item *make_item(const char *id, const char *picks_text, double count) {
    struct item *item = NULL;
    char path[PATH_MAX], name[64];
    snprintf(name, sizeof name, "%s_pick.star", id);
    place(name, path);
    OK(file_write_whole(path, picks_text, strlen(picks_text), &err));
    OK(item_create(id, "micrograph", &item, &err));
    OK(item_set_string(item, "picks.star", path, &err));
    if (count >= 0) OK(item_set_number(item, "picks.count", count, &err));
    place("mic.mrc", path);
    OK(item_set_string(item, "micrograph.path", path, &err));
    OK(item_set_number(item, "optics.pixel_size", 2, &err));
    OK(item_set_number(item, "columns.rlnDefocusU", 12345, &err));
    return item;
}

static enum status run(struct item *item, const char *const *parameters, struct item ***ret_items, size_t *ret_count,
                       struct err *err) {
    return stage_run_in_process(&extractor_stage, folder, parameters, &item, 1, ret_items, ret_count, err);
}

static void clear(struct item **items, size_t count, struct item *item) {
    for (size_t i = 0; i < count; i++)
        item_destroy(&items[i]);
    free(items);
    item_destroy(&item);
}

#define HEAD "data_\n\nloop_\n_rlnCoordinateX #1\n_rlnCoordinateY #2\n_rlnAutopickFigureOfMerit #3\n_mine #4\n"

static void picks_become_particles(void **state) {
    (void)state;
    static const char *const parameters[] = {"box", "32", "downscale_to", "16", "minimum_pick_fom", "0.5", NULL};
    struct item *item =
        make_item("a", HEAD "30.5 20.2 0.9 x\n90 10 0.9 out\n40 40 0.5 low\n-0.5 69.9 0.7 \"two words\"\n\n", 4);
    struct item **items = NULL;
    size_t count = 0;
    OK(run(item, parameters, &items, &count, &err));
    assert_int_equal(count, 1);
    assert_true(item_number(items[0], "particles.count", -1) == 2);
    assert_true(item_number(items[0], "particles.box", -1) == 16);
    assert_true(item_number(items[0], "particles.pixel_size", -1) == 4);
    char path[PATH_MAX];
    struct mrc_header header;
    place("extractor/a.mrcs", path);
    OK(mrc_read_header(path, &header, &err));
    assert_int_equal(header.nz, 2);
    assert_int_equal(header.nx, 16);
    assert_true(fabsf(header.pixel_size - 4) < 1e-5f);
    place("extractor/a_extract.star", path);
    struct star_file *file = NULL;
    OK(star_read(path, &file, &err));
    struct star_table *t = star_table_find(file, "particles"), *optics = star_table_find(file, "optics");
    assert_non_null(t);
    assert_non_null(optics);
    assert_int_equal(star_row_count(t), 2);
    /* Unknown columns must survive, and so must those of the micrograph. */
    assert_string_equal(star_get(t, 1, star_column_find(t, "mine")), "two words");
    assert_non_null(strstr(star_get(t, 1, star_column_find(t, "rlnImageName")), "000002@extractor/a.mrcs"));
    double value;
    OK(star_get_number(t, 0, star_column_find(t, "rlnDefocusU"), &value, &err));
    assert_true(value == 12345);
    OK(star_get_number(t, 0, star_column_find(t, "rlnCoordinateX"), &value, &err));
    assert_true(value == 30.5); /* unchanged: only the window is truncated */
    OK(star_get_number(optics, 0, star_column_find(optics, "rlnImagePixelSize"), &value, &err));
    assert_true(value == 4);
    star_destroy(&file);
    place("extractor/particles.star", path);
    OK(star_read(path, &file, &err));
    assert_int_equal(star_row_count(star_table_find(file, "particles")), 2);
    star_destroy(&file);
    clear(items, count, item);
}

/* A corner of the micrograph is NaN. Particles that touch it are left out; the rest are extracted. */
static void broken_pixels_are_left_out(void **state) {
    (void)state;
    static const char *const parameters[] = {"box", "16", "downscale_to", "8", NULL};
    struct image image = {0};
    char path[PATH_MAX];
    place("mic.mrc", path);
    OK(image_read(path, &image, &err));
    image.data[20 * NX + 20] = NAN;
    image.data[20 * NX + 70] = INFINITY;
    place("broken.mrc", path);
    OK(mrc_write(path, &image, MRC_IMAGE, MRC_FLOAT32, &err));
    image_destroy(&image);
    struct item *item = make_item("h", HEAD "22 18 0.9 x\n45 40 0.8 whole\n68 22 0.7 x\n\n", 3);
    OK(item_set_string(item, "micrograph.path", path, &err));
    struct item **items = NULL;
    size_t count = 0;
    OK(run(item, parameters, &items, &count, &err));
    assert_int_equal(count, 1);
    assert_true(item_number(items[0], "particles.count", -1) == 1);
    place("extractor/h_extract.star", path);
    struct star_file *file = NULL;
    OK(star_read(path, &file, &err));
    struct star_table *table = star_table_find(file, "particles");
    assert_int_equal(star_row_count(table), 1);
    assert_string_equal(star_get(table, 0, star_column_find(table, "mine")), "whole");
    star_destroy(&file);
    place("extractor/h.mrcs", path);
    OK(image_read(path, &image, &err));
    assert_int_equal(image.nz, 1);
    for (size_t i = 0; i < image_count(&image); i++)
        assert_true(isfinite(image.data[i]));
    image_destroy(&image);
    clear(items, count, item);
}

static void no_picks_go_on_without_a_stack(void **state) {
    (void)state;
    static const char *const parameters[] = {"box", "32", NULL};
    static const struct {
        const char *id, *picks, *product;
        int count;
        bool optics;
    } cases[] = {{"b", HEAD "\n", "extractor/b.mrcs", 0, true},
                 {"c", "data_\n\n", "extractor/c.mrcs", -1, true},
                 {"d", HEAD "\n", "extractor/d.mrcs", 0, false}};
    for (int i = 0; i < 3; i++) {
        struct item *item = make_item(cases[i].id, cases[i].picks, cases[i].count);
        if (!cases[i].optics) json_object_del((json_t *)(uintptr_t)item_json(item), "optics");
        struct item **items = NULL;
        size_t count = 0;
        char path[PATH_MAX];
        OK(run(item, parameters, &items, &count, &err));
        assert_int_equal(count, 1);
        assert_true(item_number(items[0], "particles.count", -1) == 0);
        assert_false(item_has(items[0], "particles.stack"));
        place(cases[i].product, path);
        assert_false(file_exists(path));
        clear(items, count, item);
    }
}

/* Adoptions close together let a micrograph skip an epoch. What may still be read is that of the epoch before, which
 * need not be the number before. */
static void the_epoch_before_is_kept(void **state) {
    (void)state;
    static const char *const parameters[] = {"box", "32", NULL};
    static const int epochs[] = {0, 2, 7};
    static const char *const names[] = {"extractor/k.mrcs", "extractor/k_epoch002.mrcs", "extractor/k_epoch007.mrcs"};
    for (int i = 0; i < 3; i++) {
        struct item *item = make_item("k", HEAD "30.5 20.2 0.9 x\n\n", 1);
        struct item **items = NULL;
        size_t count = 0;
        char path[PATH_MAX];
        OK(item_set_number(item, "columns.icestreamPickEpoch", epochs[i], &err));
        OK(item_set_revision(item, i, &err));
        OK(run(item, parameters, &items, &count, &err));
        assert_int_equal(count, 1);
        for (int k = 0; k < 3; k++) {
            place(names[k], path);
            assert_int_equal(file_exists(path), k == i || k == i - 1);
        }
        clear(items, count, item);
    }
}

static void nonsense_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *parameters[5], *expected;
    } cases[] = {
        {{"box", "33", NULL}, "box is 33 px"},
        {{"box", "32", "downscale_to", "64", NULL}, "downscale_to is 64 px"},
        {{"box", "32", "background_radius", "17", NULL}, "background_radius is 17 px"},
    };
    struct item *item = make_item("d", HEAD "30 20 0.9 x\n\n", 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct item **items = NULL;
        size_t count = 0;
        struct err err = {0};
        assert_int_not_equal(run(item, cases[i].parameters, &items, &count, &err), STATUS_OK);
        assert_non_null(strstr(err.message, cases[i].expected));
    }
    item_destroy(&item);
}

/* The micrograph has 90 × 70 px. A box of 70 px fits, one of 72 px does not: the item fails, and nothing is written. */
static void a_box_larger_than_the_micrograph_fails_the_item(void **state) {
    (void)state;
    static const char *const fits[] = {"box", "70", NULL}, *const too_large[] = {"box", "72", NULL};
    for (int large = 0; large < 2; large++) {
        struct item *item = make_item(large ? "large" : "fits", HEAD "45 35 0.9 x\n\n", 1), **items = NULL;
        size_t count = 0;
        char path[PATH_MAX];
        OK(run(item, large ? too_large : fits, &items, &count, &err));
        assert_int_equal(count, large ? 0 : 1);
        place(large ? "extractor/large.mrcs" : "extractor/fits.mrcs", path);
        assert_true(file_exists(path) == !large);
        clear(items, count, item);
    }
}

/* Optics groups of one name with different values: each keeps its particles, under its own name. */
static void joined_tables_keep_every_particle(void **state) {
    (void)state;
    static const int voltages[] = {300, 200, 200, 300, 120};
    enum { FILES = sizeof voltages / sizeof *voltages };
    char paths[FILES][PATH_MAX], out[PATH_MAX], text[512];
    struct extractor_join *join = NULL;
    struct star_file *file = NULL;
    OK(extractor_join_create(&join, &err));
    for (int i = 0; i < FILES; i++) {
        snprintf(text, sizeof text, "%d_extract.star", i);
        place(text, paths[i]);
        snprintf(text, sizeof text,
                 "data_optics\n\nloop_\n_rlnOpticsGroup\n_rlnOpticsGroupName\n_rlnVoltage\n1 og %d\n\n"
                 "data_particles\n\nloop_\n_rlnImageName\n_rlnOpticsGroup\n1@%d.mrcs 1\n2@%d.mrcs 1\n\n",
                 voltages[i], i, i);
        OK(file_write_whole(paths[i], text, strlen(text), &err));
        OK(extractor_join_note(join, paths[i], &err));
    }
    place("particles.star", out);
    OK(extractor_join_begin(join, out, &err));
    for (int i = 0; i < FILES; i++)
        OK(extractor_join_rows(join, paths[i], &err));
    OK(extractor_join_commit(join, &err));
    extractor_join_destroy(&join);
    OK(star_read(out, &file, &err));
    struct star_table *optics = star_table_find(file, "optics"), *particles = star_table_find(file, "particles");
    assert_int_equal(star_row_count(optics), 3);
    assert_int_equal(star_row_count(particles), 2 * FILES);
    for (size_t i = 0; i < 2 * FILES; i++) {
        long group = 0, voltage = 0;
        OK(star_get_integer(particles, i, star_column_find(particles, "rlnOpticsGroup"), &group, &err));
        OK(star_get_integer(optics, (size_t)group - 1, star_column_find(optics, "rlnVoltage"), &voltage, &err));
        assert_int_equal(voltage, voltages[i / 2]);
    }
    star_destroy(&file);
}

#define LOCAL                                                                                                          \
    "data_local_ctf\n\nloop_\n_rlnCoordinateX\n_rlnCoordinateY\n_rlnDefocusU\n_rlnDefocusV\n_rlnDefocusAngle\n"

/* Runs micrograph `id` with these picks and this file of local defoci. Returns whether it went on. */
static bool run_local(const char *id, const char *text, const char *picks) {
    static const char *const parameters[] = {"box", "32", NULL};
    struct item *item = make_item(id, picks, -1), **items = NULL;
    size_t count = 0;
    char path[PATH_MAX];
    place("local.star", path);
    OK(file_write_whole(path, text, strlen(text), &err));
    OK(item_set_string(item, "ctf.local", path, &err));
    OK(item_set_number(item, "columns.rlnDefocusV", 11111, &err));
    OK(item_set_number(item, "columns.rlnDefocusAngle", 1, &err));
    OK(run(item, parameters, &items, &count, &err));
    bool done = count == 1;
    clear(items, count, item);
    return done;
}

static double cell_of(const char *id, size_t row, const char *column) {
    char path[PATH_MAX], name[64];
    struct star_file *file = NULL;
    double value;
    snprintf(name, sizeof name, "extractor/%s_extract.star", id);
    place(name, path);
    OK(star_read(path, &file, &err));
    const struct star_table *t = star_table_find(file, "particles");
    OK(star_get_number(t, row, star_column_find(t, column), &value, &err));
    star_destroy(&file);
    return value;
}

static void particles_get_the_defocus_of_their_place(void **state) {
    (void)state;
    static const char GRID[] = LOCAL "0 0 10000 9000 20\n45 0 11000 10000 20\n89 0 11000 10000 20\n"
                                     "0 69 20000 19000 30\n45 69 21000 20000 30\n89 69 21000 20000 30\n";
    assert_true(run_local("l", GRID, HEAD "22.5 17.25 0.9 x\n70 69 0.9 y\n\n"));
    assert_float_equal(cell_of("l", 0, "rlnDefocusU"), 10000 + 500 + 2500, 0.01);
    assert_float_equal(cell_of("l", 0, "rlnDefocusV"), 9000 + 500 + 2500, 0.01);
    assert_float_equal(cell_of("l", 0, "rlnDefocusAngle"), 20, 0.01);
    assert_float_equal(cell_of("l", 1, "rlnDefocusU"), 21000, 0.01);
    assert_float_equal(cell_of("l", 1, "rlnDefocusAngle"), 30, 0.01);
    /* Picks with a defocus of their own, as of refined particles, keep it. */
    assert_true(run_local("own", GRID,
                          "data_\n\nloop_\n_rlnCoordinateX\n_rlnCoordinateY\n_rlnDefocusU\n_rlnDefocusV\n"
                          "_rlnDefocusAngle\n22.5 17.25 777 666 5\n\n"));
    assert_float_equal(cell_of("own", 0, "rlnDefocusU"), 777, 0.01);
}

static void grids_that_are_none_are_refused(void **state) {
    (void)state;
    static const char *const bad[] = {LOCAL "0 0 1 1 0\n9 0 1 1 0\n0 9 1 1 0\n", /* a point is missing */
                                      LOCAL
                                      "0 0 1 1 0\n9 0 1 1 0\n0 9 1 1 0\n8 9 1 1 0\n", /* and here not in its column */
                                      LOCAL "9 0 1 1 0\n0 0 1 1 0\n9 9 1 1 0\n0 9 1 1 0\n", /* falling */
                                      LOCAL "0 0 nan 1 0\n",
                                      LOCAL,
                                      "data_\n\nloop_\n_rlnCoordinateX\n1\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(run_local("bad", bad[i], HEAD "22.5 17.25 0.9 x\n\n"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(picks_become_particles),
        cmocka_unit_test(particles_get_the_defocus_of_their_place),
        cmocka_unit_test(grids_that_are_none_are_refused),
        cmocka_unit_test(broken_pixels_are_left_out),
        cmocka_unit_test(no_picks_go_on_without_a_stack),
        cmocka_unit_test(the_epoch_before_is_kept),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(a_box_larger_than_the_micrograph_fails_the_item),
        cmocka_unit_test(joined_tables_keep_every_particle),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
