/* bench_expectation [SIZE]: measures three rates: the coarse pass (a matrix product) beside the bare product, the fine
 * pass beside a core's dot products, and the selection of the largest weights. One core, CPU time, best of three. */
#include <cblas.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/memory.h"
#include "kernels/expectation/expectation.h"

enum { BOX = 96, ORIENTATIONS = 4608, PARTICLES = 48, SHIFTS = 21, FINE_POSES = 9600, REPEATS = 3, WEIGHTS = 1 << 20 };
enum { MOST = 300 };

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t seed = 1;

static float uniform(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (float)(seed >> 40) / 16777216.0f;
}

static enum status random_floats(size_t count, float **ret, struct err *err) {
    TRY(mem_new(count, sizeof **ret, "numbers", ret, err));
    for (size_t i = 0; i < count; i++)
        (*ret)[i] = uniform();
    return STATUS_OK;
}

/* Times the product that the coarse pass needs at least: orientations × (particles · shifts), 2n terms. */
static enum status bare_product(int n, const float *slices, double *ret_seconds, struct err *err) {
    const int columns = PARTICLES * SHIFTS, terms = 2 * n;
    _cleanup_(mem_free) float *images = NULL;
    _cleanup_(mem_free) float *product = NULL;
    TRY(random_floats((size_t)columns * (size_t)terms, &images, err));
    TRY(mem_new((size_t)ORIENTATIONS * (size_t)columns, sizeof *product, "a product", &product, err));
    *ret_seconds = 1e9;
    for (int i = 0; i < REPEATS; i++) {
        double start = seconds();
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, ORIENTATIONS, columns, terms, 1, slices, terms, images,
                    terms, 0, product, columns);
        *ret_seconds = fmin(*ret_seconds, seconds() - start);
    }
    return STATUS_OK;
}

static enum status coarse(struct expectation *e, int n, const float *slices,
                          const struct expectation_particle *particles, const double (*shifts)[2], struct err *err) {
    _cleanup_(mem_free) float *diff2 = NULL;
    TRY(mem_new((size_t)PARTICLES * ORIENTATIONS * SHIFTS, sizeof *diff2, "differences", &diff2, err));
    double best = 1e9, bare;
    for (int i = 0; i < REPEATS; i++) {
        double start = seconds();
        TRY(expectation_coarse(e, n, slices, ORIENTATIONS, particles, PARTICLES, shifts, SHIFTS, diff2, err));
        best = fmin(best, seconds() - start);
    }
    TRY(bare_product(n, slices, &bare, err));
    double operations = 4.0 * n * ORIENTATIONS * PARTICLES * SHIFTS;
    printf(
        "coarse: %d orientations x %d particles x %d shifts, %d pixels: %.1f GFLOP/s, %.2f x the time of sgemm alone "
        "(%.1f GFLOP/s)\n",
        ORIENTATIONS, PARTICLES, SHIFTS, n, 1e-9 * operations / best, best / bare, 1e-9 * operations / bare);
    return STATUS_OK;
}

/* Lists poses like the fine pass: 8 shifts per slice. */
static enum status fine(struct expectation *e, int n, const float *slices, const struct expectation_particle *particle,
                        const double (*shifts)[2], struct err *err) {
    static int slice_of_pose[FINE_POSES], shift_of_pose[FINE_POSES];
    static float diff2[FINE_POSES];
    for (int i = 0; i < FINE_POSES; i++) {
        slice_of_pose[i] = i / 8 * 3 % ORIENTATIONS;
        shift_of_pose[i] = i % 8;
    }
    double best = 1e9;
    for (int i = 0; i < REPEATS; i++) {
        double start = seconds();
        TRY(expectation_fine(e, n, slices, particle, shifts, SHIFTS, slice_of_pose, shift_of_pose, FINE_POSES, diff2,
                             err));
        best = fmin(best, seconds() - start);
    }
    printf("fine: %d poses, %d pixels: %.1f GFLOP/s, slices read at %.1f GB/s\n", FINE_POSES, n,
           4e-9 * n * FINE_POSES / best, 8e-9 * n * FINE_POSES / 8 / best);
    return STATUS_OK;
}

static enum status top_sum(double spread, struct err *err) {
    _cleanup_(mem_free) float *weights = NULL;
    TRY(random_floats(WEIGHTS, &weights, err));
    for (int i = 0; i < WEIGHTS; i++)
        weights[i] = expf(-(float)spread * weights[i]);
    float threshold;
    size_t count = 0;
    double best = 1e9;
    for (int i = 0; i < REPEATS; i++) {
        double start = seconds();
        expectation_top_sum(weights, WEIGHTS, 0.999, &threshold, &count);
        best = fmin(best, seconds() - start);
    }
    printf("top sum: %zu of %d weights kept: %.0f M weights/s", count, WEIGHTS, 1e-6 * WEIGHTS / best);
    double alone = best;
    const float least = threshold;
    best = 1e9;
    for (int i = 0; i < REPEATS; i++) {
        double start = seconds();
        expectation_largest(weights, WEIGHTS, least, MOST, &threshold, &count);
        best = fmin(best, seconds() - start);
    }
    printf("; the %d largest of them: %.0f M weights/s, %.2f x the time\n", MOST, 1e-6 * WEIGHTS / best, best / alone);
    return STATUS_OK;
}

static enum status bench(int size, struct err *err) {
    struct fourier_pixels pixels = {0};
    struct expectation *e = NULL;
    struct expectation_particle particles[PARTICLES];
    double shifts[SHIFTS][2];
    TRY(fourier_pixels_create(BOX, size, &pixels, err));
    TRY(expectation_create(&pixels, 1, &e, err));
    size_t n = (size_t)pixels.count;
    float *slices = NULL, *images = NULL;
    TRY(random_floats((size_t)ORIENTATIONS * 2 * n, &slices, err));
    TRY(random_floats(PARTICLES * 4 * n, &images, err));
    for (size_t i = 0; i < PARTICLES; i++)
        particles[i] = (struct expectation_particle){
            .image = images + 4 * n * i, .ctf = images + 4 * n * i + 2 * n, .weight = images + 4 * n * i + 3 * n};
    for (int i = 0; i < SHIFTS; i++)
        shifts[i][0] = i % 5 - 2, shifts[i][1] = i / 5 - 2;
    TRY(coarse(e, pixels.count, slices, particles, (const double(*)[2])shifts, err));
    TRY(fine(e, pixels.count, slices, particles, (const double(*)[2])shifts, err));
    TRY(top_sum(30, err));
    TRY(top_sum(3000, err));
    expectation_destroy(&e);
    fourier_pixels_destroy(&pixels);
    mem_free(&slices);
    mem_free(&images);
    return STATUS_OK;
}

int main(int argc, char **argv) {
    struct err err = {0};
    if (bench(argc > 1 ? atoi(argv[1]) : 40, &err) != STATUS_OK) {
        fprintf(stderr, "bench_expectation: %s\n", err.message);
        return 1;
    }
    return 0;
}
