/* Tests the table of image formats: endings and their uses, recognition by content, and messages about other files.
 * Other tests check the readers of each format (test_mrc, test_tiff, test_picture, test_broken). */
#include "common/formats/image_formats.h"

#include <stdio.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/mrc.h"
#include "common/formats/picture.h"
#include "tests/common/scratch.h"

static void assert_endings(unsigned uses, const char *expected) {
    char found[256] = "";
    const char *ending;
    for (size_t i = 0; (ending = image_ending(i, uses)) != NULL; i++)
        snprintf(found + strlen(found), sizeof found - strlen(found), "%s%s", i > 0 ? " " : "", ending);
    assert_string_equal(found, expected);
}

static void each_use_has_its_endings(void **state) {
    (void)state;
    assert_endings(IMAGE_AS_MICROGRAPH, ".mrc .tif .tiff");
    assert_endings(IMAGE_AS_MOVIE, ".mrc .mrcs .tif .tiff .eer");
    /* Order in which the reader looks for an image that an .mdoc names. */
    assert_endings(IMAGE_AS_TILT, ".mrc .st .tif .tiff");
    assert_endings(IMAGE_AS_TILT_STACK, ".mrc .mrcs .st .ali .tif .tiff .eer");
    assert_endings(IMAGE_AS_VOLUME, ".mrc .map .rec");
    assert_endings(IMAGE_AS_PHOTOGRAPH, ".png .jpg .jpeg");
    assert_endings(IMAGE_AS_ANYTHING, ".mrc .mrcs .st .ali .map .rec .tif .tiff .eer .png .jpg .jpeg");
}

static void an_ending_is_found_in_any_case(void **state) {
    (void)state;
    assert_true(image_path_fits("a/b.mrc", IMAGE_AS_MICROGRAPH));
    assert_true(image_path_fits("a/b.c.TIFF", IMAGE_AS_MICROGRAPH));
    assert_true(image_path_fits("b.Jpeg", IMAGE_AS_PHOTOGRAPH));
    assert_false(image_path_fits("b.jpeg", IMAGE_AS_MICROGRAPH));
    assert_false(image_path_fits("b.mrc.gz", IMAGE_AS_ANYTHING));
    assert_false(image_path_fits("mrc", IMAGE_AS_ANYTHING));
    assert_false(image_path_fits("a.mrc/b", IMAGE_AS_ANYTHING));
    assert_false(image_path_fits("", IMAGE_AS_ANYTHING));
}

static void a_stem_is_the_path_without_its_ending(void **state) {
    (void)state;
    assert_int_equal(image_path_stem("a/TS_01.mrc", IMAGE_AS_TILT_STACK), strlen("a/TS_01"));
    assert_int_equal(image_path_stem("a/TS_01.ST", IMAGE_AS_TILT_STACK), strlen("a/TS_01"));
    assert_int_equal(image_path_stem("TS_01_12.0", IMAGE_AS_TILT_STACK), strlen("TS_01_12.0"));
    assert_int_equal(image_path_stem("TS_01.rec", IMAGE_AS_TILT_STACK), strlen("TS_01.rec"));
    assert_int_equal(image_path_stem("TS_01.st.mrc", IMAGE_AS_TILT_STACK), strlen("TS_01.st"));
    assert_int_equal(image_path_stem("a/.mrc", IMAGE_AS_ANYTHING), strlen("a/.mrc"));
}

static void content_decides_and_not_the_name(void **state) {
    (void)state;
    struct err err = {0};
    struct image image = {0}, slice = {0};
    struct image_info info = {0};
    char path[PATH_SIZE], name[PATH_SIZE + 8];
    const uint8_t grey[6] = {0, 1, 2, 3, 4, 5};
    scratch_path("picture.mrc", path);
    assert_ok(picture_write_grey(path, 3, 2, grey, &err));
    assert_ok(image_probe(path, &info, &err));
    assert_int_equal(info.format, IMAGE_PNG);
    assert_true(image_is_photograph(info.format));
    snprintf(name, sizeof name, "1@%s", path);
    assert_ok(image_read_slice(name, &slice, &err));
    assert_int_equal(image_count(&slice), 6);
    name[0] = '2';
    assert_int_equal(image_read_slice(name, &slice, &err), STATUS_NOT_FOUND);
    assert_ok(image_read(path, &image, &err));
    scratch_path("density.png", path);
    assert_ok(mrc_write(path, &image, MRC_IMAGE, MRC_FLOAT32, &err));
    assert_ok(image_probe(path, &info, &err));
    assert_int_equal(info.format, IMAGE_MRC);
    assert_false(image_is_photograph(info.format));
    assert_false(image_is_photograph(IMAGE_TIFF));
    assert_true(image_is_photograph(IMAGE_JPEG));
    image_destroy(&image);
    image_destroy(&slice);
}

static void other_files_are_named_in_the_message(void **state) {
    (void)state;
    static const struct {
        char bytes[8];
        const char *expected;
    } files[] = {
        {"\x1f\x8b\x08", "it is a gzip-compressed file: unpack it first"},
        {"PK\x03\x04", "it is a zip archive: unpack it first"},
        {"hello", "it holds text"},
        {"\x02\x03", "its content is none of these"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct err err = {0};
        struct image_info info;
        char path[PATH_SIZE], content[2048];
        memset(content, files[i].bytes[0], sizeof content);
        memcpy(content, files[i].bytes, strlen(files[i].bytes));
        scratch_path("other.mrc", path);
        assert_ok(file_write_whole(path, content, sizeof content, &err));
        assert_int_equal(image_probe(path, &info, &err), STATUS_BAD_FORMAT);
        assert_non_null(strstr(err.message, "an image (MRC, TIFF, PNG or JPEG) is expected"));
        assert_non_null(strstr(err.message, files[i].expected));
        assert_ok(file_write_whole(path, content, 5, &err));
        assert_int_equal(image_probe(path, &info, &err), STATUS_TRUNCATED);
        assert_non_null(strstr(err.message, "too short for an image (MRC, TIFF, PNG or JPEG)"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_use_has_its_endings),
        cmocka_unit_test(an_ending_is_found_in_any_case),
        cmocka_unit_test(a_stem_is_the_path_without_its_ending),
        cmocka_unit_test(content_decides_and_not_the_name),
        cmocka_unit_test(other_files_are_named_in_the_message),
    };
    return scratch_run("image-formats", tests, sizeof tests / sizeof *tests);
}
