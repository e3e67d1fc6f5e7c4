/* Local resolution of noise, of equal maps, and of a map whose sides differ in detail or in noise; the map that is
 * filtered by it. New maps from a printed seed: test_local_resolution [SEED]. */
#include "kernels/local_resolution/local_resolution.h"

#include "kernels/quantile/quantile.h"
#include "tests/kernels/local_world.h"

#ifdef _OPENMP
#include <omp.h>
#endif

enum { BOX = 64 };
static const double PIXEL = 2;

struct result {
    float *resolution, *filtered;
};

static struct result compute_to(int box, const float *a, const float *b, double bfactor, int last_shell) {
    struct err err = {0};
    const struct local_resolution_options options = {
        .box = box, .pixel_size = PIXEL, .bfactor = bfactor, .last_shell = last_shell};
    const double coarsest = box * PIXEL / (last_shell > 0 ? fmin(3, last_shell) : 3);
    struct result r = {host_new(voxels_of(box), sizeof(float)), host_new(voxels_of(box), sizeof(float))};
    memset(r.resolution, 0xff, voxels_of(box) * sizeof(float)); /* NaN */
    memset(r.filtered, 0xff, voxels_of(box) * sizeof(float));
    must(local_resolution_run(NULL, &options, a, b, r.resolution, r.filtered, &err), &err);
    for (size_t i = 0; i < voxels_of(box); i++)
        assert_true(r.resolution[i] >= (float)(2 * PIXEL) && r.resolution[i] <= (float)coarsest &&
                    isfinite(r.filtered[i]));
    return r;
}

static struct result compute(int box, const float *a, const float *b, double bfactor) {
    return compute_to(box, a, b, bfactor, 0);
}

static void result_free(struct result *r) {
    mem_free(&r->resolution);
    mem_free(&r->filtered);
}

/* The part of the ball on one side that lies well inside. */
static bool inside(int box, size_t at, int side) {
    int x = (int)(at % (size_t)box) - box / 2, y = (int)(at / (size_t)box % (size_t)box) - box / 2;
    int z = (int)(at / (size_t)box / (size_t)box) - box / 2;
    double r = sqrt(x * x + y * y + z * z);
    return r < 0.30 * box && (side == 0 ? x < -0.12 * box : x > 0.12 * box);
}

/* Returns the median shell of one side. */
static double median_shell(int box, const struct result *r, int side) {
    float *values = host_new(voxels_of(box), sizeof *values), median, deviation;
    size_t count = 0;
    for (size_t i = 0; i < voxels_of(box); i++)
        if (inside(box, i, side)) values[count++] = (float)(box * PIXEL) / r->resolution[i];
    quantile_robust(values, count, &median, &deviation);
    mem_free(&values);
    return (double)median;
}

/* Nearly all voxels of noise fail in the first band. The window of that band holds the whole map: one map in a few hundred
 * passes it by chance, and then the next ones too, in parts. No voxel gets fine values. */
static void noise_is_coarse(void **state) {
    (void)state;
    int coarse = 0;
    for (int trial = 0; trial < 4; trial++) {
        float *a = noise_map(BOX, 1), *b = noise_map(BOX, 3);
        struct result r = compute(BOX, a, b, 0);
        float most = 0, least = INFINITY;
        size_t finer = 0;
        for (size_t i = 0; i < voxels_of(BOX); i++)
            most = fmaxf(most, r.resolution[i]), least = fminf(least, r.resolution[i]);
        for (size_t i = 0; i < voxels_of(BOX); i++)
            finer += r.resolution[i] < 0.99f * most;
        print_message("noise: %.1f to %.1f Å, %.2g of the voxels are finer than the coarsest\n", (double)least,
                      (double)most, (double)finer / (double)voxels_of(BOX));
        coarse += (double)finer < 0.02 * (double)voxels_of(BOX);
        assert_true((double)least > 0.3 * (double)most);
        result_free(&r);
        mem_free(&a);
        mem_free(&b);
    }
    assert_true(coarse >= 2);
}

