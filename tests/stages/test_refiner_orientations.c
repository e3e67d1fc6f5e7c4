/* The efficiency of directions of view: of even views, of cones, of side views and of one view, with and without
 * symmetry; against a point spread function that is made by a transform of the slices; the advice. New views from a
 * printed seed: test_refiner_orientations [SEED]. */
#include "stages/refiner/orientations.h"

#include "common/fft.h"
#include "stages/refiner/refiner_private.h"
#include "tests/kernels/chance.h"

enum { VIEWS = 20000, FEW = 400, BOX = 48, BIG = 2 * BOX, LINES = 800 };

static struct refiner refiner;

static void set_up(const char *group, size_t views) {
    struct err err = {0};
    must(symmetry_create(group, &refiner.symmetry, &err), &err);
    refiner.set.particles = host_new(views, sizeof *refiner.set.particles);
    refiner.set.count = refiner.set.present = views;
}

static void tear_down(void) {
    symmetry_destroy(&refiner.symmetry);
    mem_free(&refiner.set.particles);
}

/* Draws views whose tilt lies between two angles. */
static void draw(double least, double most) {
    const double a = cos(most * M_PI / 180), b = cos(least * M_PI / 180);
    for (size_t i = 0; i < refiner.set.count; i++) {
        double tilt = acos(a + (b - a) * uniform()) * 180 / M_PI;
        euler_to_matrix(360 * uniform(), tilt, 360 * uniform(), refiner.set.particles[i].pose);
        refiner.set.particles[i].aligned = true;
    }
}

static struct orientations advise(void) {
    struct err err = {0};
    struct orientations o, again;
    must(orientations_advise(&refiner, &o, &err), &err);
    must(orientations_measure(&refiner, &again, &err), &err);
    assert_true(o.efficiency == again.efficiency || (isnan(o.efficiency) && isnan(again.efficiency)));
    assert_true(isnan(again.tilt) && again.advised == (o.efficiency >= 0.8) && o.advised == !isnan(o.efficiency));
    return o;
}

static double measure(const char *group, double least, double most) {
    set_up(group, VIEWS);
    draw(least, most);
    const struct orientations o = advise();
    print_message("%s, tilt %g to %g degrees: %.3f; a tilt of %g degrees gives %.3f\n", group, least, most,
                  o.efficiency, o.tilt, o.tilted_efficiency);
    tear_down();
    return o.efficiency;
}

static void even_views_are_best(void **state) {
    (void)state;
    double even = measure("C1", 0, 180), cone = measure("C1", 0, 20), wide = measure("C1", 0, 60);
    double side = measure("C1", 88, 92), one = measure("C1", 0, 0.01);
    assert_true(even > 0.97 && even <= 1);
    assert_true(cone > one && cone < 0.4 && wide > cone + 0.2 && wide < even);
    assert_true(side > 0.6 && side < 0.85);
    assert_true(one == 0);
}

/* A cone about another axis is a cone; symmetry turns it. */
static void symmetry_adds_views(void **state) {
    (void)state;
    double top = measure("D7", 0, 20), all = measure("C1", 0, 20), octahedral = measure("O", 0, 20);
    double side = measure("D7", 85, 95), cube = measure("O", 88, 92);
    assert_true(fabs(top - all) < 0.05); /* the turns about the axis and its reversal add nothing */
    assert_true(octahedral > 0.7 && octahedral > top + 0.3);
    assert_true(side > 0.6 && cube > 0.7);
}

static double trilinear(const float *map, double x, double y, double z) {
    int ix = (int)x, iy = (int)y, iz = (int)z;
    double dx = x - ix, dy = y - iy, dz = z - iz, sum = 0;
    for (int c = 0; c < 8; c++) {
        int a = c & 1, b = c >> 1 & 1, d = c >> 2;
        size_t at = ((size_t)((iz + d) % BIG) * BIG + (size_t)((iy + b) % BIG)) * BIG + (size_t)((ix + a) % BIG);
        sum += (a ? dx : 1 - dx) * (b ? dy : 1 - dy) * (d ? dz : 1 - dz) * (double)map[at];
    }
    return sum;
}

/* Makes the transfer function from slices, a voxel thick, of all views, transforms it, and measures the radius at half
 * height along lines in all directions. */
