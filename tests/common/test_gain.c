/* Tests gain references and lists of bad pixels: turns, factors, sizes and messages. */
#include "common/formats/gain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tiffio.h>

#include "common/formats/image.h"
#include "common/formats/mrc.h"
#include "common/memory.h"
#include "tests/common/scratch.h"

enum { NX = 5, NY = 3 };

/* Every pixel of the file has a value of its own. */
static float value_at(int x, int y) {
    return 1 + 0.1f * (float)(y * NX + x);
}

static void write_mrc(const char *path, const float *pixels, int nx, int ny, int nz) {
    struct err err = {0};
    struct image image = {0};
    assert_ok(image_resize(&image, nx, ny, nz, &err));
    for (size_t i = 0; i < image_count(&image); i++)
        image.data[i] = pixels != NULL ? pixels[i] : value_at((int)i % nx, (int)i / nx);
    assert_ok(mrc_write(path, &image, MRC_STACK, MRC_FLOAT32, &err));
    image_destroy(&image);
}

/* Writes the image of write_mrc, whose last row is the top line of a TIFF. */
static void write_tiff(const char *path) {
    TIFF *tiff = TIFFOpen(path, "w");
    assert_non_null(tiff);
    TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, NX);
    TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, NY);
    TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, 32);
    TIFFSetField(tiff, TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_IEEEFP);
    TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
    TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, NY);
    float pixels[NX * NY];
    for (int y = 0; y < NY; y++)
        for (int x = 0; x < NX; x++)
            pixels[y * NX + x] = value_at(x, NY - 1 - y);
    assert_int_equal(TIFFWriteEncodedStrip(tiff, 0, pixels, sizeof pixels), sizeof pixels);
    TIFFClose(tiff);
}

static void a_gain_is_read_and_turned(void **state) {
    (void)state;
    struct err err = {0};
    char mrc[PATH_SIZE], tiff[PATH_SIZE];
    scratch_path("gain.mrc", mrc);
    scratch_path("gain.tif", tiff);
    write_mrc(mrc, NULL, NX, NY, 1);
    write_tiff(tiff);
    for (int rotate = 0; rotate < 4; rotate++)
        for (int flip = 0; flip < 3; flip++) {
            struct gain_options options = {.turn = {.rotate = rotate, .flip = (enum turn_flip)flip}};
            int nx = rotate % 2 == 0 ? NX : NY, ny = rotate % 2 == 0 ? NY : NX;
            _cleanup_(mem_free) float *gain = NULL, *same = NULL;
            assert_ok(gain_read(mrc, &options, nx, ny, &gain, &err));
            assert_ok(gain_read(tiff, &options, nx, ny, &same, &err));
            assert_memory_equal(gain, same, sizeof *gain * NX * NY);
            for (int y = 0; y < NY; y++)
                for (int x = 0; x < NX; x++) {
                    /* RELION's rule: (row, column) goes to (column, ny - 1 - row), and so on. */
                    int row = rotate == 0 ? y : rotate == 1 ? x : rotate == 2 ? NY - 1 - y : NX - 1 - x;
                    int column = rotate == 0 ? x : rotate == 1 ? NY - 1 - y : rotate == 2 ? NX - 1 - x : y;
                    if (flip == TURN_FLIP_ROWS) row = ny - 1 - row;
                    if (flip == TURN_FLIP_COLUMNS) column = nx - 1 - column;
                    assert_true(gain[row * nx + column] == value_at(x, y));
                }
        }
}

static void turns_join(void **state) {
    (void)state;
    for (int a = 0; a < TURN_COUNT; a++)
        for (int b = 0; b < TURN_COUNT; b++) {
            struct turn both = turn_both(turn_at(a), turn_at(b));
            assert_true(turn_same(turn_at(a), turn_at(b)) == (a == b));
            for (int i = 0; i < NX * NY; i++) {
                int x, y, nx, ny, at_x, at_y;
                turn_place(turn_at(a), NX, NY, i % NX, i / NX, &x, &y);
                turn_shape(turn_at(a), NX, NY, &nx, &ny);
                turn_place(turn_at(b), nx, ny, x, y, &x, &y);
                turn_place(both, NX, NY, i % NX, i / NX, &at_x, &at_y);
                assert_true(x == at_x && y == at_y);
            }
        }
    /* Reversed columns are reversed rows after half a turn. */
    struct turn columns = {.flip = TURN_FLIP_COLUMNS};
    assert_true(turn_same(columns, (struct turn){.rotate = 2, .flip = TURN_FLIP_ROWS}));
    assert_true(turn_same(turn_both(columns, columns), turn_at(0)));
}

