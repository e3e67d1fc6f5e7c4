/* Tests superposition on the CPU. For one pair, no other rotation is better, and the atoms lie where the result puts
 * them. Ensembles are compared with Kabsch in double, pair by pair. test_superpose [SEED]. */
#include "tests/kernels/seed.h"
#include "tests/kernels/superpose_cases.h"

#include "kernels/superpose/superpose_private.h"
#include "kernels/superpose/tile_cpu.h"

static const enum superpose_method METHODS[] = {SUPERPOSE_QCP, SUPERPOSE_JACOBI, SUPERPOSE_KABSCH};
static const char *const METHOD_NAMES[] = {"qcp", "jacobi", "kabsch"};
static const double RADII[] = {20, 50, 100};
/* The error of products in single precision, for radii up to 20 Å and RMSDs of 0.16 Å or more. */
static const double SINGLE = 5e-4;

static double rmsd_after(const double m[3][3], const double shift[3], const float *p, const float *q, int atoms,
                         const float *weights) {
    double sum = 0, total = 0;
    for (int k = 0; k < atoms; k++) {
        double w = weights ? weights[k] : 1, square = 0;
        for (int a = 0; a < 3; a++) {
            double d = shift[a] - p[3 * k + a];
            for (int b = 0; b < 3; b++)
                d += m[a][b] * q[3 * k + b];
            square += d * d;
        }
        sum += w * square;
        total += w;
    }
    return sqrt(sum / total);
}

static void multiply(const double a[3][3], const double b[3][3], double c[3][3]) {
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            c[i][j] = a[i][0] * b[0][j] + a[i][1] * b[1][j] + a[i][2] * b[2][j];
}

/* Makes a rotation by `angle` radians about a random axis. */
static void small_rotation(double angle, double m[3][3]) {
    double u[3], length = 0;
    for (int k = 0; k < 3; k++) {
        u[k] = normal();
        length += u[k] * u[k];
    }
    for (int k = 0; k < 3; k++)
        u[k] /= sqrt(length);
    double c = cos(angle), s = sin(angle);
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++) {
            int other = 3 - a - b;
            double sign = a == b ? 0 : (b - a + 3) % 3 == 1 ? -1 : 1;
            m[a][b] = (a == b ? c : sign * s * u[other]) + (1 - c) * u[a] * u[b];
        }
}

/* Computes the shift that moves the weighted centroid of q onto that of p after the rotation. */
static void best_shift(const double m[3][3], const float *p, const float *q, int atoms, const float *weights,
                       double shift[3]) {
    double total = 0, of_p[3] = {0}, of_q[3] = {0};
    for (int k = 0; k < atoms; k++) {
        double w = weights ? weights[k] : 1;
        total += w;
        for (int a = 0; a < 3; a++) {
            of_p[a] += w * p[3 * k + a];
            of_q[a] += w * q[3 * k + a];
        }
    }
    for (int a = 0; a < 3; a++)
        shift[a] = (of_p[a] - m[a][0] * of_q[0] - m[a][1] * of_q[1] - m[a][2] * of_q[2]) / total;
}

static void check_fit(const struct superpose_fit *fit, const float *p, const float *q, int atoms, const float *weights,
                      double radius) {
    double square[3][3] = {{0}}, shift[3], other[3][3], step[3][3];
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++) {
            for (int k = 0; k < 3; k++)
                square[a][b] += fit->rotation[a][k] * fit->rotation[b][k];
            assert_true(fabs(square[a][b] - (a == b)) < 1e-9);
        }
    const double(*r)[3] = fit->rotation;
    double det = r[0][0] * (r[1][1] * r[2][2] - r[1][2] * r[2][1]) - r[0][1] * (r[1][0] * r[2][2] - r[1][2] * r[2][0]) +
                 r[0][2] * (r[1][0] * r[2][1] - r[1][1] * r[2][0]);
    assert_true(fabs(det - 1) < 1e-9);
    /* Allows the rounding of G − 2λ, 1e-16 G, and of the rotation. */
    double slack = 2e-7 * radius, reached = rmsd_after(fit->rotation, fit->translation, p, q, atoms, weights);
    if (!(fabs(reached - fit->rmsd) < slack))
        fail_msg("the RMSD is %.9f, but the result says %.9f", reached, fit->rmsd);
    for (int k = 0; k < 40; k++) {
        if (k < 20)
            random_rotation(other);
        else {
            small_rotation(pow(10, -6 + k % 5), step);
            multiply(step, fit->rotation, other);
        }
        best_shift(other, p, q, atoms, weights, shift);
        double better = rmsd_after(other, shift, p, q, atoms, weights);
        if (!(better > fit->rmsd - slack)) fail_msg("RMSD %.9f where %.9f can be had", fit->rmsd, better);
    }
}

