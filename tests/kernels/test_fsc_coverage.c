/* Tests how much of a signal a shell holds: even views, views from one side, views that symmetry adds; and the
 * agreement with the truth of halves that are made voxel by voxel. */
#include "kernels/fsc/coverage.h"

#ifdef _OPENMP
#include <omp.h>
#else /* with the thread sanitizer */
static void omp_set_num_threads(int threads) {
    (void)threads;
}
#endif

#include "tests/kernels/chance.h"

enum { LAST = 30, VIEWS = 20000, VOXELS = 100000 };

static double views[VIEWS][3];
static float fsc[LAST + 1];
static double held[LAST + 1];
static struct symmetry none;

static void unit(double v[3]) {
    double length = sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
    for (int i = 0; i < 3; i++)
        v[i] /= length;
}

static void draw(double v[3]) {
    for (int i = 0; i < 3; i++)
        v[i] = normal();
    unit(v);
}

/* Draws views within `angle` degrees of the axis. */
static void cone(const double axis[3], double angle) {
    for (int i = 0; i < VIEWS; i++) {
        double away;
        do {
            draw(views[i]);
            away = views[i][0] * axis[0] + views[i][1] * axis[1] + views[i][2] * axis[2];
        } while (fabs(away) < cos(angle * M_PI / 180));
    }
}

static void find(size_t count, const struct symmetry *symmetry, double level) {
    struct err err = {0};
    for (int s = 0; s <= LAST; s++)
        fsc[s] = (float)level;
    must(fsc_coverage((const double(*)[3])views, count, symmetry, fsc, LAST, held, &err), &err);
}

static void between(const char *what, int shell, double value, double least, double most) {
    if (!(value >= least && value <= most))
        fail_msg("%s in shell %d is %g, not between %g and %g", what, shell, value, least, most);
}

static void even_views_hold_all(void **state) {
    (void)state;
    static const double LEVELS[] = {0.05, 0.143, 0.5, 0.9};
    for (int i = 0; i < VIEWS; i++)
        draw(views[i]);
    for (size_t i = 0; i < sizeof LEVELS / sizeof *LEVELS; i++) {
        find(VIEWS, &none, LEVELS[i]);
        for (int s = 1; s <= LAST; s++)
            between("what even views hold", s, held[s], 0.99, 1);
        assert_true(fabs(fsc_even(LEVELS[i], 1) - LEVELS[i]) < 1e-12);
    }
    find(0, &none, 0.5);
    assert_true(held[5] == 0);
}

/* Views within 20 degrees of an axis fill sin 20° of the directions, half a voxel aside. */
static void a_cone_holds_its_share(void **state) {
    (void)state;
    double axis[3];
    draw(axis);
    cone(axis, 20);
    find(VIEWS, &none, 0.999);
    for (int s = 10; s <= LAST; s++) {
        double least = sin(20 * M_PI / 180), most = sin(20 * M_PI / 180 + 0.5 / s);
        between("what a cone holds", s, held[s], sqrt(least) - 0.02, sqrt(most) + 0.02);
    }
    /* The truth at 0.5: sqrt(2F/(1 + F)) · held = 0.5. */
    between("the FSC of a cone", LAST, fsc_even(0.143, held[LAST]), 0, 0.06);
    between("the FSC of a cone", LAST, fsc_even(0.999, held[LAST]), 0.19, 0.24);
}

static void symmetry_adds_views(void **state) {
    (void)state;
    struct err err = {0};
    struct symmetry octahedral;
    static const double AXIS[3] = {0, 0, 1};
    must(symmetry_create("O", &octahedral, &err), &err);
    cone(AXIS, 10);
    find(VIEWS, &octahedral, 0.9);
    double with = held[LAST];
    for (int i = 0; i < VIEWS; i++) { /* the copies, drawn by hand */
        double v[3], *m = octahedral.matrices[i % octahedral.count];
        for (int row = 0; row < 3; row++)
            v[row] = m[3 * row] * views[i][0] + m[3 * row + 1] * views[i][1] + m[3 * row + 2] * views[i][2];
        memcpy(views[i], v, sizeof v);
    }
    find(VIEWS, &none, 0.9);
    between("what symmetry holds", LAST, with, held[LAST] - 0.03, held[LAST] + 0.03);
    cone(AXIS, 10);
    find(VIEWS, &none, 0.9);
    assert_true(held[LAST] < with - 0.1);
    symmetry_destroy(&octahedral);
}

/* Makes halves of a shell, a signal of power 1 and noise of power 1/(w y) in each voxel, as many views as fill it. Their
 * FSC and that of the map of all, weighed as the refiner weighs it, with the truth: is the second what the first tells? */
static void halves_tell_the_truth(void **state) {
    (void)state;
    static const double AXIS[3] = {0, 0, 1}, Y[] = {0.3, 1, 5};
    enum { SHELL = 12 };
    cone(AXIS, 40);
    for (size_t k = 0; k < sizeof Y / sizeof *Y; k++) {
        double cross = 0, a2 = 0, b2 = 0, with_truth = 0, all2 = 0, truth2 = 0;
        for (int i = 0; i < VOXELS; i++) {
            double u[3], filled = 0;
            draw(u);
            for (int v = 0; v < 400; v++)
                filled += fabs(u[0] * views[v][0] + u[1] * views[v][1] + u[2] * views[v][2]) < 0.5 / SHELL;
            double w = filled / (400 * 0.5 / SHELL), t = normal(), a = 0, b = 0;
            if (w > 0) {
                a = t + normal() / sqrt(w * Y[k]), b = t + normal() / sqrt(w * Y[k]);
                double all = (a + b) / 2 * (2 * w * Y[k] / (1 + 2 * w * Y[k]));
                with_truth += all * t, all2 += all * all;
            }
            cross += a * b, a2 += a * a, b2 += b * b;
            truth2 += t * t;
        }
        double f = cross / sqrt(a2 * b2), truth = with_truth / sqrt(all2 * truth2);
        find(400, &none, f);
        double told = held[SHELL] * sqrt(2 * f / (1 + f));
        between("the truth's FSC over what is told", SHELL, truth / told, 0.9, 1.1);
        /* The halves alone would tell much more where noise is low: all that is lacking is then what is not filled. */
        if (k == 2) between("the truth's FSC over the halves'", SHELL, truth / sqrt(2 * f / (1 + f)), 0.7, 0.92);
    }
}

static void threads_change_nothing(void **state) {
    (void)state;
    double first[LAST + 1];
    double axis[3];
    draw(axis);
    cone(axis, 50);
    omp_set_num_threads(1);
    find(VIEWS, &none, 0.3);
    memcpy(first, held, sizeof first);
    omp_set_num_threads(4);
    find(VIEWS, &none, 0.3);
    assert_memory_equal(first, held, sizeof first);
    assert_int_equal(fsc_coverage((const double(*)[3])views, 1, &none, fsc, -1, held, NULL), STATUS_BAD_ARGUMENT);
}

int main(int argc, char **argv) {
    choose_seed(argc > 1 ? argv[1] : NULL);
    if (symmetry_create("C1", &none, NULL) != STATUS_OK) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(even_views_hold_all),    cmocka_unit_test(a_cone_holds_its_share),
        cmocka_unit_test(symmetry_adds_views),    cmocka_unit_test(halves_tell_the_truth),
        cmocka_unit_test(threads_change_nothing),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    symmetry_destroy(&none);
    return failed;
}
