#include "common/formats/movie.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tiffio.h>

#include "common/formats/eer_file.h"
#include "common/formats/image.h"
#include "common/formats/mrc.h"
#include "common/memory.h"
#include "tests/common/scratch.h"

enum { NY = 37, FRAMES = 6 };

static int value_at(int frame, int y, int x) {
    return (frame * 5 + y * 3 + x) % 15;
}

static void assert_frames(const struct movie *movie, struct movie_reader *reader, int nx, float *frame) {
    struct err err = {0};
    for (int f = FRAMES - 1; f >= 0; f--) {
        assert_ok(movie_reader_read(reader, f, frame, &err));
        for (int y = 0; y < NY; y++)
            for (int x = 0; x < nx; x++)
                if (frame[y * nx + x] != (float)value_at(f, y, x))
                    fail_msg("frame %d, row %d, column %d: %g", f, y, x, (double)frame[y * nx + x]);
    }
    assert_int_equal(movie_reader_read(reader, movie_info(movie)->frames, frame, &err), STATUS_BAD_ARGUMENT);
}

/* Reads all frames in each type of pixel. */
static void assert_pixels(struct movie_reader *reader, int nx) {
    struct err err = {0};
    for (int p = MOVIE_U8; p <= MOVIE_F32; p++) {
        enum movie_pixels pixels = (enum movie_pixels)p;
        _cleanup_(mem_free) void *frame = malloc((size_t)nx * NY * movie_pixel_bytes(pixels));
        assert_non_null(frame);
        for (int f = FRAMES - 1; f >= 0; f--) {
            assert_ok(movie_reader_read_pixels(reader, f, pixels, frame, &err));
            for (int i = 0; i < NY * nx; i++) {
                float value = pixels == MOVIE_U8    ? ((const uint8_t *)frame)[i]
                              : pixels == MOVIE_U16 ? ((const uint16_t *)frame)[i]
                                                    : ((const float *)frame)[i];
                if (value != (float)value_at(f, i / nx, i % nx))
                    fail_msg("type %d, frame %d, row %d, column %d: %g", p, f, i / nx, i % nx, (double)value);
            }
        }
        assert_int_equal(movie_reader_read_pixels(reader, FRAMES, pixels, frame, &err), STATUS_BAD_ARGUMENT);
        assert_int_equal(movie_reader_read_pixels(reader, -1, pixels, frame, &err), STATUS_BAD_ARGUMENT);
    }
}

static void assert_movie(const char *path, enum movie_format format, int nx, enum movie_pixels pixels) {
    struct err err = {0};
    const struct movie_options options = {0};
    _cleanup_(movie_close) struct movie *movie = NULL;
    _cleanup_(movie_reader_destroy) struct movie_reader *reader = NULL;
    _cleanup_(mem_free) float *frame = malloc((size_t)nx * NY * sizeof *frame);
    assert_non_null(frame);
    assert_ok(movie_open(path, &options, &movie, &err));
    const struct movie_info *info = movie_info(movie);
    assert_true(info->format == format && info->nx == nx && info->ny == NY && info->frames == FRAMES &&
                info->raw_frames == FRAMES);
    assert_int_equal(info->pixels, pixels);
    assert_ok(movie_reader_create(movie, &reader, &err));
    assert_frames(movie, reader, nx, frame);
    assert_pixels(reader, nx);
}

static void write_mrc(const char *path, int nx, enum mrc_mode mode) {
    struct err err = {0};
    struct image image = {0};
    assert_ok(image_resize(&image, nx, NY, FRAMES, &err));
    for (int f = 0; f < FRAMES; f++)
        for (int y = 0; y < NY; y++)
            for (int x = 0; x < nx; x++)
                image.data[((size_t)f * NY + (size_t)y) * (size_t)nx + (size_t)x] = (float)value_at(f, y, x);
    assert_ok(mrc_write(path, &image, MRC_STACK, mode, &err));
    image_destroy(&image);
}

