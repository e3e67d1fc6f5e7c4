/* The defocus across simulated micrographs: level, tilted, and domed samples. */
#include "kernels/ctf_fit/ctf_local.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/memory.h"
#include "kernels/periodogram/periodogram.h"
#include "tests/kernels/spectrum_cases.h"

enum { SIZE = 2048, SMALL = 1024, BOX = 512, KNOTS = 4 };
static int side = SIZE;                       /* px, of the micrographs that are made now */
static const double PIXEL = 1.2, LEVEL = 150; /* Å; Å between two defoci that are simulated */

/* The defocus of a sample, Å: a plane, a dome of this height in the middle, and heights at the knots of a grid. */
struct sample {
    double mean, half, angle, slope_x, slope_y, dome, heights[KNOTS][KNOTS];
};

static double height_at(const struct sample *s, double x, double y) {
    double column = x / side * (KNOTS - 1), row = y / side * (KNOTS - 1);
    int i = (int)column, k = (int)row;
    double low = s->heights[k][i] + (column - i) * (s->heights[k][i + 1] - s->heights[k][i]);
    double high = s->heights[k + 1][i] + (column - i) * (s->heights[k + 1][i + 1] - s->heights[k + 1][i]);
    return low + (row - k) * (high - low);
}

static double defocus_at(const struct sample *s, double x, double y) {
    double across = (x - (side - 1) / 2.0) * PIXEL, up = (y - (side - 1) / 2.0) * PIXEL, radius = side * PIXEL / 2;
    return s->mean + s->slope_x * across + s->slope_y * up +
           s->dome * (1 - (across * across + up * up) / (radius * radius)) + height_at(s, x, y);
}

/* Fills out with a noise-free image: each pixel lies between the images of the two nearest of many defoci. */
static void simulate(const struct sample *s, double signal, double noise, uint64_t first_seed, float *out) {
    size_t pixels = (size_t)side * side;
    struct fft_plan *forward = NULL, *inverse = NULL;
    struct fft_options options = {.rank = 2, .shape = {side, side}, .direction = FFT_FORWARD};
    assert_int_equal(fft_create(&options, &forward, NULL), STATUS_OK);
    options.direction = FFT_INVERSE;
    assert_int_equal(fft_create(&options, &inverse, NULL), STATUS_OK);
    float *specimen = mem_aligned(fft_complex_floats(forward), sizeof *specimen);
    float *seen = mem_aligned(fft_complex_floats(forward), sizeof *seen);
    float *image = mem_aligned(pixels, sizeof *image);
    assert_true(specimen != NULL && seen != NULL && image != NULL);
    seed = first_seed;
    double least = INFINITY, most = -INFINITY;
    for (size_t i = 0; i < pixels; i++) {
        double defocus = defocus_at(s, (double)(i % side), (double)(i / side));
        least = fmin(least, defocus);
        most = fmax(most, defocus);
        image[i] = spectrum_noise() * (float)sqrt(signal);
        out[i] = 0;
    }
    fft_run(forward, image, specimen);
    int levels = (int)((most - least) / LEVEL) + 2;
    for (int level = 0; level < levels; level++) {
        double defocus = least + level * LEVEL, step = 1 / (side * PIXEL);
        struct ctf ctf = {.defocus_u = defocus + s->half,
                          .defocus_v = defocus - s->half,
                          .defocus_angle = s->angle,
                          .voltage = 300,
                          .spherical_aberration = 2.7,
                          .amplitude_contrast = 0.1,
                          .b_factor = 100,
                          .scale = 1};
        struct ctf_terms terms = ctf_prepare(&ctf);
        for (int row = 0; row < side; row++)
            for (int kx = 0; kx <= side / 2; kx++) {
                size_t at = 2 * ((size_t)row * (side / 2 + 1) + (size_t)kx);
                float value = ctf_value(&terms, kx * step, (row <= side / 2 ? row : row - side) * step);
                seen[at] = specimen[at] * value / (float)pixels;
                seen[at + 1] = specimen[at + 1] * value / (float)pixels;
            }
        fft_run(inverse, seen, image);
        for (size_t i = 0; i < pixels; i++) {
            double apart = fabs(defocus_at(s, (double)(i % side), (double)(i / side)) - defocus) / LEVEL;
            if (apart < 1) out[i] += (float)(1 - apart) * image[i];
        }
    }
    for (size_t i = 0; i < pixels; i++)
        out[i] += (float)noise * spectrum_noise();
    fft_destroy(&forward);
    fft_destroy(&inverse);
    free(specimen);
    free(seen);
    free(image);
}

