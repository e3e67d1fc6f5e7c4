/* Compares superposition on a CUDA device with the CPU, with both products: random ensembles of odd sizes from a seed
 * that the test prints. Outputs are poisoned before, and two runs give the same bits. test_superpose_devices [SEED].
 * With `time` instead of a seed it prints the time of each part beside the lower limit of that time. */
#include "tests/kernels/seed.h"
#include "tests/kernels/superpose_cases.h"

#include <time.h>

#include "kernels/superpose/clusters.h"
#include "kernels/superpose/superpose_private.h"
#include "tests/benchmarks/superpose_times.h"

static const char *const PRODUCT_NAMES[] = {"best", "double", "single"};
static int threads = 2;

static struct superpose *ensemble(bool cuda, enum superpose_product product, const struct superpose_options *base,
                                  const float *xyz, int count) {
    struct err err = {0};
    struct superpose *s = NULL;
    struct superpose_options options = *base;
    options.device.kind = cuda ? DEVICE_CUDA : DEVICE_CPU;
    options.threads = threads;
    if (!cuda) options.memory = 0;
    must(superpose_create_as(&options, product, &s, &err), &err);
    must(superpose_add(s, xyz, count, &err), &err);
    assert_int_equal(superpose_count(s), count);
    return s;
}

static void matrices_agree(void **state) {
    (void)state;
    const struct {
        int count, atoms;
    } sizes[] = {{2, 3}, {31, 1}, {33, 16}, {64, 17}, {65, 500}, {203, 131}, {301, 2}, {97, 333}};
    const double radii[] = {20, 50, 100};
    for (int shape = 0; shape < SHAPES; shape++)
        for (int product = SUPERPOSE_DOUBLE; product <= SUPERPOSE_SINGLE; product++) {
            double worst = 0;
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                int count = sizes[s].count, atoms = sizes[s].atoms;
                struct superpose_options options = {.atoms = atoms, .method = (enum superpose_method)(s % 3)};
                float *xyz = make_ensemble((enum shape)shape, count, atoms, radii[s % 3]);
                struct superpose *cpu = ensemble(false, SUPERPOSE_BEST, &options, xyz, count);
                struct superpose *cuda = ensemble(true, (enum superpose_product)product, &options, xyz, count);
                float *expected = matrix_of(cpu), *found = matrix_of(cuda), *again = matrix_of(cuda);
                size_t pairs = superpose_pairs(count);
                double error = differ(expected, found, pairs);
                if (!(error <= ALLOWED))
                    fail_msg("%s, %d structures of %d atoms, %s: CPU and device differ by %g Å", SHAPE_NAMES[shape],
                             count, atoms, PRODUCT_NAMES[product], error);
                assert_int_equal(memcmp(found, again, pairs * sizeof *found), 0);
                worst = worse(worst, error);
                superpose_destroy(&cpu);
                superpose_destroy(&cuda);
                free(expected);
                free(found);
                free(again);
                free(xyz);
            }
            printf("  %-8s %s: %.1e Å apart at most (%g allowed)\n", SHAPE_NAMES[shape], PRODUCT_NAMES[product], worst,
                   ALLOWED);
        }
}

/* Tests structures added in parts, single rows, a reference, weights, and a device whose memory holds only one row of
 * tiles at a time. */