static void a_response_becomes_a_factor(void **state) {
    (void)state;
    struct err err = {0};
    const float response[NX * NY] = {2, 4, 2, 4, 0, 2, 4, 2, 4, -1, 2, 4, 2, 4, NAN};
    char path[PATH_SIZE], gain_path[PATH_SIZE];
    scratch_path("response.mrc", path);
    scratch_path("response.gain", gain_path);
    write_mrc(path, response, NX, NY, 1);
    write_mrc(gain_path, response, NX, NY, 1);
    static const struct {
        struct gain_options options;
        bool ending_is_gain, divides;
    } cases[] = {{{.divide = false}, false, false},
                 {{.divide = true}, false, true},
                 {{.eer = true}, false, true},
                 {{.eer = true}, true, false},
                 {{.divide = true}, true, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *name = cases[i].ending_is_gain ? gain_path : path;
        _cleanup_(mem_free) float *gain = NULL;
        assert_true(gain_divides(name, &cases[i].options) == cases[i].divides);
        assert_ok(gain_read(name, &cases[i].options, NX, NY, &gain, &err));
        for (int p = 0; p < NX * NY; p++) {
            float expected = p % NX == 4 ? 0 : !cases[i].divides ? response[p] : 3 / response[p];
            assert_true(gain[p] == expected);
        }
    }
}

static void eer_gains_are_enlarged(void **state) {
    (void)state;
    struct err err = {0};
    char path[PATH_SIZE];
    scratch_path("small.gain", path);
    write_mrc(path, NULL, NX, NY, 1);
    for (int scale = 1; scale <= 4; scale *= 2) {
        _cleanup_(mem_free) float *gain = NULL;
        assert_ok(gain_read(path, &(struct gain_options){.eer = true}, NX * scale, NY * scale, &gain, &err));
        for (int y = 0; y < NY * scale; y++)
            for (int x = 0; x < NX * scale; x++)
                assert_true(gain[y * NX * scale + x] == value_at(x / scale, y / scale));
        float *other = NULL;
        enum status status = gain_read(path, &(struct gain_options){0}, NX * scale, NY * scale, &other, &err);
        assert_int_equal(status, scale == 1 ? STATUS_OK : STATUS_BAD_FORMAT);
        free(other);
    }
}

static void assert_message(const struct err *err, const char *text) {
    if (strstr(err->message, text) == NULL) fail_msg("\"%s\" does not say \"%s\"", err->message, text);
}

static void wrong_gains_are_named(void **state) {
    (void)state;
    struct err err = {0};
    float *gain = NULL;
    char path[PATH_SIZE];
    const struct gain_options none = {0};
    const float nothing[NX * NY] = {0};
    scratch_path("wrong.mrc", path);
    write_mrc(path, NULL, NX, NY, 1);
    assert_int_equal(gain_read(path, &none, NY, NX, &gain, &err), STATUS_BAD_FORMAT);
    assert_message(&err, "wrong.mrc: has 5 × 3 pixels after gain_rotate 0 and gain_flip none, the movie 3 × 5: "
                         "gain_rotate 1 or 3 would fit");
    const struct gain_options turned = {.turn = {.rotate = 3, .flip = TURN_FLIP_COLUMNS}};
    assert_int_equal(gain_read(path, &turned, NX, NY, &gain, &err), STATUS_BAD_FORMAT);
    assert_message(&err, "has 3 × 5 pixels after gain_rotate 3 and gain_flip columns, the movie 5 × 3: "
                         "gain_rotate 0 or 2 would fit");
    assert_int_equal(gain_read(path, &none, 10, 6, &gain, &err), STATUS_BAD_FORMAT);
    assert_message(&err, "has 5 × 3 pixels, the movie 10 × 6: it is the gain reference of another camera or binning");
    write_mrc(path, nothing, NX, NY, 1);
    assert_int_equal(gain_read(path, &none, NX, NY, &gain, &err), STATUS_BAD_FORMAT);
    assert_message(&err, "no pixel is above 0");
    write_mrc(path, NULL, NX, 1, 3);
    assert_int_equal(gain_read(path, &none, NX, 1, &gain, &err), STATUS_BAD_FORMAT);
    assert_message(&err, "has 3 images; one is expected in a gain reference");
    scratch_path("missing.mrc", path);
    assert_int_equal(gain_read(path, &none, NX, NY, &gain, &err), STATUS_NOT_FOUND);
    assert_null(gain);
}

static void bad_pixels_are_read(void **state) {
    (void)state;
    struct err err = {0};
    char text[PATH_SIZE], image[PATH_SIZE];
    const char lines[] = "# bad columns\r\n1 0 1 3\n\n  3, 2, 10, 10 # to the corner\n-2 -2 3 3\n";
    const float expected[NX * NY] = {1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 1, 1};
    scratch_path("bad.txt", text);
    scratch_path("bad.mrc", image);
    assert_ok(file_write_whole(text, lines, sizeof lines - 1, &err));
    write_mrc(image, expected, NX, NY, 1);
    const char *paths[] = {text, image};
    for (int i = 0; i < 2; i++) {
        _cleanup_(mem_free) uint8_t *map = NULL;
        assert_ok(gain_read_defects(paths[i], NX, NY, &map, &err));
        for (int p = 0; p < NX * NY; p++)
            assert_int_equal(map[p], expected[p]);
    }
    uint8_t *map = NULL;
    assert_int_equal(gain_read_defects(image, NX + 1, NY, &map, &err), STATUS_BAD_FORMAT);
    assert_message(&err, "bad.mrc: the map of bad pixels has 5 × 3 × 1 pixels, the movie's frames 6 × 3");
    static const char *wrong[] = {"1 2 3\n",   "\n1 2 3 4 5\n", "1 2 3 four\n",
                                  "1 2 0 4\n", "1 2 3 4x\n",    "1 2 99999999999999999999 4\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_ok(file_write_whole(text, wrong[i], strlen(wrong[i]), &err));
        assert_int_equal(gain_read_defects(text, NX, NY, &map, &err), STATUS_BAD_FORMAT);
        assert_message(&err, i == 1 ? "bad.txt:2: \"1 2 3 4 5\"" : "bad.txt:1: ");
        assert_message(&err, "four whole numbers, x y width height");
    }
    static const char *outside[] = {"0 0 1 1\n5 0 1 1\n", "0 0 1 1\n0 3 9 9\n", "0 0 1 1\n-2 0 2 1\n", "\n0 -4 1 4\n"};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        assert_ok(file_write_whole(text, outside[i], strlen(outside[i]), &err));
        assert_int_equal(gain_read_defects(text, NX, NY, &map, &err), STATUS_BAD_FORMAT);
        assert_message(&err, "bad.txt:2: ");
        assert_message(&err, "outside the movie's frames of 5 × 3 px");
    }
    assert_ok(file_write_whole(text, "1 2\0 3", 6, &err));
    assert_int_equal(gain_read_defects(text, NX, NY, &map, &err), STATUS_BAD_FORMAT);
    assert_message(&err, "neither text nor an image");
    assert_null(map);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gain_is_read_and_turned),   cmocka_unit_test(turns_join),
        cmocka_unit_test(a_response_becomes_a_factor), cmocka_unit_test(eer_gains_are_enlarged),
        cmocka_unit_test(wrong_gains_are_named),       cmocka_unit_test(bad_pixels_are_read),
    };
    return scratch_run("gain", tests, sizeof tests / sizeof *tests);
}
