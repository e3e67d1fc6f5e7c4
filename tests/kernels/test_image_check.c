/* Images that are not normalised are found and normalised; those that are, are left as they are; those that cannot be,
 * are refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/prepare/image_check.h"

enum { BOX = 20, PIXELS = BOX * BOX, COUNT = 40 };
static const double RADIUS = 6;

static bool outside(int i) {
    return hypot(i % BOX - BOX / 2, i / BOX - BOX / 2) > RADIUS;
}

static double normal(void) {
    return sqrt(-2 * log(1 - rand() / (RAND_MAX + 1.0))) * cos(2 * M_PI * (rand() / (RAND_MAX + 1.0)));
}

/* Makes noise with a particle, by which the inside differs, on a plane. */
static void make(float *image, double mean, double deviation, double slope) {
    for (int i = 0; i < PIXELS; i++)
        image[i] =
            (float)(mean + deviation * (normal() + (outside(i) ? 0 : 2)) + slope * (i % BOX) - slope * (i / BOX));
}

static struct background_values truth(const float *image) {
    double sum = 0, squares = 0, count = 0;
    for (int i = 0; i < PIXELS; i++)
        if (outside(i)) sum += image[i], count++;
    for (int i = 0; i < PIXELS; i++)
        if (outside(i)) squares += (image[i] - sum / count) * (image[i] - sum / count);
    return (struct background_values){.mean = sum / count, .deviation = sqrt(squares / count)};
}

static enum status judge(float (*images)[PIXELS], int count, enum image_check_mode mode, double diameter,
                         struct image_check **ret_check, struct err *err) {
    const struct image_check_options options = {.box = BOX, .pixel_size = 2, .diameter = diameter, .mode = mode};
    assert_int_equal(image_check_create(&options, ret_check, NULL), STATUS_OK);
    for (int i = 0; i < count; i++)
        assert_int_equal(image_check_sample(*ret_check, images[i], false, NULL), STATUS_OK);
    return image_check_decide(*ret_check, err);
}

static void backgrounds_are_measured(void **state) {
    (void)state;
    float image[PIXELS];
    struct background *background = NULL;
    assert_int_equal(background_create(BOX, RADIUS, &background, NULL), STATUS_OK);
    make(image, 1000, 37, 3);
    struct background_values found = background_measure(background, image), expected = truth(image);
    assert_true(fabs(found.mean - expected.mean) < 1e-9 * 1000);
    assert_true(fabs(found.deviation - expected.deviation) < 1e-9 * 1000);
    assert_false(found.constant);
    for (int i = 0; i < PIXELS; i++)
        image[i] = outside(i) ? 7.3f : (float)i;
    assert_true(background_measure(background, image).constant);
    assert_false(background_normalise(background, false, image));
    assert_true(image[PIXELS / 2 + BOX / 2] == PIXELS / 2 + BOX / 2);
    size_t pixels = 0;
    for (int i = 0; i < PIXELS; i++)
        pixels += outside(i);
    assert_int_equal(background_pixels(background), pixels);
    background_destroy(&background);
}

/* Each image of a set with an offset, a scale or both becomes what it was, to rounding. */
static void what_is_not_normalised_becomes_so(void **state) {
    (void)state;
    const double cases[][2] = {{1000, 37}, {5, 1}, {1, 1}, {0, 37}, {0, 0.02}, {-3, 0.5}};
    static float images[COUNT][PIXELS];
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct image_check *check = NULL;
        for (int i = 0; i < COUNT; i++)
            make(images[i], cases[c][0], cases[c][1], 0);
        assert_int_equal(judge(images, COUNT, IMAGE_CHECK_AUTO, 4 * RADIUS, &check, NULL), STATUS_OK);
        assert_true(image_check_normalises(check));
        assert_non_null(strstr(image_check_reason(check), "in 40 of 40 images"));
        for (int i = 0; i < COUNT; i++) {
            float before[PIXELS];
            memcpy(before, images[i], sizeof before);
            assert_true(image_check_usable(check, images[i]));
            image_check_take(check, images[i]);
            struct background_values found = truth(images[i]), was = truth(before);
            assert_true(fabs(found.mean) < 1e-5 && fabs(found.deviation - 1) < 1e-5);
            for (int p = 0; p < PIXELS; p++)
                assert_true(fabs(images[i][p] - (before[p] - was.mean) / was.deviation) < 1e-4);
        }
        image_check_destroy(&check);
    }
}

