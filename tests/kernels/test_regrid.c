/* Tests kernels/regrid and aberrations against sums in double: the transform of the result at each frequency is that of
 * the image at M⁻¹ q, less the phase. A wrong sign of a phase, or M for its inverse, must fail. */
#include <complex.h>
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
#include "kernels/ctf/aberration.h"
#include "kernels/ctf/ctf.h"
#include "kernels/regrid/regrid.h"

enum { MOST = 64 };

/* A smooth, lopsided particle: Gaussians about the centre. */
static void draw(int box, double pixel, float *image) {
    static const double BLOBS[][4] = {{0, 0, 6, 1}, {9, -4, 4, 1.5}, {-6, 8, 5, -0.7}};
    for (int y = 0; y < box; y++)
        for (int x = 0; x < box; x++) {
            double sum = 0;
            for (size_t i = 0; i < 3; i++) {
                double dx = (x - box / 2) * pixel - BLOBS[i][0], dy = (y - box / 2) * pixel - BLOBS[i][1];
                sum += BLOBS[i][3] * exp(-(dx * dx + dy * dy) / (2 * BLOBS[i][2] * BLOBS[i][2]));
            }
            image[y * box + x] = (float)sum;
        }
}

/* Returns the transform at the frequency (x, y) in 1/Å, with the origin at the centre. */
static double complex transform(const float *image, int box, double pixel, double x, double y) {
    double complex sum = 0;
    for (int iy = 0; iy < box; iy++)
        for (int ix = 0; ix < box; ix++)
            sum +=
                (double)image[iy * box + ix] * cexp(-2 * M_PI * I * pixel * (x * (ix - box / 2) + y * (iy - box / 2)));
    return sum * pixel;
}

static void run(const struct regrid_options *options, const float *image, float *out) {
    struct regrid *regrid = NULL;
    struct err err = {0};
    if (regrid_create(options, &regrid, &err) != STATUS_OK) fail_msg("%s", err.message);
    float *scratch = mem_aligned(regrid_scratch(regrid), sizeof *scratch);
    assert_non_null(scratch);
    memset(scratch, 0xff, regrid_scratch(regrid) * sizeof *scratch);
    regrid_run(regrid, image, scratch, out);
    free(scratch);
    regrid_destroy(&regrid);
    assert_null(regrid);
}

/* Returns the largest difference from the definition over the greatest value. sign: of the phase; matrix: for M⁻¹. */
static double difference(const struct regrid_options *o, const float *image, const float *out, double sign,
                         const double inverse[4]) {
    double most = 0, strongest = 0;
    for (int ky = -o->box / 2 + 1; ky < o->box / 2; ky += 3)
        for (int kx = 0; kx < o->box / 2; kx += 2) {
            double x = kx / (o->box * o->pixel_size), y = ky / (o->box * o->pixel_size);
            double fx = inverse[0] * x + inverse[1] * y, fy = inverse[2] * x + inverse[3] * y;
            double complex expected = transform(image, o->from_box, o->from_pixel, fx, fy);
            if (regrid_limit(o) > 0 && hypot(x, y) > regrid_limit(o)) expected = 0;
            if (fmax(fabs(fx), fabs(fy)) >= 0.5 / o->from_pixel) expected = 0;
            if (o->odd != NULL) expected *= cexp(-I * sign * aberration_phase(o->odd, x, y));
            most = fmax(most, cabs(expected - transform(out, o->box, o->pixel_size, x, y)));
            strongest = fmax(strongest, cabs(expected));
        }
    return most / strongest;
}

static const double ONE[4] = {1, 0, 0, 1};

static void images_come_to_any_grid(void **state) {
    (void)state;
    static const struct {
        int from_box, box;
        double from_pixel, pixel_size;
    } CASES[] = {{64, 48, 1.5, 2}, {48, 64, 2, 1.5}, {60, 40, 1.37, 2.21}, {40, 64, 2.21, 1.61}, {48, 64, 2, 2}};
    float image[MOST * MOST], out[MOST * MOST];
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const struct regrid_options options = {.from_box = CASES[i].from_box,
                                               .box = CASES[i].box,
                                               .from_pixel = CASES[i].from_pixel,
                                               .pixel_size = CASES[i].pixel_size,
                                               .magnification = {1, 0, 0, 1}};
        draw(options.from_box, options.from_pixel, image);
        assert_false(regrid_changes_nothing(&options));
        run(&options, image, out);
        assert_true(difference(&options, image, out, 1, ONE) < 2e-5);
    }
}

