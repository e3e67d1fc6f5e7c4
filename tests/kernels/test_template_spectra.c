/* Compares rotated template transforms with plain sums, quarter turns with turned arrays, and resizing of a cosine. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/memory.h"
#include "kernels/template_spectra/template_spectra.h"

enum { SIZE = 128, WORK = 48, BOX = 32, RADIUS = 13 };

/* Draws a lopsided blob, smooth enough for any grid. */
static float blob(double x, double y) {
    return (float)(exp(-(x * x + 2 * y * y) / 40) + 0.7 * exp(-((x - 5) * (x - 5) + (y + 4) * (y + 4)) / 12));
}

static void fill(float *image, double psi) {
    double c = cos(psi * M_PI / 180), s = sin(psi * M_PI / 180);
    for (int j = 0; j < BOX; j++)
        for (int i = 0; i < BOX; i++) {
            double x = i - BOX / 2, y = j - BOX / 2;
            image[j * BOX + i] = blob(c * x - s * y, s * x + c * y);
        }
}

static struct template_spectra *make(const float *templates, int count, int rotations, bool invert, size_t limit) {
    struct template_spectra_options options = {.size = SIZE,
                                               .work = WORK,
                                               .box = BOX,
                                               .radius = RADIUS,
                                               .count = count,
                                               .rotations = rotations,
                                               .invert = invert,
                                               .memory_limit = limit,
                                               .threads = 2};
    struct template_spectra *spectra = NULL;
    struct err err = {0};
    if (template_spectra_create(&options, templates, &spectra, &err) != STATUS_OK) fail_msg("%s", err.message);
    return spectra;
}

/* Computes Σ A(x) exp(−2πi k·x/SIZE) over the circle. */
static void plain_sum(const float *image, int kx, int ky, double *re, double *im) {
    *re = *im = 0;
    for (int j = -BOX / 2; j < BOX / 2; j++)
        for (int i = -BOX / 2; i < BOX / 2; i++) {
            if (i * i + j * j >= RADIUS * RADIUS) continue;
            double angle = -2 * M_PI * (kx * i + ky * j) / SIZE, a = image[(j + BOX / 2) * BOX + i + BOX / 2];
            *re += a * cos(angle);
            *im += a * sin(angle);
        }
}

/* Errors come from interpolation and, for turned images, from the hard mask on another grid: 1 % of the strongest
 * value. */
static void compare(const float *half, const float *image, double sign, double tolerance) {
    double scale = 0, unused = 0;
    plain_sum(image, 0, 0, &scale, &unused);
    for (int row = 0; row < WORK; row++)
        for (int kx = 0; kx <= WORK / 2; kx++) {
            int ky = row <= WORK / 2 ? row : row - WORK;
            double re = 0, im = 0;
            if (kx * kx + ky * ky <= WORK / 2 * WORK / 2) plain_sum(image, kx, ky, &re, &im);
            const float *value = half + 2 * (row * (WORK / 2 + 1) + kx);
            assert_float_equal(value[0], sign * re, tolerance * scale);
            assert_float_equal(value[1], sign * im, tolerance * scale);
        }
}

static void is_the_fourier_transform(void **state) {
    (void)state;
    float image[BOX * BOX], out[WORK * (WORK + 2)];
    fill(image, 0);
    struct template_spectra *spectra = make(image, 1, 8, false, 0);
    template_spectra_rotate(spectra, 0, 0, out);
    compare(out, image, 1, 0.003);
    template_spectra_destroy(&spectra);
    spectra = make(image, 1, 8, true, 0);
    template_spectra_rotate(spectra, 0, 0, out);
    compare(out, image, -1, 0.003);
    template_spectra_destroy(&spectra);
}

static void rotations_turn_the_image(void **state) {
    (void)state;
    float image[BOX * BOX], turned[BOX * BOX], out[WORK * (WORK + 2)];
    fill(image, 0);
    struct template_spectra *spectra = make(image, 1, 8, false, 0);
    const double angles[] = {10, 45, 90, 133, 180, 270, 351};
    for (size_t a = 0; a < sizeof angles / sizeof *angles; a++) {
        /* F(A k) is the transform of the image sampled at A x. */
        fill(turned, angles[a]);
        template_spectra_rotate(spectra, 0, angles[a], out);
        compare(out, turned, 1, 0.01);
    }
    template_spectra_destroy(&spectra);
}