static void a_plane_is_taken_away_on_demand(void **state) {
    (void)state;
    static float images[COUNT][PIXELS];
    struct image_check *check = NULL;
    for (int i = 0; i < COUNT; i++)
        make(images[i], 3, 0.2, 0.5);
    assert_int_equal(judge(images, COUNT, IMAGE_CHECK_RAMP, 4 * RADIUS, &check, NULL), STATUS_OK);
    image_check_take(check, images[0]);
    struct background_values found = truth(images[0]);
    assert_true(fabs(found.mean) < 1e-5 && fabs(found.deviation - 1) < 1e-5);
    double moment = 0, count = 0;
    for (int i = 0; i < PIXELS; i++)
        if (outside(i)) moment += images[0][i] * (i % BOX - BOX / 2 + 0.5), count++;
    assert_true(fabs(moment / count) < 1e-3);
    image_check_destroy(&check);
}

/* Neighbours, ice, or another circle: a few images, or all by a little. */
static void what_is_normalised_is_left_alone(void **state) {
    (void)state;
    static float images[COUNT][PIXELS];
    struct image_check *check = NULL;
    for (int i = 0; i < COUNT; i++)
        make(images[i], i == 0 ? 4 : 0.2 * (i % 3 - 1), i == 1 ? 5 : 0.8 + 0.02 * (i % 20), 0);
    for (int mode = 0; mode < 2; mode++) {
        float kept[PIXELS];
        memcpy(kept, images[2], sizeof kept);
        assert_int_equal(judge(images, COUNT, mode ? IMAGE_CHECK_OFF : IMAGE_CHECK_AUTO, 4 * RADIUS, &check, NULL),
                         STATUS_OK);
        assert_false(image_check_normalises(check));
        assert_string_equal(image_check_reason(check), "");
        image_check_take(check, images[2]);
        assert_memory_equal(kept, images[2], sizeof kept);
        image_check_destroy(&check);
    }
}

/* An image that is far stronger than the others about its background is of no use, on whatever level they lie. */
static void strong_images_are_found(void **state) {
    (void)state;
    static float images[COUNT][PIXELS];
    float image[PIXELS];
    for (int c = 0; c < 2; c++) {
        struct image_check *check = NULL;
        for (int i = 0; i < COUNT; i++)
            make(images[i], c * 1e4, 1, 0);
        assert_int_equal(judge(images, COUNT, IMAGE_CHECK_AUTO, 4 * RADIUS, &check, NULL), STATUS_OK);
        assert_int_equal(image_check_normalises(check), c);
        make(image, c * 1e4, 300, 0);
        assert_false(image_check_usable(check, image));
        make(image, c * 1e4, 10, 0);
        assert_true(image_check_usable(check, image));
        image_check_destroy(&check);
    }
}

/* Images of another grid are measured in a circle of the same diameter, which is made once. A set that was found not to be
 * normalised stays so, whatever the sample. */
static void other_grids_and_earlier_runs_count(void **state) {
    (void)state;
    enum { OTHER = 40 };
    static float images[COUNT][PIXELS], other[OTHER * OTHER];
    const struct image_check_options options = {
        .box = BOX, .pixel_size = 2, .diameter = 4 * RADIUS, .mode = IMAGE_CHECK_AUTO, .normalised = true};
    struct image_check *check = NULL;
    bool usable = false;
    double sum = 0, squares = 0, count = 0;
    assert_int_equal(image_check_create(&options, &check, NULL), STATUS_OK);
    for (int i = 0; i < COUNT; i++) {
        make(images[i], 0, 1, 0);
        assert_int_equal(image_check_sample(check, images[i], false, NULL), STATUS_OK);
    }
    assert_int_equal(image_check_decide(check, NULL), STATUS_OK);
    assert_true(image_check_normalises(check) && strstr(image_check_reason(check), "found before") != NULL);
    for (int i = 0; i < OTHER * OTHER; i++)
        other[i] = (float)(5 + 3 * normal());
    assert_int_equal(image_check_take_other(check, OTHER, 1, other, &usable, NULL), STATUS_BAD_STATE);
    for (int again = 0; again < 2; again++)
        assert_int_equal(image_check_prepare_other(check, OTHER, 1, NULL), STATUS_OK);
    assert_int_equal(image_check_prepare_other(check, 2 * OTHER, 0.5, NULL), STATUS_OK);
    assert_int_equal(image_check_take_other(check, OTHER, 1, other, &usable, NULL), STATUS_OK);
    for (int i = 0; i < OTHER * OTHER; i++) {
        if (hypot(i % OTHER - OTHER / 2, i / OTHER - OTHER / 2) <= 2 * RADIUS) continue;
        sum += (double)other[i], squares += (double)other[i] * (double)other[i], count++;
    }
    assert_true(usable && fabs(sum / count) < 1e-5 && fabs(squares / count - 1) < 1e-5);
    image_check_destroy(&check);
}

