/* Opens broken and foreign files of each kind that a watched folder may hold. Each is refused with a message that names
 * it. No reader crashes, prints, or allocates as much memory as a wrong header asks for. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tiffio.h>

#include "common/formats/image_formats.h"
#include "common/formats/mrc.h"
#include "common/formats/picture.h"
#include "common/formats/star.h"
#include "common/memory.h"
#include "tests/common/scratch.h"

enum { SIDE = 32, MRC_BYTES = 1024 + SIDE * SIDE * 4 };

static void assert_refused(const char *path, enum status status, enum status expected, const struct err *err) {
    if (status == STATUS_OK || (expected != STATUS_OK && status != expected) || strstr(err->message, path) == NULL)
        fail_msg("%s gave %s: %s", path, status_name(status), err->message);
}

/* Opens an image in each possible way. expected STATUS_OK: any failure is right. */
static void assert_no_image(const char *path, enum status expected) {
    struct err err = {0};
    struct image image = {0};
    struct image_info info = {.nx = -7};
    struct mrc_header header = {.nx = -7};
    char name[PATH_SIZE + 16];
    assert_refused(path, image_probe(path, &info, &err), expected, &err);
    assert_int_equal(info.nx, -7);
    assert_refused(path, image_read(path, &image, &err), expected, &err);
    snprintf(name, sizeof name, "000001@%s", path);
    assert_refused(path, image_read_slice(name, &image, &err), expected, &err);
    assert_refused(path, mrc_read_header(path, &header, &err), STATUS_OK, &err);
    assert_int_equal(header.nx, -7);
    image_destroy(&image);
}

static void put_file(const char *path, const void *bytes, size_t length) {
    struct err err = {0};
    assert_ok(file_write_whole(path, bytes, length, &err));
}

static unsigned char *whole_file(const char *path, size_t *ret_length) {
    struct err err = {0};
    char *bytes = NULL;
    assert_ok(file_read_whole(path, 1 << 24, &bytes, ret_length, &err));
    return (unsigned char *)bytes;
}

static unsigned char *whole_mrc(void) {
    struct err err = {0};
    struct image image = {.pixel_size = 1};
    char path[PATH_SIZE];
    size_t length = 0;
    scratch_path("whole.mrc", path);
    assert_ok(image_resize(&image, SIDE, SIDE, 1, &err));
    for (int i = 0; i < SIDE * SIDE; i++)
        image.data[i] = (float)i;
    assert_ok(mrc_write(path, &image, MRC_IMAGE, MRC_FLOAT32, &err));
    image_destroy(&image);
    unsigned char *bytes = whole_file(path, &length);
    assert_int_equal(length, MRC_BYTES);
    return bytes;
}

static void mrc_cut_short(void **state) {
    (void)state;
    static const size_t cuts[] = {0, 1, 4, 100, 208, 1023, 1024, 1025, 2048, MRC_BYTES - 4, MRC_BYTES - 1};
    _cleanup_(mem_free) unsigned char *bytes = whole_mrc();
    char path[PATH_SIZE], says[64];
    scratch_path("cut.mrc", path);
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        put_file(path, bytes, cuts[i]);
        assert_no_image(path, STATUS_TRUNCATED);
        struct err err = {0};
        struct mrc_header header;
        snprintf(says, sizeof says, cuts[i] == 0 ? "empty" : "byte %zu", cuts[i]);
        assert_int_equal(mrc_read_header(path, &header, &err), STATUS_TRUNCATED);
        if (strstr(err.message, says) == NULL) fail_msg("\"%s\" is missing in: %s", says, err.message);
    }
    unsigned char zeros[MRC_BYTES] = {0};
    put_file(path, zeros, sizeof zeros);
    assert_no_image(path, STATUS_TRUNCATED);
    put_file(path, zeros, 100);
    assert_no_image(path, STATUS_TRUNCATED);
}