/* Only columns that are read are transformed: the last one, of noise, has what it should. */
static void every_frequency_of_a_cut_image_is_there(void **state) {
    (void)state;
    const struct regrid_options options = {
        .from_box = 48, .box = 30, .from_pixel = 2.5, .pixel_size = 4, .magnification = {1, 0, 0, 1}};
    static float image[MOST * MOST], out[MOST * MOST];
    unsigned random = 8;
    for (int i = 0; i < 48 * 48; i++) {
        random = random * 1664525u + 1013904223u;
        image[i] = (float)(random >> 8) / 16777216.0f - 0.5f;
    }
    run(&options, image, out);
    for (int ky = -14; ky < 15; ky++)
        for (int kx = 0; kx < 15; kx++) {
            const double x = kx / 120.0, y = ky / 120.0;
            const double complex expected = transform(image, 48, 2.5, x, y), found = transform(out, 30, 4, x, y);
            if (!(cabs(expected - found) < 1e-3)) fail_msg("frequency %d, %d", kx, ky);
        }
}

static void what_is_on_the_grid_stays(void **state) {
    (void)state;
    struct regrid_options options = {
        .from_box = 48, .box = 48, .from_pixel = 2, .pixel_size = 2, .magnification = {1, 0, 0, 1}};
    float image[MOST * MOST], out[MOST * MOST];
    assert_true(regrid_changes_nothing(&options));
    draw(48, 2, image);
    run(&options, image, out);
    for (int p = 0; p < 48 * 48; p++)
        assert_true(fabsf(out[p] - image[p]) < 1e-5f);
    options.magnification[1] = 0.01;
    assert_false(regrid_changes_nothing(&options));
}

static void odd_phases_are_taken_off(void **state) {
    (void)state;
    static const double ODD[] = {20, -10, 300, -800, 500, 250};
    struct aberration odd = aberration_none();
    aberration_add_odd(&odd, ODD, 6);
    aberration_add_tilt(&odd, 2.7, 300, 6, -4);
    const struct regrid_options options = {
        .from_box = 48, .box = 48, .from_pixel = 2, .pixel_size = 2, .magnification = {1, 0, 0, 1}, .odd = &odd};
    float image[MOST * MOST], out[MOST * MOST];
    draw(48, 2, image);
    run(&options, image, out);
    assert_true(difference(&options, image, out, 1, ONE) < 2e-5);
    assert_true(difference(&options, image, out, -1, ONE) > 0.1);
    assert_true(difference(&options, image, out, 0, ONE) > 0.1);
}

static void magnification_is_undone(void **state) {
    (void)state;
    const double determinant = 1.02 * 0.98 - 0.02 * 0.03;
    const double inverse[4] = {0.98 / determinant, -0.02 / determinant, -0.03 / determinant, 1.02 / determinant};
    static const double ODD[] = {0, 0, 300, -800};
    struct aberration odd = aberration_none();
    aberration_add_odd(&odd, ODD, 4);
    struct regrid_options options = {.from_box = 64,
                                     .box = 48,
                                     .from_pixel = 1.5,
                                     .pixel_size = 2,
                                     .magnification = {1.02, 0.02, 0.03, 0.98},
                                     .odd = &odd};
    float image[MOST * MOST], out[MOST * MOST];
    draw(64, 1.5, image);
    run(&options, image, out);
    assert_true(difference(&options, image, out, 1, inverse) < 2e-5);
    assert_true(difference(&options, image, out, 1, options.magnification) > 0.02);
}

static double constant_factor(const void *context, double frequency) {
    return *(const double *)context * exp(-frequency * 4);
}

static void a_factor_of_the_frequency_is_applied(void **state) {
    (void)state;
    const double half = 0.5;
    const struct regrid_options options = {.from_box = 48,
                                           .box = 48,
                                           .from_pixel = 2,
                                           .pixel_size = 2,
                                           .magnification = {1, 0, 0, 1},
                                           .factor = constant_factor,
                                           .context = &half};
    float image[MOST * MOST], out[MOST * MOST];
    draw(48, 2, image);
    run(&options, image, out);
    for (int k = 0; k < 20; k += 3) {
        double x = k / 96.0;
        double complex ratio = transform(out, 48, 2, x, x / 2) / transform(image, 48, 2, x, x / 2);
        if (k < 7) assert_true(cabs(ratio - 0.5 * exp(-4 * hypot(x, x / 2))) < 0.01);
    }
}

/* The frequency up to which every direction is there: a finer grid has more shells than the image. */
static void the_limit_is_that_of_the_image(void **state) {
    (void)state;
    struct regrid_options options = {
        .from_box = 48, .box = 64, .from_pixel = 2, .pixel_size = 1.5, .magnification = {1, 0, 0, 1}};
    assert_true(fabs(regrid_limit(&options) - 0.25) < 1e-12);
    options.magnification[0] = 1.1;
    assert_true(fabs(regrid_limit(&options) - 0.25) < 1e-12);
    options.magnification[3] = 0.9;
    assert_true(fabs(regrid_limit(&options) - 0.25 * 0.9) < 1e-12);
    options = (struct regrid_options){
        .from_box = 64, .box = 48, .from_pixel = 1.5, .pixel_size = 2, .magnification = {1, 0, 0, 1}};
    assert_true(regrid_limit(&options) == 0);
}

