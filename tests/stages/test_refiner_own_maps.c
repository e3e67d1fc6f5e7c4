/* Tests the first maps of several classes: a mixture of two molecules gives the map of each, in the hand of the one
 * map, and independent halves find the same; particles of one molecule give no second map, and the one map explains
 * them as well. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/formats/image_formats.h"
#include "common/memory.h"
#include "kernels/symmetry/symmetry.h"
#include "stages/refiner/initial/initial.h"
#include "stages/refiner/initial/likeness.h"
#include "stages/refiner/initial/several.h"
#include "stages/refiner/resample.h"
#include "tests/common/scratch.h"

enum { BOX = 32, PIXELS = BOX * BOX, VOXELS = BOX * BOX * BOX, PARTICLES = 300, PER_MICROGRAPH = 10, STARTS = 2 };
#define PIXEL 7.0      /* Å */
#define DIAMETER 190.0 /* Å */
#define FINE 24.0      /* Å: coarse, which is quick */
#define WANTED 28.0    /* Å */
#define NOISE 0.7      /* of a projection in the whole image, whose deviation is 1 */

static float truths[2][VOXELS], one[VOXELS];
static struct symmetry symmetry;

static double uniform(void) {
    return rand() / (RAND_MAX + 1.0);
}

static double normal(void) {
    return sqrt(-2 * log(1 - uniform())) * cos(2 * M_PI * uniform());
}

/* Reads a map onto the small grid, with projections of the mean square 1 about their mean. */
static bool read_truth(const char *name, float *map) {
    char path[512];
    const char *data = getenv("ICESTREAM_DATA");
    _cleanup_(image_destroy) struct image image = {0};
    snprintf(path, sizeof path, "%s/maps/%s", data != NULL ? data : "../shared/data", name);
    if (image_read(path, &image, NULL) != STATUS_OK) {
        print_message("no maps/%s beside the checkout (../shared/data, or ICESTREAM_DATA)\n", name);
        return false;
    }
    assert_int_equal(resample_map(image.data, image.nx, (double)image.pixel_size, BOX, PIXEL, map, NULL), STATUS_OK);
    return true;
}

/* Adds the projection of a map in a random pose, moved by up to a pixel. */
static void project(const float *map, float *image) {
    double pose[9];
    const double rot = 360 * uniform(), tilt = acos(2 * uniform() - 1) * 180 / M_PI, half = BOX / 2;
    euler_to_matrix(rot, tilt, 360 * uniform(), pose);
    const double moved[2] = {2 * uniform() - 1, 2 * uniform() - 1};
    for (int i = 0; i < VOXELS; i++) {
        const double at[3] = {i % BOX - half, i / BOX % BOX - half, i / PIXELS - half};
        const double x = pose[0] * at[0] + pose[1] * at[1] + pose[2] * at[2] + moved[0] + half;
        const double y = pose[3] * at[0] + pose[4] * at[1] + pose[5] * at[2] + moved[1] + half;
        const int left = (int)floor(x), top = (int)floor(y);
        if (left < 0 || top < 0 || left + 1 >= BOX || top + 1 >= BOX) continue;
        for (int k = 0; k < 4; k++) {
            const double wx = k % 2 == 0 ? left + 1 - x : x - left, wy = k / 2 == 0 ? top + 1 - y : y - top;
            image[(top + k / 2) * BOX + left + k % 2] += (float)(wx * wy * (double)map[i]);
        }
    }
}

/* Gives all maps the same power in their projections. */
static void scale_truth(float *map) {
    enum { VIEWS = 20 };
    double squares = 0;
    for (int view = 0; view < VIEWS; view++) {
        float image[PIXELS] = {0};
        double mean = 0;
        project(map, image);
        for (int i = 0; i < PIXELS; i++)
            mean += (double)image[i] / PIXELS;
        for (int i = 0; i < PIXELS; i++)
            squares += pow((double)image[i] - mean, 2) / PIXELS / VIEWS;
    }
    for (int i = 0; i < VOXELS; i++)
        map[i] /= (float)sqrt(squares);
}

/* Makes images of each of `kinds` molecules in turn, and noise of that deviation. */
static void make_images(int kinds, double noise, struct initial_images *images) {
    struct initial_key keys[PARTICLES];
    *images = (struct initial_images){.count = PARTICLES, .box = BOX, .pixel_size = PIXEL};
    images->values = calloc((size_t)PARTICLES * PIXELS, sizeof *images->values);
    images->ctfs = calloc(PARTICLES, sizeof *images->ctfs);
    images->with_ctf = calloc(PARTICLES, sizeof *images->with_ctf);
    images->which = calloc(PARTICLES, sizeof *images->which);
    assert_true(images->values != NULL && images->ctfs != NULL && images->with_ctf != NULL && images->which != NULL);
    for (int i = 0; i < PARTICLES; i++) {
        float *image = images->values + (size_t)i * PIXELS;
        if (kinds > 0) project(truths[i % kinds], image);
        for (int j = 0; j < PIXELS; j++)
            image[j] += (float)(noise * normal());
        keys[i] = (struct initial_key){(uint64_t)i * 0x9e3779b97f4a7c15u + 1, (uint64_t)(i / PER_MICROGRAPH) + 1};
    }
    assert_int_equal(initial_images_divide(images, keys, 1, NULL), STATUS_OK);
}

