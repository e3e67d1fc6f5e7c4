/* Compares tomography on CUDA devices with the CPU: random series of odd sizes from a seed that the test prints, and
 * poisoned volumes. Two runs give the same bits, and so does any number of slabs, passes and devices. A single device
 * stands for several. test_tomography_devices [SEED]. */
#include "tests/kernels/tomography_cases.h"

#include <time.h>

static const enum tomography_basis BASES[] = {TOMOGRAPHY_BLOB, TOMOGRAPHY_LINEAR, TOMOGRAPHY_VOXEL};
static const char *const BASIS_NAMES[] = {"blob", "linear", "voxel"};
static const enum tomography_matrix MATRICES[] = {TOMOGRAPHY_ON_THE_FLY, TOMOGRAPHY_ELLR, TOMOGRAPHY_BLOB_ELLR};
static const char *const MATRIX_NAMES[] = {"on the fly", "ELLR", "blob-ELLR"};

/* Both sides use single precision, with sums of hundreds of weights in different orders, over some iterations. */
static const double SINGLE = 1e-5;
enum { MOST_DEVICES = 4, MOST_ITERATIONS = 8 };
static struct device devices[MOST_DEVICES];

static struct tomography_options on_devices(const struct tomography_options *o, int count) {
    struct tomography_options cuda = *o;
    cuda.devices = devices;
    cuda.device_count = count;
    return cuda;
}

static struct series case_series(int which) {
    struct series s = even_series(7, 65, 45, 67, 19);
    if (which == 1) s = even_series(6, 90, 40, 130, 22);
    if (which == 2) s = even_series(5, 60, 33, 5, 40);
    if (which == 3) s = even_series(4, 70, 70, 1, 1);
    if (which == 4) s = even_series(21, 60, 131, 259, 50);
    if (which == 5) s = even_series(1, 0, 9, 3, 70);
    if (which % 5 > 0) shift_randomly(&s, which == 2 ? 30 : 4);
    return s;
}
enum { CASES = 6 };

static void same_bits(const float *a, const float *b, size_t count, const char *what) {
    if (memcmp(a, b, count * sizeof *a) != 0) fail_msg("%s: not the same bits", what);
}

static void compare(const struct series *s, const struct tomography_options *o, const char *what, double *worst) {
    struct tomography_report of_cpu, of_cuda;
    double expected_residuals[MOST_ITERATIONS], residuals[MOST_ITERATIONS];
    struct tomography_options cuda = on_devices(o, 1), cpu = *o;
    cpu.matrix = TOMOGRAPHY_ON_THE_FLY;
    size_t voxels = voxel_count(s);
    float *projections = random_floats(ray_count(s));
    float *expected = run_once(&cpu, projections, &of_cpu, expected_residuals);
    float *found = run_once(&cuda, projections, &of_cuda, residuals);
    float *again = run_once(&cuda, projections, NULL, NULL);
    double error = difference_of_floats(found, expected, voxels);
    if (!(error < SINGLE)) fail_msg("%s: CPU and device differ by %.3g of the volume", what, error);
    same_bits(found, again, voxels, what);
    assert_int_equal(of_cuda.iterations, of_cpu.iterations);
    for (int k = 0; k < of_cpu.iterations; k++)
        if (!(fabs(residuals[k] - expected_residuals[k]) < 1e-5))
            fail_msg("%s: residual %d is %.9g, on the CPU %.9g", what, k, residuals[k], expected_residuals[k]);
    if (error > *worst) *worst = error;
    free(projections);
    free(expected);
    free(found);
    free(again);
}

static void agrees_with_cpu(void **state) {
    (void)state;
    for (int b = 0; b < 3; b++)
        for (int m = 0; m < 3; m++) {
            double worst = 0;
            for (int which = 0; which < CASES; which++) {
                struct series s = case_series(which);
                struct tomography_options o = options_of(&s);
                char what[80];
                snprintf(what, sizeof what, "%s, %s, case %d", BASIS_NAMES[b], MATRIX_NAMES[m], which);
                o.basis = BASES[b];
                o.matrix = MATRICES[m];
                o.start = (enum tomography_start)((which + b + m) % 3);
                o.iterations = 4;
                o.relaxation = 1.3;
                o.non_negative = which % 2;
                compare(&s, &o, what, &worst);
            }
            printf("  %-6s %-10s %.1e of the volume apart at most (%g allowed)\n", BASIS_NAMES[b], MATRIX_NAMES[m],
                   worst, SINGLE);
        }
}

