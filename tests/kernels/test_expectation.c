/* kernels/expectation: compares the matrix product and the pose lists with the sum of differences, and the top-sum
 * selection with a sort. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/ctf/ctf.h"
#include "kernels/expectation/expectation.h"

enum { BOX = 32, PARTICLES = 5, ORIENTATIONS = 203, SHIFTS = 13 };
static const unsigned SEED = 20240611;

static double uniform(void) {
    return rand() / (RAND_MAX + 1.0);
}

static double normal(void) {
    return sqrt(-2 * log(1 - uniform())) * cos(2 * M_PI * uniform());
}

static float *random_values(size_t count, double scale) {
    float *values = calloc(count, sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < count; i++)
        values[i] = (float)(scale * normal());
    return values;
}

struct data {
    struct fourier_pixels pixels;
    int n; /* pixels compared: fewer than exist */
    float *slices;
    struct expectation_particle particles[PARTICLES];
    float *owned[PARTICLES][3];
    double shifts[SHIFTS][2];
};

static void make_data(struct data *d) {
    struct err err;
    srand(SEED);
    assert_int_equal(fourier_pixels_create(BOX, 28, &d->pixels, &err), STATUS_OK);
    d->n = fourier_pixels_within(&d->pixels, 20);
    d->slices = random_values((size_t)ORIENTATIONS * 2 * (size_t)d->n, 1);
    for (int p = 0; p < PARTICLES; p++) {
        struct ctf ctf = {.defocus_u = 12000 + 1500 * p,
                          .defocus_v = 9000,
                          .defocus_angle = 37 * p,
                          .voltage = 300,
                          .spherical_aberration = 2.7,
                          .amplitude_contrast = 0.1,
                          .scale = 1};
        d->owned[p][0] = random_values(2 * (size_t)d->pixels.count, 1);
        d->owned[p][1] = random_values((size_t)d->pixels.count, 1);
        d->owned[p][2] = random_values((size_t)d->pixels.count, 1);
        ctf_at(&ctf, BOX, 3.0, d->pixels.count, d->pixels.kx, d->pixels.ky, d->owned[p][1]);
        for (int i = 0; i < d->pixels.count; i++)
            d->owned[p][2][i] = 0.2f + 1.0f / (float)d->pixels.shell[i];
        d->particles[p] =
            (struct expectation_particle){.image = d->owned[p][0], .ctf = d->owned[p][1], .weight = d->owned[p][2]};
    }
    for (int t = 0; t < SHIFTS; t++) {
        d->shifts[t][0] = t == 0 ? 0 : 8 * uniform() - 4;
        d->shifts[t][1] = t == 0 ? 0 : 8 * uniform() - 4;
    }
}

static void free_data(struct data *d) {
    for (int p = 0; p < PARTICLES; p++)
        for (int i = 0; i < 3; i++)
            free(d->owned[p][i]);
    free(d->slices);
    fourier_pixels_destroy(&d->pixels);
}

/* Float sums of about 600 products of size 1: 1e-4 of the typical result (tens) is ten times the rounding error. */
static void assert_near(double truth, float value) {
    if (!(fabs(truth - value) <= 1e-3 + 2e-5 * fabs(truth)))
        fail_msg("%.6f expected, %.6f found (seed %u)", truth, value, SEED);
}

static void the_matrix_product_equals_the_sum(void **state) {
    (void)state;
    struct data d;
    make_data(&d);
    double *truth = calloc((size_t)ORIENTATIONS * SHIFTS, sizeof *truth);
    float *found = calloc((size_t)PARTICLES * ORIENTATIONS * SHIFTS, sizeof *found);
    for (int threads = 1; threads <= 3; threads++) {
        struct expectation *e = NULL;
        struct err err;
        assert_int_equal(expectation_create(&d.pixels, threads, &e, &err), STATUS_OK);
        /* First a small call, then all: the workspace grows. */
        assert_int_equal(expectation_coarse(e, d.n, d.slices, 7, d.particles, 1, d.shifts, 2, found, &err), STATUS_OK);
        assert_int_equal(
            expectation_coarse(e, d.n, d.slices, ORIENTATIONS, d.particles, PARTICLES, d.shifts, SHIFTS, found, &err),
            STATUS_OK);
        for (int p = 0; p < PARTICLES; p++) {
            expectation_reference(&d.pixels, d.n, d.slices, ORIENTATIONS, &d.particles[p], d.shifts, SHIFTS, truth);
            for (int i = 0; i < ORIENTATIONS * SHIFTS; i++)
                assert_near(truth[i], found[(size_t)p * ORIENTATIONS * SHIFTS + (size_t)i]);
        }
        expectation_destroy(&e);
        assert_null(e);
    }
    free(truth);
    free(found);
    free_data(&d);
}