static void pairs_are_fitted_best(void **state) {
    (void)state;
    struct err err = {0};
    const int sizes[] = {1, 2, 3, 4, 7, 60};
    for (size_t m = 0; m < 3; m++)
        for (int shape = 0; shape < SHAPES; shape++)
            for (size_t r = 0; r < 3; r++)
                for (size_t l = 0; l < 6; l++) {
                    int atoms = sizes[l];
                    float *xyz = make_ensemble((enum shape)shape, 2, atoms, RADII[r]), *q = xyz + 3 * atoms;
                    float weights[60];
                    for (int k = 0; k < atoms; k++)
                        weights[k] = (float)(k % 3 ? uniform() : k % 2);
                    weights[0] = 1;
                    for (int weighted = 0; weighted < 2; weighted++) {
                        struct superpose_fit fit;
                        const float *w = weighted ? weights : NULL;
                        must(superpose_pair(METHODS[m], xyz, q, atoms, w, &fit, &err), &err);
                        check_fit(&fit, xyz, q, atoms, w, RADII[r]);
                        float *moved = poisoned((size_t)atoms * 3);
                        superpose_apply(&fit, q, atoms, moved);
                        static const double ONE[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}, NONE[3] = {0};
                        double after = rmsd_after(ONE, NONE, xyz, moved, atoms, w);
                        assert_true(fabs(after - fit.rmsd) < 1e-4);
                        check_guard(moved, (size_t)atoms * 3);
                        free(moved);
                    }
                    free(xyz);
                }
}

static void pairs_with_known_answers(void **state) {
    (void)state;
    struct err err = {0};
    struct superpose_fit fit;
    /* Two rods of 2 and 3 Å. Then atoms at both ends of three perpendicular arms of 1, 1.5 and 2 Å, and their mirror
     * image. */
    const float rod[] = {-1, 0, 0, 1, 0, 0}, longer[] = {5, 1.5f, 2, 5, -1.5f, 2};
    const float right[] = {1, 0, 0, -1, 0, 0, 0, 1.5f, 0, 0, -1.5f, 0, 0, 0, 2, 0, 0, -2};
    float left[18];
    for (int k = 0; k < 18; k++)
        left[k] = k % 3 == 0 ? -right[k] : right[k];
    for (size_t m = 0; m < 3; m++) {
        must(superpose_pair(METHODS[m], rod, longer, 2, NULL, &fit, &err), &err);
        assert_true(fabs(fit.rmsd - 0.5) < 1e-7);
        /* R = diag(−2, 4.5, 8), so λ = 8 + 4.5 − 2. G = 14.5 for each structure. */
        must(superpose_pair(METHODS[m], right, left, 6, NULL, &fit, &err), &err);
        assert_true(fabs(fit.rmsd - sqrt((29 - 2 * 10.5) / 6)) < 1e-7);
        const float weights[] = {2, 0, 1, 1, 3, 1}, scaled[] = {2e-30f, 0, 1e-30f, 1e-30f, 3e-30f, 1e-30f};
        struct superpose_fit one, two;
        must(superpose_pair(METHODS[m], right, left, 6, weights, &one, &err), &err);
        must(superpose_pair(METHODS[m], right, left, 6, scaled, &two, &err), &err);
        assert_true(fabs(one.rmsd - two.rmsd) < 1e-5);
        assert_true(fabs(one.rmsd - fit.rmsd) > 0.1);
    }
}

