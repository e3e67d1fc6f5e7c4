#include "common/formats/mrc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/formats/image_formats.h"
#include "common/formats/mrc_pixels.h"
#include "common/memory.h"
#include "tests/common/scratch.h"

static const enum mrc_mode MODES[] = {MRC_INT8, MRC_INT16, MRC_FLOAT32, MRC_UINT16, MRC_FLOAT16};
enum { MODE_COUNT = sizeof MODES / sizeof *MODES };

/* Values that each mode holds exactly, of both signs if the mode has signs. */
static void fill(struct image *image, enum mrc_mode mode, uint32_t seed) {
    for (size_t i = 0; i < image_count(image); i++) {
        seed = seed * 1664525u + 1013904223u;
        image->data[i] = (float)(int)(seed >> 24) - (mode == MRC_UINT16 ? 0.0f : 128.0f);
    }
}

static void new_image(struct image *image, int nx, int ny, int nz, float pixel_size) {
    struct err err = {0};
    assert_ok(image_resize(image, nx, ny, nz, &err));
    image->pixel_size = pixel_size;
}

static void assert_same(const struct image *a, const struct image *b) {
    assert_int_equal(a->nx, b->nx);
    assert_int_equal(a->ny, b->ny);
    assert_int_equal(a->nz, b->nz);
    assert_memory_equal(a->data, b->data, image_count(a) * sizeof(float));
}

static void every_mode_comes_back(void **state) {
    (void)state;
    struct err err = {0};
    struct image image = {0}, again = {0};
    for (int m = 0; m < MODE_COUNT; m++)
        for (int kind = MRC_IMAGE; kind <= MRC_VOLUME; kind++) {
            char path[PATH_SIZE];
            scratch_path("modes.mrc", path);
            /* More pixels than one chunk, and not a multiple of a chunk. */
            new_image(&image, 201, 173, kind == MRC_IMAGE ? 1 : 3, 1.25f);
            fill(&image, MODES[m], 7);
            assert_ok(mrc_write(path, &image, (enum mrc_kind)kind, MODES[m], &err));
            assert_ok(mrc_read(path, &again, &err));
            assert_same(&image, &again);
            assert_true(fabsf(again.pixel_size - 1.25f) < 1e-6f);
            struct mrc_header header = {0};
            assert_ok(mrc_read_header(path, &header, &err));
            assert_int_equal(header.space_group, kind == MRC_VOLUME ? 1 : 0);
            assert_int_equal(header.mode, MODES[m]);
            assert_false(header.swapped);
            double sum = 0, squares = 0;
            size_t count = image_count(&image);
            for (size_t i = 0; i < count; i++)
                sum += image.data[i];
            for (size_t i = 0; i < count; i++)
                squares += pow(image.data[i] - sum / (double)count, 2);
            assert_true(fabs(header.mean - sum / (double)count) < 1e-3);
            assert_true(fabs(header.rms - sqrt(squares / (double)count)) < 1e-3);
        }
    image_destroy(&image);
    image_destroy(&again);
}

static void values_are_rounded_and_clamped(void **state) {
    (void)state;
    static const float in[] = {0.4f, 0.6f, -0.6f, 1e9f, -1e9f, NAN, 300.0f, 70000.0f};
    enum { COUNT = 8 };
    static const float expected[MODE_COUNT][COUNT] = {
        {0, 1, -1, 127, -128, 0, 127, 127},
        {0, 1, -1, 32767, -32768, 0, 300, 32767},
        {0.4f, 0.6f, -0.6f, 1e9f, -1e9f, NAN, 300, 70000},
        {0, 1, 0, 65535, 0, 0, 300, 65535},
        {0.39990234f, 0.60009766f, -0.60009766f, 65504, -65504, NAN, 300, 65504},
    };
    struct err err = {0};
    struct image image = {0}, again = {0};
    char path[PATH_SIZE];
    scratch_path("clamped.mrc", path);
    new_image(&image, COUNT, 1, 1, 1);
    for (int m = 0; m < MODE_COUNT; m++) {
        memcpy(image.data, in, sizeof in);
        assert_ok(mrc_write(path, &image, MRC_IMAGE, MODES[m], &err));
        assert_ok(mrc_read(path, &again, &err));
        for (int i = 0; i < COUNT; i++)
            if (!(again.data[i] == expected[m][i] || (isnan(again.data[i]) && isnan(expected[m][i]))))
                fail_msg("mode %d: %g became %g, not %g", MODES[m], in[i], again.data[i], expected[m][i]);
    }
    image_destroy(&image);
    image_destroy(&again);
}