/* An image may be measured apart from the check that it is added to, as by threads that read images. */
static void what_was_measured_can_be_added(void **state) {
    (void)state;
    static float images[COUNT][PIXELS];
    const struct image_check_options options = {.box = BOX, .pixel_size = 2, .diameter = 4 * RADIUS};
    struct image_check *check = NULL, *meter = NULL, *expected = NULL;
    for (int i = 0; i < COUNT; i++)
        make(images[i], 4, 2 + 0.1 * i, 0);
    assert_int_equal(judge(images, COUNT, IMAGE_CHECK_AUTO, 4 * RADIUS, &expected, NULL), STATUS_OK);
    assert_int_equal(image_check_create(&options, &check, NULL), STATUS_OK);
    assert_int_equal(image_check_create(&options, &meter, NULL), STATUS_OK);
    for (int i = 0; i < COUNT; i++) {
        const struct image_measures measures = image_check_measure(meter, images[i]);
        assert_int_equal(image_check_add(check, &measures, false, NULL), STATUS_OK);
    }
    assert_int_equal(image_check_decide(check, NULL), STATUS_OK);
    assert_true(image_check_normalises(check) && image_check_normalises(expected));
    assert_true(image_check_strongest(check) > 0 && image_check_strongest(check) == image_check_strongest(expected));
    assert_string_equal(image_check_reason(check), image_check_reason(expected));
    image_check_destroy(&check);
    image_check_destroy(&meter);
    image_check_destroy(&expected);
}

static void what_cannot_be_normalised_is_refused(void **state) {
    (void)state;
    static float images[COUNT][PIXELS];
    struct image_check *check = NULL;
    struct err err = {0};
    for (int i = 0; i < COUNT; i++)
        make(images[i], 9, 1, 0);
    assert_int_equal(judge(images, COUNT, IMAGE_CHECK_AUTO, 200, &check, &err), STATUS_BAD_FORMAT);
    assert_non_null(strstr(err.message, "the diameter (200 Å) leaves no background in the box of 40 Å"));
    image_check_destroy(&check);
    for (int i = 0; i < COUNT; i++)
        for (int p = 0; p < PIXELS; p++)
            if (outside(p)) images[i][p] = 5;
    assert_int_equal(judge(images, COUNT, IMAGE_CHECK_AUTO, 4 * RADIUS, &check, &err), STATUS_BAD_FORMAT);
    assert_non_null(strstr(err.message, "most of 40 images are constant, at 5 in the median"));
    image_check_destroy(&check);
    /* Switched off, they are taken as they are, and that is told. */
    assert_int_equal(judge(images, COUNT, IMAGE_CHECK_OFF, 4 * RADIUS, &check, NULL), STATUS_OK);
    assert_false(image_check_normalises(check));
    assert_non_null(strstr(image_check_reason(check), "since `normalise` is off, each image is taken as it is"));
    image_check_destroy(&check);
    /* Masked to 0 there is nothing to subtract. */
    for (int i = 0; i < COUNT; i++)
        for (int p = 0; p < PIXELS; p++)
            if (outside(p)) images[i][p] = 0;
    assert_int_equal(judge(images, COUNT, IMAGE_CHECK_AUTO, 4 * RADIUS, &check, NULL), STATUS_OK);
    assert_false(image_check_normalises(check));
    image_check_destroy(&check);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backgrounds_are_measured),        cmocka_unit_test(what_is_not_normalised_becomes_so),
        cmocka_unit_test(a_plane_is_taken_away_on_demand), cmocka_unit_test(what_is_normalised_is_left_alone),
        cmocka_unit_test(strong_images_are_found),         cmocka_unit_test(other_grids_and_earlier_runs_count),
        cmocka_unit_test(what_was_measured_can_be_added),  cmocka_unit_test(what_cannot_be_normalised_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