/* An integer weight counts as this number of atoms in one place. */
static void weights_count_atoms(void **state) {
    (void)state;
    struct err err = {0};
    enum { ATOMS = 9, COPIES = 18 };
    float *xyz = make_ensemble(NEAR, 2, ATOMS, 20), copies[2][3 * COPIES], weights[ATOMS];
    int at = 0;
    for (int k = 0; k < ATOMS; k++) {
        weights[k] = (float)(1 + k % 3);
        for (int c = 0; c < 1 + k % 3; c++, at++)
            for (int a = 0; a < 3; a++) {
                copies[0][3 * at + a] = xyz[3 * k + a];
                copies[1][3 * at + a] = xyz[3 * (ATOMS + k) + a];
            }
    }
    assert_int_equal(at, COPIES);
    struct superpose_fit one, two;
    for (size_t m = 0; m < 3; m++) {
        must(superpose_pair(METHODS[m], xyz, xyz + 3 * ATOMS, ATOMS, weights, &one, &err), &err);
        must(superpose_pair(METHODS[m], copies[0], copies[1], COPIES, NULL, &two, &err), &err);
        assert_true(fabs(one.rmsd - two.rmsd) < 1e-6);
    }
    free(xyz);
}

static struct superpose *ensemble(enum superpose_method method, int atoms, const float *weights, int threads,
                                  const float *xyz, int count) {
    struct err err = {0};
    struct superpose *s = NULL;
    struct superpose_options options = {.atoms = atoms, .weights = weights, .method = method, .threads = threads};
    must(superpose_create(&options, &s, &err), &err);
    must(superpose_add(s, xyz, count, &err), &err);
    assert_int_equal(superpose_count(s), count);
    return s;
}

/* Returns the largest error of a matrix compared with Kabsch. */
static double check_matrix(const float *xyz, int count, int atoms, const float *weights, const float *rmsd) {
    double worst = 0;
    for (int i = 0; i < count; i++)
        for (int j = i + 1; j < count; j++)
            worst = worse(worst, fabs(rmsd[superpose_at(count, i, j)] - kabsch(xyz, atoms, weights, i, j)));
    return worst;
}

/* Returns the largest error in the row of the last structure. */
static double check_row(struct superpose *s, const float *xyz, int count, int atoms) {
    struct err err = {0};
    double worst = 0;
    float *row = poisoned((size_t)count);
    must(superpose_row(s, count - 1, row, &err), &err);
    check_guard(row, (size_t)count - 1);
    for (int k = 0; k < count - 1; k++)
        worst = worse(worst, fabs(row[k] - kabsch(xyz, atoms, NULL, k, count - 1)));
    free(row);
    return worst;
}

static void all_pairs_are_right(void **state) {
    (void)state;
    const struct { int count, atoms; } sizes[] = {{2, 500}, {17, 500}, {9, 3}, {33, 131}, {8, 1}, {12, 2}};
    for (int shape = 0; shape < SHAPES; shape++) {
        double worst = 0;
        for (size_t m = 0; m < 3; m++)
            for (size_t r = 0; r < 3; r++)
                for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                    int count = sizes[s].count, atoms = sizes[s].atoms;
                    float *xyz = make_ensemble((enum shape)shape, count, atoms, RADII[r]);
                    struct superpose *e = ensemble(METHODS[m], atoms, NULL, 2, xyz, count);
                    float *rmsd = matrix_of(e);
                    double error = worse(check_matrix(xyz, count, atoms, NULL, rmsd), check_row(e, xyz, count, atoms));
                    if (!(error <= ALLOWED))
                        fail_msg("%s, %d structures of %d atoms, Rg %g, %s: off by %g Å", SHAPE_NAMES[shape], count,
                                 atoms, RADII[r], METHOD_NAMES[m], error);
                    worst = worse(worst, error);
                    superpose_destroy(&e);
                    free(rmsd);
                    free(xyz);
                }
        printf("  %-8s off by %.1e Å at most (%g allowed)\n", SHAPE_NAMES[shape], worst, ALLOWED);
    }
}