/* Computes a half by its definition: sign, 5 bits of exponent, 10 of fraction. */
static void halves_are_exact(void **state) {
    (void)state;
    for (uint32_t half = 0; half < 65536; half++) {
        int exponent = (int)(half >> 10 & 31), fraction = (int)(half & 1023);
        double size = exponent == 0    ? ldexp(fraction, -24)
                      : exponent == 31 ? (fraction == 0 ? INFINITY : NAN)
                                       : ldexp(1024 + fraction, exponent - 25);
        float value = mrc_half_to_float((uint16_t)half);
        if (isnan(size)) {
            assert_true(isnan(value));
            assert_true(isnan(mrc_half_to_float(mrc_float_to_half(value))));
            continue;
        }
        assert_true((double)value == (half & 0x8000 ? -size : size));
        if (exponent < 31) assert_int_equal(mrc_float_to_half(value), half);
    }
    /* A value between two halves becomes the nearer one, a value in the middle the even one. */
    for (uint32_t half = 0; half < 0x7bff; half++) {
        float low = mrc_half_to_float((uint16_t)half), high = mrc_half_to_float((uint16_t)(half + 1));
        float middle = (low + high) / 2;
        assert_int_equal(mrc_float_to_half(middle), half + (half & 1));
        assert_int_equal(mrc_float_to_half(nextafterf(middle, 0)), half);
        assert_int_equal(mrc_float_to_half(-nextafterf(middle, 1e6f)), (half + 1) | 0x8000);
    }
}

static unsigned char *load(const char *path, size_t *ret_length) {
    struct err err = {0};
    char *bytes = NULL;
    assert_ok(file_read_whole(path, 1 << 26, &bytes, ret_length, &err));
    return (unsigned char *)bytes;
}

static void swap_words(unsigned char *bytes, size_t from, size_t to, size_t size) {
    for (size_t i = from; i < to; i += size)
        mrc_swap(bytes + i, 1, size);
}

/* Files in the other byte order are read, with a correct stamp and with a nonsense stamp; then data behind an extended
 * header. */
static void both_byte_orders_and_extended_headers_are_read(void **state) {
    (void)state;
    struct err err = {0};
    struct image image = {0}, again = {0};
    char path[PATH_SIZE];
    scratch_path("orders.mrc", path);
    for (int m = 0; m < MODE_COUNT; m++) {
        size_t length = 0;
        new_image(&image, 40, 30, 2, 2.5f);
        fill(&image, MODES[m], 3);
        assert_ok(mrc_write(path, &image, MRC_STACK, MODES[m], &err));
        _cleanup_(mem_free) unsigned char *bytes = load(path, &length);
        swap_words(bytes, 0, 104, 4);
        swap_words(bytes, 108, 208, 4);
        swap_words(bytes, 216, 224, 4);
        if (mrc_pixel_bytes((int)MODES[m]) > 1) swap_words(bytes, 1024, length, mrc_pixel_bytes((int)MODES[m]));
        static const unsigned char stamps[][4] = {
            {0x11, 0x11, 0, 0}, {0, 0, 0, 0}, {0, 0, 0x44, 0x44}, {0x44, 0x44, 0, 0}};
        for (size_t s = 0; s < sizeof stamps / sizeof *stamps; s++) {
            memcpy(bytes + 212, stamps[s], 4);
            assert_ok(file_write_whole(path, bytes, length, &err));
            assert_ok(mrc_read(path, &again, &err));
            assert_same(&image, &again);
            assert_true(again.pixel_size == 2.5f);
        }
        _cleanup_(mem_free) unsigned char *longer = calloc(1, length + 160);
        memcpy(longer, bytes, 1024);
        longer[92 + 3] = 160;
        memcpy(longer + 1024 + 160, bytes + 1024, length - 1024);
        assert_ok(file_write_whole(path, longer, length + 160, &err));
        assert_ok(mrc_read(path, &again, &err));
        assert_same(&image, &again);
    }
    image_destroy(&image);
    image_destroy(&again);
}

