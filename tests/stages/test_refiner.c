/* The refiner as a stage: a small asymmetric object, projected here by sums over Gaussians (no code under test), comes
 * back from noisy images; its handedness and origins with it. Groups of particles that arrive, and that leave. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/files.h"
#include "common/star.h"
#include "kernels/fsc/fsc.h"
#include "stages/refiner/stage.h"
#include "tests/common/scratch.h"
#include "tests/stages/blobs.h"

enum { BLOBS = 14 };
static struct object object;

static struct item *particles_item(const char *name, const char *kind, const char *folder) {
    struct item *item = NULL;
    char member[32], path[PATH_SIZE + 64];
    snprintf(path, sizeof path, "%s/%s.star", folder, name);
    snprintf(member, sizeof member, "%s.star", kind);
    assert_int_equal(item_create(name, kind, &item, NULL), STATUS_OK);
    assert_int_equal(item_set_string(item, member, path, NULL), STATUS_OK);
    return item;
}

static void run(const char *folder, const char *reference, const char *iterations, struct item **items,
                size_t count) {
    const char *parameters[] = {"reference", reference, "diameter", "150", "initial_lowpass", "50", "healpix_order", "1",
                                "live_order", "1", "max_iterations", iterations, "offset_range", "3", NULL};
    struct item **out = NULL;
    size_t out_count = 0;
    struct err err = {0};
    if (stage_run_in_process(&refiner_stage, folder, parameters, items, count, &out, &out_count, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    for (size_t i = 0; i < out_count; i++)
        item_destroy(&out[i]);
    free(out);
    for (size_t i = 0; i < count; i++)
        item_destroy(&items[i]);
}

static void read_map(const char *folder, const char *name, float *map) {
    char path[PATH_SIZE];
    struct image image = {0};
    assert_int_equal(path_join(folder, name, path, sizeof path, NULL), STATUS_OK);
    assert_int_equal(mrc_read(path, &image, NULL), STATUS_OK);
    assert_int_equal(image.nx, BOX);
    assert_true(fabs(image.pixel_size - PIXEL) < 1e-3);
    memcpy(map, image.data, sizeof(float) * BOX * BOX * BOX);
    image_destroy(&image);
}

static size_t rows_of(const char *folder, const char *name) {
    char path[PATH_SIZE];
    struct star_file *file = NULL;
    assert_int_equal(path_join(folder, name, path, sizeof path, NULL), STATUS_OK);
    assert_int_equal(star_read(path, &file, NULL), STATUS_OK);
    struct star_table *t = star_table_find(file, "particles");
    assert_non_null(t);
    size_t rows = star_row_count(t);
    assert_true(star_column_find(t, "ownColumn") >= 0 && star_column_find(t, "rlnAngleTilt") >= 0);
    star_destroy(&file);
    return rows;
}

static void an_object_comes_back_from_its_images(void **state) {
    (void)state;
    char scratch[PATH_SIZE], folder[PATH_SIZE + 16], reference[PATH_SIZE];
    static float truth[BOX * BOX * BOX], map[BOX * BOX * BOX], half[BOX * BOX * BOX];
    float fsc[BOX / 2 + 1];
    scratch_path("object", scratch);
    snprintf(folder, sizeof folder, "%s/refiner", scratch);
    assert_int_equal(file_make_folders(folder, 0755, NULL), STATUS_OK);
    srand(5);
    make_object(&object, BLOBS);
    make_map(&object, truth, SIGMA);
    for (int i = 0; i < BOX * BOX * BOX; i++)
        map[i] = 37 * truth[i]; /* another grey scale */
    write_map(scratch, "reference.mrc", map, reference);
    write_particles(scratch, "a", &object, 1, 150, 1.0);
    write_particles(scratch, "b", &object, 1, 150, 1.0);
    struct item *items[2] = {particles_item("a", "particles", scratch), particles_item("b", "particles", scratch)};
    run(scratch, reference, "4", items, 2);
    assert_int_equal(rows_of(folder, "run_data.star"), 300);

    read_map(folder, "run_class001.mrc", map);
    assert_int_equal(fsc_maps(BOX, truth, map, fsc, NULL), STATUS_OK);
    for (int s = 1; s <= 6; s++) /* to 32 Å; a mirrored or shifted map fails from shell 3 on */
        if (!(fsc[s] > 0.8))
            fail_msg("FSC with the truth is %.3f in shell %d", (double)fsc[s], s);
    read_map(folder, "run_half1_class001_unfil.mrc", half);
    read_map(folder, "run_half2_class001_unfil.mrc", map);
    assert_int_equal(fsc_maps(BOX, half, map, fsc, NULL), STATUS_OK);
    assert_true(fsc_resolution(fsc, BOX, PIXEL, 0.143) < 32);

    /* A selection takes the place of what was there; the run goes on from the last iteration. */
    struct item *selection[1] = {particles_item("a", "selection", scratch)};
    run(scratch, reference, "1", selection, 1);
    assert_int_equal(rows_of(folder, "run_data.star"), 150);
}

static void noise_makes_no_map_that_is_believed(void **state) {
    (void)state;
    char scratch[PATH_SIZE], folder[PATH_SIZE + 16], reference[PATH_SIZE];
    static float map[BOX * BOX * BOX], half[BOX * BOX * BOX];
    float fsc[BOX / 2 + 1];
    scratch_path("noise", scratch);
    snprintf(folder, sizeof folder, "%s/refiner", scratch);
    assert_int_equal(file_make_folders(folder, 0755, NULL), STATUS_OK);
    srand(6);
    make_object(&object, BLOBS);
    make_map(&object, map, SIGMA);
    write_map(scratch, "reference.mrc", map, reference);
    write_particles(scratch, "noise", &object, 1, 120, 100.0);
    struct item *items[1] = {particles_item("noise", "particles", scratch)};
    run(scratch, reference, "2", items, 1);
    read_map(folder, "run_half1_class001_unfil.mrc", half);
    read_map(folder, "run_half2_class001_unfil.mrc", map);
    assert_int_equal(fsc_maps(BOX, half, map, fsc, NULL), STATUS_OK);
    /* Nothing beyond what both halves were given (50 Å, and the 40 Å that they share). */
    assert_true(fsc_resolution(fsc, BOX, PIXEL, 0.143) > 32);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_object_comes_back_from_its_images),
        cmocka_unit_test(noise_makes_no_map_that_is_believed),
    };
    return scratch_run("refiner", tests, sizeof tests / sizeof *tests);
}