static void mrc_headers_that_cannot_be(void **state) {
    (void)state;
    static const struct {
        size_t offsets[3];
        int32_t values[3];
        int count;
        enum status status;
        const char *says;
    } cases[] = {
        {{0}, {-5}, 1, STATUS_BAD_FORMAT, "-5"},
        {{0}, {0}, 1, STATUS_BAD_FORMAT, "0 × 32 × 1"},
        {{4}, {0}, 1, STATUS_BAD_FORMAT, "32 × 0 × 1"},
        {{8}, {0}, 1, STATUS_BAD_FORMAT, "32 × 32 × 0"},
        {{8}, {INT32_MIN}, 1, STATUS_BAD_FORMAT, "-2147483648"},
        {{0}, {INT32_MAX}, 1, STATUS_BAD_FORMAT, "2147483647"},
        {{0, 4, 8}, {1 << 24, 1 << 24, 1 << 24}, 3, STATUS_BAD_FORMAT, "no file is that large"},
        {{0, 4, 8}, {65536, 65536, 65536}, 3, STATUS_TRUNCATED, "1125899906843648"},
        {{0, 4, 8}, {1 << 24, 1 << 24, 1 << 14}, 3, STATUS_BAD_FORMAT, "no file is that large"},
        {{4}, {33}, 1, STATUS_TRUNCATED, "byte 5120"},
        {{8}, {2}, 1, STATUS_TRUNCATED, "9216"},
        {{12}, {3}, 1, STATUS_UNSUPPORTED, "mode 3"},
        {{12}, {4}, 1, STATUS_UNSUPPORTED, "complex"},
        {{12}, {16}, 1, STATUS_UNSUPPORTED, "mode 16"},
        {{8, 12}, {9, 101}, 2, STATUS_TRUNCATED, "mode 101"},
        {{12}, {5}, 1, STATUS_BAD_FORMAT, "mode 5"},
        {{12}, {-1}, 1, STATUS_BAD_FORMAT, "mode -1"},
        {{92}, {-1}, 1, STATUS_BAD_FORMAT, "extended header"},
        {{92}, {1}, 1, STATUS_TRUNCATED, "5121"},
        {{92}, {INT32_MAX}, 1, STATUS_TRUNCATED, "2147483647"},
        {{92}, {INT32_MIN}, 1, STATUS_BAD_FORMAT, "-2147483648"},
    };
    char path[PATH_SIZE];
    scratch_path("header.mrc", path);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        _cleanup_(mem_free) unsigned char *bytes = whole_mrc();
        for (int k = 0; k < cases[i].count; k++)
            memcpy(bytes + cases[i].offsets[k], &cases[i].values[k], 4);
        put_file(path, bytes, MRC_BYTES);
        assert_no_image(path, cases[i].status);
        struct err err = {0};
        struct mrc_header header;
        assert_int_equal(mrc_read_header(path, &header, &err), cases[i].status);
        if (strstr(err.message, cases[i].says) == NULL)
            fail_msg("\"%s\" is missing in: %s", cases[i].says, err.message);
    }
    /* Old files lack the mark "MAP". Then the numbers must make sense. */
    _cleanup_(mem_free) unsigned char *bytes = whole_mrc();
    struct err err = {0};
    struct mrc_header header;
    memset(bytes + 208, 0, 8);
    put_file(path, bytes, MRC_BYTES);
    assert_ok(mrc_read_header(path, &header, &err));
    memset(bytes, 0xee, 16);
    put_file(path, bytes, MRC_BYTES);
    assert_no_image(path, STATUS_BAD_FORMAT);
}

