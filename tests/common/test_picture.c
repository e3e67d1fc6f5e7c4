#include "common/formats/picture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <png.h>

#include "common/formats/image_formats.h"
#include "common/formats/picture_encode.h"
#include "tests/common/scratch.h"

static void encoded_pictures_come_back(void **state) {
    (void)state;
    enum { NX = 203, NY = 150 };
    struct err err = {0};
    struct image image = {0};
    char path[PATH_SIZE];
    static uint8_t grey[NX * NY];
    unsigned char *bytes = NULL;
    size_t length = 0;
    for (int i = 0; i < NX * NY; i++)
        grey[i] = (uint8_t)(127 + 100 * sin(i % NX / 20.0) * cos(i / NX / 15.0));
    assert_ok(picture_encode_png(NX, NY, grey, &bytes, &length, &err));
    scratch_path("encoded.png", path);
    assert_ok(file_write_whole(path, bytes, length, &err));
    free(bytes);
    assert_ok(image_read(path, &image, &err));
    assert_true(image.nx == NX && image.ny == NY);
    for (int i = 0; i < NX * NY; i++)
        assert_true(image.data[i] == (float)grey[i]);
    assert_ok(picture_encode_jpeg(NX, NY, grey, 90, &bytes, &length, &err));
    scratch_path("encoded.jpg", path);
    assert_ok(file_write_whole(path, bytes, length, &err));
    free(bytes);
    assert_ok(image_read(path, &image, &err));
    assert_true(image.nx == NX && image.ny == NY);
    for (int i = 0; i < NX * NY; i++)
        assert_true(fabs(image.data[i] - (double)grey[i]) < 12); /* quality 90 of a smooth picture */
    assert_int_equal(picture_encode_jpeg(0, 5, grey, 75, &bytes, &length, &err), STATUS_BAD_ARGUMENT);
    assert_int_equal(picture_encode_png(5, 70000, grey, &bytes, &length, &err), STATUS_BAD_ARGUMENT);
    image_destroy(&image);
}

static void pictures_come_back(void **state) {
    (void)state;
    struct err err = {0};
    struct image image = {0};
    struct image_info info = {0};
    char path[PATH_SIZE];
    uint8_t grey[5 * 7], rgb[5 * 7 * 3];
    for (int i = 0; i < 5 * 7; i++) {
        grey[i] = (uint8_t)(i * 7);
        for (int c = 0; c < 3; c++)
            rgb[3 * i + c] = (uint8_t)(i * (c + 2));
    }
    scratch_path("grey.png", path);
    assert_ok(picture_write_grey(path, 5, 7, grey, &err));
    assert_ok(image_probe(path, &info, &err));
    assert_int_equal(info.format, IMAGE_PNG);
    assert_int_equal(info.nx, 5);
    assert_int_equal(info.ny, 7);
    assert_ok(image_read(path, &image, &err));
    for (int i = 0; i < 5 * 7; i++)
        assert_true(image.data[i] == (float)grey[i]);
    scratch_path("rgb.png", path);
    assert_ok(picture_write_rgb(path, 5, 7, rgb, &err));
    assert_ok(image_read(path, &image, &err));
    for (int i = 0; i < 5 * 7; i++)
        assert_true(fabs(image.data[i] - (0.2126 * rgb[3 * i] + 0.7152 * rgb[3 * i + 1] + 0.0722 * rgb[3 * i + 2])) <
                    1e-3);
    for (int i = 0; i < 3 * 5 * 7; i++)
        rgb[i] = grey[i / 3];
    assert_ok(picture_write_rgb(path, 5, 7, rgb, &err));
    assert_ok(image_read(path, &image, &err));
    for (int i = 0; i < 5 * 7; i++)
        assert_true(image.data[i] == (float)grey[i]);
    uint8_t palette[PICTURE_COLOURS][3];
    for (int i = 0; i < PICTURE_COLOURS; i++)
        for (int c = 0; c < 3; c++)
            palette[i][c] = (uint8_t)(255 - i * (c + 1) / 3);
    grey[3] = PICTURE_COLOURS - 1;
    scratch_path("palette.png", path);
    assert_ok(picture_write_palette(path, 5, 7, grey, palette, &err));
    assert_ok(image_read(path, &image, &err));
    for (int i = 0; i < 5 * 7; i++) {
        const uint8_t *p = palette[grey[i]];
        assert_true(fabs(image.data[i] - (0.2126 * p[0] + 0.7152 * p[1] + 0.0722 * p[2])) < 1e-3);
    }
    assert_int_equal(picture_write_grey(path, 0, 7, grey, &err), STATUS_BAD_ARGUMENT);
    scratch_path("nowhere/x.png", path);
    assert_int_equal(picture_write_grey(path, 5, 7, grey, &err), STATUS_UNAVAILABLE);
    assert_non_null(strstr(err.message, path));
    image_destroy(&image);
}