static void masks_agree(void **state) {
    (void)state;
    struct series s = case_series(1);
    struct tomography_options o = options_of(&s);
    size_t voxels = voxel_count(&s);
    double worst = 0;
    unsigned char *mask = host_new(voxels, 1);
    for (size_t i = 0; i < voxels; i++)
        mask[i] = uniform() < 0.7;
    o.mask = mask;
    o.iterations = 3;
    for (int which = 0; which < 6; which++) {
        o.basis = BASES[which / 2];
        o.non_negative = which % 2;
        compare(&s, &o, which % 2 ? "masked, not below 0" : "masked", &worst);
    }
    free(mask);
}

static void filtered_agrees(void **state) {
    (void)state;
    for (int which = 0; which < CASES; which++) {
        struct series s = case_series(which);
        struct tomography_options o = options_of(&s);
        double worst = 0;
        o.method = TOMOGRAPHY_WBP;
        o.roll_off = (enum tomography_roll_off)(which % 3);
        o.cutoff = which % 2 ? 1 : 0.7;
        compare(&s, &o, "WBP", &worst);
    }
}

/* Any number of slabs and places, and both schemes of exchange, give the same bits. */
static void slabs_agree(void **state) {
    (void)state;
    static const int slabs[] = {1, 2, 3, 5, 2, 3, 5, 4, 7}, places[] = {1, 1, 1, 1, 2, 2, 3, 4, 4};
    static const int heights[] = {5, 130, 517};
    for (size_t h = 0; h < sizeof heights / sizeof *heights; h++) {
        struct series s = even_series(9, 62, 41, heights[h], 23);
        struct tomography_options o = options_of(&s);
        size_t voxels = voxel_count(&s);
        float *projections = random_floats(ray_count(&s)), *first = NULL;
        double residuals[MOST_ITERATIONS], first_residuals[MOST_ITERATIONS];
        o.iterations = 5;
        for (size_t i = 0; i < 2 * sizeof slabs / sizeof *slabs; i++) {
            struct tomography_options cuda = on_devices(&o, places[i / 2]);
            struct tomography_report report;
            cuda.slabs = slabs[i / 2];
            cuda.no_overlap = i % 2;
            float *found = run_once(&cuda, projections, &report, residuals);
            assert_true(report.slabs >= 1 && (report.slabs == slabs[i / 2] || heights[h] < slabs[i / 2]));
            if (i == 0) {
                first = found;
                memcpy(first_residuals, residuals, sizeof residuals);
                continue;
            }
            char what[80];
            snprintf(what, sizeof what, "%d rows in %d slabs of %d places", heights[h], slabs[i / 2], places[i / 2]);
            same_bits(found, first, voxels, what);
            assert_int_equal(memcmp(residuals, first_residuals, (size_t)report.iterations * sizeof *residuals), 0);
            free(found);
        }
        free(first);
        free(projections);
    }
}

/* The rows do not fit into the allowed memory: the run makes passes, each with the neighbouring rows that it needs. */
static void passes_agree(void **state) {
    (void)state;
    struct series s = even_series(6, 60, 37, 1100, 15);
    struct tomography_options o = options_of(&s);
    size_t voxels = voxel_count(&s), most = 0;
    float *projections = random_floats(ray_count(&s));
    for (int method = 0; method < 2; method++) {
        o.method = (enum tomography_method)method;
        o.iterations = 6;
        double residuals[MOST_ITERATIONS], whole_residuals[MOST_ITERATIONS];
        struct tomography_options cuda = on_devices(&o, 1);
        float *whole = run_once(&cuda, projections, NULL, whole_residuals);
        for (int places = 1; places <= 2; places++)
            for (int chunks = 1; chunks <= 5; chunks += 2) {
                struct tomography_report report;
                cuda = on_devices(&o, places);
                /* 128 rows of c, p, q0, q1 and sums take 1.3 MB; shared data of the slabs take less than a third of
                 * this. */
                cuda.memory = (size_t)chunks * 1400000 + 400000;
                float *found = run_once(&cuda, projections, &report, residuals);
                same_bits(found, whole, voxels, "passes");
                assert_int_equal(memcmp(residuals, whole_residuals, (size_t)report.iterations * sizeof *residuals), 0);
                if ((size_t)report.slabs > most) most = (size_t)report.slabs;
                free(found);
            }
        free(whole);
    }
    assert_true(most > 4);
    printf("  up to %zu slabs in passes\n", most);
    free(projections);
}

/* Limits memory so that each place holds one slab of 128 rows at a time: `chunk` bytes are one slab, and the limit is
 * below two slabs. */