static void what_is_no_image_at_all(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t length;
        const char *says;
    } cases[] = {
        {"\x1f\x8b\x08\x00", 4, "gzip"},
        {"BZh91AY&SY", 10, "bzip2"},
        {"PK\x03\x04", 4, "zip"},
        {"\x89HDF\r\n\x1a\n", 8, "HDF5"},
        {"%PDF-1.4", 8, "PDF"},
        {"GIF89a", 6, "GIF"},
        {"\x7f"
         "ELF",
         4, "program"},
        {"hello, world\n", 13, "text"},
        {"\x80\x81\x82\x83", 4, "none"},
    };
    char path[PATH_SIZE];
    scratch_path("foreign.mrc", path);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        /* One file is long enough for a header, the other is too short. */
        for (int longer = 0; longer < 2; longer++) {
            unsigned char bytes[4096];
            memset(bytes, i == 7 ? 'x' : 0xc3, sizeof bytes);
            memcpy(bytes, cases[i].bytes, cases[i].length);
            put_file(path, bytes, longer ? sizeof bytes : 40);
            assert_no_image(path, longer ? STATUS_BAD_FORMAT : STATUS_TRUNCATED);
            struct err err = {0};
            struct image_info info;
            assert_int_not_equal(image_probe(path, &info, &err), STATUS_OK);
            if (strstr(err.message, cases[i].says) == NULL)
                fail_msg("\"%s\" is missing in: %s", cases[i].says, err.message);
        }
    }
}

static void what_cannot_be_opened(void **state) {
    (void)state;
    char path[PATH_SIZE];
    struct err err = {0};
    struct star_file *star = NULL;
    scratch_path("missing.mrc", path);
    assert_no_image(path, STATUS_NOT_FOUND);
    assert_refused(path, star_read(path, &star, &err), STATUS_NOT_FOUND, &err);
    scratch_path("folder.mrc", path);
    assert_int_equal(mkdir(path, 0777), 0);
    assert_no_image(path, STATUS_BAD_FORMAT);
    assert_refused(path, star_read(path, &star, &err), STATUS_BAD_FORMAT, &err);
    scratch_path("pipe.mrc", path);
    assert_int_equal(mkfifo(path, 0666), 0);
    assert_no_image(path, STATUS_BAD_FORMAT);
    assert_refused(path, star_read(path, &star, &err), STATUS_BAD_FORMAT, &err);
    scratch_path("dangling.mrc", path);
    assert_int_equal(symlink("nothing", path), 0);
    assert_no_image(path, STATUS_NOT_FOUND);
    scratch_path("loop.mrc", path);
    assert_int_equal(symlink("loop.mrc", path), 0);
    assert_no_image(path, STATUS_IO);
    scratch_path("secret.mrc", path);
    put_file(path, "x", 1);
    assert_int_equal(chmod(path, 0), 0);
    /* root can read any file. */
    if (access(path, R_OK) != 0 && errno == EACCES) {
        assert_no_image(path, STATUS_IO);
        assert_refused(path, star_read(path, &star, &err), STATUS_IO, &err);
    }
    assert_int_equal(chmod(path, 0600), 0);
    assert_null(star);
}

/* A file with one strip of 8 × 8 bytes; the directory begins behind it, at byte 72. */
static unsigned char *whole_tiff(size_t *ret_length) {
    char path[PATH_SIZE];
    unsigned char pixels[64] = {1, 2, 3};
    scratch_path("whole.tif", path);
    TIFF *tiff = TIFFOpen(path, "wl");
    assert_non_null(tiff);
    TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, 8);
    TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, 8);
    TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, 8);
    TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, 1);
    TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, 8);
    TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
    assert_int_equal(TIFFWriteEncodedStrip(tiff, 0, pixels, 64), 64);
    TIFFClose(tiff);
    return whole_file(path, ret_length);
}

/* Returns the 12 bytes of a tag in the first directory. */
static unsigned char *tag_entry(unsigned char *bytes, uint16_t tag) {
    uint32_t at;
    uint16_t count;
    memcpy(&at, bytes + 4, 4);
    memcpy(&count, bytes + at, 2);
    for (int i = 0; i < count; i++)
        if (memcmp(bytes + at + 2 + 12 * i, &tag, 2) == 0) return bytes + at + 2 + 12 * i;
    fail_msg("no tag %u", tag);
    return NULL;
}

