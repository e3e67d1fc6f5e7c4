#include "common/formats/tiff.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tiffio.h>

#include "common/formats/image_formats.h"
#include "common/formats/mrc.h"
#include "common/memory.h"
#include "tests/common/scratch.h"

/* Each file of the shared collection has the shape and mean that Pillow and tifffile find, or the given reason to
 * refuse it. */
static void the_collection_is_read_or_refused(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int nx, ny, nz;
        double mean;
        const char *refused;
    } files[] = {
        {"big_g4.tif", 1, 65537, 1, 0, NULL},
        {"cmyk-3c-32b-float.tiff", 0, 0, 0, 0, "kind 5"},
        {"extra_bits_gray_8b.tiff", 8, 8, 1, 0, NULL},
        {"gradient-1c-32b-float.tiff", 256, 1, 1, 0.5001247, NULL},
        {"gradient-1c-64b-float.tiff", 256, 1, 1, 0.5001247, NULL},
        {"gradient-3c-32b-float.tiff", 256, 1, 1, 0.5697219, NULL},
        {"gray.b1.tif", 111, 83, 2, 0.7392815, NULL},
        {"gray.bigendian.u2.tif", 111, 83, 2, 2483.426, NULL},
        {"gray.bigtiff.u1.tif", 111, 83, 2, 154.1769, NULL},
        {"gray.c16.tif", 0, 0, 0, 0, "complex"},
        {"gray.c8.tif", 0, 0, 0, 0, "complex"},
        {"gray.contig.u1.tif", 111, 83, 2, 154.1769, NULL},
        {"gray.depth.deflate.u1.tif", 0, 0, 0, 0, "depth 5"},
        {"gray.depth.u1.tif", 0, 0, 0, 0, "depth 5"},
        {"gray.f2.tif", 111, 83, 2, 0.6065766, NULL},
        {"gray.f4.tif", 111, 83, 2, 0.606576, NULL},
        {"gray.f8.tif", 111, 83, 2, 0.606576, NULL},
        {"gray.i1.tif", 111, 83, 2, 26.17687, NULL},
        {"gray.i2.tif", 111, 83, 2, 435.426, NULL},
        {"gray.i4.tif", 111, 83, 2, 435.426, NULL},
        {"gray.i8.tif", 111, 83, 2, 435.426, NULL},
        {"gray.lerc.u1.tif", 111, 83, 2, 154.1769, NULL},
        {"gray.lzma.u1.tif", 111, 83, 2, 154.1769, NULL},
        {"gray.lzma.u2.tif", 111, 83, 2, 2483.426, NULL},
        {"gray.none.u1.tif", 32, 32, 2, 184.4087, NULL},
        {"gray.one.b1.tif", 1, 1, 1, 1, NULL},
        {"gray.one.f2.tif", 1, 2, 1, 0.5656738, NULL},
        {"gray.one.f4.tif", 1, 2, 1, 0.5654978, NULL},
        {"gray.one.f8.tif", 1, 2, 1, 0.5654978, NULL},
        {"gray.one.i1.tif", 1, 1, 1, 10, NULL},
        {"gray.one.i2.tif", 1, 1, 1, 182, NULL},
        {"gray.one.i4.tif", 1, 1, 1, 182, NULL},
        {"gray.one.i8.tif", 1, 1, 1, 182, NULL},
        {"gray.one.u1.tif", 1, 1, 1, 138, NULL},
        {"gray.one.u2.tif", 1, 1, 1, 2230, NULL},
        {"gray.one.u4.tif", 1, 1, 1, 2230, NULL},
        {"gray.one.u8.tif", 1, 1, 1, 2230, NULL},
        {"gray.packbits.u1.tif", 111, 83, 2, 154.1769, NULL},
        {"gray.packbits.u2.tif", 111, 83, 2, 2483.426, NULL},
        {"gray.separate.u1.tif", 111, 83, 2, 154.1769, NULL},
        {"gray.series.u1.tif", 0, 0, 0, 0, "one shape"},
        {"gray.stack.u1.tif", 111, 83, 13, 142.5905, NULL},
        {"gray.tiled.f4.tif", 111, 83, 2, 0.606576, NULL},
        {"gray.tiled.none.u1.tif", 32, 32, 2, 184.4087, NULL},
        {"gray.tiled.u1.tif", 111, 83, 2, 154.1769, NULL},
        {"gray.tiled.u2.tif", 111, 83, 2, 2483.426, NULL},
        {"gray.u1.tif", 111, 83, 2, 154.1769, NULL},
        {"gray.u2.tif", 111, 83, 2, 2483.426, NULL},
        {"gray.u4.tif", 111, 83, 2, 2483.426, NULL},
        {"gray.u8.tif", 111, 83, 2, 2483.426, NULL},
        {"gray.zstd.u1.tif", 111, 83, 2, 154.1769, NULL},
        {"gray.zstd.u2.tif", 111, 83, 2, 2483.426, NULL},
        {"hpredict-1c-12b.tiff", 4, 2, 1, 550, NULL},
        {"int16.tif", 64, 64, 1, 86.52246, NULL},
        {"int16_rgb.tif", 64, 64, 1, 86.52246, NULL},
        {"int16_zstd.tif", 64, 64, 1, 86.52246, NULL},
        {"int8.tif", 64, 64, 1, 0.7595215, NULL},
        {"int8_rgb.tif", 64, 64, 1, -1.155095, NULL},
        {"issue_69_lzw.tiff", 45, 45, 1, 501.4746, NULL},
        {"predictor-3-gray-f32.tif", 200, 200, 1, 0.500207, NULL},
        {"predictor-3-rgb-f32.tif", 200, 200, 1, 0.3323209, NULL},
        {"quad-lzw-compat.tiff", 512, 384, 1, 35.2301, NULL},
        {"tiled-gray-i1.tif", 37, 51, 1, 0.4949656, NULL},
        {"tiled-oversize-gray-i8.tif", 499, 374, 1, 6.510325, NULL},
    };
    struct image image = {0};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[PATH_SIZE], name[256];
        snprintf(name, sizeof name, "tiff/%s", files[i].name);
        if (!scratch_data(name, path)) {
            print_message("no shared data: %s\n", path);
            skip();
        }
        struct err err = {0};
        struct image_info info = {0};
        enum status probed = image_probe(path, &info, &err), read = image_read(path, &image, &err);
        assert_int_equal(probed, read);
        if (files[i].refused != NULL) {
            if (read != STATUS_UNSUPPORTED || strstr(err.message, files[i].refused) == NULL ||
                strstr(err.message, path) == NULL)
                fail_msg("%s gave %s: %s", name, status_name(read), err.message);
            continue;
        }
        if (read != STATUS_OK) fail_msg("%s: %s", name, err.message);
        double sum = 0;
        for (size_t k = 0; k < image_count(&image); k++)
            sum += image.data[k];
        double mean = sum / (double)image_count(&image);
        if (info.format != IMAGE_TIFF || image.nx != files[i].nx || image.ny != files[i].ny ||
            image.nz != files[i].nz || info.nz != image.nz || fabs(mean - files[i].mean) > 1e-5 * fabs(mean) + 1e-6)
            fail_msg("%s: %d x %d x %d, mean %.8g", name, image.nx, image.ny, image.nz, mean);
    }
    image_destroy(&image);
}

