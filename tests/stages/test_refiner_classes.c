/* Tests 3D classification. Two objects whose images are mixed come apart: from one reference that is neither, from
 * one that is the first of them, and from a list of references; with symmetry; stopped in between and continued. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/formats/star.h"
#include "common/harness/stage.h"
#include "kernels/fsc/fsc.h"
#include "stages/refiner/refiner.h"
#include "tests/common/scratch.h"
#include "tests/stages/blobs.h"

enum { VOXELS = BOX * BOX * BOX };
static struct object objects[2];
static float truth[2][VOXELS];

/* The second object shares half of its blobs with the first. */
static void make_objects(int count) {
    make_object(&objects[0], count);
    make_object(&objects[1], count);
    for (int i = 0; i < count / 2; i++)
        memcpy(objects[1].blobs[i], objects[0].blobs[i], sizeof objects[0].blobs[i]);
}

/* D2: twofold about z and y. */
static void symmetrise(struct object *o) {
    static const int SIGNS[4][3] = {{1, 1, 1}, {-1, -1, 1}, {-1, 1, -1}, {1, -1, -1}};
    int count = o->count;
    for (int i = count; i < 4 * count; i++)
        for (int j = 0; j < 4; j++)
            o->blobs[i][j] = (j < 3 ? SIGNS[i / count][j] : 1) * o->blobs[i % count][j];
    o->count = 4 * count;
}

static void run_at(enum status expected, const char *order, const char *folder, const char *reference,
                   const char *symmetry, const char *classes, const char *iterations) {
    const char *parameters[] = {
        "reference",       reference, "diameter", "150",    "initial_lowpass", "50",    "healpix_order", order,
        "offset_range",    "3",       "symmetry", symmetry, "classes",         classes, "iterations",    iterations,
        "keep_iterations", "2",       NULL};
    struct item *item = NULL, **out = NULL;
    size_t out_count = 0;
    char path[PATH_SIZE + 64];
    struct err err = {0};
    snprintf(path, sizeof path, "%s/mixed.star", folder);
    assert_int_equal(item_create("mixed", "particles", &item, NULL), STATUS_OK);
    assert_int_equal(item_set_string(item, "particles.star", path, NULL), STATUS_OK);
    enum status status = stage_run_in_process(&refiner_stage, folder, parameters, &item, 1, &out, &out_count, &err);
    if (status != expected) fail_msg("%s", err.message);
    for (size_t i = 0; i < out_count; i++)
        item_destroy(&out[i]);
    free(out);
    item_destroy(&item);
}

static void run_expecting(enum status expected, const char *folder, const char *reference, const char *symmetry,
                          const char *classes, const char *iterations) {
    run_at(expected, "1", folder, reference, symmetry, classes, iterations);
}

static void run(const char *folder, const char *reference, const char *symmetry, const char *classes,
                const char *iterations) {
    run_expecting(STATUS_OK, folder, reference, symmetry, classes, iterations);
}

static struct star_file *read_star(const char *folder, const char *name) {
    char path[PATH_SIZE];
    struct star_file *file = NULL;
    assert_int_equal(path_join(folder, name, path, sizeof path, NULL), STATUS_OK);
    assert_int_equal(star_read(path, &file, NULL), STATUS_OK);
    return file;
}

/* Returns the share of particles that are in the class where most particles of their object are. ret_class: that
 * class of each object. */
static double purity(const char *folder, int ret_class[2]) {
    struct star_file *file = read_star(folder, "run_data.star");
    const struct star_table *t = star_table_find(file, "particles");
    int column = star_column_find(t, "rlnClassNumber"), name = star_column_find(t, "rlnImageName");
    size_t counts[2][2] = {{0}}, rows = star_row_count(t);
    assert_true(column >= 0 && name >= 0);
    for (size_t row = 0; row < rows; row++) {
        long number;
        int image = atoi(star_get(t, row, name)) - 1;
        assert_int_equal(star_get_integer(t, row, column, &number, NULL), STATUS_OK);
        assert_true(number == 1 || number == 2);
        counts[image % 2][number - 1]++;
    }
    star_destroy(&file);
    size_t right = 0;
    for (int o = 0; o < 2; o++) {
        ret_class[o] = counts[o][1] > counts[o][0];
        right += counts[o][ret_class[o]];
    }
    return (double)right / (double)rows;
}

