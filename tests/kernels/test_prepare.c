/* Compares kernels/prepare with its definition: pre-shift, soft mask, discrete Fourier sums. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernels/prepare/prepare.h"

enum { BOX = 24, SIZE = 16 };

static void fill(float *image, unsigned seed) {
    srand(seed);
    for (int i = 0; i < BOX * BOX; i++)
        image[i] = (float)rand() / (float)RAND_MAX - 0.3f;
}

static double outside(int x, int y, double radius) {
    double r = hypot(x - BOX / 2, y - BOX / 2);
    return r < radius ? 0 : r >= radius + 5 ? 1 : 0.5 + 0.5 * cos(M_PI * (radius + 5 - r) / 5);
}

/* Makes the image by definition: shifted, scaled and, when radius > 0, masked. */
static void expected_image(const float *image, const struct prepare_options *o, double radius, double *out) {
    double sum = 0, weight = 0;
    for (int y = 0; y < BOX; y++)
        for (int x = 0; x < BOX; x++) {
            int fx = x - o->shift_x, fy = y - o->shift_y;
            if (o->shared_shell > 0) fx = (fx + BOX) % BOX, fy = (fy + BOX) % BOX;
            bool in = fx >= 0 && fy >= 0 && fx < BOX && fy < BOX;
            out[y * BOX + x] = in ? o->scale * image[fy * BOX + fx] : 0;
            sum += outside(x, y, radius) * out[y * BOX + x];
            weight += outside(x, y, radius);
        }
    if (radius > 0)
        for (int y = 0; y < BOX; y++)
            for (int x = 0; x < BOX; x++) {
                double w = outside(x, y, radius);
                out[y * BOX + x] = (1 - w) * out[y * BOX + x] + w * sum / weight;
            }
}

static void transform_at(const double *image, int kx, int ky, double *re, double *im) {
    *re = *im = 0;
    for (int y = 0; y < BOX; y++)
        for (int x = 0; x < BOX; x++) {
            double phase = -2 * M_PI * (kx * (x - BOX / 2) + ky * (y - BOX / 2)) / BOX;
            *re += image[y * BOX + x] * cos(phase) / (BOX * BOX);
            *im += image[y * BOX + x] * sin(phase) / (BOX * BOX);
        }
}

static void check_pixels(const struct fourier_pixels *pixels, const double *image, const float *values) {
    for (int i = 0; i < pixels->count; i++) {
        double re, im;
        transform_at(image, pixels->kx[i], pixels->ky[i], &re, &im);
        assert_true(fabs(re - values[2 * i]) < 1e-6 && fabs(im - values[2 * i + 1]) < 1e-6);
    }
}

static void images_are_shifted_masked_and_transformed(void **state) {
    (void)state;
    struct err err;
    struct fourier_pixels pixels;
    struct prepare *prepare = NULL;
    assert_int_equal(fourier_pixels_create(BOX, SIZE, &pixels, &err), STATUS_OK);
    assert_int_equal(prepare_create(BOX, &prepare, &err), STATUS_OK);
    float image[BOX * BOX], power[BOX / 2 + 1];
    float *masked = calloc(2 * (size_t)pixels.count, sizeof *masked);
    float *unmasked = calloc(2 * (size_t)pixels.count, sizeof *unmasked);
    const struct prepare_options cases[] = {{0, 0, 1, 6}, {3, -2, 1.7, 6}, {-4, 5, 0.5, 4.5}, {BOX + 1, 0, 1, 6}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        double truth[BOX * BOX];
        fill(image, 11 + (unsigned)c);
        prepare_image(prepare, image, &cases[c], &pixels, masked, unmasked, power);
        expected_image(image, &cases[c], 0, truth);
        check_pixels(&pixels, truth, unmasked);
        expected_image(image, &cases[c], cases[c].mask_radius, truth);
        check_pixels(&pixels, truth, masked);
        double sum = 0; /* power of one shell: the half plane without duplicates */
        int members = 0;
        for (int kx = 0; kx <= BOX / 2; kx++)
            for (int ky = -BOX / 2 + 1; ky <= BOX / 2; ky++)
                if (!(kx == 0 && ky < 0) && (int)floor(hypot(kx, ky) + 0.5) == 5) {
                    double re, im;
                    transform_at(truth, kx, ky, &re, &im);
                    sum += re * re + im * im;
                    members++;
                }
        assert_true(fabs(power[5] - sum / (2 * members)) < 1e-8);
    }
    free(masked);
    free(unmasked);
    prepare_destroy(&prepare);
    assert_null(prepare);
    prepare_destroy(&prepare);
    fourier_pixels_destroy(&pixels);
}

