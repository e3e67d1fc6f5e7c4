/* Tests thumbnails: shape, averages, greys, and images that are no pictures. */
#include "common/formats/thumbnail.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/formats/image_formats.h"
#include "tests/common/scratch.h"

static void fill(struct image *image, int nx, int ny, float (*value)(int x, int y)) {
    struct err err = {0};
    assert_ok(image_resize(image, nx, ny, 1, &err));
    for (int y = 0; y < ny; y++)
        for (int x = 0; x < nx; x++)
            image->data[(size_t)y * (size_t)nx + (size_t)x] = value(x, y);
}

/* Dark above, bright below, with a large mean. */
static float bands(int x, int y) {
    (void)x;
    return 1e6F + (y < 300 ? -10.0F : 10.0F);
}

static float flat(int x, int y) {
    (void)x, (void)y;
    return 7;
}

static float one_bad_column(int x, int y) {
    return x == 3 ? NAN : x == 4 ? INFINITY : (float)(x + y);
}

static void sides_keep_their_proportion(void **state) {
    (void)state;
    const int shapes[][4] = {{4096, 4096, 192, 192}, {5760, 4092, 192, 136}, {1000, 7, 192, 1}, {100, 60, 100, 60},
                             {1, 1, 1, 1},           {192, 193, 191, 192},   {3, 4000, 1, 192}};
    static struct thumbnail thumbnail;
    struct image image = {0};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        fill(&image, shapes[i][0], shapes[i][1], flat);
        thumbnail_make(&image, &thumbnail);
        assert_int_equal(thumbnail.nx, shapes[i][2]);
        assert_int_equal(thumbnail.ny, shapes[i][3]);
        assert_int_equal(thumbnail.pixels[0], 128); /* no contrast: grey */
    }
    image_destroy(&image);
}

static void greys_follow_the_image_from_the_top(void **state) {
    (void)state;
    static struct thumbnail thumbnail;
    struct image image = {0};
    fill(&image, 800, 600, bands);
    thumbnail_make(&image, &thumbnail);
    assert_int_equal(thumbnail.ny, 144);
    /* Half of the pixels lie one standard deviation below the mean, the others above: 3 of them reach to black and white. */
    assert_in_range(thumbnail.pixels[0], 84, 86);
    assert_in_range(thumbnail.pixels[143 * 192 + 191], 169, 171);
    image_destroy(&image);
}

static void pixels_without_a_number_are_left_out(void **state) {
    (void)state;
    static struct thumbnail thumbnail;
    struct image image = {0};
    fill(&image, 192, 100, one_bad_column);
    thumbnail_make(&image, &thumbnail);
    assert_int_equal(thumbnail.pixels[3], 0);
    assert_true(thumbnail.pixels[191] > thumbnail.pixels[10]);
    fill(&image, 1920, 1000, one_bad_column);
    thumbnail_make(&image, &thumbnail);
    assert_in_range(thumbnail.pixels[0], 1, 127); /* of the box's other columns */
    image_destroy(&image);
}

static void a_thumbnail_is_a_small_jpeg(void **state) {
    (void)state;
    static struct thumbnail thumbnail;
    struct err err = {0};
    struct image image = {0};
    struct image_info info = {0};
    struct stat file;
    char path[PATH_SIZE];
    fill(&image, 800, 600, bands);
    thumbnail_make(&image, &thumbnail);
    scratch_path("bands.jpg", path);
    assert_ok(thumbnail_write(&thumbnail, path, &err));
    assert_ok(image_probe(path, &info, &err));
    assert_int_equal(info.format, IMAGE_JPEG);
    assert_int_equal(stat(path, &file), 0);
    assert_true(file.st_size < 20000);
    assert_ok(image_read(path, &image, &err));
    assert_int_equal(image.nx, 192);
    assert_float_equal(image.data[0], 85, 3);
    assert_float_equal(image.data[143 * 192], 170, 3);
    image_destroy(&image);
    scratch_path("nowhere/x.jpg", path);
    assert_int_not_equal(thumbnail_write(&thumbnail, path, &err), STATUS_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sides_keep_their_proportion),
        cmocka_unit_test(greys_follow_the_image_from_the_top),
        cmocka_unit_test(pixels_without_a_number_are_left_out),
        cmocka_unit_test(a_thumbnail_is_a_small_jpeg),
    };
    return scratch_run("thumbnail", tests, sizeof tests / sizeof *tests);
}