static void check_maps(const char *folder, const int class_of[2]) {
    for (int o = 0; o < 2; o++) {
        char name[64], path[PATH_SIZE];
        struct image image = {0};
        float own[BOX / 2 + 1], other[BOX / 2 + 1];
        snprintf(name, sizeof name, "run_class%03d.mrc", class_of[o] + 1);
        assert_int_equal(path_join(folder, name, path, sizeof path, NULL), STATUS_OK);
        assert_int_equal(mrc_read(path, &image, NULL), STATUS_OK);
        assert_int_equal(fsc_maps(NULL, BOX, truth[o], image.data, own, NULL), STATUS_OK);
        assert_int_equal(fsc_maps(NULL, BOX, truth[1 - o], image.data, other, NULL), STATUS_OK);
        image_destroy(&image);
        for (int s = 2; s <= 4; s++) /* up to 48 Å, where half of what they hold differs */
            if (!(own[s] > 0.6) || !(own[s] > other[s]))
                fail_msg("object %d: FSC of %.3f with its class, %.3f with the other, in shell %d", o + 1,
                         (double)own[s], (double)other[s], s);
    }
}

/* Checks that the tables are those of RELION. */
static void check_model(const char *folder) {
    struct star_file *file = read_star(folder, "run_model.star");
    const struct star_table *t = star_table_find(file, "model_classes");
    double sum = 0, share, classes, resolution;
    assert_non_null(t);
    assert_int_equal(star_row_count(t), 2);
    for (size_t k = 0; k < 2; k++) {
        assert_int_equal(star_get_number(t, k, star_column_find(t, "rlnClassDistribution"), &share, NULL), STATUS_OK);
        assert_int_equal(star_get_number(t, k, star_column_find(t, "rlnEstimatedResolution"), &resolution, NULL),
                         STATUS_OK);
        assert_true(share > 0.3 && resolution > 10 && resolution < 60);
        static const struct {
            const char *name;
            double most;
        } known[] = {{"rlnAccuracyRotations", 29},
                     {"rlnAccuracyTranslationsAngst", 9 * PIXEL},
                     {"rlnOverallFourierCompleteness", 1}};
        for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
            double value;
            assert_int_equal(star_get_number(t, k, star_column_find(t, known[i].name), &value, NULL), STATUS_OK);
            printf("class %zu: %s %.3f\n", k + 1, known[i].name, value);
            assert_true(value > 0.3 && value <= known[i].most);
        }
        sum += share;
    }
    assert_true(fabs(sum - 1) < 1e-4);
    assert_string_equal(star_get(t, 1, star_column_find(t, "rlnReferenceImage")), "refiner/run_class002.mrc");
    t = star_table_find(file, "model_general");
    assert_int_equal(star_get_number(t, 0, star_column_find(t, "rlnNrClasses"), &classes, NULL), STATUS_OK);
    assert_true(classes == 2);
    assert_non_null(star_table_find(file, "model_class_2"));
    star_destroy(&file);
}

static void prepare(const char *name, char scratch[PATH_SIZE], char folder[PATH_SIZE + 16]) {
    scratch_path(name, scratch);
    snprintf(folder, PATH_SIZE + 16, "%s/refiner", scratch);
    assert_int_equal(file_make_folders(folder, 0755, NULL), STATUS_OK);
}

static void check_apart(const char *folder, double least) {
    int class_of[2];
    double right = purity(folder, class_of);
    if (!(right > least)) fail_msg("%.1f %% of the particles are with their like", 100 * right);
    assert_int_not_equal(class_of[0], class_of[1]);
    check_maps(folder, class_of);
    check_model(folder);
}