/* Returns the power at frequencies of the grid in a shell. */
static double power_of_shell(const float *image, int box, double pixel, int shell) {
    enum { DIRECTIONS = 24 };
    double sum = 0;
    for (int i = 0; i < DIRECTIONS; i++) {
        double angle = M_PI * i / DIRECTIONS, step = 1 / (box * pixel);
        double complex value =
            transform(image, box, pixel, step * lround(shell * cos(angle)), step * lround(shell * sin(angle)));
        sum += creal(value * conj(value)) / DIRECTIONS;
    }
    return sum;
}

/* Noise keeps its power at each frequency up to the limit, in all directions alike, and has none beyond. */
static void noise_ends_at_the_limit_alone(void **state) {
    (void)state;
    const struct regrid_options options = {
        .from_box = 40, .box = 64, .from_pixel = 2.4, .pixel_size = 1.5, .magnification = {1, 0, 0, 1}};
    float image[MOST * MOST], out[MOST * MOST];
    for (int p = 0; p < 40 * 40; p++)
        image[p] = (float)(rand() / (RAND_MAX + 1.0) - 0.5);
    run(&options, image, out);
    for (int shell = 1; shell < 32; shell++) {
        double before = power_of_shell(image, 40, 2.4, shell), after = power_of_shell(out, 64, 1.5, shell);
        if (shell < 20) assert_true(fabs(after / before - 1) < 1e-3);
        if (shell > 20) assert_true(after < 1e-6 * before);
    }
}

/* The share against the sum over pixels, of a spectrum that falls. */
static void the_share_is_that_of_the_pixels(void **state) {
    (void)state;
    enum { SIDE = 64, SHELLS = SIDE / 2 + 1 };
    float spectrum[SHELLS];
    for (int s = 0; s < SHELLS; s++)
        spectrum[s] = 1 / (1 + 0.05f * (float)s);
    for (double limit = 6; limit < SHELLS; limit += 3.7) {
        double all = 0, held = 0;
        for (int y = -SIDE / 2; y <= SIDE / 2; y++)
            for (int x = -SIDE / 2; x <= SIDE / 2; x++) {
                double r = hypot(x, y);
                int shell = (int)lround(r);
                if (shell < 1 || shell >= SHELLS) continue;
                all += (double)spectrum[shell];
                if (r <= limit) held += (double)spectrum[shell];
            }
        assert_true(fabs(regrid_share(spectrum, SHELLS, limit) / (held / all) - 1) < 0.05);
        assert_int_equal(regrid_last_shell(SHELLS, limit), fmax(floor(limit) - 3, 1));
    }
    assert_true(regrid_share(spectrum, SHELLS, 0) == 1);
    assert_int_equal(regrid_last_shell(SHELLS, 0), SHELLS - 1);
    assert_int_equal(regrid_last_shell(SHELLS, 2), 1);
}

static double zernike(int n, int m, double x, double y) {
    double r = hypot(x, y), a = atan2(y, x), r2 = r * r;
    double radial = n == 0   ? 1
                    : n == 1 ? r
                    : n == 2 ? (m == 0 ? 2 * r2 - 1 : r2)
                    : n == 3 ? (abs(m) == 1 ? (3 * r2 - 2) * r : r2 * r)
                    : m == 0 ? 6 * r2 * r2 - 6 * r2 + 1
                             : (abs(m) == 2 ? (4 * r2 - 3) * r2 : r2 * r2);
    return radial * (m >= 0 ? cos(m * a) : sin(-m * a));
}

/* RELION's numbering: even ones (0,0), (2,−2), (2,0), (2,2), (4,−4) …; odd ones (1,−1), (1,1), (3,−3) …. */
static void coefficients_are_numbered_as_in_relion(void **state) {
    (void)state;
    static const int EVEN[9][2] = {{0, 0}, {2, -2}, {2, 0}, {2, 2}, {4, -4}, {4, -2}, {4, 0}, {4, 2}, {4, 4}};
    static const int ODD[6][2] = {{1, -1}, {1, 1}, {3, -3}, {3, -1}, {3, 1}, {3, 3}};
    for (int i = 0; i < 15; i++) {
        double coefficients[9] = {0};
        struct aberration a = aberration_none();
        const int *nm = i < 9 ? EVEN[i] : ODD[i - 9];
        coefficients[i < 9 ? i : i - 9] = 1;
        if (i < 9)
            aberration_add_even(&a, coefficients, 9);
        else
            aberration_add_odd(&a, coefficients, 6);
        assert_int_equal(a.degree, nm[0]);
        for (double x = -0.6; x < 0.7; x += 0.17)
            for (double y = -0.5; y < 0.6; y += 0.13)
                assert_true(fabs(aberration_phase(&a, x, y) - zernike(nm[0], nm[1], x, y)) < 1e-12);
    }
}