struct layout {
    const char *mode; /* mode for TIFFOpen: byte order and size of offsets */
    uint16_t bits, format, compression;
    uint32_t tile; /* 0: strips of 7 rows */
};

static double value_at(const struct layout *l, int page, int y, int x) {
    int v = (page * 31 + y * 7 + x * 3) % 120;
    return l->format == SAMPLEFORMAT_UINT ? v : v - 60;
}

static void store(const struct layout *l, double value, unsigned char *to) {
    if (l->format == SAMPLEFORMAT_IEEEFP && l->bits == 32)
        memcpy(to, &(float){(float)value}, 4);
    else if (l->format == SAMPLEFORMAT_IEEEFP)
        memcpy(to, &value, 8);
    else if (l->bits == 8)
        *to = (unsigned char)(int)value;
    else if (l->bits == 16)
        memcpy(to, &(int16_t){(int16_t)value}, 2);
    else
        memcpy(to, &(int32_t){(int32_t)value}, 4);
}

enum { NX = 50, NY = 37, PAGES = 3 };

static void write_block(TIFF *tiff, const struct layout *l, int page, int x0, int y0, int nx, int ny, uint32_t number) {
    size_t size = l->bits / 8;
    unsigned char *block = calloc((size_t)nx * (size_t)ny, size);
    assert_non_null(block);
    for (int y = 0; y < ny && y0 + y < NY; y++)
        for (int x = 0; x < nx && x0 + x < NX; x++)
            store(l, value_at(l, page, y0 + y, x0 + x), block + (size_t)(y * nx + x) * size);
    tmsize_t length = (tmsize_t)((size_t)nx * (size_t)ny * size);
    tmsize_t written = l->tile != 0 ? TIFFWriteEncodedTile(tiff, number, block, length)
                                    : TIFFWriteEncodedStrip(tiff, number, block, length);
    assert_int_equal(written, length);
    free(block);
}