static void weighted_pairs_are_right(void **state) {
    (void)state;
    enum { COUNT = 19, ATOMS = 77 };
    float weights[ATOMS];
    for (int k = 0; k < ATOMS; k++)
        weights[k] = k % 5 ? (float)(1e-25 * uniform()) : 0;
    float *xyz = make_ensemble(NEAR, COUNT, ATOMS, 20);
    /* Atoms with weight 0 may lie anywhere. */
    for (int n = 0; n < COUNT; n++)
        xyz[(size_t)n * ATOMS * 3] += 500;
    struct superpose *s = ensemble(SUPERPOSE_QCP, ATOMS, weights, 1, xyz, COUNT);
    float *rmsd = matrix_of(s);
    assert_true(check_matrix(xyz, COUNT, ATOMS, weights, rmsd) <= ALLOWED);
    assert_true(rmsd[0] < 1);
    superpose_destroy(&s);
    free(rmsd);
    free(xyz);
}

/* Tiles computed with registers of any width agree, except for the rounding of products. */
static void widths_agree(void **state) {
    (void)state;
    enum { ATOMS = 301, FLOATS = ATOMS * 3 * SUPERPOSE_LANES };
    float *panels = host_new(2 * FLOATS, sizeof *panels);
    double norms[2][SUPERPOSE_LANES] = {{0}};
    struct superpose_batch first, other;
    for (int k = 0; k < 2 * FLOATS; k++) {
        panels[k] = (float)(20 * normal());
        norms[k / FLOATS][k % SUPERPOSE_LANES] += (double)panels[k] * panels[k];
    }
    struct superpose_tile tile = {.p = panels,
                                  .q = panels + FLOATS,
                                  .norm_p = norms[0],
                                  .norm_q = norms[1],
                                  .p_count = SUPERPOSE_LANES,
                                  .q_count = SUPERPOSE_LANES,
                                  .least = -SUPERPOSE_LANES,
                                  .atoms = ATOMS,
                                  .total = ATOMS};
    superpose_tile_run(&tile, &first);
    for (int width = SUPERPOSE_HALVES; width <= SUPERPOSE_TWO; width++) {
        memset(&other, 0xff, sizeof other);
        tile.width = (enum superpose_width)width;
        superpose_tile_run(&tile, &other);
        for (int k = 0; k < SUPERPOSE_BATCH; k++)
            assert_true(fabs(first.rmsd[k] - other.rmsd[k]) < SINGLE && first.rmsd[k] > 1);
    }
    free(panels);
}

static void same_bits(const float *a, const float *b, size_t count) {
    if (memcmp(a, b, count * sizeof *a) != 0) fail_msg("the same call gave other bits");
}

/* Structures that are added one by one, in threes, or all at once, by one thread or three, give the same bits. */
static void ways_to_add_agree(void **state) {
    (void)state;
    struct err err = {0};
    enum { COUNT = 203, ATOMS = 50 };
    size_t pairs = superpose_pairs(COUNT);
    float *xyz = make_ensemble(MIXED, COUNT, ATOMS, 20), row[COUNT + 1];
    struct superpose *all = ensemble(SUPERPOSE_QCP, ATOMS, NULL, 3, xyz, COUNT);
    struct superpose *parts = ensemble(SUPERPOSE_QCP, ATOMS, NULL, 1, xyz, 1);
    for (int n = 1; n < COUNT; n = superpose_count(parts)) {
        int more = n % 4 == 0 && n + 3 <= COUNT ? 3 : 1;
        must(superpose_add(parts, xyz + (size_t)n * ATOMS * 3, more, &err), &err);
    }
    float *a = matrix_of(all), *b = matrix_of(parts), *again = matrix_of(all);
    same_bits(a, b, pairs);
    same_bits(a, again, pairs);
    for (int n = 0; n < COUNT; n += 13) {
        memset(row, 0xff, sizeof row);
        must(superpose_row(all, n, row, &err), &err);
        check_guard(row, (size_t)n);
        for (int k = 0; k < n; k++)
            assert_true(fabs((double)row[k] - a[superpose_at(COUNT, k, n)]) < SINGLE);
    }
    /* A reference gives the same values as the structure in the ensemble. */
    memset(row, 0xff, sizeof row);
    must(superpose_to_reference(parts, xyz + (size_t)100 * ATOMS * 3, row, &err), &err);
    check_guard(row, COUNT);
    for (int k = 0; k < COUNT; k++) {
        double expected = k == 100 ? 0 : a[k < 100 ? superpose_at(COUNT, k, 100) : superpose_at(COUNT, 100, k)];
        assert_true(fabs(row[k] - expected) < SINGLE);
    }
    free(a);
    free(b);
    free(again);
    free(xyz);
    superpose_destroy(&all);
    superpose_destroy(&parts);
}