/* 200 is 200 if IMOD's mark says unsigned, and −56 if it says signed or is missing; in either byte order. */
static void imod_tells_whether_bytes_are_signed(void **state) {
    (void)state;
    struct err err = {0};
    struct image image = {0}, again = {0};
    char path[PATH_SIZE];
    size_t length = 0;
    scratch_path("bytes.mrc", path);
    new_image(&image, 30, 20, 1, 2.5f);
    assert_ok(mrc_write(path, &image, MRC_IMAGE, MRC_INT8, &err));
    _cleanup_(mem_free) unsigned char *bytes = load(path, &length);
    bytes[1024 + 599] = 200;
    for (int which = 0; which < 8; which++) {
        bool marked = which & 1, is_signed = which & 2;
        memcpy(bytes + 152, marked ? "IMOD" : "\0\0\0\0", 4);
        bytes[which < 4 ? 156 : 159] = is_signed;
        bytes[which < 4 ? 159 : 156] = 0;
        if (which >= 4) swap_words(bytes, 152, 156, 4);
        if (which == 4) {
            swap_words(bytes, 0, 104, 4);
            memcpy(bytes + 212, "\x11\x11\0\0", 4);
        }
        assert_ok(file_write_whole(path, bytes, length, &err));
        assert_ok(mrc_read(path, &again, &err));
        assert_true(again.data[599] == (marked && !is_signed ? 200.0f : -56.0f));
    }
    image_destroy(&image);
    image_destroy(&again);
}

static void slices_are_written_and_read_one_by_one(void **state) {
    (void)state;
    struct err err = {0};
    struct image image = {0}, slice = {0};
    char path[PATH_SIZE], name[PATH_SIZE + 16];
    scratch_path("slices.mrcs", path);
    new_image(&image, 20, 10, 4, 3);
    fill(&image, MRC_FLOAT32, 11);
    struct mrc_writer *writer = NULL;
    assert_ok(mrc_writer_create(path, 20, 10, 3, MRC_STACK, MRC_FLOAT32, &writer, &err));
    assert_false(file_exists(path));
    for (int z = 0; z < 4; z++)
        assert_ok(mrc_writer_append(writer, image.data + 200 * z, &err));
    assert_ok(mrc_writer_finish(&writer, &err));
    assert_null(writer);
    for (int z = 0; z < 4; z++) {
        snprintf(name, sizeof name, "%06d@%s", z + 1, path);
        assert_ok(image_read_slice(name, &slice, &err));
        assert_int_equal(slice.nz, 1);
        assert_memory_equal(slice.data, image.data + 200 * z, 200 * sizeof(float));
    }
    snprintf(name, sizeof name, "000005@%s", path);
    assert_int_equal(image_read_slice(name, &slice, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.message, "has 4 slices"));
    snprintf(name, sizeof name, "000000@%s", path);
    assert_int_equal(image_read_slice(name, &slice, &err), STATUS_BAD_ARGUMENT);
    assert_ok(image_read_slice(path, &slice, &err));
    assert_int_equal(slice.nz, 4);
    struct mrc_reader *reader = NULL;
    assert_ok(mrc_open(path, &reader, &err));
    assert_int_equal(mrc_read_slices(reader, 3, 2, slice.data, &err), STATUS_BAD_ARGUMENT);
    assert_int_equal(mrc_read_slices(reader, -1, 1, slice.data, &err), STATUS_BAD_ARGUMENT);
    mrc_close(&reader);
    assert_ok(mrc_writer_create(path, 5, 5, 3, MRC_STACK, MRC_FLOAT32, &writer, &err));
    assert_int_equal(mrc_writer_finish(&writer, &err), STATUS_BAD_STATE);
    assert_null(writer);
    assert_ok(mrc_writer_create(path, 5, 5, 3, MRC_IMAGE, MRC_FLOAT32, &writer, &err));
    assert_ok(mrc_writer_append(writer, image.data, &err));
    assert_int_equal(mrc_writer_append(writer, image.data, &err), STATUS_BAD_STATE);
    mrc_writer_discard(&writer);
    assert_ok(mrc_read(path, &slice, &err));
    assert_same(&image, &slice);
    image_destroy(&image);
    image_destroy(&slice);
}

