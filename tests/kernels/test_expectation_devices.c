/* Parts of the E-step on each CUDA device: compares the coarse product with the sum of differences in double, weights
 * with the CPU's, top-sum selection with sorting. New random input from a printed seed, or from a given one:
 * test_expectation_devices [SEED], or `360 [SEED]` for volumes of that box. Outputs are poisoned before. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "common/arena.h"
#include "common/memory.h"
#include "kernels/ctf/ctf.h"
#include "kernels/expectation/expectation.h"
#include "kernels/expectation/expectation_cuda.h"
#include "kernels/expectation/posterior.h"
#include "kernels/projector/projector.h"
#include "tests/kernels/comparison.h"
#include "tests/kernels/devices.h"

enum kind { LOG_NORMAL, CONSTANT, ONE_HOT, TWO_VALUES, PEAKED, ZEROS, DENORMAL, KINDS };

static void fill(enum kind kind, float *w, size_t n) {
    for (size_t i = 0; i < n; i++)
        switch (kind) {
        case LOG_NORMAL:
            w[i] = (float)exp(3 * normal());
            break;
        case CONSTANT:
            w[i] = 0.3f;
            break;
        case ONE_HOT:
            w[i] = 0;
            break;
        case TWO_VALUES:
            w[i] = uniform() < 0.1 ? 0.7f : 1e-4f;
            break;
        case PEAKED:
            w[i] = (float)exp(-30 * uniform());
            break;
        case DENORMAL:
            w[i] = (float)(uniform() * 1e-40);
            break;
        default:
            w[i] = 0;
        }
    if (kind == ONE_HOT || kind == PEAKED) w[(size_t)(uniform() * (double)n)] = 1;
}

static int descending(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* Checks a selection against sorted weights; sums in long double, so that only rounding can differ. */
static void check_sum(const float *sorted, size_t n, double fraction, const struct top_sum *found, int kind) {
    long double total = 0, sum = 0, above = 0;
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        total += sorted[i];
    while (count < n && sorted[count] >= found->threshold && (found->threshold > 0 || total == 0)) {
        if (sorted[count] > found->threshold) above += sorted[count];
        sum += sorted[count++];
    }
    if (fabs((double)total - found->total) > 1e-12 * (double)total)
        fail_msg("total %.17g, expected %.17g (kind %d, n %zu)", found->total, (double)total, kind, n);
    if (found->count != count) fail_msg("count %u, expected %zu (kind %d, n %zu)", found->count, count, kind, n);
    if (total == 0) return;
    if (!(sum > fraction * total * (1 - 1e-12L)) || !(above <= fraction * total * (1 + 1e-12L)))
        fail_msg("threshold %g: %.17g at or above it, %.17g above, %.17g wanted (kind %d, n %zu)", found->threshold,
                 (double)sum, (double)above, (double)(fraction * total), kind, n);
}

/* Checks the same with a limit; `free_of_it`: the result without a limit. */
static void check_limit(const float *sorted, size_t n, uint32_t most, const struct top_sum *free_of_it,
                        const struct top_sum *found) {
    float threshold = free_of_it->threshold;
    if (most > 0 && most <= n && sorted[most - 1] > threshold) threshold = sorted[most - 1];
    size_t kept = 0;
    while (kept < n && sorted[kept] >= threshold)
        kept++;
    if (found->threshold != threshold || found->kept != kept || found->count != free_of_it->count ||
        found->total != free_of_it->total)
        fail_msg("most %u of %zu: threshold %g, kept %u, count %u; expected %g, %zu, %u", most, n, found->threshold,
                 found->kept, found->count, threshold, kept, free_of_it->count);
}

