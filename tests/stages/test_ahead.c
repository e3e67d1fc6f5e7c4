/* Tests reading ahead with room for few images, of several sizes: an image that has no room now is read once there is
 * some, and one that never has any does not hold up those behind it. */
#include <stdio.h>
#include <string.h>

#include "common/formats/mrc.h"
#include "stages/classifier/ahead.h"
#include "tests/common/scratch.h"

/* Sizes of images: there is room for three large ones, or for one of twice the size and one that is large. */
enum { SMALL, LARGE, TWICE, VAST, SIZES, IMAGES = 10 };
static const int BOXES[SIZES] = {16, 64, 90, 256};
static const size_t ROOM = (size_t)3 * 64 * 64 * sizeof(float);

static char stacks[SIZES][PATH_SIZE];
static int slots[SIZES * IMAGES];

static size_t nth(int size, int i) {
    return (size_t)(size * IMAGES + i);
}

static struct ahead_image look(void *context, size_t particle) {
    (void)context;
    const size_t size = particle / IMAGES;
    return (struct ahead_image){
        .stack = stacks[size], .box = BOXES[size], .slice = (int)(particle % IMAGES), .slot = &slots[particle]};
}

/* All pixels of an image are the number of its particle. */
static void write_stacks(void) {
    struct image image = {0};
    struct err err = {0};
    char name[32];
    for (int size = 0; size < SIZES; size++) {
        const size_t pixels = (size_t)BOXES[size] * (size_t)BOXES[size];
        snprintf(name, sizeof name, "%d.mrcs", size);
        scratch_path(name, stacks[size]);
        assert_ok(image_resize(&image, BOXES[size], BOXES[size], IMAGES, &err));
        for (size_t i = 0; i < IMAGES * pixels; i++)
            image.data[i] = (float)nth(size, (int)(i / pixels));
        assert_ok(mrc_write(stacks[size], &image, MRC_STACK, MRC_FLOAT32, &err));
    }
    image_destroy(&image);
}

static struct ahead *begin(void) {
    const struct ahead_owner owner = {.look = look};
    struct ahead *ahead = NULL;
    struct err err = {0};
    write_stacks();
    memset(slots, 0, sizeof slots);
    assert_ok(ahead_create(1, ROOM, NULL, &owner, &ahead, &err));
    return ahead;
}

/* Takes an image that must have been read ahead. */
static void take(struct ahead *ahead, size_t particle) {
    struct ahead_made made;
    const float *image = ahead_take(ahead, particle, &made);
    const size_t box = (size_t)BOXES[particle / IMAGES];
    if (image == NULL) fail_msg("image %zu was not read ahead", particle);
    assert_false(made.made);
    assert_true(image[0] == (float)particle && image[box * box - 1] == (float)particle);
}

static void take_large(struct ahead *ahead, int from, int end) {
    for (int i = from; i < end; i++)
        take(ahead, nth(LARGE, i));
}

static void images_come_as_room_does(void **state) {
    (void)state;
    size_t list[IMAGES] = {nth(SMALL, 0)};
    struct ahead *ahead = begin();
    for (int i = 1; i < IMAGES; i++)
        list[i] = nth(LARGE, i);
    for (int round = 0; round < 2; round++) { /* then with the slots of the first round */
        ahead_expect(ahead, list, IMAGES, NULL, 0);
        take(ahead, nth(SMALL, 0));
        take_large(ahead, 1, IMAGES);
    }
    ahead_destroy(&ahead);
}

/* Other sizes take the room that spare slots hold. */
static void sizes_alternate(void **state) {
    (void)state;
    const size_t first[] = {nth(SMALL, 0), nth(LARGE, 0), nth(LARGE, 1), nth(LARGE, 2)};
    size_t list[2 * IMAGES];
    struct ahead *ahead = begin();
    for (int i = 0; i < IMAGES; i++) {
        list[2 * i] = nth(TWICE, i);
        list[2 * i + 1] = nth(LARGE, i);
    }
    ahead_expect(ahead, first, 4, NULL, 0);
    for (int i = 0; i < 4; i++)
        take(ahead, first[i]);
    ahead_expect(ahead, list, IMAGES, list + IMAGES, IMAGES);
    for (int i = 0; i < 2 * IMAGES; i++)
        take(ahead, list[i]);
    ahead_destroy(&ahead);
}

static void what_never_fits_is_passed_over(void **state) {
    (void)state;
    size_t list[IMAGES + 2] = {nth(SMALL, 0), nth(VAST, 0)};
    struct ahead_made made;
    struct ahead *ahead = begin();
    for (int i = 0; i < IMAGES; i++)
        list[2 + i] = nth(LARGE, i);
    ahead_expect(ahead, list, IMAGES + 2, NULL, 0);
    take(ahead, nth(SMALL, 0));
    assert_null(ahead_take(ahead, nth(VAST, 0), &made));
    take_large(ahead, 0, IMAGES);
    ahead_destroy(&ahead);
}

/* Images that were read before and come soon hold the room of the next one until its turn comes. */
static void what_had_no_room_in_time_is_passed_over(void **state) {
    (void)state;
    const size_t first[] = {nth(SMALL, 0), nth(LARGE, 0), nth(LARGE, 1), nth(SMALL, 1)};
    size_t list[IMAGES + 1] = {nth(TWICE, 0)};
    struct ahead_made made;
    struct ahead *ahead = begin();
    ahead_expect(ahead, first, 4, NULL, 0);
    take(ahead, nth(SMALL, 1)); /* one thread has read the others before */
    for (int i = 0; i < IMAGES; i++)
        list[1 + i] = nth(LARGE, i);
    ahead_expect(ahead, list, IMAGES + 1, NULL, 0);
    assert_null(ahead_take(ahead, nth(TWICE, 0), &made));
    take_large(ahead, 0, IMAGES);
    ahead_destroy(&ahead);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_come_as_room_does),
        cmocka_unit_test(sizes_alternate),
        cmocka_unit_test(what_never_fits_is_passed_over),
        cmocka_unit_test(what_had_no_room_in_time_is_passed_over),
    };
    return scratch_run("ahead", tests, sizeof tests / sizeof *tests);
}