/* The mean of this volume is far larger than its deviation, which a sum of squares would have lost. */
static void statistics_keep_their_digits(void **state) {
    (void)state;
    struct err err = {0};
    struct image image = {0};
    char path[PATH_SIZE];
    scratch_path("statistics.mrc", path);
    new_image(&image, 300, 300, 2, 1);
    for (size_t i = 0; i < image_count(&image); i++)
        image.data[i] = i % 2 == 0 ? 1000000.0f : 1000000.5f;
    assert_ok(mrc_write(path, &image, MRC_VOLUME, MRC_FLOAT32, &err));
    struct mrc_header header = {0};
    assert_ok(mrc_read_header(path, &header, &err));
    assert_true(fabsf(header.rms - 0.25f) < 1e-6f);
    assert_true(header.minimum == 1000000.0f && header.maximum == 1000000.5f);
    image_destroy(&image);
}

/* Shapes, modes and pixel sizes were read with od(1), means with numpy. */
static void real_files_are_read(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int nx, ny, nz, mode;
        float pixel_size;
        double mean;
    } files[] = {
        {"mrcfile/fei-extended.mrc", 3710, 3838, 1, 6, 0.853776f, 3521.030},
        {"mrcfile/EMD-3001.map", 73, 43, 25, 2, 0.44825f, 5.329667e-4},
        {"mrcfile/EMD-3197.map", 20, 20, 20, 2, 11.4f, 0.783612},
        {"leginon/07jan05b_12gr_02en_00.dwn.mrc", 512, 512, 1, 2, 1, 6990.264},
        {"leginon/08mar13e_00010gr_00004sq_v02_00005hl.mrc", 512, 512, 1, 2, 1, 1323.223},
        {"leginon/grostain3.dwn.mrc", 32, 32, 1, 2, 1, -0.01165032},
        {"leginon/radpow.mrc", 256, 1, 1, 2, 1, 3.04288},
        {"leginon/tilt1.mrc", 512, 512, 1, 2, 1, 39748.0},
        {"leginon/tilt2.mrc", 512, 512, 1, 2, 1, 39503.16},
        {"magellon_apoferritin/24dec03a_00034gr_00005sq_v01_00003hl_00018ex_topaz_ds8.mrc", 512, 512, 1, 2, 0.79f,
         498.6171},
    };
    struct image image = {0};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[PATH_SIZE];
        if (!scratch_data(files[i].name, path)) {
            print_message("no shared data: %s\n", path);
            skip();
        }
        struct err err = {0};
        struct mrc_header header = {0};
        struct image_info info = {0};
        assert_ok(mrc_read_header(path, &header, &err));
        assert_ok(image_probe(path, &info, &err));
        assert_int_equal(info.format, IMAGE_MRC);
        assert_ok(image_read(path, &image, &err));
        double sum = 0;
        for (size_t k = 0; k < image_count(&image); k++)
            sum += image.data[k];
        double mean = sum / (double)image_count(&image);
        if (header.nx != files[i].nx || header.ny != files[i].ny || header.nz != files[i].nz ||
            (int)header.mode != files[i].mode ||
            fabsf(image.pixel_size - files[i].pixel_size) > 1e-5f * files[i].pixel_size ||
            fabs(mean - files[i].mean) > 1e-4 * fabs(files[i].mean))
            fail_msg("%s: %d x %d x %d, mode %d, %g Å/px, mean %.8g", files[i].name, header.nx, header.ny, header.nz,
                     (int)header.mode, (double)image.pixel_size, mean);
    }
    image_destroy(&image);
}