static void limit_memory(struct tomography_options *o, size_t chunk) {
    o->memory = chunk * 5 / 4 + tomography_matrix_bytes(&o->geometry, o->basis, o->matrix);
}

static void same_run(const struct tomography_options *o, int places, const float *projections, const float *expected,
                     const double *expected_residuals, int least_slabs, const char *what) {
    struct tomography_options cuda = on_devices(o, places);
    struct tomography_report report;
    double residuals[MOST_ITERATIONS];
    float *found = run_once(&cuda, projections, &report, residuals);
    same_bits(found, expected, (size_t)o->geometry.nz * (size_t)o->geometry.ny * (size_t)o->geometry.nx, what);
    assert_int_equal(report.iterations, o->iterations);
    assert_int_equal(memcmp(residuals, expected_residuals, (size_t)report.iterations * sizeof *residuals), 0);
    if (report.slabs < least_slabs) fail_msg("%s: %d slabs; expected %d at least", what, report.slabs, least_slabs);
    free(found);
}

/* Every basis and matrix, with a mask and non-negative, gives the same bits in slabs, in passes and in one piece. */
static void all_agree_in_pieces(void **state) {
    (void)state;
    struct series s = even_series(9, 62, 41, 517, 23);
    shift_randomly(&s, 3);
    size_t voxels = voxel_count(&s), chunk = 128 * (size_t)41 * (23 * 5 + 9 * 12) + 600000;
    float *projections = random_floats(ray_count(&s));
    unsigned char *mask = host_new(voxels, 1);
    for (size_t i = 0; i < voxels; i++)
        mask[i] = uniform() < 0.7;
    for (int which = 0; which < 9; which++) {
        struct tomography_options o = options_of(&s);
        double residuals[MOST_ITERATIONS];
        char what[80];
        o.basis = BASES[which / 3];
        o.matrix = MATRICES[which % 3];
        o.start = (enum tomography_start)((which + which / 3) % 3);
        o.relaxation = 1.3;
        o.iterations = 5;
        o.non_negative = true;
        o.mask = mask;
        struct tomography_options cuda = on_devices(&o, 1);
        float *whole = run_once(&cuda, projections, NULL, residuals);
        for (int places = 1; places <= 2; places++) {
            struct tomography_options pieces = o;
            pieces.slabs = 3;
            pieces.no_overlap = which % 2;
            snprintf(what, sizeof what, "%s, %s, slabs, %d places", BASIS_NAMES[which / 3], MATRIX_NAMES[which % 3],
                     places);
            same_run(&pieces, places, projections, whole, residuals, 3, what);
            pieces.slabs = 0;
            limit_memory(&pieces, chunk);
            snprintf(what, sizeof what, "%s, %s, passes, %d places", BASIS_NAMES[which / 3], MATRIX_NAMES[which % 3],
                     places);
            same_run(&pieces, places, projections, whole, residuals, 5, what);
        }
        free(whole);
    }
    free(mask);
    free(projections);
}

/* Counts calls of watch(), which cancels the run at call number `most`. */
struct watcher {
    int calls, most, iteration;
    double residuals[64];
};
static bool watch(void *context, int iteration, double residual) {
    struct watcher *w = context;
    w->iteration = iteration;
    if (w->calls < 64) w->residuals[w->calls] = residual;
    return ++w->calls < w->most;
}

static void cancels(struct tomography_options *o, const float *projections, float *volume, struct watcher *watcher,
                    const char *message) {
    struct tomography *plan = NULL;
    struct err err = {0};
    o->go_on = watch, o->context = watcher;
    must(tomography_create(o, &plan, &err), &err);
    assert_int_equal(tomography_run(plan, projections, volume, NULL, &err), STATUS_CANCELLED);
    if (strstr(err.message, message) == NULL) fail_msg("\"%s\" does not say \"%s\"", err.message, message);
    assert_int_equal(watcher->calls, watcher->most);
    /* The plan can run again, and that run is complete. */
    *watcher = (struct watcher){.most = 1000};
    must(tomography_run(plan, projections, volume, NULL, &err), &err);
    tomography_destroy(&plan);
}