/* Rewrites a movie of bytes in mode 101: two pixels a byte, rows of whole bytes. */
static void pack(const char *path, int nx) {
    struct err err = {0};
    size_t length = 0, row = ((size_t)nx + 1) / 2;
    _cleanup_(mem_free) char *bytes = NULL;
    assert_ok(file_read_whole(path, 1 << 24, &bytes, &length, &err));
    _cleanup_(mem_free) char *packed = calloc(1, 1024 + row * NY * FRAMES);
    assert_non_null(packed);
    memcpy(packed, bytes, 1024);
    packed[12] = 101;
    for (size_t y = 0; y < (size_t)NY * FRAMES; y++)
        for (size_t x = 0; x < (size_t)nx; x++)
            packed[1024 + y * row + x / 2] |= (char)(bytes[1024 + y * (size_t)nx + x] << (x % 2 == 0 ? 0 : 4));
    assert_ok(file_write_whole(path, packed, 1024 + row * NY * FRAMES, &err));
}

/* Sets IMOD's mark of unsigned bytes. */
static void mark_unsigned(const char *path) {
    struct err err = {0};
    size_t length = 0;
    _cleanup_(mem_free) char *bytes = NULL;
    assert_ok(file_read_whole(path, 1 << 24, &bytes, &length, &err));
    const int32_t stamp[2] = {1146047817, 0};
    memcpy(bytes + 152, stamp, sizeof stamp);
    assert_ok(file_write_whole(path, bytes, length, &err));
}

static void mrc_movies_of_every_mode_are_read(void **state) {
    (void)state;
    static const enum mrc_mode modes[] = {MRC_INT8, MRC_INT16, MRC_FLOAT32, MRC_UINT16, MRC_FLOAT16};
    static const enum movie_pixels pixels[] = {MOVIE_U8, MOVIE_U16, MOVIE_F32, MOVIE_U16, MOVIE_F32};
    char path[PATH_SIZE];
    scratch_path("movie.mrcs", path);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        write_mrc(path, 50, modes[i]);
        assert_movie(path, MOVIE_MRC, 50, pixels[i]);
    }
    for (int nx = 50; nx <= 51; nx++) {
        write_mrc(path, nx, MRC_INT8);
        mark_unsigned(path);
        assert_movie(path, MOVIE_MRC, nx, MOVIE_U8);
        write_mrc(path, nx, MRC_INT8);
        pack(path, nx);
        assert_movie(path, MOVIE_MRC, nx, MOVIE_U8);
    }
}

static void write_tiff(const char *path, uint16_t bits, uint16_t compression, uint32_t tile) {
    enum { NX = 50 };
    TIFF *tiff = TIFFOpen(path, "w");
    assert_non_null(tiff);
    for (int f = 0; f < FRAMES; f++) {
        uint32_t block_nx = tile > 0 ? tile : NX, block_ny = tile > 0 ? tile : 7, number = 0;
        TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, NX);
        TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, NY);
        TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, bits);
        TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, 1);
        TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
        TIFFSetField(tiff, TIFFTAG_COMPRESSION, compression);
        if (tile > 0) {
            TIFFSetField(tiff, TIFFTAG_TILEWIDTH, tile);
            TIFFSetField(tiff, TIFFTAG_TILELENGTH, tile);
        } else {
            TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, block_ny);
        }
        for (uint32_t y0 = 0; y0 < NY; y0 += block_ny)
            for (uint32_t x0 = 0; x0 < NX; x0 += block_nx) {
                uint32_t rows = tile == 0 && NY - y0 < block_ny ? NY - y0 : block_ny;
                unsigned char block[2 * 50 * 50] = {0};
                for (uint32_t y = 0; y < rows && y0 + y < NY; y++)
                    for (uint32_t x = 0; x < block_nx && x0 + x < NX; x++) {
                        /* TIFF begins with the top line, the last row of the frame. */
                        uint16_t value = (uint16_t)value_at(f, NY - 1 - (int)(y0 + y), (int)(x0 + x));
                        if (bits == 8)
                            block[y * block_nx + x] = (unsigned char)value;
                        else
                            memcpy(block + 2 * (y * block_nx + x), &value, 2);
                    }
                tmsize_t length = (tmsize_t)(rows * block_nx * bits / 8);
                assert_int_equal(tile > 0 ? TIFFWriteEncodedTile(tiff, number++, block, length)
                                          : TIFFWriteEncodedStrip(tiff, number++, block, length),
                                 length);
            }
        TIFFWriteDirectory(tiff);
    }
    TIFFClose(tiff);
}

