/* Tests kernels/sampling: the number of poses in a grid, the children around their parents, and the poses near
 * a pose. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernels/sampling/sampling.h"

static void make(int order, const char *group, double range, double step, struct sampling *ret) {
    struct symmetry symmetry = {0};
    if (group != NULL) assert_int_equal(symmetry_create(group, &symmetry, NULL), STATUS_OK);
    assert_int_equal(sampling_create(order, group != NULL ? &symmetry : NULL, range, step, ret, NULL), STATUS_OK);
    symmetry_destroy(&symmetry);
}

static void grids_have_the_known_sizes(void **state) {
    (void)state;
    const struct {
        int order, directions, psis;
        double step;
    } cases[] = {{0, 12, 6, 60}, {1, 48, 12, 30}, {2, 192, 24, 15}, {3, 768, 48, 7.5}, {4, 3072, 96, 3.75}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sampling s;
        make(cases[i].order, NULL, 10, 2, &s);
        assert_int_equal(s.direction_count, cases[i].directions);
        assert_int_equal(s.psi_count, cases[i].psis);
        assert_true(fabs(s.angle_step - cases[i].step) < 1e-12);
        assert_int_equal(s.shift_count, 81); /* lattice points within a radius of 5 */
        sampling_destroy(&s);
    }
}

static void symmetry_leaves_one_unit(void **state) {
    (void)state;
    const struct {
        const char *group;
        int mates;
    } cases[] = {{"C1", 1}, {"C4", 4}, {"D2", 4}, {"D7", 14}, {"T", 12}, {"O", 24}, {"I1", 60}, {"I3", 60}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sampling s;
        make(4, cases[i].group, 4, 2, &s);
        double expected = 3072.0 / cases[i].mates;
        /* Pixels on the boundary of the unit may be kept on both sides: about its circumference in pixels. */
        if (s.direction_count < expected * 0.8 - 4 || s.direction_count > expected + 3 * sqrt(expected) + 4)
            fail_msg("%s keeps %d of 3072 directions, about %.0f expected", cases[i].group, s.direction_count,
                     expected);
        for (int d = 1; d < s.direction_count; d++)
            assert_true(s.pixels[d] > s.pixels[d - 1]);
        sampling_destroy(&s);
    }
}

/* Returns the angle (°) of the rotation between two poses. */
static double rotation_between(const double a[9], const double b[9]) {
    double trace = 0;
    for (int i = 0; i < 9; i++)
        trace += a[i] * b[i];
    return acos(fmax(-1, fmin(1, (trace - 1) / 2))) * 180 / M_PI;
}

static void children_lie_around_their_parent(void **state) {
    (void)state;
    struct sampling s;
    make(2, "C1", 6, 2, &s);
    for (double d = -0.4; d < 0.5; d += 0.4) {
        sampling_perturb(&s, d);
        for (int o = 0; o < sampling_orientation_count(&s); o += 7) {
            double parent[9], child[9], sum[3] = {0};
            sampling_matrix(&s, o, parent);
            for (int c = 0; c < SAMPLING_ROTATIONS; c++) {
                sampling_child_matrix(&s, o, c, child);
                for (int i = 0; i < 3; i++)
                    sum[i] += child[6 + i] / SAMPLING_ROTATIONS;
                /* Psi is counted from a meridian: near a pole it turns with the direction, so compare the direction
                 * only. */
                double cosine = child[6] * parent[6] + child[7] * parent[7] + child[8] * parent[8];
                assert_true(cosine > cos(0.7 * s.angle_step * M_PI / 180));
            }
            assert_true(sum[0] * parent[6] + sum[1] * parent[7] + sum[2] * parent[8] > 0.985);
        }
        for (int t = 0; t < s.shift_count; t++) {
            double parent[2], child[2], sum[2] = {0};
            sampling_shift(&s, t, parent);
            assert_true(fabs(parent[0] - s.shifts[t][0] - d * 2) < 1e-12);
            for (int c = 0; c < SAMPLING_SHIFTS; c++) {
                sampling_child_shift(&s, t, c, child);
                assert_true(fabs(fabs(child[0] - parent[0]) - 0.5) < 1e-12);
                assert_true(fabs(fabs(child[1] - parent[1]) - 0.5) < 1e-12);
                sum[0] += child[0], sum[1] += child[1];
            }
            assert_true(hypot(sum[0] / 4 - parent[0], sum[1] / 4 - parent[1]) < 1e-12);
        }
    }
    sampling_destroy(&s);
}

