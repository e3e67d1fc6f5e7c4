/* Point groups: order and closure, RELION's axes, one mate per direction in the unit; Euler angles to matrices and
 * back. */
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
#include "kernels/symmetry/symmetry.h"

static const struct {
    const char *name;
    int order;
} groups[] = {{"C1", 1}, {"c3", 3}, {"C17", 17}, {"D1", 2},  {"d2", 4},  {"D7", 14}, {"T", 12},
              {"O", 24}, {"i", 60}, {"I1", 60},  {"I2", 60}, {"i3", 60}, {"I4", 60}};
enum { N_GROUPS = sizeof groups / sizeof *groups };

static uint64_t seed = 20240501;

static double uniform(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(seed >> 11) / 9007199254740992.0;
}

static void random_direction(double d[3]) {
    double z = 2 * uniform() - 1, a = 2 * M_PI * uniform(), r = sqrt(1 - z * z);
    d[0] = r * cos(a), d[1] = r * sin(a), d[2] = z;
}

static void product(const double a[9], const double b[9], double c[9]) {
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            c[3 * i + j] = a[3 * i] * b[j] + a[3 * i + 1] * b[3 + j] + a[3 * i + 2] * b[6 + j];
}

static double difference(const double a[9], const double b[9]) {
    double most = 0;
    for (int i = 0; i < 9; i++)
        most = fmax(most, fabs(a[i] - b[i]));
    return most;
}

static bool has(const struct symmetry *s, const double m[9]) {
    for (int i = 0; i < s->count; i++)
        if (difference(s->matrices[i], m) < 1e-9) return true;
    return false;
}

static void groups_are_closed(void **state) {
    (void)state;
    for (int g = 0; g < N_GROUPS; g++) {
        struct symmetry s;
        struct err err = {0};
        assert_int_equal(symmetry_create(groups[g].name, &s, &err), STATUS_OK);
        assert_int_equal(s.count, groups[g].order);
        const double identity[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
        assert_true(difference(s.matrices[0], identity) == 0);
        for (int i = 0; i < s.count; i++)
            for (int j = 0; j < s.count; j++) {
                double c[9];
                product(s.matrices[i], s.matrices[j], c);
                assert_true(has(&s, c));
            }
        symmetry_destroy(&s);
    }
}

/* The axes of RELION's tables, to their six digits: the group contains the rotation about each. */
static void axes_are_relions(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int fold;
        double x, y, z;
    } axes[] = {
        {"C5", 5, 0, 0, 1},
        {"D3", 3, 0, 0, 1},
        {"D3", 2, 1, 0, 0},
        {"T", 3, 0, 0, 1},
        {"T", 2, 0, .816496, .577350},
        {"O", 3, .57735, .57735, .57735},
        {"O", 4, 0, 0, 1},
        {"I", 2, 0, 0, 1},
        {"I", 5, .525731, 0, .850651},
        {"I", 3, 0, .356822, .934172},
        {"I2", 5, .525731, 0, .850651},
        {"I1", 2, 1, 0, 0},
        {"I1", 5, .850651, 0, -.525731},
        {"I1", 3, .934172, .356822, 0},
        {"I3", 5, 0, 0, 1},
        {"I3", 2, -.525731, 0, .850651},
        {"I3", 3, -.491123, .356822, .794654},
        {"I4", 2, .525731, 0, .850651},
        {"I4", 5, .894427, 0, .447214},
        {"I4", 3, .491123, .356822, .794654},
    };
    for (size_t a = 0; a < sizeof axes / sizeof *axes; a++) {
        struct symmetry s;
        assert_int_equal(symmetry_create(axes[a].name, &s, NULL), STATUS_OK);
        const double v[3] = {axes[a].x, axes[a].y, axes[a].z};
        int fixing = 0;
        for (int i = 0; i < s.count; i++) {
            double away = 0;
            for (int r = 0; r < 3; r++) {
                double t = -v[r];
                for (int c = 0; c < 3; c++)
                    t += s.matrices[i][3 * r + c] * v[c];
                away += t * t;
            }
            fixing += away < 1e-9;
        }
        assert_int_equal(fixing, axes[a].fold);
        symmetry_destroy(&s);
    }
}

static void unit_holds_one_mate(void **state) {
    (void)state;
    for (int g = 0; g < N_GROUPS; g++) {
        struct symmetry s;
        assert_int_equal(symmetry_create(groups[g].name, &s, NULL), STATUS_OK);
        for (int trial = 0; trial < 400; trial++) {
            double d[3];
            random_direction(d);
            /* A quarter of the directions lie on the equator, some at multiples of 45°: borders of many units. */
            if (trial % 4 == 0) {
                double a = trial % 8 == 0 ? M_PI / 4 * (trial / 8) : atan2(d[1], d[0]);
                d[0] = cos(a), d[1] = sin(a), d[2] = 0;
            }
            int inside = 0, stabilisers = 0;
            for (int i = 0; i < s.count; i++) {
                double m[3], away = 0;
                for (int r = 0; r < 3; r++) {
                    m[r] =
                        s.matrices[i][3 * r] * d[0] + s.matrices[i][3 * r + 1] * d[1] + s.matrices[i][3 * r + 2] * d[2];
                    away += (m[r] - d[r]) * (m[r] - d[r]);
                }
                inside += symmetry_in_unit(&s, m);
                stabilisers += away < 1e-12;
            }
            if (inside != stabilisers)
                fail_msg("%s: %d of the mates of (%g %g %g) are in the unit", s.name, inside, d[0], d[1], d[2]);
        }
        symmetry_destroy(&s);
    }
}