static void top_sum_trial(const size_t *counts, const int *kinds, int n, double fraction) {
    struct err err = {0};
    must(arena_open(arena, ARENA_ITERATION, &err), &err);
    size_t *begin = host_new((size_t)n + 1, sizeof *begin), longest = 0;
    for (int i = 0; i < n; i++) {
        begin[i + 1] = begin[i] + counts[i];
        longest = counts[i] > longest ? counts[i] : longest;
    }
    float *weights = host_new(begin[n] + 1, sizeof *weights);
    struct top_sum *sums = host_new((size_t)n, sizeof *sums), *cpu = host_new((size_t)n, sizeof *cpu);
    for (int i = 0; i < n; i++)
        fill((enum kind)kinds[i], weights + begin[i], counts[i]);
    void *w = on_device(weights, begin[n] + 1, sizeof *weights), *b = on_device(begin, (size_t)n + 1, sizeof *begin);
    struct top_sum *s = on_device(NULL, (size_t)n, sizeof *s);
    void *scratch = on_device(NULL, 1, top_sum_scratch(n));
    const uint32_t most[] = {0, 1, 2, 300, 1 + (uint32_t)(uniform() * (double)longest)};
    enum { LIMITS = sizeof most / sizeof *most };
    struct top_sum *limited = host_new((size_t)n * LIMITS, sizeof *limited);
    for (int limit = 0; limit < LIMITS; limit++) {
        must(top_sum_cuda(w, b, n, longest, fraction, most[limit], scratch, s, NULL, &err), &err);
        from_device(limited + (size_t)limit * (size_t)n, s, (size_t)n * sizeof *sums);
    }
    memcpy(sums, limited, (size_t)n * sizeof *sums);
    for (int i = 0; i < n; i++) {
        size_t count;
        expectation_top_sum(weights + begin[i], counts[i], fraction, &cpu[i].threshold, &count);
        qsort(weights + begin[i], counts[i], sizeof *weights, descending);
        check_sum(weights + begin[i], counts[i], fraction, &sums[i], kinds[i]);
        if (kinds[i] != CONSTANT && kinds[i] != TWO_VALUES) assert_int_equal(sums[i].count, count);
        for (int limit = 0; limit < LIMITS; limit++)
            check_limit(weights + begin[i], counts[i], most[limit], &sums[i], &limited[limit * n + i]);
    }
    free(limited);
    free(begin);
    free(weights);
    free(sums);
    free(cpu);
    arena_close(arena, ARENA_ITERATION);
}

/* Every distribution at every size that takes another path. */
static void top_sum_finds_the_largest(void **state) {
    (void)state;
    const size_t sizes[] = {1, 2, 37, 255, 256, 5000, 44640, 100001};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        size_t counts[KINDS];
        int kinds[KINDS];
        for (int i = 0; i < KINDS; i++) {
            kinds[i] = i;
            counts[i] = sizes[k];
        }
        top_sum_trial(counts, kinds, KINDS, 0.999);
        top_sum_trial(counts, kinds, KINDS, 0.5);
    }
}

static void top_sum_of_many(void **state) {
    (void)state;
    enum { MANY = 300 };
    size_t counts[MANY];
    int kinds[MANY];
    for (int i = 0; i < MANY; i++) {
        counts[i] = 1 + (size_t)(uniform() * 20000);
        kinds[i] = i % KINDS;
    }
    top_sum_trial(counts, kinds, MANY, 0.999);
    size_t large[] = {3000017, 1048577, 2000000};
    int large_kinds[] = {LOG_NORMAL, CONSTANT, PEAKED};
    top_sum_trial(large, large_kinds, 3, 0.999);
}

/* Limits of the number of kept samples; 0: none. */
enum { LIMITS = 4 };
static const uint32_t MOST[LIMITS] = {0, 1, 10, 1000};

struct coarse_result {
    float *dots, *norms;
    struct top_sum *sums; /* [LIMITS][particles] */
    uint32_t *kept;       /* [LIMITS][particles][shifts][words] */
};

