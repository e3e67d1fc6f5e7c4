/* Input that a refinement cannot begin with is refused before the first iteration, with the reason. Input that makes
 * a map worse without showing in it is counted. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/formats/star.h"
#include "stages/refiner/refiner_private.h"
#include "tests/common/scratch.h"
#include "tests/stages/blobs.h"
#include "tests/stages/few_blobs.h"

enum { VOXELS = BOX * BOX * BOX, COUNT = 60 };

struct world {
    char scratch[PATH_SIZE], reference[PATH_SIZE], mask[PATH_SIZE], star[PATH_SIZE + 16], stack[PATH_SIZE + 16];
    bool masked;
    double diameter, memory;
};

static void prepare(struct world *w, const char *name) {
    static float map[VOXELS];
    static struct object object;
    *w = (struct world){.diameter = 150, .memory = 0.25};
    scratch_path(name, w->scratch);
    assert_int_equal(file_make_folders(w->scratch, 0755, NULL), STATUS_OK);
    srand(13);
    make_object(&object, 14);
    make_map(&object, map, SIGMA);
    write_map(w->scratch, "reference.mrc", map, w->reference);
    for (int i = 0; i < VOXELS; i++)
        map[i] = 1;
    write_map(w->scratch, "mask.mrc", map, w->mask);
    write_particles(w->scratch, "a", &object, 1, COUNT, 1.0);
    snprintf(w->star, sizeof w->star, "%s/a.star", w->scratch);
    snprintf(w->stack, sizeof w->stack, "%s/a.mrcs", w->scratch);
}

/* Sets value number `index` of a map or stack, or all values from there on. */
static void put(const char *path, long index, bool and_all_others, float value) {
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    long count = (ftell(f) - 1024) / (long)sizeof value;
    assert_int_equal(fseek(f, 1024 + index * (long)sizeof value, SEEK_SET), 0);
    for (long i = index; i < (and_all_others ? count : index + 1); i++)
        assert_int_equal(fwrite(&value, sizeof value, 1, f), 1);
    assert_int_equal(fclose(f), 0);
}

static struct refiner *create_empty(struct world *w) {
    struct refiner *refiner = NULL;
    struct refiner_options options = few_blobs_options();
    options.reference = w->reference;
    options.mask = w->masked ? w->mask : NULL;
    options.diameter = w->diameter;
    options.memory = w->memory;
    assert_int_equal(refiner_create(&options, &(struct refiner_context){.threads = 2}, &refiner, NULL), STATUS_OK);
    return refiner;
}

static struct refiner *create(struct world *w) {
    struct refiner *refiner = create_empty(w);
    struct star_file *file = NULL;
    struct err err = {0};
    assert_int_equal(star_read(w->star, &file, NULL), STATUS_OK);
    if (refiner_merge(refiner, &file, w->star, false, NULL, &err) != STATUS_OK) fail_msg("%s", err.message);
    return refiner;
}

static const struct refiner_iteration ITERATION = {.max_order = 0};

static void refused(struct world *w, const char *expected) {
    struct refiner *refiner = create(w);
    struct err err = {0};
    assert_int_not_equal(refiner_begin(refiner, &ITERATION, &err), STATUS_OK);
    if (strstr(err.message, expected) == NULL) fail_msg("'%s', not '%s'", err.message, expected);
    assert_false(refiner_busy(refiner));
    refiner_destroy(&refiner);
}

static void maps_must_be_densities(void **state) {
    (void)state;
    struct world w;
    prepare(&w, "maps");
    w.masked = true;
    put(w.mask, 77, false, NAN);
    refused(&w, "mask.mrc has voxels that are NaN, infinite or far too large");
    put(w.mask, 0, true, 0);
    refused(&w, "mask.mrc is empty");
    w.masked = false;
    put(w.reference, 77, false, INFINITY);
    refused(&w, "reference.mrc has voxels that are NaN, infinite or far too large");
    w.diameter = 20;
    refused(&w, "diameter is 20 Å, which is 3.3 px of the particles (6 Å/px): at least 8 px");
}

static void halves_must_have_particles(void **state) {
    (void)state;
    struct world w;
    prepare(&w, "halves");
    FILE *f = fopen(w.star, "w");
    assert_non_null(f);
    fprintf(f,
            "data_\n\nloop_\n_rlnImageName #1\n_rlnRandomSubset #2\n_rlnMagnification #3\n_rlnDetectorPixelSize #4\n");
    for (int i = 0; i < COUNT; i++)
        fprintf(f, "%06d@a.mrcs 1 10000 6\n", i + 1);
    assert_int_equal(fclose(f), 0);
    refused(&w, "half 2 has 0 of the 60 particles, at least 2 are needed: give more, or remove the column rlnRandom");
}

static void particles_must_be_images(void **state) {
    (void)state;
    struct world w;
    prepare(&w, "images");
    put(w.stack, 0, true, NAN);
    refused(&w, "the particles have no noise");
}