static void write_tiff(const char *path, const struct layout *l) {
    TIFF *tiff = TIFFOpen(path, l->mode);
    assert_non_null(tiff);
    for (int page = 0; page < PAGES; page++) {
        TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, NX);
        TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, NY);
        TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, l->bits);
        TIFFSetField(tiff, TIFFTAG_SAMPLEFORMAT, l->format);
        TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, 1);
        TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
        TIFFSetField(tiff, TIFFTAG_COMPRESSION, l->compression);
        TIFFSetField(tiff, TIFFTAG_RESOLUTIONUNIT, RESUNIT_CENTIMETER);
        TIFFSetField(tiff, TIFFTAG_XRESOLUTION, 1e8 / 1.25);
        uint32_t number = 0;
        if (l->tile != 0) {
            TIFFSetField(tiff, TIFFTAG_TILEWIDTH, l->tile);
            TIFFSetField(tiff, TIFFTAG_TILELENGTH, l->tile);
            for (int y = 0; y < NY; y += (int)l->tile)
                for (int x = 0; x < NX; x += (int)l->tile)
                    write_block(tiff, l, page, x, y, (int)l->tile, (int)l->tile, number++);
        } else {
            TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, 7);
            for (int y = 0; y < NY; y += 7)
                write_block(tiff, l, page, 0, y, NX, NY - y < 7 ? NY - y : 7, number++);
        }
        TIFFWriteDirectory(tiff);
    }
    TIFFClose(tiff);
}

static const struct layout LAYOUTS[] = {
    {"w", 8, SAMPLEFORMAT_UINT, COMPRESSION_NONE, 0},
    {"w", 8, SAMPLEFORMAT_INT, COMPRESSION_LZW, 0},
    {"w8", 16, SAMPLEFORMAT_UINT, COMPRESSION_ADOBE_DEFLATE, 16},
    {"wb", 16, SAMPLEFORMAT_INT, COMPRESSION_LZW, 32},
    {"w8b", 32, SAMPLEFORMAT_UINT, COMPRESSION_NONE, 0},
    {"w", 32, SAMPLEFORMAT_INT, COMPRESSION_ADOBE_DEFLATE, 0},
    {"wb", 32, SAMPLEFORMAT_IEEEFP, COMPRESSION_LZW, 16},
    {"w", 64, SAMPLEFORMAT_IEEEFP, COMPRESSION_NONE, 0},
};
enum { LAYOUT_COUNT = sizeof LAYOUTS / sizeof *LAYOUTS };

static void every_layout_is_read(void **state) {
    (void)state;
    struct err err = {0};
    struct image image = {0};
    char path[PATH_SIZE], name[PATH_SIZE + 16];
    scratch_path("layout.tif", path);
    for (int i = 0; i < LAYOUT_COUNT; i++) {
        const struct layout *l = &LAYOUTS[i];
        write_tiff(path, l);
        assert_ok(image_read(path, &image, &err));
        assert_int_equal(image.nx, NX);
        assert_int_equal(image.ny, NY);
        assert_int_equal(image.nz, PAGES);
        assert_true(fabsf(image.pixel_size - 1.25f) < 1e-5f);
        for (int z = 0; z < PAGES; z++)
            for (int y = 0; y < NY; y++)
                for (int x = 0; x < NX; x++)
                    if (image.data[(z * NY + y) * NX + x] != (float)value_at(l, z, y, x))
                        fail_msg("layout %d, page %d, row %d, column %d", i, z, y, x);
        snprintf(name, sizeof name, "000002@%s", path);
        assert_ok(image_read_slice(name, &image, &err));
        assert_int_equal(image.nz, 1);
        assert_true(image.data[NX + 2] == (float)value_at(l, 1, 1, 2));
        snprintf(name, sizeof name, "000004@%s", path);
        assert_int_equal(image_read_slice(name, &image, &err), STATUS_NOT_FOUND);
    }
    image_destroy(&image);
}

