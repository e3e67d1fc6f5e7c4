/* Tests the lowpass-picker in process. It finds planted particles with templates and with LoG, in micrographs of
 * awkward sizes. Empty micrographs give almost no picks, and constant ones fail. Error messages name the cause. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/formats/image.h"
#include "common/formats/mrc.h"
#include "common/formats/star.h"
#include "common/harness/stage.h"
#include "common/memory.h"
#include "stages/lowpass-picker/lowpass_picker.h"

enum { BOX = 64, TRUTH_MAX = 64 };

static uint64_t seed = 4711;
static char folder[256];

static double uniform(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return ((double)(seed >> 40) + 0.5) * 0x1p-24;
}

static float gauss(void) {
    double u = uniform(), v = uniform();
    return (float)(sqrt(-2 * log(u)) * cos(2 * M_PI * v));
}

/* Returns a white asymmetric blob of about 36 px (diameter 72 Å at 2 Å/px). */
static float blob(double x, double y) {
    double r2 = x * x + 1.4 * y * y;
    return (float)(1.5 / (1 + exp((sqrt(r2) - 14) / 1.5)) + 2 * exp(-((x - 8) * (x - 8) + (y - 5) * (y - 5)) / 30));
}

static char templates_path[300], micrograph_path[300];

static void write_templates(void) {
    struct image image = {0};
    struct err err = {0};
    assert_int_equal(image_resize(&image, BOX, BOX, 1, &err), STATUS_OK);
    image.pixel_size = 2;
    for (int y = 0; y < BOX; y++)
        for (int x = 0; x < BOX; x++) {
            double i = x - BOX / 2, j = y - BOX / 2;
            image.data[y * BOX + x] = i * i + j * j < 20 * 20 ? blob(i, j) : 0;
        }
    assert_int_equal(mrc_write(templates_path, &image, MRC_STACK, MRC_FLOAT32, &err), STATUS_OK);
    image_destroy(&image);
}

struct truth {
    int count;
    double x[TRUTH_MAX], y[TRUTH_MAX], psi[TRUTH_MAX];
};

/* Draws dark particles on a light background, on a jittered grid, away from the border. */
static void write_micrograph(int nx, int ny, bool particles, float noise, struct truth *truth) {
    struct image image = {0};
    struct err err = {0};
    assert_int_equal(image_resize(&image, nx, ny, 1, &err), STATUS_OK);
    image.pixel_size = 2;
    for (int i = 0; i < nx * ny; i++)
        image.data[i] = noise * gauss();
    truth->count = 0;
    for (int gy = 45; particles && gy < ny - 40; gy += 55)
        for (int gx = 45; gx < nx - 40 && truth->count < TRUTH_MAX; gx += 55) {
            int t = truth->count++;
            truth->x[t] = gx + 6 * uniform() - 3;
            truth->y[t] = gy + 6 * uniform() - 3;
            truth->psi[t] = 360 * uniform();
            double c = cos(truth->psi[t] * M_PI / 180), s = sin(truth->psi[t] * M_PI / 180);
            for (int y = gy - 32; y < gy + 32 && y < ny; y++)
                for (int x = gx - 32; x < gx + 32 && x < nx; x++) {
                    double i = x - truth->x[t], j = y - truth->y[t];
                    if (x >= 0 && y >= 0) image.data[(size_t)y * nx + x] -= blob(c * i - s * j, s * i + c * j);
                }
        }
    for (int i = 0; i < nx * ny; i++)
        image.data[i] = 1000 + 50 * image.data[i];
    assert_int_equal(mrc_write(micrograph_path, &image, MRC_IMAGE, MRC_FLOAT32, &err), STATUS_OK);
    image_destroy(&image);
}

static struct item *make_item(const char *id) {
    struct item *item = NULL;
    struct err err = {0};
    assert_int_equal(item_create(id, "micrograph", &item, &err), STATUS_OK);
    assert_int_equal(item_set_string(item, "micrograph.path", micrograph_path, &err), STATUS_OK);
    assert_int_equal(item_set_number(item, "optics.pixel_size", 2, &err), STATUS_OK);
    return item;
}

/* Runs one item. Returns its number of picks, or −1 if the item failed. */
static int run_stage(const char *const *key_values, struct star_file **ret_star) {
    struct item *item = make_item("mic"), **out = NULL;
    struct err err = {0};
    size_t count = 0;
    enum status status = stage_run_in_process(&lowpass_picker_stage, folder, key_values, &item, 1, &out, &count, &err);
    int picks = -1;
    if (status != STATUS_OK || count != 1)
        print_message("%s: %zu items: %s\n", status_name(status), count, err.message);
    if (status == STATUS_OK && count == 1) {
        picks = (int)item_number(out[0], "picks.count", -2);
        const char *star = item_string(out[0], "picks.star");
        assert_non_null(star);
        const char *base = strrchr(star, '/');
        char found[1024];
        snprintf(found, sizeof found, "%s%s", folder, base ? base : star);
        if (access(found, R_OK) != 0) snprintf(found, sizeof found, "%s/%s", folder, star);
        if (ret_star) assert_int_equal(star_read(found, ret_star, &err), STATUS_OK);
        assert_int_equal(item_number(out[0], "columns.icestreamPickCount", -3), picks);
    }
    for (size_t i = 0; i < count; i++)
        item_destroy(&out[i]);
    free(out);
    item_destroy(&item);
    return picks;
}