/* A header that differs from the particles is believed, and the log reports it. */
static void the_grid_of_the_reference_is_told(void **state) {
    (void)state;
    static float map[VOXELS];
    struct world w;
    prepare(&w, "grid");
    for (int i = 0; i < VOXELS; i++)
        map[i] = (float)exp(
            -0.05 * (pow(i % BOX - BOX / 2, 2) + pow(i / BOX % BOX - BOX / 2, 2) + pow(i / BOX / BOX - BOX / 2, 2)));
    const struct image image = {.nx = BOX, .ny = BOX, .nz = BOX, .pixel_size = 12, .data = map};
    assert_int_equal(mrc_write(w.reference, &image, MRC_VOLUME, MRC_FLOAT32, NULL), STATUS_OK);
    struct refiner *refiner = create(&w);
    struct err err = {0};
    if (refiner_begin(refiner, &ITERATION, &err) != STATUS_OK) fail_msg("%s", err.message);
    if (strstr(refiner_remark(refiner), "taken as 32 px of 12 Å (the particles have 32 px of 6 Å)") == NULL)
        fail_msg("%s", refiner_remark(refiner));
    refiner_destroy(&refiner);
}

/* The count is the same whether images are kept in memory or not. */
static void spoiled_images_are_counted(void **state) {
    (void)state;
    struct world w;
    prepare(&w, "spoiled");
    for (int i = 0; i < 3; i++)
        put(w.stack, (4 + 17 * i) * BOX * BOX + i, false, i == 0 ? NAN : i == 1 ? -INFINITY : 1e30f);
    put(w.stack, 40 * BOX * BOX, false, 1e6f);
    for (int i = 0; i < 2; i++) {
        struct refiner *refiner = create(&w);
        struct err err = {0};
        bool complete = false;
        enum status status = refiner_begin(refiner, &ITERATION, &err);
        while (status == STATUS_OK && !complete)
            status = refiner_work(refiner, &complete, &err);
        if (status != STATUS_OK) fail_msg("%s", err.message);
        assert_int_equal(refiner_doubts(refiner).spoiled, 4);
        assert_int_equal(refiner_doubts(refiner).without_ctf, COUNT);
        refiner_destroy(&refiner);
        w.memory = 50 * BOX * BOX * sizeof(float) * 0x1p-30; /* half of it keeps 25 images of 60 */
    }
}

static void join(struct refiner *refiner, const struct world *w, const char *name) {
    char path[PATH_SIZE + 32];
    struct star_file *file = NULL;
    struct err err = {0};
    snprintf(path, sizeof path, "%s/%s.star", w->scratch, name);
    assert_int_equal(star_read(path, &file, NULL), STATUS_OK);
    if (refiner_merge(refiner, &file, path, false, NULL, &err) != STATUS_OK) fail_msg("%s", err.message);
}

static void begin(struct refiner *refiner) {
    struct err err = {0};
    if (refiner_begin(refiner, &(struct refiner_iteration){.max_order = 0}, &err) != STATUS_OK)
        fail_msg("%s", err.message);
}

static void iterate(struct refiner *refiner) {
    struct err err = {0};
    bool complete = false;
    begin(refiner);
    while (!complete)
        if (refiner_work(refiner, &complete, &err) != STATUS_OK) fail_msg("%s", err.message);
}

/* Returns the largest mean of an image over its deviation. */
static double largest_mean(const struct refiner *r) {
    double most = 0;
    for (size_t i = 0; i < r->set.count; i++) {
        double sum = 0, squares = 0;
        assert_non_null(r->set.particles[i].image);
        for (int p = 0; p < BOX * BOX; p++) {
            double value = (double)r->set.particles[i].image[p];
            sum += value / (BOX * BOX), squares += value * value / (BOX * BOX);
        }
        most = fmax(most, fabs(sum) / sqrt(squares - sum * sum));
    }
    return most;
}

/* Changes each value of a stack. */
static void spoil(const struct world *w, const char *name, float factor, float offset) {
    char path[PATH_SIZE + 32];
    struct image image = {0};
    snprintf(path, sizeof path, "%s/%s.mrcs", w->scratch, name);
    assert_int_equal(mrc_read(path, &image, NULL), STATUS_OK);
    for (size_t i = 0; i < image_count(&image); i++)
        image.data[i] = factor * image.data[i] + offset;
    assert_int_equal(mrc_write(path, &image, MRC_STACK, MRC_FLOAT32, NULL), STATUS_OK);
    image_destroy(&image);
}

/* Makes all of each image but its middle constant. */
static void flatten(const struct world *w, const char *name) {
    char path[PATH_SIZE + 32];
    struct image image = {0};
    snprintf(path, sizeof path, "%s/%s.mrcs", w->scratch, name);
    assert_int_equal(mrc_read(path, &image, NULL), STATUS_OK);
    for (size_t i = 0; i < image_count(&image); i++) {
        int x = (int)(i % BOX) - BOX / 2, y = (int)(i / BOX % BOX) - BOX / 2;
        if (x * x + y * y > 100) image.data[i] = 500;
    }
    assert_int_equal(mrc_write(path, &image, MRC_STACK, MRC_FLOAT32, NULL), STATUS_OK);
    image_destroy(&image);
}