static void run_coarse(const struct comparison *c, enum coarse_precision precision, struct coarse_result *r) {
    struct err err = {0};
    struct coarse_cuda *coarse = NULL;
    size_t n = (size_t)c->n, samples = (size_t)c->particles * c->shifts * c->slices;
    must(arena_open(arena, ARENA_ITERATION, &err), &err);
    must(coarse_cuda_create(0, &coarse, &err), &err);
    struct projector_grid g = projector_grid(c->projector);
    struct grid_cuda grid = {.values = on_device(g.values, 2 * (size_t)g.nx * g.ny * g.nz, sizeof(float)),
                             .nx = g.nx,
                             .ny = g.ny,
                             .reach = g.reach,
                             .r_max = g.r_max,
                             .dimensions = g.dimensions};
    struct pixels_cuda pixels = {.kx = on_device(c->pixels.kx, n, sizeof(short)),
                                 .ky = on_device(c->pixels.ky, n, sizeof(short)),
                                 .box = c->box,
                                 .count = c->n};
    float *matrices = on_device(c->matrices, (size_t)c->slices * 9, sizeof(float));
    float *images = on_device(c->images, (size_t)c->particles * 2 * n, sizeof(float));
    float *ctf = on_device(c->ctf, (size_t)c->particles * n, sizeof(float));
    float *weight = on_device(c->weight, (size_t)c->particles * n, sizeof(float));
    float *shift = on_device(c->shift, (size_t)c->shifts * 2, sizeof(float));
    float *slice_prior = on_device(c->slice_prior, (size_t)c->slices, sizeof(float));
    float *shift_prior = on_device(c->shift_prior, (size_t)c->particles * c->shifts, sizeof(float));
    size_t row = coarse_row(c->n, precision), norm_row = coarse_norm_row(c->n);
    float *slices = on_device(NULL, (size_t)c->slices * row, sizeof(float));
    float *squares = on_device(NULL, (size_t)c->slices * norm_row, sizeof(float));
    float *columns = on_device(NULL, (size_t)c->particles * c->shifts * row, sizeof(float));
    float *halves = on_device(NULL, (size_t)c->particles * norm_row, sizeof(float));
    float *dots = on_device(NULL, samples, sizeof(float));
    float *norms = on_device(NULL, (size_t)c->particles * c->slices, sizeof(float));
    struct top_sum *sums = on_device(NULL, (size_t)c->particles, sizeof *sums);
    size_t words = kept_words(c->slices) * (size_t)c->shifts * (size_t)c->particles;
    uint32_t *kept = on_device(NULL, words, sizeof *kept);
    must(coarse_cuda_slices(&grid, &pixels, c->n, matrices, c->slices, precision, slices, squares, NULL, &err), &err);
    must(coarse_cuda_columns(&pixels, c->n, images, ctf, weight, n, c->particles, shift, c->shifts, precision, columns,
                             halves, NULL, &err),
         &err);
    must(coarse_cuda_product(coarse, c->n, precision, slices, squares, c->slices, columns, halves, c->particles,
                             c->shifts, (size_t)c->slices, dots, norms, NULL, &err),
         &err);
    from_device(r->dots, dots, samples * sizeof(float));
    from_device(r->norms, norms, (size_t)c->particles * c->slices * sizeof(float));
    struct posterior_input posterior = {dots,      norms,     slice_prior, shift_prior, c->particles,
                                        c->shifts, c->slices, 0,           0.999};
    void *scratch = on_device(NULL, 1, top_sum_scratch(c->particles));
    for (int limit = 0; limit < LIMITS; limit++) {
        posterior.most = MOST[limit];
        must(posterior_cuda(&posterior, scratch, sums, kept, NULL, &err), &err);
        from_device(r->sums + (size_t)limit * (size_t)c->particles, sums, (size_t)c->particles * sizeof *sums);
        from_device(r->kept + (size_t)limit * words, kept, words * sizeof *kept);
    }
    coarse_cuda_destroy(&coarse);
    arena_close(arena, ARENA_ITERATION);
}

