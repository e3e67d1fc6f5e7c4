/* Tests the first map of a refinement without a reference: particles of an object give its map, up to rotation and hand,
 * and a refinement of it, and images of noise among them are marked; images of noise give none, and are not tried again
 * until there are more; parts of the particles do not divide micrographs, whatever the order in which they come. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "common/formats/star.h"
#include "kernels/fsc/fsc.h"
#include "kernels/map_align/map_align.h"
#include "stages/refiner/initial/images.h"
#include "stages/refiner/initial/initial.h"
#include "tests/common/scratch.h"
#include "tests/stages/blobs.h"
#include "tests/stages/refiner_runs.h"

enum { BLOBS = 12, KINDS = 5, VOXELS = BOX * BOX * BOX };
#define DIAMETER 126.0 /* Å */

static char *decision_of(const char *folder) {
    char path[PATH_SIZE + 64], *text = NULL;
    size_t length;
    snprintf(path, sizeof path, "%s/refiner/initial_model.json", folder);
    assert_int_equal(file_read_whole(path, 1 << 16, &text, &length, NULL), STATUS_OK);
    return text;
}

static bool has(const char *folder, const char *name) {
    char path[PATH_SIZE + 64];
    snprintf(path, sizeof path, "%s/refiner/%s", folder, name);
    return file_exists(path);
}

static void run_without_reference(const char *folder) {
    const char *parameters[] = {"diameter", "126", "max_iterations", "2", "healpix_order", "1", "offset_range",
                                "3",        NULL};
    struct item *items[] = {particles_item("a", "particles", folder)};
    run_refiner(folder, parameters, items, 1);
}

/* Returns the resolution (Å) at which a map of the run falls below 0.5 against the truth, turned onto it. */
static double against(const float *truth, const char *folder, const char *name) {
    char path[PATH_SIZE + 64];
    static float turned[VOXELS];
    float fsc[BOX / 2 + 1];
    struct image image = {0};
    struct map_aligner *aligner = NULL;
    struct map_alignment found;
    const struct map_align_options options = {.box = BOX,
                                              .pixel_size = PIXEL,
                                              .diameter = DIAMETER,
                                              .coarsest = DIAMETER / 2,
                                              .finest = 20,
                                              .hands = true,
                                              .threads = 2};
    snprintf(path, sizeof path, "%s/refiner/%s", folder, name);
    assert_int_equal(mrc_read(path, &image, NULL), STATUS_OK);
    assert_int_equal(image.nx, BOX);
    assert_int_equal(map_align_create(&options, &aligner, NULL), STATUS_OK);
    assert_int_equal(map_align_find(aligner, truth, image.data, &found, NULL), STATUS_OK);
    assert_int_equal(map_align_apply(aligner, &found, image.data, turned, NULL), STATUS_OK);
    map_align_destroy(&aligner);
    image_destroy(&image);
    assert_int_equal(fsc_maps(NULL, BOX, truth, turned, fsc, NULL), STATUS_OK);
    double resolution = fsc_resolution(fsc, BOX, PIXEL, 0.5);
    print_message("%s: %.1f A, score %.3f, %s\n", name, resolution, found.score,
                  found.inverted ? "inverted" : "same hand");
    return resolution;
}

/* Checks the marks of particles in the final table: every fifth image is noise. */
static void noise_is_marked(const char *folder) {
    char path[PATH_SIZE + 64];
    struct star_file *file = NULL;
    int marked[2] = {0}, counts[2] = {0};
    snprintf(path, sizeof path, "%s/refiner/run_data.star", folder);
    assert_int_equal(star_read(path, &file, NULL), STATUS_OK);
    const struct star_table *t = star_table_find(file, "particles");
    const int junk = star_column_find(t, "icestreamJunk"), name = star_column_find(t, "rlnImageName");
    assert_true(junk >= 0);
    for (size_t row = 0; row < star_row_count(t); row++) {
        const bool noise = atoi(star_get(t, row, name)) % KINDS == 0;
        counts[noise]++;
        marked[noise] += strcmp(star_get(t, row, junk), "1") == 0;
    }
    star_destroy(&file);
    print_message("marked: %d of %d images of noise, %d of %d of the object\n", marked[1], counts[1], marked[0],
                  counts[0]);
    assert_int_equal(counts[0] + counts[1], 600);
    assert_true(marked[1] > 9 * counts[1] / 10);
    assert_true(marked[0] < counts[0] / 20);
}

static void finds_the_object(void **state) {
    (void)state;
    char folder[PATH_SIZE];
    static float truth[VOXELS];
    struct object objects[KINDS] = {{0}}; /* the last one has nothing */
    srand(20261128);
    scratch_path("initial", folder);
    assert_int_equal(file_make_folders(folder, 0755, NULL), STATUS_OK);
    make_object(&objects[0], BLOBS);
    make_map(&objects[0], truth, SIGMA);
    for (int i = 1; i < KINDS - 1; i++)
        objects[i] = objects[0];
    write_particles(folder, "a", objects, KINDS, 600, 0.7);
    run_without_reference(folder);
    char *text = decision_of(folder);
    print_message("%s", text);
    assert_non_null(strstr(text, "\"accepted\": true"));
    assert_non_null(strstr(text, "\"failed\": null"));
    free(text);
    assert_true(has(folder, "initial_model.png"));
    assert_true(against(truth, folder, "initial_model.mrc") < 30);
    assert_true(against(truth, folder, "run_class001.mrc") < 26);
    noise_is_marked(folder);
}