static void one_column_is_enough(void **state) {
    (void)state;
    struct data d;
    make_data(&d);
    struct expectation *e = NULL;
    struct err err;
    float found;
    double truth;
    assert_int_equal(expectation_create(&d.pixels, 1, &e, &err), STATUS_OK);
    assert_int_equal(expectation_coarse(e, d.n, d.slices, 1, d.particles, 1, d.shifts + 3, 1, &found, &err), STATUS_OK);
    expectation_reference(&d.pixels, d.n, d.slices, 1, d.particles, d.shifts + 3, 1, &truth);
    assert_near(truth, found);
    assert_int_equal(expectation_coarse(e, d.pixels.count + 1, d.slices, 1, d.particles, 1, d.shifts, 1, &found, &err),
                     STATUS_BAD_ARGUMENT);
    expectation_destroy(&e);
    free_data(&d);
}

static void pose_lists_equal_the_sum(void **state) {
    (void)state;
    struct data d;
    make_data(&d);
    struct expectation *e = NULL;
    struct err err;
    assert_int_equal(expectation_create(&d.pixels, 1, &e, &err), STATUS_OK);
    double *truth = calloc((size_t)ORIENTATIONS * SHIFTS, sizeof *truth);
    enum { POSES = 400 };
    int slice[POSES], shift[POSES];
    float found[POSES];
    for (int p = 0; p < PARTICLES; p++) {
        /* Runs of one slice of every length, as children of significant samples have, and some out of order. */
        for (int i = 0; i < POSES; i++) {
            slice[i] = i < 300 ? i / 9 : rand() % ORIENTATIONS;
            shift[i] = rand() % (SHIFTS - 1); /* the last shift is never used */
        }
        expectation_reference(&d.pixels, d.n, d.slices, ORIENTATIONS, &d.particles[p], d.shifts, SHIFTS, truth);
        assert_int_equal(
            expectation_fine(e, d.n, d.slices, &d.particles[p], d.shifts, SHIFTS, slice, shift, POSES, found, &err),
            STATUS_OK);
        for (int i = 0; i < POSES; i++)
            assert_near(truth[slice[i] * SHIFTS + shift[i]], found[i]);
    }
    free(truth);
    expectation_destroy(&e);
    free_data(&d);
}

static void a_shifted_copy_fits_best_at_its_shift(void **state) {
    (void)state;
    struct data d;
    make_data(&d);
    struct expectation *e = NULL;
    struct err err;
    /* The image is c·P of orientation 17 moved by −shift 4: moved by +shift 4 it matches. */
    float *image = calloc(2 * (size_t)d.pixels.count, sizeof *image);
    for (int i = 0; i < d.n; i++)
        for (int c = 0; c < 2; c++)
            image[2 * i + c] = d.particles[0].ctf[i] * d.slices[(17 * (size_t)d.n + (size_t)i) * 2 + (size_t)c];
    fourier_pixels_shift(&d.pixels, d.n, image, -d.shifts[4][0], -d.shifts[4][1], d.owned[0][0]);
    float *found = calloc((size_t)ORIENTATIONS * SHIFTS, sizeof *found);
    assert_int_equal(expectation_create(&d.pixels, 2, &e, &err), STATUS_OK);
    assert_int_equal(expectation_coarse(e, d.n, d.slices, ORIENTATIONS, d.particles, 1, d.shifts, SHIFTS, found, &err),
                     STATUS_OK);
    int best = 0;
    for (int i = 0; i < ORIENTATIONS * SHIFTS; i++)
        best = found[i] < found[best] ? i : best;
    assert_int_equal(best, 17 * SHIFTS + 4);
    free(image);
    free(found);
    expectation_destroy(&e);
    free_data(&d);
}