/* Returns the error of the results, as from log_weights_off. */
static double worst_error(const struct comparison *c, const struct coarse_result *r, const double *truth) {
    size_t each = (size_t)c->slices * (size_t)c->shifts;
    double worst = 0, *found = host_new(each, sizeof *found);
    for (int p = 0; p < c->particles; p++) {
        const float *dots = r->dots + (size_t)p * each, *norms = r->norms + (size_t)p * c->slices;
        for (size_t i = 0; i < each; i++)
            found[i] = (double)dots[i % c->shifts * c->slices + i / c->shifts] + norms[i / c->shifts];
        worst = fmax(worst, log_weights_off(c, p, found, truth + (size_t)p * each));
    }
    free(found);
    return worst;
}

/* With a limit, the kept samples are among those kept without one, and no better one is left out. */
static void check_limited(const struct comparison *c, const struct coarse_result *r, int p, int limit,
                          const float *value) {
    size_t count = (size_t)c->slices * c->shifts, words = kept_words(c->slices), bits = 0, reach = 0;
    size_t each = words * (size_t)c->shifts, all = each * (size_t)c->particles;
    const struct top_sum *whole = &r->sums[p], *found = &r->sums[limit * c->particles + p];
    const uint32_t *without = r->kept + each * (size_t)p, *with = without + all * (size_t)limit;
    assert_int_equal(found->count, whole->count);
    assert_true(found->threshold >= whole->threshold && found->total == whole->total);
    for (size_t i = 0; i < count; i++) {
        size_t word = i / c->slices * words + i % c->slices / 32;
        bool in = with[word] >> (i % c->slices % 32) & 1;
        bits += in;
        reach += value[i] >= found->threshold * 1.001;
        assert_true(!in || (without[word] >> (i % c->slices % 32) & 1));
        if (in != (value[i] >= found->threshold) && fabsf(value[i] - found->threshold) > 1e-3f * value[i])
            fail_msg("limit %u: sample %zu of weight %g: kept %d, threshold %g", MOST[limit], i, value[i], in,
                     found->threshold);
    }
    assert_int_equal(bits, found->kept);
    assert_true(reach <= MOST[limit] && (whole->count <= MOST[limit] ? bits == whole->count : bits >= MOST[limit]));
}

/* Compares with the CPU's weights of the same differences. */
static void check_weights(const struct comparison *c, const struct coarse_result *r) {
    size_t count = (size_t)c->slices * c->shifts, words = kept_words(c->slices);
    float *value = host_new(count, sizeof *value);
    for (int p = 0; p < c->particles; p++) {
        const struct top_sum *found = &r->sums[p];
        double least, sum, above = 0, kept = 0;
        size_t bits = 0;
        for (size_t i = 0; i < count; i++)
            value[i] = r->dots[p * count + i] +
                       (r->norms[(size_t)p * c->slices + i % c->slices] - c->slice_prior[i % c->slices] -
                        c->shift_prior[(size_t)p * c->shifts + i / c->slices]);
        posterior_weights(value, 1, (int)count, NULL, NULL, &least, &sum);
        assert_true(fabs(least - found->least) <= 1e-6 * fabs(least) + 1e-5);
        assert_true(fabs(sum - found->total) <= 1e-3 * sum);
        for (size_t i = 0; i < count; i++) {
            const uint32_t *row = r->kept + ((size_t)p * c->shifts + i / c->slices) * words;
            bool in = row[i % c->slices / 32] >> (i % c->slices % 32) & 1;
            bits += in;
            kept += in ? value[i] : 0;
            above += value[i] > found->threshold * 1.001 ? value[i] : 0;
            if (in != (value[i] >= found->threshold) && fabsf(value[i] - found->threshold) > 1e-3f * value[i])
                fail_msg("particle %d, sample %zu of weight %g: kept %d, threshold %g", p, i, value[i], in,
                         found->threshold);
        }
        assert_int_equal(bits, found->count);
        assert_int_equal(bits, found->kept);
        assert_true(kept > (0.999 - 1e-4) * sum && above < (0.999 + 1e-4) * sum);
        for (int limit = 1; limit < LIMITS; limit++)
            check_limited(c, r, p, limit, value);
    }
    free(value);
}