static void every_pose_has_a_neighbour(void **state) {
    (void)state;
    struct sampling s;
    make(2, NULL, 0, 1, &s);
    srand(3);
    for (int i = 0; i < 50; i++) {
        double pose[9], m[9], best = 1000;
        euler_to_matrix(rand() % 360, rand() % 181, rand() % 360, pose);
        for (int o = 0; o < sampling_orientation_count(&s); o++) {
            sampling_matrix(&s, o, m);
            best = fmin(best, rotation_between(m, pose));
        }
        assert_true(best < 1.2 * s.angle_step);
    }
    sampling_destroy(&s);
}

static void near_is_all_within_three_sigma(int order, double sigma) {
    struct sampling s;
    struct sampling_subset subset = {0};
    make(order, NULL, 0, 1, &s);
    sampling_perturb(&s, 0.3);
    const double poses[][3] = {{10, 50, 30}, {200, 2, 111}, {0, 0, 0}, {33, 179, 300}, {359, 90, 359}};
    for (size_t i = 0; i < sizeof poses / sizeof *poses; i++) {
        double pose[9], m[9], sum = 0, worst = 0;
        euler_to_matrix(poses[i][0], poses[i][1], poses[i][2], pose);
        assert_int_equal(sampling_near(&s, pose, sigma, 0, &subset, NULL), STATUS_OK);
        char *chosen = calloc((size_t)sampling_orientation_count(&s), 1);
        for (int j = 0; j < subset.count; j++) {
            sampling_matrix(&s, subset.orientations[j], m);
            worst = fmax(worst, rotation_between(m, pose));
            assert_int_equal(chosen[subset.orientations[j]]++, 0);
            sum += exp((double)subset.log_priors[j]);
        }
        assert_true(fabs(sum - 1) < 1e-4);
        assert_true(worst < 3 * sigma * 1.5);
        /* No pose nearby may be left out, not even at the poles. */
        for (int o = 0; o < sampling_orientation_count(&s); o++) {
            sampling_matrix(&s, o, m);
            if (rotation_between(m, pose) < 2.9 * sigma) assert_true(chosen[o]);
        }
        free(chosen);
    }
    double pose[9];
    euler_to_matrix(12, 34, 56, pose);
    assert_int_equal(sampling_near(&s, pose, 0.01, 0, &subset, NULL), STATUS_OK);
    assert_int_equal(subset.count, 1);
    sampling_subset_destroy(&subset);
    sampling_destroy(&s);
}

static void near_a_pose_is_all_within_three_sigma(void **state) {
    (void)state;
    near_is_all_within_three_sigma(2, 15);
    near_is_all_within_three_sigma(3, 7.5);
    near_is_all_within_three_sigma(4, 2);
}

/* Returns the angle (°) of the views of two poses, and the one in the plane that remains: the half angle of the rotation
 * between them has the cosine cos(view/2) cos(plane/2). */
static void angles_between(const double a[9], const double b[9], double *ret_view, double *ret_plane) {
    const double degree = M_PI / 180, view = acos(fmax(fmin(a[6] * b[6] + a[7] * b[7] + a[8] * b[8], 1), -1));
    *ret_view = view / degree;
    *ret_plane = 2 * acos(fmin(cos(rotation_between(a, b) * degree / 2) / cos(view / 2), 1)) / degree;
}

/* Counts the children that are left of all orientations near a pose, and expects none beyond the range; none of those
 * within 0.9 of it, near a parent in the cut, may be missing. */