/* Without a cell in its header, the micrograph of mrcfile still has the pixel size in FEI's extended header. */
static void fei_pixel_size_stands_in(void **state) {
    (void)state;
    char path[PATH_SIZE];
    if (!scratch_data("mrcfile/fei-extended.mrc", path)) {
        print_message("no shared data: %s\n", path);
        skip();
    }
    struct err err = {0};
    size_t length = 0;
    _cleanup_(mem_free) unsigned char *bytes = load(path, &length);
    memset(bytes + 40, 0, 12);
    scratch_path("cellless.mrc", path);
    assert_ok(file_write_whole(path, bytes, length, &err));
    struct mrc_header header = {0};
    assert_ok(mrc_read_header(path, &header, &err));
    assert_true(fabsf(header.pixel_size - 0.853776f) < 1e-5f);
    assert_ok(file_write_whole(path, bytes, length - 1, &err));
    assert_int_equal(mrc_read_header(path, &header, &err), STATUS_TRUNCATED);
    assert_non_null(strstr(err.message, "29265415"));
}

static void other_programs_accept_what_we_write(void **state) {
    (void)state;
    bool mrcfile = scratch_shell("/usr/bin/python3 -c 'import mrcfile' 2> /dev/null") == 0;
    bool relion = scratch_shell("command -v relion_image_handler > /dev/null") == 0;
    if (!mrcfile && !relion) {
        print_message("neither python3-mrcfile nor relion is installed\n");
        skip();
    }
    struct err err = {0};
    struct image image = {0};
    char folder[PATH_SIZE], path[PATH_SIZE], name[64];
    for (int m = 0; m < MODE_COUNT; m++)
        for (int kind = MRC_IMAGE; kind <= MRC_VOLUME; kind++) {
            snprintf(name, sizeof name, "mode%d_kind%d.%s", MODES[m], kind, kind == MRC_STACK ? "mrcs" : "mrc");
            scratch_path(name, path);
            /* RELION reads cubes only. */
            new_image(&image, 32, kind == MRC_VOLUME ? 32 : 24,
                      kind == MRC_IMAGE   ? 1
                      : kind == MRC_STACK ? 5
                                          : 32,
                      1.5f);
            fill(&image, MODES[m], 5);
            /* mrcfile 1.4 sums squares of float16 in float16, which overflows early. */
            for (size_t i = 0; MODES[m] == MRC_FLOAT16 && i < image_count(&image); i++)
                image.data[i] /= 128;
            assert_ok(mrc_write(path, &image, (enum mrc_kind)kind, MODES[m], &err));
            /* RELION 3.1 does not know float16. */
            if (relion && MODES[m] != MRC_FLOAT16)
                assert_int_equal(scratch_shell("relion_image_handler --i '%s' --stats > '%s.stats' 2>&1", path, path),
                                 0);
        }
    scratch_path("", folder);
    if (mrcfile)
        assert_int_equal(scratch_shell("cd '%s' && /usr/bin/python3 -c 'import glob, sys, mrcfile\n"
                                       "good = [mrcfile.validate(f) for f in sorted(glob.glob(\"mode*_kind*.mrc*\")) "
                                       "if not f.endswith(\"stats\")]\n"
                                       "sys.exit(0 if len(good) == 15 and all(good) else 1)'",
                                       folder),
                         0);
    image_destroy(&image);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mode_comes_back),
        cmocka_unit_test(values_are_rounded_and_clamped),
        cmocka_unit_test(halves_are_exact),
        cmocka_unit_test(both_byte_orders_and_extended_headers_are_read),
        cmocka_unit_test(imod_tells_whether_bytes_are_signed),
        cmocka_unit_test(slices_are_written_and_read_one_by_one),
        cmocka_unit_test(statistics_keep_their_digits),
        cmocka_unit_test(real_files_are_read),
        cmocka_unit_test(fei_pixel_size_stands_in),
        cmocka_unit_test(other_programs_accept_what_we_write),
    };
    return scratch_run("mrc", tests, sizeof tests / sizeof *tests);
}