static void set_tag(unsigned char *bytes, uint16_t tag, uint16_t type, uint32_t count, uint32_t value) {
    unsigned char *entry = tag_entry(bytes, tag);
    memcpy(entry + 2, &type, 2);
    memcpy(entry + 4, &count, 4);
    memcpy(entry + 8, &value, 4);
}

/* libtiff repairs two faults correctly, which are left out here: the wrong length of an uncompressed strip, and a
 * palette without colours. */
static void tiffs_that_cannot_be(void **state) {
    (void)state;
    enum { LONG = 4 };
    static const struct {
        uint16_t tag;
        uint32_t count, value;
        enum status status;
    } cases[] = {
        {TIFFTAG_IMAGEWIDTH, 1, 0, STATUS_BAD_FORMAT},
        {TIFFTAG_IMAGEWIDTH, 1, 0x7fffffff, STATUS_BAD_FORMAT},
        {TIFFTAG_IMAGEWIDTH, 1, 0xffffffff, STATUS_BAD_FORMAT},
        {TIFFTAG_IMAGEWIDTH, 1, 1 << 23, STATUS_TRUNCATED},
        {TIFFTAG_IMAGELENGTH, 1, 0, STATUS_BAD_FORMAT},
        {TIFFTAG_IMAGELENGTH, 1, 0xffffffff, STATUS_BAD_FORMAT},
        {TIFFTAG_IMAGELENGTH, 1, 9, STATUS_OK},
        {TIFFTAG_BITSPERSAMPLE, 1, 0, STATUS_OK},
        {TIFFTAG_BITSPERSAMPLE, 1, 32, STATUS_TRUNCATED},
        {TIFFTAG_BITSPERSAMPLE, 1, 65535, STATUS_UNSUPPORTED},
        {TIFFTAG_SAMPLESPERPIXEL, 1, 0, STATUS_OK},
        {TIFFTAG_SAMPLESPERPIXEL, 1, 60000, STATUS_OK},
        {TIFFTAG_COMPRESSION, 1, 65001, STATUS_UNSUPPORTED},
        {TIFFTAG_COMPRESSION, 1, 12345, STATUS_OK},
        {TIFFTAG_COMPRESSION, 1, COMPRESSION_LZW, STATUS_BAD_FORMAT},
        {TIFFTAG_PHOTOMETRIC, 1, PHOTOMETRIC_RGB, STATUS_UNSUPPORTED},
        {TIFFTAG_ROWSPERSTRIP, 1, 0, STATUS_BAD_FORMAT},
        {TIFFTAG_STRIPOFFSETS, 1, 100000, STATUS_TRUNCATED},
        {TIFFTAG_STRIPOFFSETS, 1, 0, STATUS_TRUNCATED},
        {TIFFTAG_STRIPOFFSETS, 100000, 8, STATUS_TRUNCATED},
        {TIFFTAG_STRIPBYTECOUNTS, 0xffffffff, 8, STATUS_TRUNCATED},
    };
    char path[PATH_SIZE];
    scratch_path("broken.tif", path);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t length = 0;
        _cleanup_(mem_free) unsigned char *bytes = whole_tiff(&length);
        set_tag(bytes, cases[i].tag, LONG, cases[i].count, cases[i].value);
        put_file(path, bytes, length);
        struct err err = {0};
        struct image image = {0};
        enum status status = image_read(path, &image, &err);
        if (status == STATUS_OK || (cases[i].status != STATUS_OK && status != cases[i].status) ||
            strstr(err.message, path) == NULL)
            fail_msg("tag %u, %u × %u gave %s: %s", cases[i].tag, cases[i].count, cases[i].value, status_name(status),
                     err.message);
        image_destroy(&image);
    }
}