static int expect_within(const struct sampling *s, const double pose[9], double sigma, double range) {
    struct sampling_subset subset = {0};
    double m[9], view, plane, parent_view, parent_plane;
    int left = 0;
    assert_int_equal(sampling_near(s, pose, sigma, range, &subset, NULL), STATUS_OK);
    char *chosen = calloc((size_t)sampling_orientation_count(s), SAMPLING_ROTATIONS);
    for (int i = 0; i < subset.count; i++)
        for (int child = 0; child < SAMPLING_ROTATIONS; child++) {
            if (subset.left_out[i] >> child & 1) continue;
            sampling_child_matrix(s, subset.orientations[i], child, m);
            angles_between(m, pose, &view, &plane);
            if (view > range + 1e-5 || plane > range + 1e-5)
                fail_msg("a child is %g° and %g° away, range %g°", view, plane, range);
            chosen[subset.orientations[i] * SAMPLING_ROTATIONS + child] = 1;
            left++;
        }
    for (int o = 0; o < sampling_orientation_count(s); o++) {
        sampling_matrix(s, o, m);
        angles_between(m, pose, &parent_view, &parent_plane);
        if (fmax(parent_view, parent_plane) > 0.99 * fmin(range, 3 * sigma)) continue;
        for (int child = 0; child < SAMPLING_ROTATIONS; child++) {
            sampling_child_matrix(s, o, child, m);
            angles_between(m, pose, &view, &plane);
            if (fmax(view, plane) < 0.99 * range) assert_true(chosen[o * SAMPLING_ROTATIONS + child]);
        }
    }
    free(chosen);
    sampling_subset_destroy(&subset);
    return left;
}

/* Near the poles children of one parent differ by up to 45° in the plane, so that a range of parents is none of theirs. */
static void children_stay_within_a_range(void **state) {
    (void)state;
    static const double POSES[][3] = {{10, 50, 30},   {200, 2, 111}, {0, 0, 0},  {33, 179, 300},
                                      {359, 90, 359}, {77, 4, 12},   {3, 180, 0}};
    static const struct {
        int order;
        double sigma, range;
    } CASES[] = {{3, 8 / 3.0, 8}, {4, 4 / 3.0, 4}, {4, 3.75, 4}, {2, 1, 15}};
    for (size_t c = 0; c < sizeof CASES / sizeof *CASES; c++) {
        struct sampling s;
        make(CASES[c].order, NULL, 0, 1, &s);
        for (int d = -1; d <= 1; d++) {
            sampling_perturb(&s, 0.4 * d);
            for (size_t i = 0; i < sizeof POSES / sizeof *POSES; i++) {
                double pose[9];
                euler_to_matrix(POSES[i][0], POSES[i][1], POSES[i][2], pose);
                assert_true(expect_within(&s, pose, CASES[c].sigma, CASES[c].range) > 0);
            }
        }
        sampling_destroy(&s);
    }
}

/* A grid coarser than the range has one orientation nearby, whole. */
static void a_range_below_the_grid_leaves_one(void **state) {
    (void)state;
    struct sampling s;
    struct sampling_subset subset = {0};
    double pose[9];
    make(2, NULL, 0, 1, &s);
    euler_to_matrix(12, 34, 56, pose);
    assert_int_equal(sampling_near(&s, pose, 0.03, 0.1, &subset, NULL), STATUS_OK);
    assert_int_equal(subset.count, 1);
    assert_int_equal(subset.left_out[0], 0);
    sampling_subset_destroy(&subset);
    sampling_destroy(&s);
}

static void perturbations_stay_within_half_a_step(void **state) {
    (void)state;
    double d = 0;
    for (int i = 0; i < 1000; i++) {
        double before = d;
        d = sampling_next_perturbation(d, i % 11 / 11.0);
        assert_true(d >= -0.5 && d < 0.5);
        assert_true(fabs(d - before) > 0.2);
    }
}

static void bad_grids_are_refused(void **state) {
    (void)state;
    struct sampling s;
    assert_int_equal(sampling_create(-1, NULL, 5, 1, &s, NULL), STATUS_BAD_ARGUMENT);
    assert_int_equal(sampling_create(2, NULL, 5, 0, &s, NULL), STATUS_BAD_ARGUMENT);
    assert_int_equal(sampling_create(2, NULL, 500, 1, &s, NULL), STATUS_BAD_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grids_have_the_known_sizes),
        cmocka_unit_test(symmetry_leaves_one_unit),
        cmocka_unit_test(children_lie_around_their_parent),
        cmocka_unit_test(every_pose_has_a_neighbour),
        cmocka_unit_test(near_a_pose_is_all_within_three_sigma),
        cmocka_unit_test(children_stay_within_a_range),
        cmocka_unit_test(a_range_below_the_grid_leaves_one),
        cmocka_unit_test(perturbations_stay_within_half_a_step),
        cmocka_unit_test(bad_grids_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
