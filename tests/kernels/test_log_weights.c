/* Compares the E-step's products on the CPU, in single precision, with the same in double, for realistic particles: log
 * weights reach thousands, and differences below one decide. New random input from a printed seed, or from a given one:
 * test_log_weights [SEED]. */

#include "tests/kernels/comparison.h"
#include "tests/kernels/seed.h"

static void off(const struct comparison *c, const char *what, const float *values, const double *truth, double bound) {
    size_t each = (size_t)c->slices * (size_t)c->shifts;
    double worst = 0, *found = host_new(each, sizeof *found);
    for (int p = 0; p < c->particles; p++) {
        for (size_t i = 0; i < each; i++)
            found[i] = (double)values[(size_t)p * each + i];
        worst = fmax(worst, log_weights_off(c, p, found, truth + (size_t)p * each));
    }
    tell_comparison(c, what, truth, worst, bound);
    assert_true(worst <= bound);
    free(found);
}

static void trial(struct comparison c, int size, double bound) {
    struct err err = {0};
    struct expectation *e = NULL;
    make_comparison(&c, size, REAL_NOISE);
    size_t each = (size_t)c.slices * (size_t)c.shifts, all = each * (size_t)c.particles, n = (size_t)c.n;
    struct expectation_particle *particles = host_new((size_t)c.particles, sizeof *particles);
    float *found = host_new(all, sizeof *found);
    int *slice = host_new(each, sizeof *slice), *shift = host_new(each, sizeof *shift);
    double *truth = true_log_weights(&c);
    for (size_t p = 0; p < (size_t)c.particles; p++)
        particles[p] = (struct expectation_particle){c.images + p * 2 * n, c.ctf + p * n, c.weight + p * n};
    for (size_t i = 0; i < each; i++)
        slice[i] = (int)i / c.shifts, shift[i] = (int)i % c.shifts;
    must(expectation_create(&c.pixels, 2, &e, &err), &err);
    memset(found, 0xff, all * sizeof *found);
    must(expectation_coarse(e, c.n, c.host_slices, c.slices, particles, c.particles,
                            (const double(*)[2])c.shifts_double, c.shifts, found, &err),
         &err);
    off(&c, "coarse", found, truth, bound);
    memset(found, 0xff, all * sizeof *found);
    for (int p = 0; p < c.particles; p++)
        must(expectation_fine(e, c.n, c.host_slices, &particles[p], (const double(*)[2])c.shifts_double, c.shifts,
                              slice, shift, (int)each, found + (size_t)p * each, &err),
             &err);
    off(&c, "fine", found, truth, bound);
    expectation_destroy(&e);
    free(particles);
    free(found);
    free(slice);
    free(shift);
    free(truth);
    free_comparison(&c);
}

static void of_128(void **state) {
    (void)state;
    trial((struct comparison){.dimensions = 3, .box = 128, .particles = 2, .shifts = 5, .slices = 150, .near = true},
          128, 0.01);
}

static void of_360(void **state) {
    (void)state;
    trial((struct comparison){.dimensions = 2, .box = 360, .particles = 2, .shifts = 5, .slices = 150, .near = true},
          360, 0.03);
    trial((struct comparison){.dimensions = 2, .box = 360, .particles = 2, .shifts = 5, .slices = 150, .near = true},
          124, 0.03);
}

/* Adds `large` terms of one value, and then terms of a quarter. Added one by one to the sum of the large terms, the
 * quarters would all be lost; in a block of their own they are not. One slice is compared at the same shift again and
 * again. */
enum { BLOCK_BOX = 128, BLOCK_SHIFTS = 5, BLOCK_SLICES = 20 };

static void add_terms(int n, int large, float value, float *slices, float *image) {
    for (int i = 0; i < 2 * n; i++)
        image[i] = i < large ? value : 0.25f;
    for (int o = 0; o < BLOCK_SLICES; o++)
        for (int i = 0; i < 2 * n; i++)
            slices[(size_t)o * 2 * (size_t)n + (size_t)i] = i < large ? value : 1;
}

static void check_blocks(const char *what, const float *found, double expected, double tolerance) {
    for (int i = 0; i < BLOCK_SLICES * BLOCK_SHIFTS; i++)
        if (!(fabs((double)found[i] - expected) <= tolerance))
            fail_msg("%s: difference %d is %.9g, %.9g was expected to within %g", what, i, (double)found[i], expected,
                     tolerance);
}

static void long_sums_are_made_of_short_ones(void **state) {
    (void)state;
    enum { ALL = BLOCK_SLICES * BLOCK_SHIFTS };
    static const double none[BLOCK_SHIFTS][2];
    struct err err = {0};
    struct fourier_pixels pixels = {0};
    struct expectation *e = NULL;
    float found[ALL];
    int slice[ALL], shift[ALL];
    must(fourier_pixels_create(BLOCK_BOX, BLOCK_BOX, &pixels, &err), &err);
    must(expectation_create(&pixels, 1, &e, &err), &err);
    int n = pixels.count;
    size_t terms = 2 * (size_t)n;
    float *slices = host_new(BLOCK_SLICES * terms, sizeof *slices), *image = host_new(terms, sizeof *image);
    float *ones = host_new((size_t)n, sizeof *ones);
    for (int i = 0; i < n; i++)
        ones[i] = 1;
    for (int i = 0; i < ALL; i++)
        slice[i] = i / BLOCK_SHIFTS, shift[i] = i % BLOCK_SHIFTS;
    const struct expectation_particle particle = {image, ones, ones};
    /* ½ Σ |P|² − Σ P X keeps half of the sum of the large terms, and half of each of the other pixels. The coarse pass:
     * 256 terms of 2^16 sum to 2^24, beside which a quarter is lost; in a block of 320 terms 64 of them would be. */
    add_terms(n, 256, 256, slices, image);
    must(expectation_coarse(e, n, slices, BLOCK_SLICES, &particle, 1, none, BLOCK_SHIFTS, found, &err), &err);
    check_blocks("coarse", found, -0x1p23 + 0.5 * (n - 128), 4);
    /* The fine pass, whose blocks have 1,024 terms, or pixels: 2^18 sum to 2^25 in each of 16 lanes. */
    add_terms(n, 2048, 512, slices, image);
    must(expectation_fine(e, n, slices, &particle, none, BLOCK_SHIFTS, slice, shift, ALL, found, &err), &err);
    check_blocks("fine", found, -0x1p28 + 0.5 * (n - 1024), 128);
    expectation_destroy(&e);
    fourier_pixels_destroy(&pixels);
    free(slices);
    free(image);
    free(ones);
}

int main(int argc, char **argv) {
    seed = chosen_seed(argc > 1 ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {cmocka_unit_test(of_128), cmocka_unit_test(of_360),
                                       cmocka_unit_test(long_sums_are_made_of_short_ones)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