/* Counts true positions with a pick within the tolerance, and the fraction of these picks whose psi is right to 20° (a
 * pixel of the map is 6 Å). */
static int matched(struct star_file *star, const struct truth *truth, double tolerance, double *ret_psi) {
    struct star_table *table = star_table_find(star, "");
    struct err err = {0};
    assert_non_null(table);
    int x = star_column_find(table, "rlnCoordinateX"), y = star_column_find(table, "rlnCoordinateY");
    int psi = star_column_find(table, "rlnAnglePsi"), hits = 0;
    assert_true(x >= 0 && y >= 0 && psi >= 0 && star_column_find(table, "rlnClassNumber") >= 0);
    assert_true(star_column_find(table, "rlnAutopickFigureOfMerit") >= 0);
    int upright = 0;
    for (int t = 0; t < truth->count; t++)
        for (size_t row = 0; row < star_row_count(table); row++) {
            double px = 0, py = 0, angle = 0;
            assert_int_equal(star_get_number(table, row, x, &px, &err), STATUS_OK);
            assert_int_equal(star_get_number(table, row, y, &py, &err), STATUS_OK);
            assert_int_equal(star_get_number(table, row, psi, &angle, &err), STATUS_OK);
            if (hypot(px - truth->x[t], py - truth->y[t]) > tolerance) continue;
            double off = fabs(remainder(angle - truth->psi[t], 360));
            upright += off <= 20;
            hits++;
            break;
        }
    *ret_psi = hits > 0 ? (double)upright / hits : 0;
    return hits;
}

static void templates_find_what_was_planted(void **state) {
    (void)state;
    const int shapes[][2] = {{512, 512}, {480, 301}, {333, 470}};
    const char *keys[] = {"templates", templates_path, "diameter", "76", "lowpass", "12", NULL};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        struct truth truth = {0};
        struct star_file *star = NULL;
        double psi = 0;
        write_micrograph(shapes[s][0], shapes[s][1], true, 1.5f, &truth);
        int picks = run_stage(keys, &star);
        int hits = matched(star, &truth, 5, &psi);
        print_message("%d x %d: %d planted, %d picked, %d right, psi right of %.2f\n", shapes[s][0], shapes[s][1],
                      truth.count, picks, hits, psi);
        assert_true(hits >= 0.95 * truth.count && picks <= 1.05 * truth.count);
        assert_true(psi >= 0.85);
        star_destroy(&star);
    }
}

static void relion_pruning_runs(void **state) {
    (void)state;
    struct truth truth = {0};
    struct star_file *star = NULL;
    double psi = 0;
    write_micrograph(400, 400, true, 1.0f, &truth);
    const char *keys[] = {"templates", templates_path, "diameter", "76",        "lowpass", "12", "prune",
                          "relion",    "threshold",    "0.3",      "write_png", "false",   NULL};
    run_stage(keys, &star);
    assert_true(matched(star, &truth, 5, &psi) >= 0.8 * truth.count);
    star_destroy(&star);
}

static void log_finds_what_was_planted(void **state) {
    (void)state;
    struct truth truth = {0};
    struct star_file *star = NULL;
    double psi = 0;
    write_micrograph(512, 430, true, 1.5f, &truth);
    const char *keys[] = {"diameter", "64", NULL};
    int picks = run_stage(keys, &star);
    int hits = matched(star, &truth, 8, &psi);
    print_message("LoG: %d planted, %d picked, %d right\n", truth.count, picks, hits);
    assert_true(hits >= 0.95 * truth.count && picks <= 1.1 * truth.count);
    star_destroy(&star);
}

static void empty_micrographs_stay_empty(void **state) {
    (void)state;
    struct truth truth = {0};
    const char *with[] = {"templates", templates_path, "diameter", "76", NULL};
    const char *without[] = {"diameter", "64", NULL};
    write_micrograph(512, 430, false, 1.5f, &truth);
    assert_in_range(run_stage(with, NULL), 0, 2);
    assert_in_range(run_stage(without, NULL), 0, 5);
    /* A constant micrograph fails. */
    write_micrograph(512, 430, false, 0, &truth);
    assert_int_equal(run_stage(with, NULL), -1);
    assert_int_equal(run_stage(without, NULL), -1);
}

static void same_again(void **state) {
    (void)state;
    struct truth truth = {0};
    struct star_file *a = NULL, *b = NULL;
    const char *keys[] = {"templates", templates_path, "diameter", "76", NULL};
    write_micrograph(500, 333, true, 1.5f, &truth);
    assert_true(run_stage(keys, &a) > 0);
    run_stage(keys, &b);
    struct star_table *s = star_table_find(a, ""), *t = star_table_find(b, "");
    assert_int_equal(star_row_count(s), star_row_count(t));
    for (size_t row = 0; row < star_row_count(s); row++)
        for (int c = 0; c < (int)star_column_count(s); c++)
            assert_string_equal(star_get(s, row, c), star_get(t, row, c));
    star_destroy(&a);
    star_destroy(&b);
}