static void equal_maps_reach_the_end(void **state) {
    (void)state;
    float *a = noise_map(BOX, 1), *b = noise_map(BOX, 1);
    memcpy(b, a, voxels_of(BOX) * sizeof *b);
    struct result r = compute(BOX, a, b, 0);
    lowpass(BOX, a, BOX / 2, 0);
    double error = 0, power = 0;
    for (size_t i = 0; i < voxels_of(BOX); i++) {
        assert_true(fabsf(r.resolution[i] - (float)(2 * PIXEL)) < 1e-4f);
        error += pow((double)(r.filtered[i] - a[i]), 2);
        power += pow((double)a[i], 2);
    }
    assert_true(error < 1e-2 * power); /* a few coefficients on the rim */
    result_free(&r);
    mem_free(&a);
    mem_free(&b);
}

/* Values that are finer than a bound take the bound, all others stay, and the map holds no finer detail. */
static void nothing_is_finer_than_a_bound(void **state) {
    (void)state;
    static const int bounds[] = {2, 8, 14};
    struct world w = world_make(BOX, 0.28 * BOX, 0.14 * BOX, 0, 0.7);
    struct result free_of = compute(BOX, w.halves[0], w.halves[1], 0);
    for (size_t k = 0; k < sizeof bounds / sizeof *bounds; k++) {
        const float bound = (float)(BOX * PIXEL) / (float)bounds[k];
        struct result r = compute_to(BOX, w.halves[0], w.halves[1], 0, bounds[k]);
        float *left = host_new(voxels_of(BOX), sizeof *left);
        double beyond = 0, all = 0;
        memcpy(left, r.filtered, voxels_of(BOX) * sizeof *left);
        lowpass(BOX, left, bounds[k] + 3, 0);
        for (size_t i = 0; i < voxels_of(BOX); i++) {
            assert_true(r.resolution[i] == fmaxf(free_of.resolution[i], bound));
            beyond += pow((double)(r.filtered[i] - left[i]), 2);
            all += pow((double)r.filtered[i], 2);
        }
        print_message("to shell %d: %.1e of the power lies beyond\n", bounds[k], beyond / all);
        assert_true(beyond < 3e-3 * all); /* a filter that changes from place to place smears a little */
        mem_free(&left);
        result_free(&r);
    }
    result_free(&free_of);
    world_free(&w);
}

static void sides_differ_in_detail(void **state) {
    (void)state;
    static const double FINE = 0.28 * BOX, COARSE = 0.14 * BOX;
    struct world w = world_make(BOX, FINE, COARSE, 0, 0.7);
    struct result r = compute(BOX, w.halves[0], w.halves[1], 0);
    double left = median_shell(BOX, &r, 0), right = median_shell(BOX, &r, 1), error[2] = {0};
    print_message("detail to shells %.1f and %.1f: found %.1f and %.1f\n", FINE, COARSE, left, right);
    assert_true(left > 0.9 * FINE && left < 1.25 * FINE);
    assert_true(right > 0.9 * COARSE && right < 0.85 * left); /* windows there reach into the other side */
    /* Filtered by its resolution, the coarse side is nearer to the truth than the mean of the halves. */
    for (size_t i = 0; i < voxels_of(BOX); i++) {
        if (!inside(BOX, i, 1)) continue;
        double mean = 0.5 * (double)(w.halves[0][i] + w.halves[1][i]);
        error[0] += (mean - (double)w.truth[i]) * (mean - (double)w.truth[i]);
        error[1] += ((double)r.filtered[i] - (double)w.truth[i]) * ((double)r.filtered[i] - (double)w.truth[i]);
    }
    print_message("squared error of the filtered map: %.2f of that of the mean\n", error[1] / error[0]);
    assert_true(error[1] < 0.4 * error[0]);
    result_free(&r);
    world_free(&w);
}

/* More noise on one side alone: the detail is the same, and less of it is found there. */
static void sides_differ_in_noise(void **state) {
    (void)state;
    struct world w = world_make(BOX, 0.25 * BOX, 0.25 * BOX, 6, 0.1);
    for (int h = 0; h < 2; h++) {
        float *more = noise_map(BOX, 0.5);
        for (size_t i = 0; i < voxels_of(BOX); i++)
            w.halves[h][i] += more[i] * (float)(1 / (1 + exp(-((int)(i % BOX) - BOX / 2) / 1.5)));
        mem_free(&more);
    }
    struct result r = compute(BOX, w.halves[0], w.halves[1], 0);
    double left = median_shell(BOX, &r, 0), right = median_shell(BOX, &r, 1);
    print_message("noise of 0.1 and 0.5: shells %.1f and %.1f\n", left, right);
    assert_true(left > 0.22 * BOX && right < 0.8 * left);
    result_free(&r);
    world_free(&w);
}