static int descending(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* Selects by sorting and scanning; ties at the threshold are kept. */
static void sort_and_scan(const float *weights, size_t count, double fraction, float *threshold, size_t *kept) {
    float *sorted = calloc(count, sizeof *sorted);
    double total = 0, sum = 0;
    for (size_t i = 0; i < count; i++)
        sorted[i] = weights[i], total += weights[i];
    qsort(sorted, count, sizeof *sorted, descending);
    size_t i = 0;
    while (i < count && (sum += sorted[i]) <= fraction * total)
        i++;
    *threshold = sorted[i < count ? i : count - 1];
    for (*kept = 0; *kept < count && sorted[*kept] >= *threshold; ++*kept)
        ;
    free(sorted);
}

static void check_top_sum(const float *weights, size_t count, double fraction) {
    float truth, found;
    size_t truth_count, found_count;
    sort_and_scan(weights, count, fraction, &truth, &truth_count);
    expectation_top_sum(weights, count, fraction, &found, &found_count);
    if (truth != found || truth_count != found_count)
        fail_msg("n %zu, fraction %g: %g (%zu) expected, %g (%zu) found, seed %u", count, fraction, truth, truth_count,
                 found, found_count, SEED);
}

static void top_sum_equals_sort_and_scan(void **state) {
    (void)state;
    srand(SEED);
    const size_t sizes[] = {1, 2, 7, 255, 256, 257, 5000, 44640};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        size_t n = sizes[s];
        float *w = calloc(n, sizeof *w);
        for (double width = 0.1; width < 30; width *= 3) { /* log-normal, from flat to one weight that dominates */
            for (size_t i = 0; i < n; i++)
                w[i] = (float)fmin(exp(width * normal()), 1e30);
            check_top_sum(w, n, 0.999);
            check_top_sum(w, n, 0.5);
        }
        for (size_t i = 0; i < n; i++) /* constant: all are ties */
            w[i] = 0.25f;
        check_top_sum(w, n, 0.999);
        for (size_t i = 0; i < n; i++) /* two values, exactly summable */
            w[i] = i % 3 == 0 ? 1.0f : 0.0625f;
        check_top_sum(w, n, 0.999);
        check_top_sum(w, n, 0.3);
        for (size_t i = 0; i < n; i++) /* one-hot */
            w[i] = i == n / 2 ? 3.0f : 0.0f;
        check_top_sum(w, n, 0.999);
        for (size_t i = 0; i < n; i++) /* neighbours in the last bit */
            w[i] = nextafterf(1.0f, i % 2 == 0 ? 2.0f : 0.0f);
        check_top_sum(w, n, 0.25);
        free(w);
    }
}

static int descending_floats(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* For any weights: flat, peaked, equal except for the last bit, all equal, mostly zeros; compared with sorting. */
static void the_largest_are_those_of_a_sort(void **state) {
    (void)state;
    enum { N = 3000 };
    static float w[N], sorted[N];
    srand(SEED);
    for (int kind = 0; kind < 6; kind++) {
        for (int i = 0; i < N; i++) {
            double u = rand() / (RAND_MAX + 1.0);
            const double values[] = {u,    exp(-60 * u),    exp(-0.001 * u),
                                     0.25, u < 0.9 ? 0 : u, (double)nextafterf(1.0f, i % 2 == 0 ? 2.0f : 0.0f)};
            w[i] = (float)values[kind];
        }
        memcpy(sorted, w, sizeof w);
        qsort(sorted, N, sizeof *sorted, descending_floats);
        for (size_t most = 1; most <= N; most += most / 3 + 1) {
            float threshold = -1, expected = sorted[most - 1];
            size_t count = 0, above = 0;
            for (size_t i = most; !(expected > 0); i--)
                expected = sorted[i - 1];
            for (size_t i = 0; i < N; i++)
                above += sorted[i] >= expected;
            /* Weights below do not matter, whether they are read or not. */
            expectation_largest(w, N, most % 2 == 0 ? 0 : expected, most, &threshold, &count);
            if (threshold != expected || count != above)
                fail_msg("kind %d, the %zu largest: %g (%zu) expected, %g (%zu) found, seed %u", kind, most,
                         (double)expected, above, (double)threshold, count, SEED);
        }
    }
    memset(w, 0, sizeof w);
    float threshold = -1;
    size_t count = 0;
    expectation_largest(w, N, 0, 3, &threshold, &count);
    assert_true(threshold == 0 && count == N);
}

static void top_sum_of_nothing_keeps_all(void **state) {
    (void)state;
    const float zeros[5] = {0};
    float threshold = -1;
    size_t count = 0;
    expectation_top_sum(zeros, 5, 0.999, &threshold, &count);
    assert_true(threshold == 0);
    assert_int_equal(count, 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_matrix_product_equals_the_sum), cmocka_unit_test(one_column_is_enough),
        cmocka_unit_test(pose_lists_equal_the_sum),          cmocka_unit_test(a_shifted_copy_fits_best_at_its_shift),
        cmocka_unit_test(top_sum_equals_sort_and_scan),      cmocka_unit_test(top_sum_of_nothing_keeps_all),
        cmocka_unit_test(the_largest_are_those_of_a_sort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