static void quarter_turns_are_exact(void **state) {
    (void)state;
    float image[BOX * BOX], turned[BOX * BOX], a[WORK * (WORK + 2)], b[WORK * (WORK + 2)];
    fill(image, 17);
    memset(turned, 0, sizeof turned);
    /* Sampling at (−y, x) moves the value at (−j, i) to (i, j). Row and column −BOX/2 have no counterpart. */
    for (int j = -BOX / 2 + 1; j < BOX / 2; j++)
        for (int i = -BOX / 2 + 1; i < BOX / 2; i++)
            turned[(j + BOX / 2) * BOX + i + BOX / 2] = image[(i + BOX / 2) * BOX - j + BOX / 2];
    struct template_spectra *s = make(image, 1, 4, false, 0), *t = make(turned, 1, 4, false, 0);
    template_spectra_rotate(s, 0, 90, a);
    template_spectra_rotate(t, 0, 0, b);
    double scale = fabs(b[0]);
    for (size_t i = 0; i < sizeof a / sizeof *a; i++)
        assert_float_equal(a[i], b[i], 1e-4 * scale);
    template_spectra_destroy(&s);
    template_spectra_destroy(&t);
}

static void kept_or_worked_out_is_the_same(void **state) {
    (void)state;
    float images[2 * BOX * BOX], scratch[WORK * (WORK + 2)];
    fill(images, 0);
    fill(images + BOX * BOX, 60);
    const int rotations[] = {12, 9};
    for (int n = 0; n < 2; n++) {
        struct template_spectra *kept = make(images, 2, rotations[n], false, SIZE_MAX);
        struct template_spectra *fresh = make(images, 2, rotations[n], false, 0);
        for (int t = 0; t < 2; t++)
            for (int r = 0; r < rotations[n]; r++) {
                bool c = false, d = false;
                const float *a = template_spectra_get(kept, t, r, NULL, &c);
                const float *b = template_spectra_get(fresh, t, r, scratch, &d);
                assert_int_equal(c, d);
                assert_memory_equal(a, b, sizeof scratch);
                /* The second half of the turn is the conjugate of the first half. */
                float whole[WORK * (WORK + 2)];
                template_spectra_rotate(fresh, t, r * 360.0 / rotations[n], whole);
                for (size_t i = 0; i < WORK * (WORK / 2 + 1); i++) {
                    assert_float_equal(a[2 * i], whole[2 * i], 2e-3 * fabs(whole[0]));
                    assert_float_equal(c ? -a[2 * i + 1] : a[2 * i + 1], whole[2 * i + 1], 2e-3 * fabs(whole[0]));
                }
            }
        template_spectra_destroy(&kept);
        template_spectra_destroy(&fresh);
    }
}

/* The centre stays at index box/2 and a wave keeps its height. */
static void resizing_keeps_grey_values(void **state) {
    (void)state;
    struct err err = {0};
    const int sizes[][2] = {{32, 64}, {64, 32}, {30, 44}, {48, 48}};
    for (size_t c = 0; c < sizeof sizes / sizeof *sizes; c++) {
        int n = sizes[c][0], m = sizes[c][1];
        float in[64 * 64], out[64 * 64];
        for (int j = 0; j < n; j++)
            for (int i = 0; i < n; i++)
                in[j * n + i] = (float)(2 + cos(2 * M_PI * (3.0 * (i - n / 2) - 2.0 * (j - n / 2)) / n));
        assert_int_equal(template_resize(in, n, 1, m, out, &err), STATUS_OK);
        for (int j = 0; j < m; j++)
            for (int i = 0; i < m; i++)
                assert_float_equal(out[j * m + i], 2 + cos(2 * M_PI * (3.0 * (i - m / 2.0) - 2.0 * (j - m / 2.0)) / m),
                                   1e-4);
    }
    float image[33 * 33] = {0}, out[64 * 64];
    assert_int_equal(template_resize(image, 33, 1, 64, out, &err), STATUS_BAD_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_the_fourier_transform),   cmocka_unit_test(rotations_turn_the_image),
        cmocka_unit_test(quarter_turns_are_exact),    cmocka_unit_test(kept_or_worked_out_is_the_same),
        cmocka_unit_test(resizing_keeps_grey_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