/* Turns the bytes of a file's header (all words but the text, which need not be valid) and of its pixels. */
static void turn_bytes(int size) {
    FILE *file = fopen(micrograph_path, "r+b");
    unsigned char header[1024], pixel[4];
    assert_non_null(file);
    assert_int_equal(fread(header, 1, sizeof header, file), sizeof header);
    for (size_t i = 0; i < 208; i += 4)
        for (size_t k = 0; k < 2; k++) {
            unsigned char byte = header[i + k];
            header[i + k] = header[i + 3 - k];
            header[i + 3 - k] = byte;
        }
    header[212] = header[213] = 0x11;
    rewind(file);
    assert_int_equal(fwrite(header, 1, sizeof header, file), sizeof header);
    for (long at = sizeof header;; at += size) {
        assert_int_equal(fseek(file, at, SEEK_SET), 0);
        if (fread(pixel, 1, (size_t)size, file) != (size_t)size) break;
        assert_int_equal(fseek(file, at, SEEK_SET), 0);
        for (int k = size - 1; k >= 0; k--)
            assert_int_equal(fwrite(pixel + k, 1, 1, file), 1);
    }
    assert_int_equal(fclose(file), 0);
}

/* Whole numbers that each kind of pixel holds give the same picks, in both byte orders, as image_read converts them;
 * picker_devices.py has the device. */
static void kinds_of_pixels_are_alike(void **state) {
    (void)state;
    static const struct {
        enum mrc_mode mode;
        int turned; /* bytes of a pixel to be turned; 0: as they are */
    } kinds[] = {{MRC_FLOAT32, 0}, {MRC_FLOAT16, 0}, {MRC_INT8, 0},  {MRC_INT16, 0},
                 {MRC_UINT16, 0},  {MRC_FLOAT32, 4}, {MRC_INT16, 2}, {MRC_FLOAT16, 2}};
    const char *keys[] = {"templates", templates_path, "diameter", "76", "lowpass", "12", NULL};
    struct truth truth = {0};
    struct image image = {0};
    struct err err = {0};
    struct star_file *first = NULL;
    write_micrograph(480, 301, true, 1.5f, &truth);
    assert_int_equal(mrc_read(micrograph_path, &image, &err), STATUS_OK);
    for (size_t i = 0; i < image_count(&image); i++)
        image.data[i] = fminf(fmaxf(rintf((image.data[i] - 1000) / 10 + 64), 0), 127);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        struct star_file *star = NULL;
        assert_int_equal(mrc_write(micrograph_path, &image, MRC_IMAGE, kinds[k].mode, &err), STATUS_OK);
        if (kinds[k].turned) turn_bytes(kinds[k].turned);
        assert_true(run_stage(keys, &star) > 20);
        if (first == NULL) {
            first = star;
            continue;
        }
        const struct star_table *a = star_table_find(first, ""), *b = star_table_find(star, "");
        assert_int_equal(star_row_count(a), star_row_count(b));
        for (size_t row = 0; row < star_row_count(a); row++)
            for (int column = 0; column < (int)star_column_count(a); column++)
                assert_string_equal(star_get(a, row, column), star_get(b, row, column));
        star_destroy(&star);
    }
    star_destroy(&first);
    image_destroy(&image);
}

static void what_is_wrong_is_said(void **state) {
    (void)state;
    struct truth truth = {0};
    write_micrograph(200, 200, true, 1, &truth);
    const char *const cases[][8] = {
        {NULL},                                         /* neither templates nor a diameter */
        {"method", "template", "diameter", "76", NULL}, /* no templates */
        {"templates", "absent.mrcs", NULL},
        {"diameter", "64", "threshold", "high", NULL},
        {"templates", "T", "diameter", "2000", NULL}, /* the box leaves no background */
        {"templates", "T", "templates_pixel_size", "40", NULL},
        {"log_diameter", "90,60", NULL},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const char *keys[8] = {0};
        for (int i = 0; i < 8 && cases[c][i]; i++)
            keys[i] = strcmp(cases[c][i], "T") == 0 ? templates_path : cases[c][i];
        assert_int_equal(run_stage(keys, NULL), -1);
    }
}

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "%s/icestream-picker-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (mkdtemp(folder) == NULL) return -1;
    snprintf(templates_path, sizeof templates_path, "%s/templates.mrcs", folder);
    snprintf(micrograph_path, sizeof micrograph_path, "%s/mic.mrc", folder);
    write_templates();
    print_message("seed %llu\n", (unsigned long long)seed);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) == 0 ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_find_what_was_planted),
        cmocka_unit_test(relion_pruning_runs),
        cmocka_unit_test(log_finds_what_was_planted),
        cmocka_unit_test(empty_micrographs_stay_empty),
        cmocka_unit_test(same_again),
        cmocka_unit_test(kinds_of_pixels_are_alike),
        cmocka_unit_test(what_is_wrong_is_said),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
