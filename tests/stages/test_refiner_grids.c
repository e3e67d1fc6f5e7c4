/* Tests that images of a coarser grid weigh as much as others in a refinement: noise of the same power at each frequency
 * has the same norm and the same spectrum on any grid, whatever part of the shells a grid has. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "stages/refiner/grids.h"
#include "stages/refiner/refiner_private.h"
#include "tests/common/scratch.h"
#include "tests/stages/blobs.h"
#include "tests/stages/few_blobs.h"

enum { GROUPS = 3, EACH = 4000, FIRST_SHELL = 5, FIRST_WHOLE = 8 };
/* The grid of the refinement; the same extent with 10 of 16 shells; another extent, with 14 of them. */
static const int BOXES[GROUPS] = {BOX, 20, 30};
static const double PIXELS[GROUPS] = {6, 9.6, 6.6};
static const double LIMITS[GROUPS] = {0, 10, 14.5};

static void write_noise(const char *folder, int group) {
    char path[PATH_SIZE + 64];
    size_t pixels = (size_t)BOXES[group] * (size_t)BOXES[group];
    float *stack = calloc(EACH * pixels, sizeof *stack);
    assert_non_null(stack);
    for (size_t i = 0; i < EACH * pixels; i++)
        stack[i] = (float)normal();
    const struct image image = {
        .nx = BOXES[group], .ny = BOXES[group], .nz = EACH, .pixel_size = (float)PIXELS[group], .data = stack};
    snprintf(path, sizeof path, "%s/%d.mrcs", folder, group);
    assert_int_equal(mrc_write(path, &image, MRC_STACK, MRC_FLOAT32, NULL), STATUS_OK);
    free(stack);
}

/* Returns a refiner with noise of all grids. */
static struct refiner *open_refiner(const char *folder) {
    static struct object object;
    static float map[BOX * BOX * BOX];
    struct refiner *refiner = NULL;
    struct star_file *file = NULL;
    struct err err = {0};
    char path[PATH_SIZE + 64], reference[PATH_SIZE];
    make_object(&object, 14);
    make_map(&object, map, SIGMA);
    write_map(folder, "reference.mrc", map, reference);
    snprintf(path, sizeof path, "%s/particles.star", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "data_optics\n\nloop_\n_rlnOpticsGroup\n_rlnImagePixelSize\n");
    for (int g = 0; g < GROUPS; g++) {
        write_noise(folder, g);
        fprintf(f, "%d %g\n", g + 1, PIXELS[g]);
    }
    fprintf(f, "\ndata_particles\n\nloop_\n_rlnImageName\n_rlnOpticsGroup\n");
    for (int g = 0; g < GROUPS; g++)
        for (int i = 0; i < EACH; i++)
            fprintf(f, "%d@%d.mrcs %d\n", i + 1, g, g + 1);
    assert_int_equal(fclose(f), 0);
    struct refiner_options options = few_blobs_options();
    options.reference = reference;
    options.diameter = 130;
    assert_int_equal(refiner_create(&options, &(struct refiner_context){.threads = 2}, &refiner, NULL), STATUS_OK);
    assert_int_equal(star_read(path, &file, NULL), STATUS_OK);
    if (refiner_merge(refiner, &file, path, false, NULL, &err) != STATUS_OK) fail_msg("%s", err.message);
    return refiner;
}

static void begin(struct refiner *refiner) {
    struct err err = {0};
    if (refiner_begin(refiner, &(struct refiner_iteration){.max_order = 0}, &err) != STATUS_OK)
        fail_msg("%s", err.message);
}

static void work(struct refiner *refiner) {
    struct err err = {0};
    bool complete = false;
    while (!complete)
        if (refiner_work(refiner, &complete, &err) != STATUS_OK) fail_msg("%s", err.message);
}

/* Returns the noise of a group in a shell, the mean over both halves. */
static double noise_at(const struct refiner *r, int group, int shell) {
    double sum = 0;
    for (int side = 0; side < r->side_count; side++)
        sum += (double)r->sides[side].sigma2[group * r->shells + shell] / r->side_count;
    return sum;
}

static double mean_norm(const struct refiner *r, int group) {
    double sum = 0;
    for (size_t i = 0; i < r->set.count; i++)
        if (r->set.particles[i].optics == group) sum += r->set.particles[i].norm / EACH;
    return sum;
}

static void check_alike(const struct refiner *r, const char *when) {
    for (int g = 0; g < GROUPS; g++) {
        double ratio = mean_norm(r, g) / mean_norm(r, 0);
        print_message("%s, group %d: norm %.4f\n", when, g, ratio);
        assert_true(fabs(ratio - 1) < 0.01);
        for (int s = FIRST_SHELL; s < r->shells; s++) {
            double noise = noise_at(r, g, s) / noise_at(r, 0, s);
            if (!(fabs(noise - 1) < 0.03)) fail_msg("%s, group %d, shell %d: %.3f of the noise", when, g, s, noise);
        }
    }
}

/* Images that lack a shell count in no mean of it: white noise has the same power in all shells but those beside the last
 * shared one, where a mask in two bands takes some away. */
static void check_flat(const struct refiner *r) {
    double sum = 0;
    for (int s = FIRST_WHOLE; s < r->shells; s++)
        sum += noise_at(r, 0, s) / (r->shells - FIRST_WHOLE);
    for (int s = FIRST_WHOLE; s < r->shells; s++)
        if (!(fabs(noise_at(r, 0, s) / sum - 1) < 0.03))
            fail_msg("at first, shell %d: %.3f of the mean noise", s, noise_at(r, 0, s) / sum);
}

static void noise_is_the_same_on_all_grids(void **state) {
    (void)state;
    char folder[PATH_SIZE];
    scratch_path("noise", folder);
    assert_int_equal(file_make_folders(folder, 0755, NULL), STATUS_OK);
    struct refiner *r = open_refiner(folder);
    begin(r);
    check_flat(r);
    work(r);
    for (int g = 0; g < GROUPS; g++)
        assert_true(fabs(grids_limit(&r->set, g) - LIMITS[g]) < 0.06);
    check_alike(r, "first");
    begin(r);
    work(r);
    check_alike(r, "second");
    refiner_destroy(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(noise_is_the_same_on_all_grids),
    };
    const char *seed = getenv("ICESTREAM_SEED");
    srand(seed != NULL ? (unsigned)atoi(seed) : 1);
    print_message("seed %s\n", seed != NULL ? seed : "1");
    return scratch_run("refiner-grids", tests, sizeof tests / sizeof *tests);
}