static void tiff_movies_are_read_in_the_order_of_mrc(void **state) {
    (void)state;
    char path[PATH_SIZE];
    scratch_path("movie.tif", path);
    for (int bits = 8; bits <= 16; bits += 8)
        for (int tile = 0; tile <= 32; tile += 16) {
            write_tiff(path, (uint16_t)bits, COMPRESSION_LZW, (uint32_t)tile);
            assert_movie(path, MOVIE_TIFF, 50, bits == 8 ? MOVIE_U8 : MOVIE_U16);
            write_tiff(path, (uint16_t)bits, COMPRESSION_ADOBE_DEFLATE, (uint32_t)tile);
            assert_movie(path, MOVIE_TIFF, 50, bits == 8 ? MOVIE_U8 : MOVIE_U16);
        }
}

/* Writes a movie of 64 × 48 detector pixels with one electron a frame, at pixel (frame, 2 frame). */
static void write_eer(const char *path, int frames) {
    struct err err = {0};
    struct eer_writer *writer = NULL;
    struct eer_format format = eer_format_of(EER_COMPRESSION_7);
    assert_ok(eer_writer_create(path, &format, 64, 48, NULL, &writer, &err));
    for (int f = 0; f < frames; f++) {
        struct eer_electron electron = {.x = (uint32_t)(4 * f + 1), .y = (uint32_t)(8 * f + 3)};
        assert_ok(eer_writer_append(writer, &electron, 1, &err));
    }
    assert_ok(eer_writer_finish(&writer, &err));
}

static void eer_frames_are_grouped(void **state) {
    (void)state;
    struct err err = {0};
    char path[PATH_SIZE];
    scratch_path("movie.eer", path);
    write_eer(path, 11);
    for (int level = 0; level <= 2; level++) {
        const struct movie_options options = {.eer_group = 4, .eer_level = level};
        _cleanup_(movie_close) struct movie *movie = NULL;
        _cleanup_(movie_reader_destroy) struct movie_reader *reader = NULL;
        int nx = 64 << level, ny = 48 << level;
        _cleanup_(mem_free) float *frame = malloc((size_t)nx * (size_t)ny * sizeof *frame);
        assert_non_null(frame);
        assert_ok(movie_open(path, &options, &movie, &err));
        const struct movie_info *info = movie_info(movie);
        assert_true(info->nx == nx && info->ny == ny && info->frames == 2 && info->raw_frames == 11);
        assert_ok(movie_reader_create(movie, &reader, &err));
        assert_ok(movie_reader_read(reader, 1, frame, &err)); /* detector frames 4 to 7 */
        double sum = 0;
        for (int i = 0; i < nx * ny; i++)
            sum += (double)frame[i];
        assert_true(sum == 4);
        _cleanup_(mem_free) uint8_t *bytes = malloc((size_t)nx * (size_t)ny);
        assert_non_null(bytes);
        assert_int_equal(info->pixels, MOVIE_U8);
        assert_ok(movie_reader_read_pixels(reader, 1, MOVIE_U8, bytes, &err));
        for (int i = 0; i < nx * ny; i++)
            assert_true(frame[i] == (float)bytes[i]);
        for (int f = 4; f < 8; f++)
            assert_true(frame[((8 * f + 3) >> (2 - level)) * nx + ((4 * f + 1) >> (2 - level))] == 1);
    }
    struct movie *movie = NULL;
    assert_int_equal(movie_open(path, &(struct movie_options){0}, &movie, &err), STATUS_BAD_FORMAT);
    assert_non_null(strstr(err.message, "has 11 EER frames"));
    assert_int_equal(movie_open(path, &(struct movie_options){.eer_level = 3}, &movie, &err), STATUS_BAD_ARGUMENT);
}