/* The image holds waves of one band only, shifted. With a mask the waves must stay in their band, and the part that the
 * mask carries into the other band must be left out. Without a mask the other band must be empty. */
static void bands_are_masked_by_themselves(void **state) {
    (void)state;
    enum { SHARED = 3 };
    struct err err;
    struct fourier_pixels pixels;
    struct prepare *prepare = NULL;
    assert_int_equal(fourier_pixels_create(BOX, SIZE, &pixels, &err), STATUS_OK);
    assert_int_equal(prepare_create(BOX, &prepare, &err), STATUS_OK);
    float *masked = calloc(2 * (size_t)pixels.count, sizeof *masked), power[BOX / 2 + 1];
    const struct prepare_options options = {
        .shift_x = -5, .shift_y = 4, .scale = 1, .mask_radius = 6, .shared_shell = SHARED};
    float *unmasked = calloc(2 * (size_t)pixels.count, sizeof *unmasked);
    for (int upper = 0; upper < 2; upper++) {
        float image[BOX * BOX] = {0};
        double truth[BOX * BOX], carried = 0;
        for (int kx = 0; kx <= 6; kx++)
            for (int ky = -6; ky <= 6; ky++)
                for (int i = 0; i < BOX * BOX && ((int)floor(hypot(kx, ky) + 0.5) > SHARED) == upper; i++)
                    image[i] += (float)cos(2 * M_PI * (kx * (i % BOX) + ky * (i / BOX)) / BOX + 2 * kx + 3 * ky);
        expected_image(image, &options, options.mask_radius, truth);
        prepare_image(prepare, image, &options, &pixels, masked, unmasked, power);
        for (int i = 0; i < pixels.count; i++) {
            double re, im;
            bool kept = (pixels.shell[i] > SHARED) == upper;
            assert_true(kept || hypot((double)unmasked[2 * i], (double)unmasked[2 * i + 1]) < 2e-6);
            transform_at(truth, pixels.kx[i], pixels.ky[i], &re, &im);
            if (!kept) carried = fmax(carried, hypot(re, im)), re = im = 0;
            assert_true(fabs(re - masked[2 * i]) < 2e-6 && fabs(im - masked[2 * i + 1]) < 2e-6);
        }
        assert_true(carried > 0.01);
        assert_true((power[upper ? SHARED : SHARED + 1] < 1e-10) && power[upper ? SHARED + 1 : SHARED] > 1e-4);
    }
    free(masked);
    free(unmasked);
    prepare_destroy(&prepare);
    fourier_pixels_destroy(&pixels);
}

static void white_noise_has_half_its_variance_per_component(void **state) {
    (void)state;
    struct err err;
    struct prepare *prepare = NULL;
    assert_int_equal(prepare_create(BOX, &prepare, &err), STATUS_OK);
    float image[BOX * BOX], power[BOX / 2 + 1];
    double mean = 0;
    srand(5);
    for (int repeat = 0; repeat < 200; repeat++) {
        for (int i = 0; i < BOX * BOX; i++)
            image[i] = (float)(sqrt(12.0) * (rand() / (double)RAND_MAX - 0.5));
        const struct prepare_options options = {.scale = 1, .mask_radius = BOX};
        prepare_image(prepare, image, &options, NULL, NULL, NULL, power);
        mean += power[8] / 200;
    }
    /* σ² = 1/(2 N²) for noise of variance 1; 200 × 25 pixels leave about 2 %. */
    assert_true(fabs(mean * 2 * BOX * BOX - 1) < 0.08);
    prepare_destroy(&prepare);
}

static void odd_boxes_are_refused(void **state) {
    (void)state;
    struct err err;
    struct prepare *prepare = NULL;
    assert_int_equal(prepare_create(33, &prepare, &err), STATUS_BAD_ARGUMENT);
    assert_null(prepare);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_are_shifted_masked_and_transformed),
        cmocka_unit_test(bands_are_masked_by_themselves),
        cmocka_unit_test(white_noise_has_half_its_variance_per_component),
        cmocka_unit_test(odd_boxes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