static void ways_agree(void **state) {
    (void)state;
    struct err err = {0};
    enum { COUNT = 257, ATOMS = 45 };
    size_t pairs = superpose_pairs(COUNT);
    float weights[ATOMS], row[COUNT + 1], other[COUNT + 1];
    for (int k = 0; k < ATOMS; k++)
        weights[k] = k % 4 ? (float)uniform() : 0;
    float *xyz = make_ensemble(MIXED, COUNT, ATOMS, 20);
    for (int product = SUPERPOSE_DOUBLE; product <= SUPERPOSE_SINGLE; product++) {
        struct superpose_options options = {.atoms = ATOMS, .weights = weights};
        struct superpose *all = ensemble(true, (enum superpose_product)product, &options, xyz, COUNT);
        options.memory = 400000;
        struct superpose *parts = ensemble(true, (enum superpose_product)product, &options, xyz, 1);
        for (int n = 1; n < COUNT; n = superpose_count(parts)) {
            int more = n % 5 == 0 && n + 40 <= COUNT ? 40 : 1;
            must(superpose_add(parts, xyz + (size_t)n * ATOMS * 3, more, &err), &err);
        }
        float *a = matrix_of(all), *b = matrix_of(parts);
        assert_int_equal(memcmp(a, b, pairs * sizeof *a), 0);
        struct superpose *cpu = ensemble(false, SUPERPOSE_BEST, &options, xyz, COUNT);
        for (int n = 0; n < COUNT; n += 17) {
            memset(row, 0xff, sizeof row);
            must(superpose_row(parts, n, row, &err), &err);
            check_guard(row, (size_t)n);
            must(superpose_row(cpu, n, other, &err), &err);
            assert_true(differ(row, other, (size_t)n) < 1e-5);
        }
        memset(row, 0xff, sizeof row);
        must(superpose_to_reference(parts, xyz + (size_t)77 * ATOMS * 3, row, &err), &err);
        check_guard(row, COUNT);
        must(superpose_to_reference(cpu, xyz + (size_t)77 * ATOMS * 3, other, &err), &err);
        assert_true(differ(row, other, COUNT) < 1e-5);
        superpose_destroy(&cpu);
        superpose_destroy(&all);
        superpose_destroy(&parts);
        free(a);
        free(b);
    }
    free(xyz);
}

static void check_lists(const struct superpose_neighbours *lists, const float *rmsd, int count, float cutoff) {
    size_t at = 0;
    for (int i = 0; i < count; i++) {
        assert_int_equal(lists->starts[i], at);
        for (int j = i + 1; j < count; j++) {
            float d = rmsd[superpose_at(count, i, j)];
            if (!(d < cutoff)) continue;
            assert_int_equal(lists->index[at], j);
            assert_true(lists->rmsd[at] == d);
            at++;
        }
    }
    assert_int_equal(lists->starts[count], at);
    assert_true(at > 0);
}

static void neighbours_agree(void **state) {
    (void)state;
    struct err err = {0};
    const int counts[] = {2, 33, 515, 1290};
    enum { ATOMS = 21 };
    for (int product = SUPERPOSE_DOUBLE; product <= SUPERPOSE_SINGLE; product++)
        for (size_t k = 0; k < 4; k++)
            for (int tight = 0; tight < 2; tight++) {
                struct superpose_options options = {.atoms = ATOMS, .memory = tight ? 1000000 : 0};
                float *xyz = make_ensemble(NEAR, counts[k], ATOMS, 20), cutoff = counts[k] == 2 ? 10 : 0.4f;
                struct superpose *s = ensemble(true, (enum superpose_product)product, &options, xyz, counts[k]);
                struct superpose_neighbours lists = {0};
                float *rmsd = matrix_of(s);
                must(superpose_neighbours(s, cutoff, 0, &lists, &err), &err);
                check_lists(&lists, rmsd, counts[k], cutoff);
                size_t bytes = lists.starts[counts[k]] * (sizeof *lists.index + sizeof *lists.rmsd);
                assert_int_equal(superpose_neighbours(s, cutoff, bytes - 1, &lists, &err), STATUS_NO_MEMORY);
                superpose_neighbours_clear(&lists);
                superpose_destroy(&s);
                free(rmsd);
                free(xyz);
            }
}