/* A pixel that every frame hits: the groups of 256 frames need two bytes. */
static void long_groups_of_eer_need_more_than_a_byte(void **state) {
    (void)state;
    struct err err = {0};
    char path[PATH_SIZE];
    scratch_path("long.eer", path);
    struct eer_writer *writer = NULL;
    struct eer_format format = eer_format_of(EER_COMPRESSION_7);
    assert_ok(eer_writer_create(path, &format, 8, 8, NULL, &writer, &err));
    for (int f = 0; f < 256; f++)
        assert_ok(eer_writer_append(writer, &(struct eer_electron){.x = 12, .y = 20}, 1, &err));
    assert_ok(eer_writer_finish(&writer, &err));
    for (int group = 255; group <= 256; group++) {
        _cleanup_(movie_close) struct movie *movie = NULL;
        _cleanup_(movie_reader_destroy) struct movie_reader *reader = NULL;
        uint16_t wide[64];
        uint8_t narrow[64];
        assert_ok(movie_open(path, &(struct movie_options){.eer_group = group}, &movie, &err));
        assert_int_equal(movie_info(movie)->pixels, group == 255 ? MOVIE_U8 : MOVIE_U16);
        assert_ok(movie_reader_create(movie, &reader, &err));
        assert_ok(movie_reader_read_pixels(reader, 0, MOVIE_U16, wide, &err));
        assert_int_equal(wide[5 * 8 + 3], group);
        assert_int_equal(movie_reader_read_pixels(reader, 0, MOVIE_U8, narrow, &err),
                         group == 255 ? STATUS_OK : STATUS_UNSUPPORTED);
        if (group == 255) assert_int_equal(narrow[5 * 8 + 3], 255);
    }
}

static void values_that_do_not_fit_are_refused(void **state) {
    (void)state;
    static const float values[] = {-1, 0.5f, 65536, 256, NAN};
    struct err err = {0};
    char path[PATH_SIZE];
    scratch_path("values.mrc", path);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct image image = {0};
        assert_ok(image_resize(&image, 4, 4, 1, &err));
        image.data[7] = values[i];
        assert_ok(mrc_write(path, &image, MRC_STACK, MRC_FLOAT32, &err));
        image_destroy(&image);
        _cleanup_(movie_close) struct movie *movie = NULL;
        _cleanup_(movie_reader_destroy) struct movie_reader *reader = NULL;
        uint16_t frame[16];
        assert_ok(movie_open(path, &(struct movie_options){0}, &movie, &err));
        assert_ok(movie_reader_create(movie, &reader, &err));
        assert_int_equal(movie_reader_read_pixels(reader, 0, MOVIE_U8, frame, &err), STATUS_UNSUPPORTED);
        assert_non_null(strstr(err.message, "values.mrc: frame 1 holds the value"));
        assert_int_equal(movie_reader_read_pixels(reader, 0, MOVIE_U16, frame, &err),
                         values[i] == 256 ? STATUS_OK : STATUS_UNSUPPORTED);
    }
}

/* A negative value in the first frame: floats are needed. In a later one: that frame cannot be read as counts. */
static void modes_with_a_sign_hold_counts(void **state) {
    (void)state;
    struct err err = {0};
    char path[PATH_SIZE];
    scratch_path("signed.mrc", path);
    for (int wide = 0; wide < 2; wide++)
        for (int negative = 0; negative < 3; negative++) {
            struct image image = {0};
            uint16_t counts[12];
            float floats[12];
            assert_ok(image_resize(&image, 4, 3, 2, &err));
            for (size_t i = 0; i < 24; i++)
                image.data[i] = (float)i;
            if (negative > 0) image.data[negative == 1 ? 11 : 12] = -1;
            assert_ok(mrc_write(path, &image, MRC_STACK, wide ? MRC_INT16 : MRC_INT8, &err));
            image_destroy(&image);
            _cleanup_(movie_close) struct movie *movie = NULL;
            _cleanup_(movie_reader_destroy) struct movie_reader *reader = NULL;
            assert_ok(movie_open(path, &(struct movie_options){0}, &movie, &err));
            enum movie_pixels pixels = movie_info(movie)->pixels;
            assert_int_equal(pixels, negative == 1 ? MOVIE_F32 : wide ? MOVIE_U16 : MOVIE_U8);
            assert_ok(movie_reader_create(movie, &reader, &err));
            assert_ok(movie_reader_read(reader, 1, floats, &err));
            assert_true(floats[0] == (negative == 2 ? -1 : 12) && floats[11] == 23);
            if (negative == 1) continue;
            assert_int_equal(movie_reader_read_pixels(reader, 1, pixels, counts, &err),
                             negative == 2 ? STATUS_UNSUPPORTED : STATUS_OK);
            if (negative == 2) assert_non_null(strstr(err.message, "signed.mrc: slice 2 holds negative values"));
        }
}