static void a_tilt_has_the_phase_of_its_formula(void **state) {
    (void)state;
    struct aberration a = aberration_none();
    aberration_add_tilt(&a, 2.7, 300, 6, -4);
    double lambda = ctf_wavelength(300), x = 0.07, y = -0.11;
    double expected = -2 * M_PI * 2.7e7 * lambda * lambda * (x * x + y * y) * (6e-3 * x - 4e-3 * y);
    assert_true(fabs(aberration_phase(&a, x, y) - expected) < 1e-12 && fabs(expected) > 0.1);
}

/* CTF = −sin(γ + even), where RELION's γ is −phase. */
static void even_aberrations_change_the_ctf(void **state) {
    (void)state;
    static const double EVEN[25] = {0.4, 30,  -20,  25,  900, -700, 400, 300, 500,  2e4, -3e4, 1e4, 2e4,
                                    4e4, 3e4, -2e4, 5e5, 3e5, -4e5, 2e5, 1e5, -3e5, 4e5, 2e5,  1e5};
    struct aberration even = aberration_none();
    aberration_add_even(&even, EVEN, 25);
    struct ctf ctf = {.defocus_u = 12000,
                      .defocus_v = 11000,
                      .defocus_angle = 30,
                      .voltage = 300,
                      .spherical_aberration = 2.7,
                      .amplitude_contrast = 0.1,
                      .scale = 1};
    struct ctf_terms plain = ctf_prepare(&ctf);
    ctf.even = &even;
    struct ctf_terms changed = ctf_prepare(&ctf);
    double most = 0;
    for (double x = -0.2; x < 0.21; x += 0.03)
        for (double y = -0.2; y < 0.21; y += 0.037) {
            double u2 = x * x + y * y;
            double phase =
                plain.xx * x * x + 2 * plain.xy * x * y + plain.yy * y * y - plain.quartic * u2 * u2 + plain.offset;
            double expected = sin(phase - aberration_phase(&even, x, y));
            assert_true(fabs(expected - (double)ctf_value(&changed, x, y)) < 1e-5);
            most = fmax(most, fabs(expected - sin(phase + aberration_phase(&even, x, y))));
        }
    assert_true(most > 1);
    ctf.limit = 0.1;
    changed = ctf_prepare(&ctf);
    assert_true(fabsf(ctf_value(&changed, 0.08, 0.08)) <= 1e-8f && fabsf(ctf_value(&changed, 0.05, 0.05)) > 1e-4f);
}

static void doubts_are_told_of_a_hundredth_and_more(void **state) {
    (void)state;
    char text[CTF_DOUBT_SIZE] = "as it was";
    assert_false(ctf_doubt_text(CTF_DEFOCUS_LOW, 1, 101, text, sizeof text));
    assert_false(ctf_doubt_text(CTF_DEFOCUS_NEGATIVE, 0, 0, text, sizeof text));
    assert_false(ctf_doubt_text(CTF_USUAL, 5, 5, text, sizeof text));
    assert_string_equal(text, "as it was");
    assert_true(ctf_doubt_text(CTF_DEFOCUS_LOW, 1, 100, text, sizeof text));
    assert_non_null(strstr(text, "1 of 100 particles have a defocus of less than 1000"));
    assert_true(ctf_doubt_text(CTF_DEFOCUS_NEGATIVE, 100, 100, text, sizeof text));
    assert_non_null(strstr(text, "100 of 100 particles have a negative defocus"));
    assert_non_null(strstr(text, "if that was meant"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_come_to_any_grid),
        cmocka_unit_test(every_frequency_of_a_cut_image_is_there),
        cmocka_unit_test(what_is_on_the_grid_stays),
        cmocka_unit_test(odd_phases_are_taken_off),
        cmocka_unit_test(magnification_is_undone),
        cmocka_unit_test(a_factor_of_the_frequency_is_applied),
        cmocka_unit_test(the_limit_is_that_of_the_image),
        cmocka_unit_test(noise_ends_at_the_limit_alone),
        cmocka_unit_test(the_share_is_that_of_the_pixels),
        cmocka_unit_test(coefficients_are_numbered_as_in_relion),
        cmocka_unit_test(a_tilt_has_the_phase_of_its_formula),
        cmocka_unit_test(even_aberrations_change_the_ctf),
        cmocka_unit_test(doubts_are_told_of_a_hundredth_and_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
