/* The parts of the endpoints that only compute: directions against chealpix, shrunk volumes against waves that are known,
 * texts, and GPUs of a library that pretends to have some. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <chealpix.h>

#include "common/memory.h"
#include "pipelines/launcher/api/api_private.h"
#include "pipelines/launcher/api/api_text.h"
#include "pipelines/launcher/api/directions.h"
#include "pipelines/launcher/api/gpus.h"
#include "pipelines/launcher/api/shrink.h"
#include "tests/common/scratch.h"

static void pixels_are_those_of_healpix(void **state) {
    (void)state;
    srand(1);
    for (int nside = 1; nside <= 32; nside *= 2)
        for (long pixel = 0; pixel < 12L * nside * nside; pixel++) {
            double theta, phi, centre[3];
            pix2ang_ring(nside, pixel, &theta, &phi);
            directions_centre(nside, pixel, centre);
            assert_true(fabs(centre[2] - cos(theta)) < 1e-12);
            assert_true(fabs(centre[0] - sin(theta) * cos(phi)) < 1e-12);
            assert_true(fabs(centre[1] - sin(theta) * sin(phi)) < 1e-12);
            assert_int_equal(directions_pixel(nside, centre[2], atan2(centre[1], centre[0])), pixel);
        }
    for (int i = 0; i < 200000; i++) {
        double z = 2.0 * rand() / RAND_MAX - 1, phi = 20.0 * rand() / RAND_MAX - 10;
        long expected;
        ang2pix_ring(16, acos(z), phi, &expected);
        assert_int_equal(directions_pixel(16, z, phi), expected);
    }
    double operations[DIRECTIONS_OPERATIONS][3][3];
    assert_true(directions_pixel(16, 1, 0) >= 0 && directions_pixel(16, -1, 3) < 12 * 256);
    assert_int_equal(directions_group("C1", operations), 1);
    assert_int_equal(directions_group("d7", operations), 14);
    assert_int_equal(directions_group("D99", operations), 198);
    assert_int_equal(directions_group("D101", operations), 0);
    assert_int_equal(directions_group("I5", operations), 0);
    assert_int_equal(directions_group("C", operations), 0);
    assert_int_equal(directions_group("", operations), 0);
}

/* Each group of the solids is a group of rotations that has RELION's axes: turns by a whole fold about them give the
 * identity, and are of the group. */
static void solids_have_their_axes(void **state) {
    (void)state;
    static const double golden = 1.6180339887498948482;
    const struct {
        const char *name;
        int count, fold;
        double axis[3];
    } cases[] = {{"T", 12, 3, {0, 0, 1}},       {"o", 24, 4, {0, 0, 1}},       {"O", 24, 3, {1, 1, 1}},
                 {"I", 60, 2, {0, 0, 1}},       {"I1", 60, 2, {0, 0, 1}},      {"I1", 60, 5, {golden, 0, -1}},
                 {"I2", 60, 5, {1, 0, golden}}, {"I3", 60, 5, {0, 0, 1}},      {"I4", 60, 5, {2, 0, 1}},
                 {"I4", 60, 2, {1, 0, golden}}, {"I3", 60, 2, {-1, 0, golden}}};
    double all[DIRECTIONS_OPERATIONS][3][3];
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        assert_int_equal(directions_group(cases[c].name, all), cases[c].count);
        int about = 0;
        for (int k = 0; k < cases[c].count; k++) {
            const double(*m)[3] = all[k];
            double determinant = 0, moved = 0;
            for (int i = 0; i < 3; i++) {
                const int j = (i + 1) % 3, l = (i + 2) % 3;
                double turned = 0;
                determinant += m[0][i] * (m[1][j] * m[2][l] - m[1][l] * m[2][j]);
                for (int n = 0; n < 3; n++)
                    turned += m[i][n] * cases[c].axis[n];
                moved += fabs(turned - cases[c].axis[i]);
            }
            assert_true(fabs(determinant - 1) < 1e-9);
            about += moved < 1e-9;
        }
        if (about != cases[c].fold) fail_msg("%s has %d turns about its axis", cases[c].name, about);
    }
}

static double efficiency_of(const char *symmetry, double least_tilt, double most_tilt, double most_rot) {
    static double counts[12 * 16 * 16];
    double operations[DIRECTIONS_OPERATIONS][3][3];
    int count = directions_group(symmetry, operations);
    memset(counts, 0, sizeof counts);
    for (int i = 0; i < 20000; i++) {
        double least = cos(most_tilt * 3.14159265 / 180), most = cos(least_tilt * 3.14159265 / 180);
        double tilt = acos(least + (most - least) * rand() / RAND_MAX) * 180 / 3.14159265;
        directions_add(16, most_rot * rand() / RAND_MAX, tilt, operations, count, counts);
    }
    double total = 0;
    for (int i = 0; i < 12 * 16 * 16; i++)
        total += counts[i];
    assert_true(fabs(total - 20000) < 1e-6);
    return directions_efficiency(16, counts);
}