/* The second page is of 16 bits, where the first says that bytes hold all. */
static void pages_of_two_types_are_no_movie_of_counts(void **state) {
    (void)state;
    struct err err = {0};
    char path[PATH_SIZE];
    scratch_path("types.tif", path);
    TIFF *tiff = TIFFOpen(path, "w");
    assert_non_null(tiff);
    for (uint16_t bits = 8; bits <= 16; bits += 8) {
        unsigned char row[16] = {1, 2, 3, 4, 5, 6, 7, 8};
        TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, 8);
        TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, 1);
        TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, bits);
        TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
        assert_int_equal(TIFFWriteEncodedStrip(tiff, 0, row, bits), bits);
        TIFFWriteDirectory(tiff);
    }
    TIFFClose(tiff);
    _cleanup_(movie_close) struct movie *movie = NULL;
    _cleanup_(movie_reader_destroy) struct movie_reader *reader = NULL;
    uint8_t frame[8];
    assert_ok(movie_open(path, &(struct movie_options){0}, &movie, &err));
    assert_ok(movie_reader_create(movie, &reader, &err));
    assert_ok(movie_reader_read_pixels(reader, 0, MOVIE_U8, frame, &err));
    assert_int_equal(frame[7], 8);
    assert_int_equal(movie_reader_read_pixels(reader, 1, MOVIE_U8, frame, &err), STATUS_BAD_FORMAT);
    assert_non_null(strstr(err.message, "page 2"));
}

struct share {
    const struct movie *movie;
    int first;
    bool right;
};

static void *read_share(void *context) {
    struct share *share = context;
    struct movie_reader *reader = NULL;
    float frame[50 * NY];
    share->right = movie_reader_create(share->movie, &reader, NULL) == STATUS_OK;
    for (int round = 0; share->right && round < 40; round++) {
        int f = (share->first + round) % FRAMES;
        share->right = movie_reader_read(reader, f, frame, NULL) == STATUS_OK;
        for (int i = 0; share->right && i < 50 * NY; i++)
            share->right = frame[i] == (float)value_at(f, i / 50, i % 50);
    }
    movie_reader_destroy(&reader);
    return NULL;
}

static void threads_read_side_by_side(void **state) {
    (void)state;
    enum { THREADS = 4 };
    struct err err = {0};
    char path[PATH_SIZE];
    scratch_path("shared.tif", path);
    write_tiff(path, 8, COMPRESSION_LZW, 0);
    _cleanup_(movie_close) struct movie *movie = NULL;
    assert_ok(movie_open(path, &(struct movie_options){0}, &movie, &err));
    struct share shares[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        shares[i] = (struct share){.movie = movie, .first = i};
        assert_int_equal(pthread_create(&threads[i], NULL, read_share, &shares[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_true(shares[i].right);
    }
}

static void what_is_no_movie_is_refused(void **state) {
    (void)state;
    struct err err = {0};
    struct movie *movie = NULL;
    char path[PATH_SIZE];
    scratch_path("text.mrc", path);
    assert_ok(file_write_whole(path, "no movie", 8, &err));
    assert_int_not_equal(movie_open(path, &(struct movie_options){0}, &movie, &err), STATUS_OK);
    assert_non_null(strstr(err.message, "text.mrc"));
    scratch_path("missing.tif", path);
    assert_int_equal(movie_open(path, &(struct movie_options){0}, &movie, &err), STATUS_NOT_FOUND);
    assert_null(movie);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mrc_movies_of_every_mode_are_read),
        cmocka_unit_test(tiff_movies_are_read_in_the_order_of_mrc),
        cmocka_unit_test(eer_frames_are_grouped),
        cmocka_unit_test(long_groups_of_eer_need_more_than_a_byte),
        cmocka_unit_test(values_that_do_not_fit_are_refused),
        cmocka_unit_test(modes_with_a_sign_hold_counts),
        cmocka_unit_test(pages_of_two_types_are_no_movie_of_counts),
        cmocka_unit_test(threads_read_side_by_side),
        cmocka_unit_test(what_is_no_movie_is_refused),
    };
    return scratch_run("movie", tests, sizeof tests / sizeof *tests);
}