static void one_reference_becomes_two_classes(void **state) {
    (void)state;
    char scratch[PATH_SIZE], folder[PATH_SIZE + 16], reference[PATH_SIZE], path[PATH_SIZE];
    static float map[VOXELS];
    prepare("seeds", scratch, folder);
    srand(11);
    make_objects(14);
    for (int o = 0; o < 2; o++)
        make_map(&objects[o], truth[o], SIGMA);
    for (int i = 0; i < VOXELS; i++)
        map[i] = 5 * (truth[0][i] + truth[1][i]);
    write_map(scratch, "reference.mrc", map, reference);
    write_particles(scratch, "mixed", objects, 2, 300, 0.6);
    run(scratch, reference, "C1", "2", "15");
    check_apart(folder, 0.9);
    /* Only files of the last iterations stay; a second run has nothing left to do. */
    assert_int_equal(path_join(folder, "run_it015_class002.mrc", path, sizeof path, NULL), STATUS_OK);
    assert_true(file_exists(path));
    assert_int_equal(path_join(folder, "run_it013_optimiser.star", path, sizeof path, NULL), STATUS_OK);
    assert_false(file_exists(path));
    run(scratch, reference, "C1", "2", "15");
    assert_int_equal(path_join(folder, "run_it016_optimiser.star", path, sizeof path, NULL), STATUS_OK);
    assert_false(file_exists(path));
    /* The run continues neither as a refinement nor with another number of classes. */
    run_expecting(STATUS_BAD_STATE, scratch, reference, "C1", "1", "1");
    run_expecting(STATUS_BAD_STATE, scratch, reference, "C1", "3", "1");
}

/* The blobs of the second object are those of the first, except the ones farthest along an axis, which hold this share
 * of the weight or a little more. */
static double leave_out_a_domain(double share) {
    double all = 0, gone = 0;
    objects[1] = objects[0];
    for (int i = 0; i < objects[0].count; i++)
        all += objects[0].blobs[i][3];
    while (gone < share * all) {
        struct object *o = &objects[1];
        int last = 0;
        for (int i = 1; i < o->count; i++)
            if (o->blobs[i][0] > o->blobs[last][0]) last = i;
        gone += o->blobs[last][3];
        memcpy(o->blobs[last], o->blobs[--o->count], sizeof o->blobs[last]);
    }
    return gone / all;
}

/* Returns the share of the largest class, and whether the last line of the history calls classes alike. */
static double largest_class(const char *folder, bool *ret_alike) {
    char path[PATH_SIZE], *text;
    size_t length;
    double share, largest = 0;
    struct star_file *file = read_star(folder, "run_model.star");
    const struct star_table *t = star_table_find(file, "model_classes");
    for (size_t k = 0; k < star_row_count(t); k++) {
        assert_int_equal(star_get_number(t, k, star_column_find(t, "rlnClassDistribution"), &share, NULL), STATUS_OK);
        largest = fmax(largest, share);
    }
    star_destroy(&file);
    assert_int_equal(path_join(folder, "history.jsonl", path, sizeof path, NULL), STATUS_OK);
    assert_int_equal(file_read_whole(path, 1 << 20, &text, &length, NULL), STATUS_OK);
    const char *alike = strstr(text, "\"alike\": ");
    assert_non_null(alike);
    assert_null(strstr(alike + 1, "\"alike\": ")); /* the last iteration alone is judged */
    assert_true(alike > strstr(text, "\"iteration\": 16,"));
    *ret_alike = strncmp(alike, "\"alike\": true", 13) == 0;
    free(text);
    return largest;
}

/* Sorts particles of the whole object and of the same without so much of its weight, from the whole object, at the default
 * order. Returns the share put right. */
static double sort_without(double share, unsigned seed, int each, double snr, double *ret_largest, bool *ret_alike) {
    char name[32], scratch[PATH_SIZE], folder[PATH_SIZE + 16], reference[PATH_SIZE];
    int class_of[2];
    snprintf(name, sizeof name, "domain%.0f", 100 * share);
    prepare(name, scratch, folder);
    srand(seed);
    make_object(&objects[0], 40);
    double gone = leave_out_a_domain(share);
    make_map(&objects[0], truth[0], SIGMA);
    write_map(scratch, "reference.mrc", truth[0], reference);
    write_particles(scratch, "mixed", objects, 2, each, snr);
    run_at(STATUS_OK, "2", scratch, reference, "C1", "2", "16");
    double right = purity(folder, class_of);
    if (class_of[0] == class_of[1]) right = 0.5;
    *ret_largest = largest_class(folder, ret_alike);
    printf("%.0f %% of the weight missing: %.1f %% of the particles put right, larger class %.0f %%, %s (seed %u)\n",
           100 * gone, 100 * right, 100 * *ret_largest, *ret_alike ? "alike" : "not alike", seed);
    return right;
}

/* Maps of random halves of the particles differ by noise; if they may do so from the first iteration on, particles stay
 * where chance has put them, or one class takes them all. */