static void stops(void **state) {
    (void)state;
    struct series s = case_series(4);
    float *projections = random_floats(ray_count(&s));
    struct tomography_options o = options_of(&s);
    struct tomography_report cpu, cuda;
    double residuals[MOST_ITERATIONS];
    float *volume = host_new(voxel_count(&s), sizeof *volume);
    o.iterations = 8;
    o.limit = 0.2;
    free(run_once(&o, projections, &cpu, NULL));
    struct tomography_options on_cuda = on_devices(&o, 2);
    float *limited = run_once(&on_cuda, projections, &cuda, residuals);
    assert_int_equal(cpu.iterations, cuda.iterations);
    assert_true(cuda.iterations < 8);
    /* The same number of iterations without a limit gives the same bits. So do passes with the limit, which know the
     * residual only after the last pass. */
    o.limit = 0, o.iterations = cuda.iterations;
    same_run(&o, 2, projections, limited, residuals, 2, "a limit");
    struct tomography_options passes = on_devices(&o, 1);
    passes.limit = 0.2, passes.iterations = 8;
    limit_memory(&passes, 128 * (size_t)131 * (50 * 4 + 21 * 12) + 800000);
    float *found = run_once(&passes, projections, &cuda, NULL);
    assert_int_equal(cuda.iterations, cpu.iterations);
    assert_int_equal(cuda.slabs, 3);
    same_bits(found, limited, voxel_count(&s), "a limit, in passes");
    free(found);
    /* The caller can cancel a run in an iteration of all rows, and in the second of three passes. */
    struct watcher watcher = {.most = 3};
    on_cuda.limit = 0, on_cuda.iterations = 8;
    cancels(&on_cuda, projections, volume, &watcher, "after 3 of 8 iterations");
    assert_true(watcher.calls == 8 && watcher.residuals[7] < watcher.residuals[0]);
    watcher = (struct watcher){.most = 8 + 2};
    passes.limit = 0;
    cancels(&passes, projections, volume, &watcher, "pass 2 of 3");
    assert_true(watcher.calls == 3 * 8 && watcher.iteration == 8 && isnan(watcher.residuals[7]));
    free(limited), free(volume), free(projections);
}

/* WBP has no iterations: the caller can cancel a run between passes. */
static void filtered_stops(void **state) {
    (void)state;
    struct series s = even_series(6, 60, 37, 1100, 15);
    float *projections = random_floats(ray_count(&s)), *volume = host_new(voxel_count(&s), sizeof *volume);
    struct tomography_options o = options_of(&s), cuda = on_devices(&o, 1);
    struct watcher watcher = {.most = 2};
    cuda.method = TOMOGRAPHY_WBP;
    cuda.memory = 1800000;
    cancels(&cuda, projections, volume, &watcher, "pass 2 of ");
    assert_true(watcher.calls > 2 && watcher.iteration == 0 && isnan(watcher.residuals[0]));
    free(projections), free(volume);
}

static void refuses(void **state) {
    (void)state;
    struct series s = case_series(0);
    struct tomography_options o = options_of(&s), cuda = on_devices(&o, 1);
    float *projections = random_floats(ray_count(&s)), *volume = host_new(voxel_count(&s), sizeof *volume);
    struct tomography *plan = NULL;
    struct err err = {0};
    cuda.iterations = 2;
    cuda.memory = 1000;
    assert_int_equal(tomography_create(&cuda, &plan, &err), STATUS_NO_MEMORY);
    printf("  %s\n", err.message);
    cuda.memory = 0;
    must(tomography_create(&cuda, &plan, &err), &err);
    projections[(size_t)3 * 67 * 45 + 5 * 45 + 7] = NAN;
    projections[(size_t)4 * 67 * 45] = INFINITY;
    assert_int_equal(tomography_run(plan, projections, volume, NULL, &err), STATUS_BAD_ARGUMENT);
    printf("  %s\n", err.message);
    assert_non_null(strstr(err.message, "column 8, row 6"));
    assert_non_null(strstr(err.message, "tilt 4"));
    tomography_destroy(&plan);
    free(projections);
    free(volume);
}

int main(int argc, char **argv) {
    struct err err = {0};
    int count = 0;
    if (device_count(&count, &err) != STATUS_OK || count == 0) {
        printf("skipped: no CUDA device here, so tomograms are made by the CPU alone\n");
        return 77;
    }
    for (int i = 0; i < MOST_DEVICES; i++)
        devices[i] = (struct device){DEVICE_CUDA, i % count};
    choose_seed(argc > 1 ? argv[1] : NULL);
    printf("%d devices%s\n", count, count == 1 ? ", which stands for several" : "");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_cpu), cmocka_unit_test(masks_agree),    cmocka_unit_test(filtered_agrees),
        cmocka_unit_test(slabs_agree),     cmocka_unit_test(passes_agree),   cmocka_unit_test(all_agree_in_pieces),
        cmocka_unit_test(stops),           cmocka_unit_test(filtered_stops), cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