static void tiff_directories_that_lead_nowhere(void **state) {
    (void)state;
    size_t length = 0;
    char path[PATH_SIZE];
    _cleanup_(mem_free) unsigned char *bytes = whole_tiff(&length);
    scratch_path("nowhere.tif", path);
    uint32_t first;
    memcpy(&first, bytes + 4, 4);
    static const uint32_t offsets[] = {0, 0xffffffff, 5000};
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        memcpy(bytes + 4, &offsets[i], 4);
        put_file(path, bytes, length);
        assert_no_image(path, STATUS_TRUNCATED);
    }
    memcpy(bytes + 4, &first, 4);
    /* A ring: the directory points to itself. */
    uint16_t count;
    memcpy(&count, bytes + first, 2);
    memcpy(bytes + first + 2 + 12 * count, &first, 4);
    put_file(path, bytes, length);
    assert_no_image(path, STATUS_BAD_FORMAT);
    /* A directory without tags. */
    memset(bytes + first, 0, 2);
    put_file(path, bytes, length);
    assert_no_image(path, STATUS_BAD_FORMAT);
}

static void pictures_that_cannot_be(void **state) {
    (void)state;
    struct err err = {0};
    char path[PATH_SIZE];
    uint8_t pixels[64] = {0};
    size_t length = 0;
    scratch_path("broken.png", path);
    assert_ok(picture_write_grey(path, 8, 8, pixels, &err));
    _cleanup_(mem_free) unsigned char *bytes = whole_file(path, &length);
    for (size_t at = 8; at < length; at += 3) {
        bytes[at] ^= 0x55;
        put_file(path, bytes, length);
        struct image image = {0};
        struct image_info info = {0};
        enum status probed = image_probe(path, &info, &err), read = image_read(path, &image, &err);
        assert_true(probed == STATUS_OK || strstr(err.message, path) != NULL);
        /* No reader checks the checksum of the end marker. */
        if (read == STATUS_OK && at < length - 12) fail_msg("byte %zu changed and nobody noticed", at);
        image_destroy(&image);
        bytes[at] ^= 0x55;
    }
    scratch_path("broken.jpg", path);
    put_file(path, "\xff\xd8\xff\xd9", 4);
    assert_no_image(path, STATUS_OK);
    put_file(path, "\xff\xd8\xff\xe0\x00\x04JF\xff\xd9", 10);
    assert_no_image(path, STATUS_OK);
}

static void stars_that_cannot_be(void **state) {
    (void)state;
    struct err err = {0};
    struct star_file *file = NULL;
    char path[PATH_SIZE];
    scratch_path("broken.star", path);
    _cleanup_(mem_free) unsigned char *bytes = whole_mrc();
    put_file(path, bytes, MRC_BYTES);
    assert_refused(path, star_read(path, &file, &err), STATUS_BAD_FORMAT, &err);
    put_file(path, "", 0);
    assert_refused(path, star_read(path, &file, &err), STATUS_TRUNCATED, &err);
    const char *text = "data_particles\n\nloop_ \n_rlnImageName #1 \n_rlnCoordinateX #2 \n000001@a.mrcs 1.5 \n"
                       "000002@a.mrcs 2.5 \n";
    /* A loop may end after its labels or any of its rows, so a cut there does not show. Everywhere else it does. */
    for (size_t cut = 0; cut <= strlen(text); cut++) {
        put_file(path, text, cut);
        enum status status = star_read(path, &file, &err);
        if (status != STATUS_OK) assert_refused(path, status, STATUS_OK, &err);
        star_destroy(&file);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mrc_cut_short),           cmocka_unit_test(mrc_headers_that_cannot_be),
        cmocka_unit_test(what_is_no_image_at_all), cmocka_unit_test(what_cannot_be_opened),
        cmocka_unit_test(tiffs_that_cannot_be),    cmocka_unit_test(tiff_directories_that_lead_nowhere),
        cmocka_unit_test(pictures_that_cannot_be), cmocka_unit_test(stars_that_cannot_be),
    };
    return scratch_run("broken", tests, sizeof tests / sizeof *tests);
}