static void neighbours_are_those_of_the_matrix(void **state) {
    (void)state;
    struct err err = {0};
    enum { COUNT = 331, ATOMS = 20 };
    float *xyz = make_ensemble(MIXED, COUNT, ATOMS, 20), cutoff = 0.42f;
    struct superpose_neighbours lists = {0};
    for (int threads = 1; threads <= 3; threads++) {
        struct superpose *s = ensemble(SUPERPOSE_QCP, ATOMS, NULL, threads, xyz, COUNT);
        float *rmsd = matrix_of(s);
        must(superpose_neighbours(s, cutoff, 0, &lists, &err), &err);
        assert_int_equal(lists.count, COUNT);
        size_t at = 0;
        for (int i = 0; i < COUNT; i++) {
            assert_int_equal(lists.starts[i], at);
            for (int j = i + 1; j < COUNT; j++) {
                float d = rmsd[superpose_at(COUNT, i, j)];
                if (!(d < cutoff)) continue;
                assert_int_equal(lists.index[at], j);
                assert_true(lists.rmsd[at] == d);
                at++;
            }
        }
        assert_int_equal(lists.starts[COUNT], at);
        assert_true(at > 1000 && at < superpose_pairs(COUNT) / 2);
        assert_int_equal(superpose_neighbours(s, cutoff, 8 * (at - 1), &lists, &err), STATUS_NO_MEMORY);
        assert_non_null(strstr(err.message, "lower the cut-off"));
        assert_null(lists.starts);
        must(superpose_neighbours(s, cutoff, 8 * at, &lists, &err), &err);
        assert_int_equal(superpose_neighbours(s, NAN, 0, &lists, &err), STATUS_BAD_ARGUMENT);
        free(rmsd);
        superpose_destroy(&s);
    }
    superpose_neighbours_clear(&lists);
    free(xyz);
}

static void what_is_wrong_is_named(void **state) {
    (void)state;
    struct err err = {0};
    enum { COUNT = 11, ATOMS = 5 };
    float *xyz = make_ensemble(NEAR, COUNT, ATOMS, 20);
    const float odd[] = {NAN, INFINITY, -INFINITY, 1e30f, 2e7f};
    struct superpose *s = ensemble(SUPERPOSE_QCP, ATOMS, NULL, 2, xyz, COUNT);
    float *before = matrix_of(s);
    for (size_t k = 0; k < 5; k++) {
        float keep = xyz[(9 * ATOMS + 3) * 3 + 1];
        xyz[(9 * ATOMS + 3) * 3 + 1] = odd[k];
        assert_int_equal(superpose_add(s, xyz, COUNT, &err), STATUS_BAD_ARGUMENT);
        assert_non_null(strstr(err.message, "atom 4 of structure 21 "));
        assert_int_equal(superpose_count(s), COUNT);
        assert_int_equal(superpose_to_reference(s, xyz + 9 * ATOMS * 3, before, &err), STATUS_BAD_ARGUMENT);
        struct superpose_fit fit;
        assert_int_equal(superpose_pair(SUPERPOSE_QCP, xyz, xyz + 9 * ATOMS * 3, ATOMS, NULL, &fit, &err),
                         STATUS_BAD_ARGUMENT);
        xyz[(9 * ATOMS + 3) * 3 + 1] = keep;
    }
    float *after = matrix_of(s);
    same_bits(before, after, superpose_pairs(COUNT));
    assert_int_equal(superpose_row(s, COUNT, after, &err), STATUS_BAD_ARGUMENT);
    superpose_destroy(&s);
    const float negative[] = {1, 1, -1, 1, 1}, none[] = {0, 0, 0, 0, 0}, nan[] = {1, NAN, 1, 1, 1};
    const float *const wrong[] = {negative, none, nan};
    for (size_t k = 0; k < 3; k++) {
        struct superpose_options options = {.atoms = ATOMS, .weights = wrong[k]};
        assert_int_equal(superpose_create(&options, &s, &err), STATUS_BAD_ARGUMENT);
        assert_null(s);
    }
    struct superpose_options nothing = {.atoms = 0}, small = {.atoms = ATOMS, .memory = 600};
    assert_int_equal(superpose_create(&nothing, &s, &err), STATUS_BAD_ARGUMENT);
    assert_non_null(strstr(err.message, "no atoms"));
    must(superpose_create(&small, &s, &err), &err);
    must(superpose_add(s, xyz, 8, &err), &err);
    assert_int_equal(superpose_add(s, xyz + 8 * ATOMS * 3, 3, &err), STATUS_NO_MEMORY);
    assert_int_equal(superpose_count(s), 8);
    superpose_destroy(&s);
    free(before);
    free(after);
    free(xyz);
}