static void unit_of_dihedral_groups_is_relions(void **state) {
    (void)state;
    struct symmetry s;
    assert_int_equal(symmetry_create("D2", &s, NULL), STATUS_OK);
    assert_true(symmetry_in_unit(&s, (double[3]){0.1, 0.5, 0.8}));
    assert_false(symmetry_in_unit(&s, (double[3]){0.1, 0.5, -0.8}));
    assert_false(symmetry_in_unit(&s, (double[3]){0.1, -0.5, 0.8}));
    symmetry_destroy(&s);
}

static void wrong_names_are_refused(void **state) {
    (void)state;
    static const char *names[] = {"", "C", "C0", "D", "I5", "X2", "C1x", "C100", "-1", "OO", "tetrahedral"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct symmetry s = {.count = -7};
        struct err err = {0};
        assert_int_equal(symmetry_create(names[i], &s, &err), STATUS_BAD_ARGUMENT);
        assert_int_equal(s.count, -7);
        assert_non_null(strstr(err.message, "I4"));
    }
}

static void angles_come_back(void **state) {
    (void)state;
    for (int i = 0; i < 2000; i++) {
        double m[9], again[9], rot, tilt, psi;
        double b = i % 5 == 0 ? 0 : i % 5 == 1 ? 180 : 180 * uniform();
        euler_to_matrix(720 * uniform() - 360, b, 360 * uniform(), m);
        matrix_to_euler(m, &rot, &tilt, &psi);
        euler_to_matrix(rot, tilt, psi, again);
        assert_true(difference(m, again) < 1e-9);
    }
    double m[9];
    euler_to_matrix(30, 90, 0, m); /* looking along the equator at 30° */
    assert_true(fabs(m[6] - cos(M_PI / 6)) < 1e-12 && fabs(m[7] - 0.5) < 1e-12 && fabs(m[8]) < 1e-12);
    euler_to_matrix(0, 0, 25, m); /* psi turns the image's axes: [[c, s], [-s, c]] */
    assert_true(fabs(m[1] - sin(25 * M_PI / 180)) < 1e-12);
}

static void distance_knows_mates(void **state) {
    (void)state;
    struct symmetry s;
    assert_int_equal(symmetry_create("O", &s, NULL), STATUS_OK);
    double a[9], b[9], mate[9];
    euler_to_matrix(20, 50, 70, a);
    euler_to_matrix(20, 50, 73, b);
    product(b, s.matrices[17], mate);
    /* An in-plane turn by 3°: rows 1 and 2 turn by 3°, row 3 does not. */
    assert_true(fabs(symmetry_distance(&s, a, b) - 2) < 1e-6);
    assert_true(fabs(symmetry_distance(&s, a, mate) - 2) < 1e-6);
    symmetry_destroy(&s);
}

static void averaged_map_is_symmetric(void **state) {
    (void)state;
    enum { BOX = 24 };
    struct symmetry s;
    assert_int_equal(symmetry_create("C4", &s, NULL), STATUS_OK);
    _cleanup_(mem_free) float *map = mem_aligned(BOX * BOX * BOX, sizeof *map);
    assert_non_null(map);
    int c = BOX / 2;
    map[((size_t)(c + 2) * BOX + (size_t)(c + 3)) * BOX + (size_t)(c + 5)] = 4; /* x 5, y 3, z 2 */
    assert_int_equal(symmetry_average_map(&s, BOX, map, NULL), STATUS_OK);
    static const int mates[4][2] = {{5, 3}, {-3, 5}, {-5, -3}, {3, -5}};
    for (int i = 0; i < 4; i++) {
        float v = map[((size_t)(c + 2) * BOX + (size_t)(c + mates[i][1])) * BOX + (size_t)(c + mates[i][0])];
        assert_true(fabsf(v - 1) < 1e-5f);
    }
    symmetry_destroy(&s);
}

int main(void) {
    printf("seed %llu\n", (unsigned long long)seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_are_closed),       cmocka_unit_test(axes_are_relions),
        cmocka_unit_test(unit_holds_one_mate),     cmocka_unit_test(unit_of_dihedral_groups_is_relions),
        cmocka_unit_test(wrong_names_are_refused), cmocka_unit_test(angles_come_back),
        cmocka_unit_test(distance_knows_mates),    cmocka_unit_test(averaged_map_is_symmetric),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