/* TIFF begins with the top line, so the reader flips each page. MRC begins with the bottom line. */
static void micrographs_begin_with_the_bottom_line(void **state) {
    (void)state;
    struct err err = {0};
    struct image image = {0};
    char path[PATH_SIZE];
    const struct layout *l = &LAYOUTS[2];
    scratch_path("layout.tif", path);
    write_tiff(path, l);
    for (int mrc = 0; mrc < 2; mrc++) {
        assert_ok(image_read_micrograph(path, &image, &err));
        assert_int_equal(image.nz, PAGES);
        for (int z = 0; z < PAGES; z++)
            for (int y = 0; y < NY; y++)
                for (int x = 0; x < NX; x++)
                    if (image.data[(z * NY + y) * NX + x] != (float)value_at(l, z, NY - 1 - y, x))
                        fail_msg("%s: page %d, row %d, column %d", path, z, y, x);
        scratch_path("turned.mrc", path);
        assert_ok(mrc_write(path, &image, MRC_STACK, MRC_FLOAT32, &err));
    }
    image_destroy(&image);
}

/* A growing file never counts as whole, unless only pages are missing to which no directory points yet. */
static void a_growing_file_is_never_whole(void **state) {
    (void)state;
    struct err err = {0};
    char path[PATH_SIZE], part[PATH_SIZE];
    scratch_path("whole.tif", path);
    scratch_path("part.tif", part);
    for (int i = 0; i < LAYOUT_COUNT; i++) {
        write_tiff(path, &LAYOUTS[i]);
        char *bytes = NULL;
        size_t length = 0;
        assert_ok(file_read_whole(path, 1 << 20, &bytes, &length, &err));
        size_t step = length / 97 + 1;
        for (size_t cut = 0; cut < length; cut += cut < 32 || cut + 32 > length ? 1 : step) {
            struct image_info info = {0};
            FILE *out = fopen(part, "wb");
            assert_non_null(out);
            assert_int_equal(fwrite(bytes, 1, cut, out), cut);
            assert_int_equal(fclose(out), 0);
            enum status status = image_probe(part, &info, &err);
            if (status != STATUS_TRUNCATED || strstr(err.message, part) == NULL)
                fail_msg("layout %d cut at byte %zu of %zu gave %s: %s", i, cut, length, status_name(status),
                         err.message);
        }
        free(bytes);
    }
}

static void min_is_white_and_palettes_are_applied(void **state) {
    (void)state;
    struct err err = {0};
    struct image image = {0};
    char path[PATH_SIZE];
    scratch_path("colours.tif", path);
    for (int photometric = PHOTOMETRIC_MINISWHITE; photometric <= PHOTOMETRIC_PALETTE; photometric++) {
        uint16_t map[3][256] = {{0}};
        unsigned char row[12] = {0, 1, 2, 253, 254, 255, 10, 20, 30, 40, 50, 60};
        uint16_t samples = photometric == PHOTOMETRIC_RGB ? 3 : 1;
        TIFF *tiff = TIFFOpen(path, "w");
        assert_non_null(tiff);
        TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, 4);
        TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, 1);
        TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, 8);
        TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, samples);
        TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, photometric);
        TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, 1);
        for (int i = 0; i < 256; i++)
            map[0][i] = map[1][i] = map[2][i] = (uint16_t)(i * 100);
        if (photometric == PHOTOMETRIC_PALETTE) TIFFSetField(tiff, TIFFTAG_COLORMAP, map[0], map[1], map[2]);
        assert_int_equal(TIFFWriteEncodedStrip(tiff, 0, row, 4 * samples), 4 * samples);
        TIFFClose(tiff);
        assert_ok(image_read(path, &image, &err));
        float expected[4] = {0, 1, 2, 253};
        for (int i = 0; i < 4; i++) {
            float *e = &expected[i];
            *e = photometric == PHOTOMETRIC_MINISWHITE ? 255 - *e
                 : photometric == PHOTOMETRIC_RGB
                     ? 0.2126f * row[3 * i] + 0.7152f * row[3 * i + 1] + 0.0722f * row[3 * i + 2]
                 : photometric == PHOTOMETRIC_PALETTE ? 100 * *e
                                                      : *e;
            assert_true(fabsf(image.data[i] - *e) < 1e-2f);
        }
        /* 72 dots an inch and the like are not pixel sizes. */
        assert_true(image.pixel_size == 0);
    }
    image_destroy(&image);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_collection_is_read_or_refused),      cmocka_unit_test(every_layout_is_read),
        cmocka_unit_test(micrographs_begin_with_the_bottom_line), cmocka_unit_test(a_growing_file_is_never_whole),
        cmocka_unit_test(min_is_white_and_palettes_are_applied),
    };
    return scratch_run("tiff", tests, sizeof tests / sizeof *tests);
}