/* Particles that are not normalised come after others that are: from then on all are normalised, also after a restart
 * whose sample shows none of them. */
static void later_particles_are_normalised(void **state) {
    (void)state;
    struct world w;
    struct object object;
    char folder[PATH_SIZE + 16];
    prepare(&w, "later");
    make_object(&object, 14);
    write_particles(w.scratch, "b", &object, 1, COUNT, 1.0);
    write_particles(w.scratch, "c", &object, 1, COUNT, 1.0);
    spoil(&w, "b", 37, 1000);
    snprintf(folder, sizeof folder, "%s/refiner", w.scratch);
    assert_int_equal(file_make_folders(folder, 0755, NULL), STATUS_OK);
    struct refiner *refiner = create(&w);
    iterate(refiner);
    assert_string_equal(refiner_doubts(refiner).background, "");
    join(refiner, &w, "c");
    iterate(refiner);
    assert_string_equal(refiner_doubts(refiner).background, "");
    join(refiner, &w, "b");
    iterate(refiner);
    assert_non_null(strstr(refiner_doubts(refiner).background, "in 60 of 60 images"));
    assert_int_equal(refiner_doubts(refiner).spoiled, 0);
    assert_true(largest_mean(refiner) < 0.7);
    assert_int_equal(refiner_write(refiner, folder, "refiner", 3, NULL), STATUS_OK);
    int last = refiner_state(refiner).iteration;
    refiner_destroy(&refiner);

    refiner = create_empty(&w);
    assert_int_equal(refiner_resume(refiner, folder, last, NULL), STATUS_OK);
    join(refiner, &w, "a");
    join(refiner, &w, "c");
    begin(refiner);
    assert_non_null(strstr(refiner_doubts(refiner).background, "as was found before"));
    assert_true(image_check_normalises(refiner->check));
    refiner_destroy(&refiner);
}

/* Three images more tell nothing of others: they wait for those that come next. */
static void a_few_later_particles_decide_nothing(void **state) {
    (void)state;
    struct world w;
    struct object object;
    prepare(&w, "few");
    make_object(&object, 14);
    write_particles(w.scratch, "b", &object, 1, 3, 1.0);
    write_particles(w.scratch, "c", &object, 1, COUNT, 1.0);
    spoil(&w, "b", 37, 1000);
    spoil(&w, "c", 37, 1000);
    struct refiner *refiner = create(&w);
    iterate(refiner);
    join(refiner, &w, "b");
    iterate(refiner);
    assert_string_equal(refiner_doubts(refiner).background, "");
    join(refiner, &w, "c");
    iterate(refiner);
    assert_non_null(strstr(refiner_doubts(refiner).background, "in 60 of 60 images"));
    assert_int_equal(refiner_doubts(refiner).spoiled, 0);
    refiner_destroy(&refiner);
}

/* Particles without any background that come later are told, and the others are refined as before; also after a restart,
 * whose sample shows both. */
static void later_particles_may_be_refused(void **state) {
    (void)state;
    struct world w;
    struct object object;
    char folder[PATH_SIZE + 16];
    prepare(&w, "constant");
    make_object(&object, 14);
    snprintf(folder, sizeof folder, "%s/refiner", w.scratch);
    assert_int_equal(file_make_folders(folder, 0755, NULL), STATUS_OK);
    write_particles(w.scratch, "b", &object, 1, COUNT, 1.0);
    write_particles(w.scratch, "c", &object, 1, COUNT, 1.0);
    struct refiner *refiner = create(&w);
    iterate(refiner);
    flatten(&w, "b");
    flatten(&w, "c");
    join(refiner, &w, "b");
    iterate(refiner);
    assert_non_null(strstr(refiner_doubts(refiner).background, "are constant, at 500"));
    assert_false(image_check_normalises(refiner->check));
    assert_int_equal(refiner_write(refiner, folder, "refiner", 3, NULL), STATUS_OK);
    int last = refiner_state(refiner).iteration;
    refiner_destroy(&refiner);

    refiner = create_empty(&w);
    assert_int_equal(refiner_resume(refiner, folder, last, NULL), STATUS_OK);
    join(refiner, &w, "a");
    join(refiner, &w, "b");
    join(refiner, &w, "c");
    iterate(refiner);
    assert_non_null(strstr(refiner_doubts(refiner).background, "are constant, at 500"));
    assert_false(image_check_normalises(refiner->check));
    refiner_destroy(&refiner);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps_must_be_densities),         cmocka_unit_test(halves_must_have_particles),
        cmocka_unit_test(particles_must_be_images),       cmocka_unit_test(the_grid_of_the_reference_is_told),
        cmocka_unit_test(spoiled_images_are_counted),     cmocka_unit_test(later_particles_are_normalised),
        cmocka_unit_test(later_particles_may_be_refused), cmocka_unit_test(a_few_later_particles_decide_nothing),
    };
    return scratch_run("refiner_input", tests, sizeof tests / sizeof *tests);
}