static void efficiency_falls_with_preference(void **state) {
    (void)state;
    static const double none[12 * 8 * 8];
    srand(2);
    double all = efficiency_of("C1", 0, 180, 360), cone = efficiency_of("C1", 0, 40, 360);
    double top = efficiency_of("C1", 0, 5, 360), side = efficiency_of("C1", 85, 95, 360);
    double arc = efficiency_of("C1", 80, 100, 20), turned = efficiency_of("D4", 80, 100, 20);
    assert_true(efficiency_of("O", 80, 100, 20) > turned && efficiency_of("I", 80, 100, 20) > turned);
    print_message("efficiency: all %.3f, cone of 40 degrees %.3f, top %.3f, side %.3f, arc %.3f, arc in D4 %.3f\n", all,
                  cone, top, side, arc, turned);
    assert_true(all > 0.97 && all <= 1);
    assert_true(cone < 0.9 && cone > top);
    assert_true(top < 0.5);
    assert_true(side > cone && side < all); /* side views fill all of Fourier space, though not evenly */
    assert_true(arc < 0.7 && turned > arc);
    assert_true(isnan(directions_efficiency(8, none)));
}

struct wave {
    int n;
};

/* A wave that both sizes hold, on one that only the large one holds. */
static double low(double x, double y, double z) {
    return 1 + cos(2 * 3.14159265358979 * (2 * x - 3 * y)) + sin(2 * 3.14159265358979 * (z + 5 * y));
}

static enum status wave_slice(void *context, int z, float *slice, struct err *err) {
    (void)err;
    const struct wave *wave = context;
    const int n = wave->n;
    for (int y = 0; y < n; y++)
        for (int x = 0; x < n; x++)
            slice[y * n + x] = (float)(low(x / (double)n, y / (double)n, z / (double)n) +
                                       cos(2 * 3.14159265358979 * 14 * x / n) + cos(2 * 3.14159265358979 * 11 * z / n));
    return STATUS_OK;
}

static void volumes_keep_their_low_frequencies(void **state) {
    (void)state;
    enum { KEPT = 16 };
    struct err err = {0};
    struct wave wave = {48};
    static float out[KEPT * KEPT * KEPT];
    assert_ok(shrink_volume(wave_slice, &wave, (const int[]){48, 48, 48}, KEPT, out, &err));
    double worst = 0;
    for (int z = 0; z < KEPT; z++)
        for (int y = 0; y < KEPT; y++)
            for (int x = 0; x < KEPT; x++)
                worst = fmax(worst, fabs((double)out[(z * KEPT + y) * KEPT + x] -
                                         low(x / (double)KEPT, y / (double)KEPT, z / (double)KEPT)));
    assert_true(worst < 1e-4);
    assert_int_equal(shrink_volume(wave_slice, &wave, (const int[]){48, 48, 48}, 15, out, &err), STATUS_UNSUPPORTED);
    assert_int_equal(shrink_volume(wave_slice, &wave, (const int[]){8, 48, 48}, 16, out, &err), STATUS_UNSUPPORTED);
}

static void greys_leave_out_what_is_no_number(void **state) {
    (void)state;
    float values[6] = {0, 2, 1, NAN, 1, INFINITY}, square[16];
    uint8_t grey[6];
    shrink_grey(values, 6, 2, grey);
    assert_int_equal(grey[2], 128);
    assert_int_equal(grey[3], 128);
    assert_int_equal(grey[5], 128);
    assert_true(grey[0] < 64 && grey[1] > 191);
    float ramp[1000];
    uint8_t span[1000];
    for (int i = 0; i < 1000; i++)
        ramp[i] = (float)i;
    ramp[7] = NAN;
    ramp[999] = 3000; /* one bright pixel keeps nothing else dark */
    shrink_grey_span(ramp, 1000, 0.002, span);
    assert_true(span[0] == 0 && span[7] == 128 && span[999] == 255 && span[998] >= 254);
    assert_true(abs(span[500] - 127) <= 2 && abs(span[250] - 63) <= 2);
    const float flat[3] = {2, 2, NAN};
    shrink_grey_span(flat, 3, 0.002, span);
    assert_true(span[0] == 128 && span[1] == 128 && span[2] == 128);
    for (int i = 0; i < 16; i++)
        square[i] = (float)(i % 4 + i / 4 * 10);
    shrink_bin(square, 4, 4, 2, square);
    assert_true(square[0] == 5.5f && square[1] == 7.5f && square[2] == 25.5f && square[3] == 27.5f);
}