struct found {
    struct periodogram *periodogram;
    struct ctf_fit *fit;
    struct ctf_local *local;
    struct ctf_fit_result whole;
    struct ctf_local_result result;
};

static void clear(struct found *f) {
    periodogram_destroy(&f->periodogram);
    ctf_fit_destroy(&f->fit);
    ctf_local_destroy(&f->local);
}

static void find(const float *image, int threads, struct found *f) {
    struct err err = {0};
    struct periodogram_task task = {.nx = side, .ny = side, .box = BOX, .threads = threads, .tiles = true};
    const struct ctf_fit_options options = {.pixel_size = PIXEL,
                                            .voltage = 300,
                                            .spherical_aberration = 2.7,
                                            .amplitude_contrast = 0.1,
                                            .low = 30,
                                            .high = 5,
                                            .defocus_min = 2000,
                                            .defocus_max = 50000,
                                            .astigmatism_max = 2000};
    float *power = mem_aligned((size_t)BOX * (BOX / 2 + 1), sizeof *power);
    assert_non_null(power);
    memset(f, 0, sizeof *f);
    if (periodogram_create(&task, &f->periodogram, &err) != STATUS_OK ||
        ctf_fit_create(BOX, threads, &f->fit, &err) != STATUS_OK ||
        ctf_local_create(side, side, BOX, threads, &f->local, &err) != STATUS_OK ||
        periodogram_run(f->periodogram, image, NULL, power, &err) != STATUS_OK ||
        ctf_fit_run(f->fit, power, &options, &f->whole, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    double start = clock_monotonic();
    ctf_local_run(f->local, periodogram_cells(f->periodogram), &options, &f->whole, &f->result);
    print_message(
        "defocus %.0f %.0f, to %.1f Å; local CTF in %.0f ms: tilt %.2f°, axis %.1f°, gain %.1f, chance %.2g\n",
        f->whole.defocus_u, f->whole.defocus_v, f->whole.resolution, 1e3 * (clock_monotonic() - start), f->result.tilt,
        f->result.axis, f->result.gain, f->result.chance);
    free(power);
}

/* Returns the RMS error of the defocus over the micrograph, Å; *ret_whole: with one defocus for all. */
static double error_of(const struct sample *s, const struct found *f, double *ret_whole) {
    double sum = 0, whole = 0, count = 0, mean = (f->whole.defocus_u + f->whole.defocus_v) / 2;
    for (int y = 50; y < side; y += 100)
        for (int x = 50; x < side; x += 100) {
            double truth = defocus_at(s, x, y);
            sum += pow(mean + ctf_local_at(&f->result, x, y) - truth, 2);
            whole += pow(mean - truth, 2);
            count++;
        }
    *ret_whole = sqrt(whole / count);
    return sqrt(sum / count);
}

static float *image_of(const struct sample *s, double signal, double noise, uint64_t first_seed) {
    float *image = mem_aligned((size_t)side * side, sizeof *image);
    assert_non_null(image);
    simulate(s, signal, noise, first_seed, image);
    return image;
}

static void a_tilt_is_found(void **state) {
    (void)state;
    static const struct { double mean, tilt, axis; } cases[] = {{15000, 10, 30}, {22000, 30, 100}, {12000, 45, 250}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double slope = tan(cases[i].tilt * M_PI / 180), up = (cases[i].axis + 90) * M_PI / 180, whole;
        struct sample s = {cases[i].mean, 150, 20, slope * cos(up), slope * sin(up), 0, {{0}}};
        float *image = image_of(&s, 1, 1, i + 1);
        struct found f;
        find(image, 2, &f);
        double error = error_of(&s, &f, &whole), turn = fabs(remainder(f.result.axis - cases[i].axis, 360));
        print_message("tilt %.0f°, axis %.0f°: RMS error %.0f Å, %.0f Å without\n", cases[i].tilt, cases[i].axis, error,
                      whole);
        assert_true(fabs(f.result.tilt - cases[i].tilt) < 2 && turn < 5);
        assert_true(error < 60 && error < whole / 3);
        clear(&f);
        free(image);
    }
}

static void a_level_sample_has_no_tilt(void **state) {
    (void)state;
    for (uint64_t k = 11; k < 15; k++) {
        struct sample s = {14000 + 1000 * (double)k, 100, -40, 0, 0, 0, {{0}}};
        float *image = image_of(&s, 1, 1, k);
        struct found f;
        double whole;
        find(image, 2, &f);
        double error = error_of(&s, &f, &whole);
        print_message("level: RMS error %.0f Å, %.0f Å without; mean off by %.0f Å\n", error, whole,
                      f.result.surface.mean + (f.whole.defocus_u + f.whole.defocus_v) / 2 - s.mean);
        assert_true(f.result.tilt == 0 && f.result.surface.x == 0 && error < 50);
        clear(&f);
        free(image);
    }
}

static int few_tiles(void **state) {
    (void)state;
    side = SMALL;
    return 0;
}

static int many_tiles(void **state) {
    (void)state;
    side = SIZE;
    return 0;
}

/* Few tiles over uneven ice always lie near some plane: its likelihood alone would make a tilt of it. */
static void uneven_ice_is_no_tilt(void **state) {
    (void)state;
    int gained = 0;
    for (uint64_t k = 36; k < 40; k++) {
        struct sample s = {18000, 100, 30, 0, 0, 0, {{0}}};
        seed = k;
        for (int i = 0; i < KNOTS * KNOTS; i++)
            s.heights[i / KNOTS][i % KNOTS] = 200 * (double)spectrum_noise();
        float *image = image_of(&s, 1, 1, k);
        struct found f;
        find(image, 2, &f);
        assert_true(f.result.columns == 3 && f.result.rows == 3);
        assert_true(!f.result.significant && f.result.tilt == 0 && f.result.axis == 0);
        assert_true(f.result.surface.x == 0 && f.result.surface.y == 0);
        gained += f.result.gain > 8;
        clear(&f);
        free(image);
    }
    assert_true(gained >= 3);
}

static void few_tiles_show_a_steep_tilt(void **state) {
    (void)state;
    const double tilt = 52;
    struct sample s = {18000, 100, 30, 0, tan(tilt * M_PI / 180), 0, {{0}}};
    float *image = image_of(&s, 1, 1, 52);
    struct found f;
    find(image, 2, &f);
    assert_true(f.result.significant && fabs(f.result.tilt - tilt) < 5);
    assert_true(f.result.axis < 12 || f.result.axis > 348);
    clear(&f);
    free(image);
}

static void a_dome_is_followed(void **state) {
    (void)state;
    struct sample s = {16000, 100, 0, 0.05, 0, 500, {{0}}};
    float *image = image_of(&s, 1, 1, 5);
    struct found f, again;
    double whole;
    find(image, 2, &f);
    double error = error_of(&s, &f, &whole);
    print_message("dome: RMS error %.0f Å, %.0f Å without\n", error, whole);
    assert_true(error < 80 && error < 0.5 * whole);
    find(image, 5, &again);
    assert_memory_equal(f.result.offset, again.result.offset,
                        (size_t)f.result.columns * (size_t)f.result.rows * sizeof *f.result.offset);
    clear(&f);
    clear(&again);
    free(image);
}

/* A part without variance, such as a filled border, follows its neighbours. */
static void noise_and_borders_do_no_harm(void **state) {
    (void)state;
    struct sample s = {15000, 0, 0, 0.2, 0, 0, {{0}}};
    float *image = image_of(&s, 1, 1, 6);
    for (int y = 0; y < side; y++)
        for (int x = 0; x < 700; x++)
            image[(size_t)y * side + (size_t)x] = 7;
    struct found f;
    double whole;
    find(image, 2, &f);
    double error = error_of(&s, &f, &whole);
    print_message("with a border: RMS error %.0f Å, %.0f Å without\n", error, whole);
    assert_true(fabs(f.result.surface.x - 0.2) < 0.03 && error < 100);
    clear(&f);
    seed = 8;
    for (size_t i = 0; i < (size_t)side * side; i++)
        image[i] = spectrum_noise();
    find(image, 2, &f);
    assert_true(f.result.tilt == 0);
    for (int i = 0; i < f.result.columns * f.result.rows; i++)
        assert_true(fabs(f.result.offset[i]) < 500);
    clear(&f);
    free(image);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_tilt_is_found, many_tiles),
        cmocka_unit_test_setup(a_level_sample_has_no_tilt, many_tiles),
        cmocka_unit_test_setup(a_dome_is_followed, many_tiles),
        cmocka_unit_test_setup(noise_and_borders_do_no_harm, many_tiles),
        cmocka_unit_test_setup(uneven_ice_is_no_tilt, few_tiles),
        cmocka_unit_test_setup(few_tiles_show_a_steep_tilt, few_tiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