/* Compares the CA atoms of an ensemble of 38 models with values from Kabsch in double by another program. */
static void a_real_ensemble(void **state) {
    (void)state;
    enum { COUNT = 38, ATOMS = 20 };
    const double first[] = {0.784264, 1.007577, 0.551803, 0.806635, 1.060668};
    char path[4096], line[128];
    const char *data = getenv("ICESTREAM_DATA");
    snprintf(path, sizeof path, "%s/rmsd/1l2y.pdb", data ? data : "");
    FILE *file = data ? fopen(path, "r") : NULL;
    if (file == NULL) {
        printf("  no %s: skipped\n", path);
        skip();
    }
    float *xyz = host_new(COUNT * ATOMS * 3, sizeof *xyz);
    int atom = 0;
    while (fgets(line, sizeof line, file))
        if (strncmp(line, "ATOM", 4) == 0 && strncmp(line + 12, " CA ", 4) == 0 && atom < COUNT * ATOMS) {
            line[54] = '\0';
            for (int a = 2; a >= 0; a--) {
                xyz[3 * atom + a] = strtof(line + 30 + 8 * a, NULL);
                line[30 + 8 * a] = '\0';
            }
            atom++;
        }
    fclose(file);
    assert_int_equal(atom, COUNT * ATOMS);
    struct superpose *s = ensemble(SUPERPOSE_QCP, ATOMS, NULL, 2, xyz, COUNT);
    float *rmsd = matrix_of(s);
    for (int k = 0; k < 5; k++)
        assert_true(fabs(rmsd[k] - first[k]) < SINGLE / 5);
    double sum = 0, least = INFINITY, most = 0;
    for (size_t k = 0; k < superpose_pairs(COUNT); k++) {
        sum += rmsd[k];
        least = fmin(least, rmsd[k]);
        most = fmax(most, rmsd[k]);
    }
    assert_true(fabs(sum / (double)superpose_pairs(COUNT) - 0.6807873330305063) < SINGLE / 5);
    assert_true(fabs(least - 0.22451348166878735) < SINGLE / 5 && fabs(most - 1.3869330305219474) < SINGLE / 5);
    superpose_destroy(&s);
    free(rmsd);
    free(xyz);
}

int main(int argc, char **argv) {
    seed = chosen_seed(argc > 1 ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_are_fitted_best),    cmocka_unit_test(pairs_with_known_answers),
        cmocka_unit_test(weights_count_atoms),      cmocka_unit_test(all_pairs_are_right),
        cmocka_unit_test(weighted_pairs_are_right), cmocka_unit_test(widths_agree),
        cmocka_unit_test(ways_to_add_agree),        cmocka_unit_test(neighbours_are_those_of_the_matrix),
        cmocka_unit_test(what_is_wrong_is_named),   cmocka_unit_test(a_real_ensemble),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