/* The rounded parts alone may be this many times further off. */
enum { ROUNDED = 10 };

static void coarse_trial(struct comparison c, int size, double noise, double bound) {
    make_comparison(&c, size, noise);
    size_t samples = (size_t)c.particles * c.shifts * c.slices;
    struct coarse_result r = {
        host_new(samples, sizeof(float)), host_new((size_t)c.particles * c.slices, sizeof(float)),
        host_new((size_t)c.particles * LIMITS, sizeof *r.sums),
        host_new(kept_words(c.slices) * (size_t)c.shifts * (size_t)c.particles * LIMITS, sizeof *r.kept)};
    double *truth = true_log_weights(&c);
    static const char *const names[] = {"FP32", "3xTF32", "TF32"};
    for (int precision = COARSE_FP32; precision <= COARSE_TF32; precision++) {
        double limit = precision == COARSE_TF32 ? ROUNDED * bound : bound;
        run_coarse(&c, (enum coarse_precision)precision, &r);
        double worst = worst_error(&c, &r, truth);
        tell_comparison(&c, names[precision], truth, worst, limit);
        assert_true(worst <= limit);
        check_weights(&c, &r);
    }
    free(truth);
    free(r.dots);
    free(r.norms);
    free(r.sums);
    free(r.kept);
    free_comparison(&c);
}

static void coarse_is_the_sum_of_differences(void **state) {
    (void)state;
    coarse_trial((struct comparison){.dimensions = 3, .box = 32, .particles = 5, .shifts = 13, .slices = 203}, 20, 10,
                 0.01);
    coarse_trial((struct comparison){.dimensions = 3, .box = 64, .particles = 3, .shifts = 21, .slices = 500}, 64, 20,
                 0.01);
    coarse_trial((struct comparison){.dimensions = 3, .box = 64, .particles = 2, .shifts = 21, .slices = 9001}, 40, 15,
                 0.01);
    coarse_trial((struct comparison){.dimensions = 3, .box = 128, .particles = 2, .shifts = 5, .slices = 300}, 128, 40,
                 0.01);
}

/* Realistic particles: log weights reach thousands, and differences below one decide. */
static void real_signals(void **state) {
    (void)state;
    coarse_trial(
        (struct comparison){.dimensions = 3, .box = 128, .particles = 3, .shifts = 9, .slices = 600, .near = true}, 128,
        REAL_NOISE, 0.01);
    coarse_trial(
        (struct comparison){.dimensions = 2, .box = 360, .particles = 3, .shifts = 9, .slices = 600, .near = true}, 360,
        REAL_NOISE, 0.03);
}

/* The same for volumes, whose transforms take 3 GB: at the sizes for steps of 3.75° and of 1.9°, and at full size. */
static void volumes_of_360(void **state) {
    (void)state;
    static const int SIZES[] = {124, 246, 360};
    for (int i = 0; i < 3; i++)
        coarse_trial(
            (struct comparison){.dimensions = 3, .box = 360, .particles = 3, .shifts = 9, .slices = 600, .near = true},
            SIZES[i], REAL_NOISE, 0.03);
}

int main(int argc, char **argv) {
    int missing = no_device();
    if (missing != 0) return missing;
    bool large = argc > 1 && strcmp(argv[1], "360") == 0;
    argc -= large, argv += large;
    choose_seed(argc > 1 ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(top_sum_finds_the_largest),
        cmocka_unit_test(top_sum_of_many),
        cmocka_unit_test(coarse_is_the_sum_of_differences),
        cmocka_unit_test(real_signals),
    };
    const struct CMUnitTest large_tests[] = {cmocka_unit_test(volumes_of_360)};
    return large ? cmocka_run_group_tests(large_tests, open_arena, close_arena)
                 : cmocka_run_group_tests(tests, open_arena, close_arena);
}