static void write_deep_png(const char *path, int type, int bits, int interlace, const unsigned char *rows, int row) {
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_init_io(png, out);
    png_set_IHDR(png, info, 9, 6, bits, type, interlace, PNG_COMPRESSION_TYPE_BASE, PNG_FILTER_TYPE_BASE);
    png_color palette[4] = {{0, 0, 0}, {10, 10, 10}, {20, 20, 20}, {200, 200, 200}};
    if (type == PNG_COLOR_TYPE_PALETTE) png_set_PLTE(png, info, palette, 4);
    png_write_info(png, info);
    png_bytep pointers[6];
    for (int y = 0; y < 6; y++)
        pointers[y] = (png_bytep)(uintptr_t)(rows + y * row);
    png_write_image(png, pointers);
    png_write_end(png, NULL);
    png_destroy_write_struct(&png, &info);
    assert_int_equal(fclose(out), 0);
}

static void other_kinds_of_png_are_read(void **state) {
    (void)state;
    struct err err = {0};
    struct image image = {0};
    char path[PATH_SIZE];
    scratch_path("deep.png", path);
    unsigned char rows[6 * 36];
    for (size_t i = 0; i < sizeof rows; i++)
        rows[i] = (unsigned char)(i * 37 % 251);
    for (int interlace = PNG_INTERLACE_NONE; interlace <= PNG_INTERLACE_ADAM7; interlace++) {
        write_deep_png(path, PNG_COLOR_TYPE_GRAY, 16, interlace, rows, 18);
        assert_ok(image_read(path, &image, &err));
        for (int i = 0; i < 54; i++)
            assert_true(image.data[i] == (float)(rows[2 * i] << 8 | rows[2 * i + 1]));
        write_deep_png(path, PNG_COLOR_TYPE_GRAY_ALPHA, 16, interlace, rows, 36);
        assert_ok(image_read(path, &image, &err));
        for (int i = 0; i < 54; i++)
            assert_true(image.data[i] == (float)(rows[4 * i] << 8 | rows[4 * i + 1]));
        unsigned char indices[6 * 9], bits[6 * 2] = {0};
        for (int i = 0; i < 54; i++)
            indices[i] = (unsigned char)(i % 4);
        write_deep_png(path, PNG_COLOR_TYPE_PALETTE, 8, interlace, indices, 9);
        static const float shown[4] = {0, 10, 20, 200};
        assert_ok(image_read(path, &image, &err));
        for (int i = 0; i < 54; i++)
            assert_true(fabsf(image.data[i] - shown[i % 4]) < 1e-3f);
        bits[0] = 0xa0;
        write_deep_png(path, PNG_COLOR_TYPE_GRAY, 1, interlace, bits, 2);
        assert_ok(image_read(path, &image, &err));
        assert_true(image.data[0] == 255 && image.data[1] == 0 && image.data[2] == 255 && image.data[9] == 0);
    }
    image_destroy(&image);
}

static void write_jpeg(const char *path, int nx, int ny, int channels, const unsigned char *pixels) {
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr error;
    jpeg.err = jpeg_std_error(&error);
    jpeg_create_compress(&jpeg);
    jpeg_stdio_dest(&jpeg, out);
    jpeg.image_width = (JDIMENSION)nx;
    jpeg.image_height = (JDIMENSION)ny;
    jpeg.input_components = channels;
    jpeg.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, 98, TRUE);
    jpeg_start_compress(&jpeg, TRUE);
    while (jpeg.next_scanline < jpeg.image_height) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(pixels + jpeg.next_scanline * (size_t)(nx * channels));
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    assert_int_equal(fclose(out), 0);
}