static void a_missing_domain_is_found(void **state) {
    (void)state;
    double largest;
    bool alike;
    assert_true(sort_without(0.2, 21, 120, 1, &largest, &alike) > 0.9);
    assert_true(largest < 0.65);
    assert_false(alike);
}

static void a_small_domain_is_found(void **state) {
    (void)state;
    double largest;
    bool alike;
    assert_true(sort_without(0.1, 21, 120, 1, &largest, &alike) > 0.95);
    assert_true(largest < 0.65);
    assert_false(alike);
}

/* Neither class of the same particles takes most of them, and the classes are said to be alike. */
static void particles_that_are_alike_are_told(void **state) {
    (void)state;
    double largest;
    bool alike;
    (void)sort_without(0, 21, 120, 1, &largest, &alike);
    assert_true(largest < 0.75);
    assert_true(alike);
}

static int iterations_done(const char *folder) {
    char path[PATH_SIZE], *text;
    size_t length;
    int lines = 0;
    assert_int_equal(path_join(folder, "history.jsonl", path, sizeof path, NULL), STATUS_OK);
    assert_int_equal(file_read_whole(path, 1 << 20, &text, &length, NULL), STATUS_OK);
    for (size_t i = 0; i < length; i++)
        lines += text[i] == '\n';
    free(text);
    return lines;
}

/* Whichever file of the last iteration is cut, the iteration before serves, and only one iteration is done again. */
static void check_broken(const char *scratch, const char *folder, const char *reference) {
    static const char *const parts[] = {"optimiser.star", "sampling.star", "model.star", "class002.mrc", "data.star"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char name[64], path[PATH_SIZE];
        int done = iterations_done(folder);
        snprintf(name, sizeof name, "run_it005_%s", parts[i]);
        assert_int_equal(path_join(folder, name, path, sizeof path, NULL), STATUS_OK);
        assert_int_equal(truncate(path, 20), 0);
        assert_int_equal(path_join(folder, "run_data.star", path, sizeof path, NULL), STATUS_OK);
        assert_int_equal(remove(path), 0);
        run(scratch, reference, "D2", "2", "5");
        assert_int_equal(iterations_done(folder), done + 1);
        check_apart(folder, 0.9);
    }
}

/* D2, with a reference for each object, but blurred to 50 Å; stopped after two iterations and continued. */
static void listed_references_with_symmetry(void **state) {
    (void)state;
    char scratch[PATH_SIZE], folder[PATH_SIZE + 16], reference[PATH_SIZE], path[PATH_SIZE];
    prepare("list", scratch, folder);
    srand(12);
    make_objects(6);
    for (int o = 0; o < 2; o++) {
        symmetrise(&objects[o]);
        make_map(&objects[o], truth[o], SIGMA);
        write_map(scratch, o == 0 ? "first.mrc" : "second.mrc", truth[o], reference);
    }
    write_particles(scratch, "mixed", objects, 2, 300, 1.0);
    snprintf(reference, sizeof reference, "%.1000s/references.star", scratch);
    FILE *f = fopen(reference, "w");
    assert_non_null(f);
    fprintf(f, "data_\n\nloop_\n_rlnReferenceImage #1\nfirst.mrc\nsecond.mrc\n");
    assert_int_equal(fclose(f), 0);
    run_expecting(STATUS_BAD_ARGUMENT, scratch, reference, "D2", "3", "2");
    run(scratch, reference, "D2", "1", "2");
    assert_int_equal(path_join(folder, "run_data.star", path, sizeof path, NULL), STATUS_OK);
    assert_int_equal(remove(path), 0); /* as if it had been stopped: the end is missing */
    run(scratch, reference, "D2", "2", "5");
    assert_int_equal(path_join(folder, "run_it005_optimiser.star", path, sizeof path, NULL), STATUS_OK);
    assert_true(file_exists(path));
    assert_int_equal(path_join(folder, "run_it006_optimiser.star", path, sizeof path, NULL), STATUS_OK);
    assert_false(file_exists(path));
    check_apart(folder, 0.9);
    check_broken(scratch, folder, reference);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_domain_is_found),           cmocka_unit_test(particles_that_are_alike_are_told),
        cmocka_unit_test(one_reference_becomes_two_classes), cmocka_unit_test(a_missing_domain_is_found),
        cmocka_unit_test(listed_references_with_symmetry),
    };
    return scratch_run("refiner-classes", tests, sizeof tests / sizeof *tests);
}