/* Makes maps of two classes. Returns what to destroy. */
static struct several *make_several(struct initial_images *images) {
    const struct several_options options = {.images = images,
                                            .starts = {.device = {.kind = DEVICE_CPU},
                                                       .threads = 1,
                                                       .memory = 1,
                                                       .diameter = DIAMETER,
                                                       .symmetry = &symmetry,
                                                       .seed = 1,
                                                       .classes = 2},
                                            .start_count = STARTS,
                                            .order = 2,
                                            .coarse = 35,
                                            .fine = FINE,
                                            .wanted = WANTED,
                                            .one = {one, one}};
    struct several *several = NULL;
    bool complete = false;
    assert_int_equal(several_create(&options, &several, NULL), STATUS_OK);
    while (!complete)
        assert_int_equal(several_work(several, &complete, NULL), STATUS_OK);
    const struct several_decision *d = several_decision(several);
    print_message("%s: %s; gains %.2f ± %.2f, %.2f ± %.2f; alike %.2f, rival %.1f, %.1f s\n",
                  several_test_name(d->failed), d->text, d->gains[0], d->deviations[0], d->gains[1], d->deviations[1],
                  d->alike, d->rival, d->seconds);
    for (int k = 0; k < 2; k++)
        print_message("class %d: share %.2f, FSC %.2f, gain %.2f ± %.2f\n", k, d->maps[k].share, d->maps[k].mean,
                      d->maps[k].gain, d->maps[k].deviation);
    return several;
}

static int prepare(void **state) {
    char group[] = "C1";
    (void)state;
    srand(20261129);
    assert_int_equal(symmetry_create(group, &symmetry, NULL), STATUS_OK);
    if (!read_truth("cav11_5gjv_128.mrc", truths[0]) || !read_truth("cand1_1u6g_128.mrc", truths[1])) return 0;
    *state = truths;
    scale_truth(truths[0]);
    scale_truth(truths[1]);
    for (int i = 0; i < VOXELS; i++)
        one[i] = 0.5f * (truths[0][i] + truths[1][i]);
    return 0;
}

static int clear(void **state) {
    (void)state;
    symmetry_destroy(&symmetry);
    return 0;
}

static struct likeness_found compare(const float *fixed, const float *moved) {
    const struct likeness_options options = {
        .box = BOX, .pixel_size = PIXEL, .diameter = DIAMETER, .wanted = WANTED, .symmetry = &symmetry, .threads = 1};
    struct likeness *likeness = NULL;
    struct likeness_found found;
    assert_int_equal(likeness_create(&options, &likeness, NULL), STATUS_OK);
    assert_int_equal(likeness_find(likeness, fixed, moved, &found, NULL), STATUS_OK);
    likeness_destroy(&likeness);
    return found;
}

static void a_mixture_gives_both_molecules(void **state) {
    struct initial_images images;
    if (*state == NULL) skip();
    make_images(2, NOISE, &images);
    struct several *several = make_several(&images);
    const struct several_decision *d = several_decision(several);
    assert_int_equal(d->failed, SEVERAL_ACCEPTED);
    const bool swapped =
        compare(truths[0], several_map(several, 1)).mean > compare(truths[0], several_map(several, 0)).mean;
    for (int k = 0; k < 2; k++) {
        const struct likeness_found found = compare(truths[k], several_map(several, swapped ? 1 - k : k));
        print_message("molecule %d: FSC %.2f on average, %.2f at least, %s\n", k, found.mean, found.least,
                      found.inverted ? "inverted" : "same hand");
        assert_true(likeness_is_same(&found));
        assert_true(fabs(d->maps[k].share - 0.5) < 0.15);
        assert_false(compare(one, several_map(several, k)).inverted);
    }
    assert_true(d->maps[0].share >= d->maps[1].share);
    several_destroy(&several);
    initial_images_destroy(&images);
}

static void one_molecule_has_no_second_map(void **state) {
    struct initial_images images;
    if (*state == NULL) skip();
    make_images(1, NOISE, &images);
    memcpy(one, truths[0], sizeof one);
    struct several *several = make_several(&images);
    const struct several_decision *d = several_decision(several);
    assert_true(d->failed == SEVERAL_EMPTY || d->failed == SEVERAL_LIKELIHOOD || d->failed == SEVERAL_ALIKE);
    several_destroy(&several);
    initial_images_destroy(&images);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_mixture_gives_both_molecules, prepare, clear),
        cmocka_unit_test_setup_teardown(one_molecule_has_no_second_map, prepare, clear),
    };
    return scratch_run("refiner_several", tests, sizeof tests / sizeof *tests);
}
