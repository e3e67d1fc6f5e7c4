/* The E-step's products on the CPU, in single precision, against the same in double, of particles as they are: what fits
 * them comes to thousands, and differences of less than one decide. Fresh random input from a printed seed, or from the
 * one given: test_log_weights [SEED]. */
#include <time.h>

#include "tests/kernels/comparison.h"

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
        must(expectation_fine(e, c.n, c.host_slices, &particles[p], (const double(*)[2])c.shifts_double, c.shifts, slice,
                              shift, (int)each, found + (size_t)p * each, &err),
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
    trial((struct comparison){.dimensions = 3, .box = 128, .particles = 2, .shifts = 5, .slices = 150, .near = true}, 128,
          0.01);
}

static void of_360(void **state) {
    (void)state;
    trial((struct comparison){.dimensions = 2, .box = 360, .particles = 2, .shifts = 5, .slices = 150, .near = true}, 360,
          0.03);
    trial((struct comparison){.dimensions = 2, .box = 360, .particles = 2, .shifts = 5, .slices = 150, .near = true}, 124,
          0.03);
}

int main(int argc, char **argv) {
    seed = argc > 1 ? strtoull(argv[1], NULL, 10) : (uint64_t)time(NULL);
    printf("seed %llu\n", (unsigned long long)seed);
    const struct CMUnitTest tests[] = {cmocka_unit_test(of_128), cmocka_unit_test(of_360)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