/* A B-factor multiplies the map by exp(−B/4 s²). */
static void b_factor_sharpens(void **state) {
    (void)state;
    static const double B = -60;
    struct world w = world_make(BOX, 0.2 * BOX, 0.2 * BOX, 0, 0);
    struct result plain = compute(BOX, w.truth, w.truth, 0), sharp = compute(BOX, w.truth, w.truth, B);
    /* A wave of one shell grows by the factor of that shell. */
    for (int shell = 5; shell <= 15; shell += 5) {
        double sums[2][2] = {{0}};
        for (size_t i = 0; i < voxels_of(BOX); i++) {
            double turn = 2 * M_PI * shell * (double)(i % BOX) / BOX;
            sums[0][0] += (double)plain.filtered[i] * cos(turn), sums[0][1] += (double)plain.filtered[i] * sin(turn);
            sums[1][0] += (double)sharp.filtered[i] * cos(turn), sums[1][1] += (double)sharp.filtered[i] * sin(turn);
        }
        double s = shell / (BOX * PIXEL), found = hypot(sums[1][0], sums[1][1]) / hypot(sums[0][0], sums[0][1]);
        assert_true(fabs(found / exp(-B / 4 * s * s) - 1) < 0.01);
    }
    result_free(&plain);
    result_free(&sharp);
    world_free(&w);
}

static void threads_do_not_matter(void **state) {
    (void)state;
#ifdef _OPENMP
    struct world w = world_make(48, 14, 7, 0, 0.5);
    int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    struct result one = compute(48, w.halves[0], w.halves[1], -20);
    omp_set_num_threads(3);
    struct result three = compute(48, w.halves[0], w.halves[1], -20);
    omp_set_num_threads(threads);
    assert_memory_equal(one.resolution, three.resolution, voxels_of(48) * sizeof(float));
    assert_memory_equal(one.filtered, three.filtered, voxels_of(48) * sizeof(float));
    result_free(&one);
    result_free(&three);
    world_free(&w);
#endif
}

/* Maps without anything, and boxes of all kinds. */
static void odd_maps(void **state) {
    (void)state;
    static const int boxes[] = {16, 18, 26, 34, 50};
    for (size_t i = 0; i < sizeof boxes / sizeof *boxes; i++) {
        float *a = noise_map(boxes[i], 1), *none = host_new(voxels_of(boxes[i]), sizeof *none);
        struct result r = compute(boxes[i], a, a, 0), empty = compute(boxes[i], none, none, 0);
        assert_true(fabsf(r.resolution[7] - (float)(2 * PIXEL)) < 1e-4f);
        assert_true(empty.resolution[7] > (float)(boxes[i] * PIXEL / 6) && empty.filtered[7] == 0);
        result_free(&r);
        result_free(&empty);
        mem_free(&a);
        mem_free(&none);
    }
    struct err err = {0};
    struct local_resolution_options options = {.box = 15, .pixel_size = 1};
    float value = 0;
    assert_int_equal(local_resolution_run(NULL, &options, &value, &value, &value, &value, &err), STATUS_BAD_ARGUMENT);
    assert_non_null(strstr(err.message, "15 px"));
    options = (struct local_resolution_options){.box = 16};
    assert_int_equal(local_resolution_run(NULL, &options, &value, &value, &value, &value, &err), STATUS_BAD_ARGUMENT);
}

int main(int argc, char **argv) {
    choose_seed(argc > 1 ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(noise_is_coarse),
        cmocka_unit_test(equal_maps_reach_the_end),
        cmocka_unit_test(nothing_is_finer_than_a_bound),
        cmocka_unit_test(sides_differ_in_detail),
        cmocka_unit_test(sides_differ_in_noise),
        cmocka_unit_test(b_factor_sharpens),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(odd_maps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