static void what_is_wrong_is_named(void **state) {
    (void)state;
    struct err err = {0};
    enum { COUNT = 40, ATOMS = 30 };
    float *xyz = make_ensemble(NEAR, COUNT, ATOMS, 20);
    struct superpose_options options = {.atoms = ATOMS};
    struct superpose *s = ensemble(true, SUPERPOSE_BEST, &options, xyz, COUNT);
    float *before = matrix_of(s), keep = xyz[(22 * ATOMS + 4) * 3 + 2];
    xyz[(22 * ATOMS + 4) * 3 + 2] = NAN;
    xyz[(29 * ATOMS + 1) * 3] = 1e20f;
    assert_int_equal(superpose_add(s, xyz, COUNT, &err), STATUS_BAD_ARGUMENT);
    assert_non_null(strstr(err.message, "atom 5 of structure 63 "));
    assert_int_equal(superpose_to_reference(s, xyz + 22 * ATOMS * 3, before, &err), STATUS_BAD_ARGUMENT);
    assert_int_equal(superpose_count(s), COUNT);
    float *after = matrix_of(s);
    assert_int_equal(memcmp(before, after, superpose_pairs(COUNT) * sizeof *after), 0);
    superpose_destroy(&s);
    xyz[(22 * ATOMS + 4) * 3 + 2] = keep;
    options.memory = 20000;
    options.device.kind = DEVICE_CUDA;
    must(superpose_create(&options, &s, &err), &err);
    assert_int_equal(superpose_add(s, xyz, 20000, &err), STATUS_NO_MEMORY);
    assert_non_null(strstr(err.message, "20000 structures of 30 atoms"));
    superpose_destroy(&s);
    free(before);
    free(after);
    free(xyz);
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Places a hundredth of the structures around each of a hundred centres: 1 % of the pairs are about 3.7 Å apart, the
 * others much farther. */
static float *clustered(int count, int atoms) {
    size_t floats = (size_t)atoms * 3;
    float *xyz = host_new((size_t)count * floats, sizeof *xyz), *base = make_ensemble(RANDOM, 100, atoms, 15);
    float noise[4099];
    for (size_t k = 0; k < 4099; k++)
        noise[k] = (float)(1.5 * normal());
    for (int n = 0; n < count; n++) {
        size_t at = (size_t)(uniform() * 4099);
        for (size_t k = 0; k < floats; k++)
            xyz[(size_t)n * floats + k] = base[(size_t)(n % 100) * floats + k] + noise[(at + k) % 4099];
    }
    free(base);
    return xyz;
}

static void time_matrix(int count, int atoms) {
    struct err err = {0};
    struct device device = {DEVICE_CUDA, 0};
    float *xyz = clustered(count, atoms);
    double flop = 9.0 * count * count * atoms;
    struct superpose_options options = {.atoms = atoms, .threads = threads, .device = device};
    size_t pairs = superpose_pairs(count);
    for (int product = SUPERPOSE_DOUBLE; product <= SUPERPOSE_SINGLE; product++) {
        float ms[2] = {0};
        struct superpose *s = ensemble(true, (enum superpose_product)product, &options, xyz, count);
        must(superpose_times(s, 5, ms, &err), &err);
        printf("%d x %d, %s: %.3f ms of the device, %.3f of them the product; its floor at 67 TFLOP/s %.3f ms\n", count,
               atoms, PRODUCT_NAMES[product], ms[0], ms[1], flop / 67e9);
        superpose_destroy(&s);
        options.method = SUPERPOSE_JACOBI;
        s = ensemble(true, (enum superpose_product)product, &options, xyz, count);
        must(superpose_times(s, 5, ms, &err), &err);
        printf("  by Jacobi: %.3f ms of the device\n", ms[0]);
        superpose_destroy(&s);
        options.method = SUPERPOSE_QCP;
    }
    for (int pinned = 0; pinned < 2; pinned++)
        for (int round = 0; round < 3; round++) {
            float *rmsd = NULL;
            struct superpose *s = NULL;
            double t0 = seconds();
            if (pinned)
                must(device_host_new(&device, pairs, sizeof *rmsd, "RMSDs", &rmsd, &err), &err);
            else
                rmsd = malloc(pairs * sizeof *rmsd);
            assert_non_null(rmsd);
            double t1 = seconds();
            must(superpose_create(&options, &s, &err), &err);
            double t2 = seconds();
            must(superpose_add(s, xyz, count, &err), &err);
            double t3 = seconds();
            must(superpose_matrix(s, rmsd, &err), &err);
            double t4 = seconds();
            FILE *file = fopen("/tmp/superpose_times.npy", "w");
            assert_non_null(file);
            assert_int_equal(fwrite(rmsd, sizeof *rmsd, pairs, file), pairs);
            assert_int_equal(fclose(file), 0);
            double t5 = seconds();
            superpose_destroy(&s);
            double t6 = seconds();
            printf("  %s results: room for them %.4f, create %.4f, add %.4f, matrix %.4f, written %.4f, destroy %.4f, "
                   "in all "
                   "%.4f s\n",
                   pinned ? "page-locked" : "plain", t1 - t0, t2 - t1, t3 - t2, t4 - t3, t5 - t4, t6 - t5, t6 - t0);
            if (pinned)
                device_host_free(&device, &rmsd);
            else
                free(rmsd);
        }
    remove("/tmp/superpose_times.npy");
    float *row = malloc((size_t)count * sizeof *row);
    assert_non_null(row);
    struct superpose *s = ensemble(true, SUPERPOSE_BEST, &options, xyz, count);
    double t0 = seconds();
    for (int k = 0; k < 100; k++)
        must(superpose_row(s, count - 1 - k, row, &err), &err);
    printf("  a row: %.1f us\n", 1e4 * (seconds() - t0));
    superpose_destroy(&s);
    free(row);
    free(xyz);
}

static void time_neighbours(int count, int atoms, float cutoff) {
    struct err err = {0};
    float *xyz = clustered(count, atoms);
    struct superpose_options options = {.atoms = atoms, .device = {DEVICE_CUDA, 0}};
    struct superpose_neighbours lists = {0};
    struct superpose_clusters clusters = {0};
    for (int round = 0; round < 2; round++) {
        double t0 = seconds();
        struct superpose *s = ensemble(true, SUPERPOSE_BEST, &options, xyz, count);
        double t1 = seconds();
        must(superpose_neighbours(s, cutoff, 0, &lists, &err), &err);
        double t2 = seconds();
        superpose_destroy(&s);
        printf("%d x %d under %g Å: add %.3f, neighbours %.3f s; %zu of %zu pairs; floor at 67 TFLOP/s %.3f s\n", count,
               atoms, (double)cutoff, t1 - t0, t2 - t1, lists.starts[count], superpose_pairs(count),
               9.0 * count * count * atoms / 67e12);
    }
    double t0 = seconds();
    must(superpose_cluster_neighbours(&lists, threads, &clusters, &err), &err);
    printf("  clusters by neighbourhood: %.3f s, %d of them, the largest of %d\n", seconds() - t0, clusters.count,
           clusters.size[0]);
    superpose_clusters_clear(&clusters);
    superpose_neighbours_clear(&lists);
    free(xyz);
}

int main(int argc, char **argv) {
    int count = 0;
    struct err err = {0};
    if (device_count(&count, &err) != STATUS_OK) return fprintf(stderr, "%s\n", err.message), 1;
    if (count == 0) return puts("skipped: no CUDA device"), 77;
    if (argc > 1 && strcmp(argv[1], "time") == 0) {
        threads = 16;
        time_matrix(1000, 500);
        time_matrix(5000, 500);
        time_matrix(5000, 100);
        time_neighbours(100000, argc > 2 ? atoi(argv[2]) : 500, 4);
        return 0;
    }
    seed = chosen_seed(argc > 1 ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrices_agree),
        cmocka_unit_test(ways_agree),
        cmocka_unit_test(neighbours_agree),
        cmocka_unit_test(what_is_wrong_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