static void refuses_noise(void **state) {
    (void)state;
    char folder[PATH_SIZE], path[PATH_SIZE + 64];
    struct object nothing = {0};
    struct stat first, second;
    srand(20261128);
    scratch_path("initial_noise", folder);
    assert_int_equal(file_make_folders(folder, 0755, NULL), STATUS_OK);
    write_particles(folder, "a", &nothing, 1, 200, 1);
    run_without_reference(folder);
    char *text = decision_of(folder);
    print_message("%s", text);
    assert_non_null(strstr(text, "\"accepted\": false"));
    assert_non_null(strstr(text, "\"failed\": \"agreement\""));
    free(text);
    assert_false(has(folder, "initial_model.mrc"));
    assert_false(has(folder, "run_class001.mrc"));
    snprintf(path, sizeof path, "%s/refiner/initial_model.json", folder);
    assert_int_equal(stat(path, &first), 0);
    run_without_reference(folder);
    assert_int_equal(stat(path, &second), 0);
    assert_true(first.st_ino == second.st_ino); /* it is not written anew */
}

static void attempts_are_due_at_doublings(void **state) {
    (void)state;
    assert_false(initial_is_due(999, 0, 1));
    assert_true(initial_is_due(1000, 0, 1));
    assert_false(initial_is_due(1999, 1000, 1));
    assert_true(initial_is_due(2000, 1000, 1));
    assert_false(initial_is_due(299, 0, 24));
    assert_true(initial_is_due(300, 0, 24));
    assert_true(initial_is_due(500, 0, 2));
    assert_false(initial_is_due(499, 0, 2));
}

static void shells_of_few_values_do_not_tell(void **state) {
    (void)state;
    assert_int_equal(initial_first_shell(1), 1);
    assert_int_equal(initial_first_shell(4), 2);
    assert_int_equal(initial_first_shell(24), 4);
    assert_int_equal(initial_first_shell(60), 7);
}

/* A map of 40 px of 4 Å: shells 2 to 8 lie between 80 and 20 Å. */
static void shells_that_tell_nothing_do_not_make_the_least(void **state) {
    (void)state;
    const struct initial_decision decision = {.box = 40, .pixel_size = 4, .diameter = 80, .wanted = 20};
    float fsc[21];
    double mean, least;
    for (int i = 0; i < 21; i++)
        fsc[i] = i == 3 ? -0.6f : i <= 8 ? 0.9f : -1.0f;
    initial_summarise(&decision, 1, fsc, &mean, &least);
    assert_float_equal(least, -0.6, 1e-6);
    assert_float_equal(mean, (6 * 0.9 - 0.6) / 7, 1e-6);
    initial_summarise(&decision, 24, fsc, &mean, &least);
    assert_float_equal(least, 0.9, 1e-6);
    assert_float_equal(mean, (6 * 0.9 - 0.6) / 7, 1e-6);
}

enum { KEYS = 1000, MICROGRAPHS = 50 };

static void parts_keep_micrographs(void **state) {
    (void)state;
    static struct initial_key keys[KEYS];
    int part_of[MICROGRAPHS + 1], first[KEYS];
    struct initial_images images = {.count = KEYS};
    for (int i = 0; i < KEYS; i++)
        keys[i] = (struct initial_key){(uint64_t)i * 0x9e3779b97f4a7c15u + 1, (uint64_t)(i % MICROGRAPHS) + 1};
    for (int m = 0; m <= MICROGRAPHS; m++)
        part_of[m] = -1;
    assert_int_equal(initial_images_divide(&images, keys, 7, NULL), STATUS_OK);
    assert_int_equal(images.begin[0], 0);
    assert_int_equal(images.begin[INITIAL_PARTS], KEYS);
    for (int part = 0; part < INITIAL_PARTS; part++) {
        const int count = images.begin[part + 1] - images.begin[part], wanted = part == INITIAL_HELD_OUT ? 200 : 400;
        assert_true(abs(count - wanted) <= KEYS / MICROGRAPHS);
        for (int i = images.begin[part]; i < images.begin[part + 1]; i++) {
            const uint64_t micrograph = keys[images.members[i]].micrograph;
            if (part_of[micrograph] < 0) part_of[micrograph] = part;
            assert_int_equal(part_of[micrograph], part);
        }
    }
    for (int i = 0; i < KEYS; i++)
        first[i] = (int)(keys[images.members[i]].particle % 1000003);
    for (int i = 0; i < KEYS / 2; i++) { /* the same particles in another order */
        const struct initial_key swapped = keys[i];
        keys[i] = keys[KEYS - 1 - i];
        keys[KEYS - 1 - i] = swapped;
    }
    assert_int_equal(initial_images_divide(&images, keys, 7, NULL), STATUS_OK);
    for (int i = 0; i < KEYS; i++)
        assert_int_equal((int)(keys[images.members[i]].particle % 1000003), first[i]);
    initial_images_destroy(&images);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attempts_are_due_at_doublings),
        cmocka_unit_test(shells_of_few_values_do_not_tell),
        cmocka_unit_test(shells_that_tell_nothing_do_not_make_the_least),
        cmocka_unit_test(parts_keep_micrographs),
        cmocka_unit_test(finds_the_object),
        cmocka_unit_test(refuses_noise),
    };
    return scratch_run("refiner_initial", tests, sizeof tests / sizeof *tests);
}