static void texts_are_json(void **state) {
    (void)state;
    struct api_text text = {0};
    api_text_add(&text, "[");
    api_text_comma(&text);
    api_text_string(&text, "a\"b\\c\n\x7f<é\xff\xc3(\xed\xa0\x80\xf0\x9f\x90\x8d");
    api_text_comma(&text);
    api_text_number(&text, NAN, 6);
    api_text_comma(&text);
    api_text_number(&text, 12.0, 6);
    api_text_comma(&text);
    api_text_number(&text, -0.123456789, 6);
    api_text_add(&text, "]");
    assert_false(text.failed);
    assert_string_equal(text.bytes,
                        "[\"a\\\"b\\\\c\\u000a\\u007f<é\xef\xbf\xbd\xef\xbf\xbd(\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
                        "\xf0\x9f\x90\x8d\",null,12,-0.123457]");
    free(text.bytes);
    char *clean = api_text_clean("tab\tand \x80", 9);
    assert_string_equal(clean, "tab and \xef\xbf\xbd");
    free(clean);
}

static void gpus_are_read_and_lost(void **state) {
    (void)state;
    struct err err = {0};
    struct gpus *gpus = NULL;
    struct gpu list[GPUS_MAX];
    char path[PATH_SIZE];
    scratch_path("gpus", path);
    assert_int_equal(gpus_open("/nowhere/libnvidia-ml.so.1", &gpus, &err), STATUS_UNAVAILABLE);
    assert_int_equal(gpus_open("libm.so.6", &gpus, &err), STATUS_UNAVAILABLE);
    setenv("FAKE_NVML", path, 1);
    assert_int_equal(gpus_open(FAKE_NVML_LIBRARY, &gpus, &err), STATUS_UNAVAILABLE); /* "no driver" */
    const char *two = "RTX-A5000 80 6000000000 24000000000 71 190500\nRTX-A5000 5 0 24000000000 40 25000\n";
    assert_ok(file_write_whole(path, two, strlen(two), &err));
    setenv("ICESTREAM_NVML", FAKE_NVML_LIBRARY, 1);
    assert_ok(gpus_open(NULL, &gpus, &err));
    assert_int_equal(gpus_read(gpus, list), 2);
    assert_string_equal(list[0].name, "RTX-A5000");
    assert_string_equal(list[1].uuid, "GPU-1");
    assert_true(list[0].utilisation == 0.8 && list[0].memory_used == 6e9 && list[0].memory_total == 24e9);
    assert_true(list[0].temperature == 71 && list[0].power == 190.5 && !list[0].lost);
    /* An error is counted once. */
    assert_true(list[0].xids == 0 && list[1].xids == 0);
    const char *errs = "RTX-A5000 80 6000000000 24000000000 71 190500\nRTX-A5000 5 0 24000000000 40 25000 79\n";
    assert_ok(file_write_whole(path, errs, strlen(errs), &err));
    for (int i = 0; i < 2; i++)
        assert_int_equal(gpus_read(gpus, list), 2);
    assert_true(list[0].xids == 0 && list[1].xids == 1 && list[1].xid == 79);
    const char *one = "RTX-A5000 80 6000000000 24000000000 71 190500\nlost\n";
    assert_ok(file_write_whole(path, one, strlen(one), &err));
    assert_int_equal(gpus_read(gpus, list), 2);
    assert_int_equal(list[1].xids, 1);
    assert_true(!list[0].lost && list[1].lost && isnan(list[1].temperature));
    assert_string_equal(list[1].name, "RTX-A5000");
    gpus_close(&gpus);
    assert_null(gpus);
}

static void what_was_asked_for_last_is_kept(void **state) {
    (void)state;
    static const char *const asked[] = {"a", "b", "a", "c", "a", "b"};
    static const bool known[] = {false, false, true, false, true, false};
    struct api_kept kept[2] = {0};
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        struct api_kept *found = api_kept_find(kept, 2, asked[i], (int64_t)i + 1);
        assert_int_equal(strcmp(found->key, asked[i]) == 0, known[i]);
        if (!known[i]) api_kept_put(found, asked[i], strdup(asked[i]), 1);
        assert_int_equal(*(const char *)found->bytes, *asked[i]);
    }
    for (size_t i = 0; i < 2; i++)
        api_kept_clear(&kept[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pixels_are_those_of_healpix),       cmocka_unit_test(solids_have_their_axes),
        cmocka_unit_test(efficiency_falls_with_preference),  cmocka_unit_test(volumes_keep_their_low_frequencies),
        cmocka_unit_test(greys_leave_out_what_is_no_number), cmocka_unit_test(texts_are_json),
        cmocka_unit_test(what_was_asked_for_last_is_kept),   cmocka_unit_test(gpus_are_read_and_lost),
    };
    return scratch_run("api", tests, sizeof tests / sizeof *tests);
}