static double efficiency_by_transform(void) {
    struct err err = {0};
    const struct fft_options options = {.rank = 3, .shape = {BIG, BIG, BIG}, .direction = FFT_INVERSE};
    struct fft_plan *plan = NULL;
    must(fft_create(&options, &plan, &err), &err);
    float *spectrum = host_new(fft_complex_floats(plan), sizeof *spectrum);
    float *spread = host_new(fft_real_count(plan), sizeof *spread);
    for (int z = -BOX / 2; z < BOX / 2; z++)
        for (int y = -BOX / 2; y < BOX / 2; y++)
            for (int x = 0; x < BOX / 2; x++) {
                double r2 = x * x + y * y + z * z, share = 0;
                if (r2 > 22 * 22) continue;
                for (size_t i = 0; i < refiner.set.count; i++) {
                    const double *view = refiner.set.particles[i].pose + 6;
                    share += fabs(view[0] * x + view[1] * y + view[2] * z) <= 0.5;
                }
                size_t row = (size_t)((z + BIG) % BIG) * BIG + (size_t)((y + BIG) % BIG);
                spectrum[2 * (row * (BIG / 2 + 1) + (size_t)x)] = (float)(share * exp(-r2 / (2 * 6.5 * 6.5)));
            }
    fft_run(plan, spectrum, spread);
    double sum = 0, squares = 0;
    for (int i = 0; i < LINES; i++) {
        double z = 1 - (2 * i + 1.0) / LINES, angle = 2.399963 * i, across = sqrt(1 - z * z), t = 0;
        double u[3] = {across * cos(angle), across * sin(angle), z};
        while (t < BOX - 2 && trilinear(spread, BIG + t * u[0], BIG + t * u[1], BIG + t * u[2]) > 0.5 * spread[0])
            t += 0.1;
        sum += t, squares += t * t;
    }
    fft_destroy(&plan);
    mem_free(&spectrum);
    mem_free(&spread);
    double mean = sum / LINES;
    return fmax(0, 1 - 2 * sqrt(squares / LINES - mean * mean) / mean);
}

static void it_is_the_spread_of_a_point(void **state) {
    (void)state;
    static const double tilts[][2] = {{0, 180}, {0, 25}, {0, 45}, {0, 70}, {85, 95}, {50, 100}};
    for (size_t c = 0; c < sizeof tilts / sizeof *tilts; c++) {
        set_up("C1", FEW);
        draw(tilts[c][0], tilts[c][1]);
        double found = advise().efficiency, expected = efficiency_by_transform();
        print_message("tilt %g to %g degrees: %.3f, by a transform %.3f\n", tilts[c][0], tilts[c][1], found, expected);
        assert_true(fabs(found - expected) < 0.08);
        tear_down();
    }
}

static void advice_follows(void **state) {
    (void)state;
    static const struct {
        double tilt;
        const char *say;
        const char *noted;
    } cases[] = {{15, "; tilt the stage by", ": tilt by "},
                 {50, "more particles help, or tilt", ": more particles help, or tilt by "},
                 {180, "cover all directions well", NULL}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char text[256], note[128], known[128];
        set_up("C1", VIEWS);
        draw(0, cases[c].tilt);
        const struct orientations o = advise();
        orientations_describe(&o, text, sizeof text);
        orientations_note(&o, note, sizeof note);
        print_message("%s\n%s\n", text, note);
        assert_non_null(strstr(text, cases[c].say));
        assert_true(isnan(o.tilt) ? o.efficiency >= 0.8 : o.tilted_efficiency > o.efficiency);
        snprintf(known, sizeof known, "directions %.2f%s", o.efficiency, cases[c].noted != NULL ? cases[c].noted : "");
        assert_memory_equal(note, known, strlen(known) + (cases[c].noted == NULL));
        if (cases[c].noted != NULL) {
            snprintf(known, sizeof known, "tilt by %.0f° (%.2f)", o.tilt, o.tilted_efficiency);
            assert_non_null(strstr(note, known));
        }
        tear_down();
    }
    set_up("C1", 3); /* particles without a pose */
    assert_true(isnan(advise().efficiency));
    tear_down();
}

/* A tilt that gives little is not advised, and nothing is said of a tilt that nobody looked for. */
static void little_advice_is_none(void **state) {
    (void)state;
    static const struct {
        struct orientations views;
        const char *note;
    } cases[] = {{{0.43, true, NAN, NAN}, "directions 0.43: more of these views do not help"},
                 {{0.7, true, NAN, NAN}, "directions 0.70: more particles help"},
                 {{0.7, false, NAN, NAN}, "directions 0.70"}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char note[128];
        orientations_note(&cases[c].views, note, sizeof note);
        assert_string_equal(note, cases[c].note);
    }
    set_up("C1", VIEWS);
    draw(0, 60); /* 0.78; by a tilt 0.82 */
    const struct orientations o = advise();
    print_message("%.3f, advised tilt %g\n", o.efficiency, o.tilt);
    assert_true(o.efficiency < 0.8 && o.efficiency > 0.75 && o.advised && isnan(o.tilt) && isnan(o.tilted_efficiency));
    tear_down();
}

int main(int argc, char **argv) {
    choose_seed(argc > 1 ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(even_views_are_best),         cmocka_unit_test(symmetry_adds_views),
        cmocka_unit_test(it_is_the_spread_of_a_point), cmocka_unit_test(advice_follows),
        cmocka_unit_test(little_advice_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