static void jpegs_are_read(void **state) {
    (void)state;
    struct err err = {0};
    struct image image = {0};
    struct image_info info = {0};
    char path[PATH_SIZE];
    unsigned char pixels[40 * 30 * 3];
    for (int channels = 1; channels <= 3; channels += 2) {
        for (int i = 0; i < 40 * 30; i++)
            for (int c = 0; c < channels; c++)
                pixels[i * channels + c] = (unsigned char)(i / 40 * 4 + i % 40 * 2 + 10 * c);
        scratch_path("picture.jpeg", path);
        write_jpeg(path, 40, 30, channels, pixels);
        assert_ok(image_probe(path, &info, &err));
        assert_int_equal(info.format, IMAGE_JPEG);
        assert_ok(image_read(path, &image, &err));
        assert_int_equal(image.nx, 40);
        assert_int_equal(image.ny, 30);
        for (int i = 0; i < 40 * 30; i++) {
            float shade = (float)(i / 40 * 4 + i % 40 * 2) + (channels == 3 ? 0.7152f * 10 + 0.0722f * 20 : 0);
            /* JPEG is lossy. */
            assert_true(fabsf(image.data[i] - shade) < 6);
        }
    }
    image_destroy(&image);
}

static void a_growing_picture_is_never_whole(void **state) {
    (void)state;
    struct err err = {0};
    char path[PATH_SIZE], part[PATH_SIZE];
    unsigned char pixels[64 * 48];
    for (int i = 0; i < 64 * 48; i++)
        pixels[i] = (unsigned char)(i * 131 % 256);
    for (int jpeg = 0; jpeg < 2; jpeg++) {
        scratch_path(jpeg ? "whole.jpg" : "whole.png", path);
        scratch_path("part", part);
        if (jpeg)
            write_jpeg(path, 64, 48, 1, pixels);
        else
            assert_ok(picture_write_grey(path, 64, 48, pixels, &err));
        char *bytes = NULL;
        size_t length = 0;
        assert_ok(file_read_whole(path, 1 << 20, &bytes, &length, &err));
        for (size_t cut = 0; cut < length; cut += cut < 64 || cut + 64 > length ? 1 : 23) {
            struct image_info info = {0};
            struct image image = {0};
            FILE *out = fopen(part, "wb");
            assert_non_null(out);
            assert_int_equal(fwrite(bytes, 1, cut, out), cut);
            assert_int_equal(fclose(out), 0);
            enum status status = image_probe(part, &info, &err);
            if (status != STATUS_TRUNCATED || strstr(err.message, part) == NULL)
                fail_msg("cut at byte %zu of %zu gave %s: %s", cut, length, status_name(status), err.message);
            assert_int_not_equal(image_read(part, &image, &err), STATUS_OK);
            image_destroy(&image);
        }
        free(bytes);
    }
}

static void real_pictures_are_read(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int nx, ny;
    } files[] = {{"marco/200.jpeg", 1280, 960},
                 {"mrcfile/emd_3197.png", 500, 500},
                 {"empiar10017/micrographs/Falcon_2012_06_12-14_33_35_0.jpg", 4096, 4096}};
    struct image image = {0};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[PATH_SIZE];
        struct err err = {0};
        if (!scratch_data(files[i].name, path)) {
            print_message("no shared data: %s\n", path);
            skip();
        }
        assert_ok(image_read(path, &image, &err));
        assert_int_equal(image.nx, files[i].nx);
        assert_int_equal(image.ny, files[i].ny);
    }
    image_destroy(&image);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pictures_come_back),
        cmocka_unit_test(encoded_pictures_come_back),
        cmocka_unit_test(other_kinds_of_png_are_read),
        cmocka_unit_test(jpegs_are_read),
        cmocka_unit_test(a_growing_picture_is_never_whole),
        cmocka_unit_test(real_pictures_are_read),
    };
    return scratch_run("picture", tests, sizeof tests / sizeof *tests);
}
