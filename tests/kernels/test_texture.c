/* Tests texture on the CPU. The reference (kernels/texture/texture_reference.h) builds every matrix and sums every
 * feature by definition; the test checks the reference against matrices computed by hand. compare_texture.py compares
 * with the consensus values of the IBSI phantom and with scikit-image. test_texture [SEED]. */
#include "tests/kernels/texture_cases.h"

#include <limits.h>

typedef double values_t[TEXTURE_LENGTHS][TEXTURE_FEATURES][TEXTURE_AGGREGATES];

/* centre NULL: the middle pixel; for an even number of pixels, the second of the two middle pixels. */
static void check_centred(enum pattern pattern, const struct texture_options *o, int nx, int ny, bool floats,
                          const int centre[2]) {
    struct err err = {0};
    struct texture *t = NULL;
    int pixels = 0;
    values_t *expected = malloc(TEXTURE_QUANTISATIONS * sizeof *expected);
    struct texture_features *found = malloc(sizeof *found);
    assert_non_null(expected);
    assert_non_null(found);
    memset(found, 0xff, sizeof *found);
    struct picture picture = make_picture(pattern, nx, ny);
    struct texture_image image = image_of(&picture, floats);
    if (centre != NULL) memcpy(image.centre, centre, sizeof image.centre);
    must(texture_create(o, &t, &err), &err);
    must(texture_run(t, &image, found, &err), &err);
    must(texture_reference_run(o, &image, expected, &pixels, &err), &err);
    assert_int_equal(texture_pixels(t), pixels);
    double worst = worst_error(o, found, expected);
    print_message("  %-10s %4d px, window %d, stride %d, lengths to %d, %s: %.3f of what is allowed\n",
                  PATTERN_NAMES[pattern], pixels, o->window, o->stride, o->lengths, floats ? "floats" : "bytes", worst);
    assert_true(worst <= 1);
    texture_destroy(&t);
    free_picture(&picture);
    free(expected);
    free(found);
}

static void check_pattern(enum pattern pattern, const struct texture_options *o, int nx, int ny, bool floats) {
    check_centred(pattern, o, nx, ny, floats, NULL);
}

static void patterns_agree(void **state) {
    (void)state;
    for (int pattern = 0; pattern < PATTERNS; pattern++) {
        struct texture_options o = texture_defaults();
        o.diameter = 36; /* the circle has 21 pixels */
        o.lengths = 7;
        check_pattern((enum pattern)pattern, &o, 40, 36, pattern % 2);
        o.lengths = 25;
        o.diameter = 32;
        check_pattern((enum pattern)pattern, &o, 33, 32, false);
    }
}

/* Tests several tiles that are partly empty, odd numbers of levels, windows of other sizes, and strides smaller and
 * larger than a window. */
static void shapes_agree(void **state) {
    (void)state;
    struct texture_options o = texture_defaults();
    o = (struct texture_options){.levels = {5, 2, 7}, .lengths = 2, .window = 3, .diameter = 75.3, .stride = 1};
    o.slots = o.threads = 1;
    check_pattern(NOISE, &o, 80, 90, false);
    o = (struct texture_options){.levels = {63, 17, 3}, .lengths = 4, .window = 9, .diameter = 60, .stride = 4};
    o.slots = o.threads = 1;
    check_pattern(SMOOTH, &o, 64, 61, true);
    o.stride = 7;
    check_pattern(NOISE, &o, 64, 61, false);
    o = (struct texture_options){.levels = {64, 32, 16}, .lengths = 6, .window = 7, .diameter = 48, .stride = 13};
    o.slots = o.threads = 1;
    check_pattern(TWO_LEVELS, &o, 50, 51, false);
    o.fixed_range = true;
    o.stride = 3;
    check_pattern(SMOOTH, &o, 50, 51, false);
    o = (struct texture_options){.levels = {64, 9, 16}, .lengths = 2, .window = 63, .diameter = 66, .stride = 1};
    o.slots = o.threads = 1;
    check_pattern(TWO_LEVELS, &o, 70, 66, false);
    o = texture_defaults();
    o.diameter = 36;
    o.lengths = 3;
    check_pattern(SMOOTH, &o, 36, 36, false);
    o.diameter = 31.48;
    check_pattern(NOISE, &o, 32, 33, false);
}

/* Tests images that the circle fills. An odd diameter has one possible centre, an even one has two along each side. */
static void borders_agree(void **state) {
    (void)state;
    struct texture_options o = texture_defaults();
    o.lengths = 3;
    o.diameter = 37;
    check_centred(NOISE, &o, 37, 37, true, (int[]){18, 18});
    o.diameter = 36;
    check_centred(NOISE, &o, 36, 36, true, (int[]){17, 17});
    check_centred(NOISE, &o, 36, 36, false, (int[]){18, 18});
    check_centred(SMOOTH, &o, 36, 36, true, (int[]){17, 18});
    check_centred(NOISE, &o, 90, 80, true, (int[]){17, 40});
    check_centred(NOISE, &o, 90, 80, true, (int[]){40, 17});
}

/* Returns the sums of a counted matrix. */
static struct texture_sums sums_of(const int *counts, int levels, const struct texture_tables *t) {
    struct texture_sums s = {0};
    int sums[2 * TEXTURE_LEVELS] = {0}, differences[TEXTURE_LEVELS] = {0}, marginals[TEXTURE_LEVELS] = {0};
    for (int i = 0; i < levels; i++)
        for (int j = 0; j <= i; j++) {
            int u = counts[i * levels + j] / (i == j ? 2 : 1);
            s.cells += t->log[u];
            s.squares += (int64_t)u * u * (i == j ? 2 : 1);
            s.equal += i == j ? u : 0;
            sums[i + j] += u;
            differences[i - j] += u;
            marginals[i] += u;
            marginals[j] += u;
            s.sum_powers += (uint64_t)u * ((uint64_t)(i + j) + ((uint64_t)((i + j) * (i + j)) << 32));
            s.difference_powers += (uint64_t)u * ((uint64_t)(i - j) + ((uint64_t)((i - j) * (i - j)) << 32));
            s.closeness += u * t->closeness[i - j];
        }
    for (int k = 0; k < 2 * levels - 1; k++)
        s.sums += t->log[sums[k]];
    for (int k = 0; k < levels; k++) {
        s.differences += t->log[differences[k]];
        s.marginals += t->log[marginals[k]];
    }
    return s;
}

/* Compares every running sum, as an integer, with the sum of a newly counted matrix: at every `each`-th position of a
 * row, for every `apart`-th displacement from `first`. Returns the number of compared matrices. */
static int check_sums(const struct texture_options *o, enum pattern pattern, int first, int apart, int each) {
    struct err err = {0};
    struct texture_geometry g;
    void *cpu = NULL;
    static int counts[TEXTURE_LEVELS * TEXTURE_LEVELS];
    must(texture_geometry_create(o, &g, &err), &err);
    must(texture_cpu_work.create(&g, &cpu, &err), &err);
    uint8_t *planes = malloc((size_t)(3 * g.side * g.side));
    struct texture_sums *sums = malloc((size_t)(g.positions * g.positions) * sizeof *sums);
    assert_non_null(planes);
    assert_non_null(sums);
    struct picture picture = make_picture(pattern, (int)o->diameter + 3, (int)o->diameter + 1);
    struct texture_image image = image_of(&picture, false);
    must(texture_quantise(&g, &image, planes, &err), &err);
    int checked = 0;
    for (int d = first; d < 1026; d += apart) {
        int q = d % 3, levels = o->levels[q], dx = g.displacements[d].dx, dy = g.displacements[d].dy;
        const uint8_t *plane = planes + q * g.side * g.side;
        memset(sums, 0xff, (size_t)(g.positions * g.positions) * sizeof *sums);
        texture_cpu_sums(cpu, plane, d, sums);
        for (int y = 0; y < g.positions; y++)
            for (int x = g.steps - g.reach[y]; x <= g.steps + g.reach[y]; x += each, checked++) {
                const uint8_t *window = plane + (ptrdiff_t)y * o->stride * g.side + x * o->stride;
                int both = texture_reference_counts(window, g.side, o->window, dx, dy, levels, counts);
                assert_int_equal(both, 2 * texture_pairs(&g, &g.displacements[d]));
                struct texture_sums expected = sums_of(counts, levels, g.tables);
                if (memcmp(&expected, &sums[y * g.positions + x], sizeof expected) != 0)
                    fail_msg("%s: sums at (%d, %d) for (%d, %d) at %d levels are not those of the matrix",
                             PATTERN_NAMES[pattern], x, y, dx, dy, levels);
            }
    }
    free_picture(&picture);
    free(planes);
    free(sums);
    texture_cpu_work.destroy(cpu);
    texture_geometry_destroy(&g);
    return checked;
}

/* Tests a small circle with many displacements, the default circle (several tiles) with few displacements, and a
 * stride. */
static void sums_are_exact(void **state) {
    (void)state;
    struct texture_options o = texture_defaults();
    int checked = 0;
    o.diameter = 38;
    for (int pattern = 0; pattern < PATTERNS; pattern += 2)
        checked += check_sums(&o, (enum pattern)pattern, pattern, 5, 1);
    o.diameter = 200;
    checked += check_sums(&o, NOISE, 7, 83, 7);
    checked += check_sums(&o, SMOOTH, 0, 83, 7);
    checked += check_sums(&o, SPOT, 41, 83, 7);
    o.stride = 3;
    checked += check_sums(&o, HALVES, 3, 83, 5);
    print_message("  %d matrices, all sums equal\n", checked);
}

static void counts_are_the_papers(void **state) {
    (void)state;
    struct err err = {0};
    struct texture_options o = texture_defaults();
    struct texture *t = NULL;
    must(texture_create(&o, &t, &err), &err);
    assert_int_equal(texture_displacements(t), 1026);
    /* The paper's 22,305 pixels are the area of the circle. A circle around the centre of a pixel holds
     * 22,325 pixels. */
    assert_int_equal(texture_pixels(t), 22325);
    assert_int_equal(lround(M_PI * 84.26 * 84.26), 22305);
    const struct texture_geometry *g = texture_geometry(t);
    for (int a = 0; a < 1026; a++) {
        const struct texture_displacement *d = &g->displacements[a];
        assert_true(d->dy > 0 || (d->dy == 0 && d->dx > 0));
        assert_int_equal(lround(hypot(d->dx, d->dy)), d->length);
        assert_true(a >= g->first[d->length] && a < g->first[d->length + 1]);
        for (int b = 0; b < a; b++)
            assert_false(g->displacements[b].dx == d->dx && g->displacements[b].dy == d->dy);
    }
    texture_destroy(&t);
    o.diameter = 36;
    must(texture_create(&o, &t, &err), &err);
    assert_int_equal(texture_pixels(t), 21);
    texture_destroy(&t);
    o.diameter = 200;
    o.stride = 8;
    must(texture_create(&o, &t, &err), &err);
    assert_int_equal(texture_pixels(t), 349);
    texture_destroy(&t);
}

/* The matrix p has two levels: 1/2 for (0, 0), 1/8 each for (0, 1) and (1, 0), 1/4 for (1, 1). */
static void reference_is_right(void **state) {
    (void)state;
    struct err err = {0};
    const double p[4] = {0.5, 0.125, 0.125, 0.25}, s[3] = {0.5, 0.25, 0.25}, x[2] = {0.625, 0.375};
    double f[TEXTURE_FEATURES], hxy = 0, hs = 0, hx = 0, mu = 0.375, var = 0.375 * 0.625;
    must(texture_reference_features(p, 2, f, &err), &err);
    for (int k = 0; k < 4; k++)
        hxy -= p[k] * log(p[k]);
    for (int k = 0; k < 3; k++)
        hs -= s[k] * log(s[k]);
    for (int k = 0; k < 2; k++)
        hx -= x[k] * log(x[k]);
    const double expected[TEXTURE_FEATURES] = {0.25 + 2 * 0.015625 + 0.0625,
                                               0.25,
                                               (0.25 - mu * mu) / var,
                                               var,
                                               0.875,
                                               0.75,
                                               0.25 + 4 * 0.25 - 0.75 * 0.75,
                                               hs,
                                               hxy,
                                               0.25 * 0.75,
                                               -0.75 * log(0.75) - 0.25 * log(0.25),
                                               (hxy - 2 * hx) / hx,
                                               sqrt(1 - exp(-2 * (2 * hx - hxy)))};
    for (int k = 0; k < TEXTURE_FEATURES; k++)
        if (!(fabs(f[k] - expected[k]) < 1e-12)) fail_msg("f%d is %.15g, not %.15g", k + 1, f[k], expected[k]);
}

static void levels_are_floors(void **state) {
    (void)state;
    const struct {
        double v, low, high;
        int levels, expected;
    } cases[] = {{0, 0, 255, 64, 0},    {255, 0, 255, 64, 63},  {3.98, 0, 255, 64, 0}, {3.985, 0, 255, 64, 1},
                 {300, 0, 255, 64, 63}, {-5, 0, 255, 64, 0},    {7, 7, 7, 16, 0},      {9, 7, 7, 16, 0},
                 {127.5, 0, 255, 2, 1}, {127.4, 0, 255, 2, 0},  {100, 100, 110, 5, 0}, {102, 100, 110, 5, 1},
                 {-0.5, -1, 1, 32, 8},  {109.9, 100, 110, 5, 4}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        assert_int_equal(texture_reference_level(cases[k].v, cases[k].low, cases[k].high, cases[k].levels),
                         cases[k].expected);
}

static void threads_change_nothing(void **state) {
    (void)state;
    struct err err = {0};
    struct texture_options o = texture_defaults();
    static struct texture_features one, other;
    struct picture picture = make_picture(NOISE, 111, 107);
    struct texture_image image = image_of(&picture, false);
    o.diameter = 105;
    o.lengths = 5;
    for (int threads = 1; threads <= 3; threads++) {
        struct texture *t = NULL;
        o.threads = threads;
        must(texture_create(&o, &t, &err), &err);
        struct texture_features *to = threads == 1 ? &one : &other;
        memset(to, 0xff, sizeof *to);
        must(texture_run(t, &image, to, &err), &err);
        if (threads > 1) assert_memory_equal(&one, &other, sizeof one);
        texture_destroy(&t);
    }
    free_picture(&picture);
}

static void slots_hold_one_image_each(void **state) {
    (void)state;
    struct err err = {0};
    struct texture_options o = texture_defaults();
    struct texture *t = NULL;
    static struct texture_features noise, smooth, found;
    struct picture a = make_picture(NOISE, 40, 40), b = make_picture(SMOOTH, 40, 40);
    struct texture_image one = image_of(&a, false), two = image_of(&b, true);
    o.diameter = 34;
    o.lengths = 2;
    o.slots = 2;
    must(texture_create(&o, &t, &err), &err);
    assert_int_equal(texture_finish(t, 0, &found, &err), STATUS_BAD_STATE);
    must(texture_run(t, &one, &noise, &err), &err);
    must(texture_run(t, &two, &smooth, &err), &err);
    assert_memory_not_equal(&noise, &smooth, sizeof noise);
    must(texture_start(t, 0, &one, &err), &err);
    must(texture_start(t, 1, &two, &err), &err);
    assert_int_equal(texture_start(t, 1, &one, &err), STATUS_BAD_STATE);
    must(texture_finish(t, 1, &found, &err), &err);
    assert_memory_equal(&found, &smooth, sizeof found);
    must(texture_finish(t, 0, &found, &err), &err);
    assert_memory_equal(&found, &noise, sizeof found);
    assert_int_equal(texture_start(t, 2, &one, &err), STATUS_BAD_ARGUMENT);
    texture_destroy(&t);
    texture_destroy(&t);
    free_picture(&a);
    free_picture(&b);
}

static void refused(const struct texture_options *o, const char *why) {
    struct err err = {0};
    struct texture *t = NULL;
    assert_int_equal(texture_create(o, &t, &err), STATUS_BAD_ARGUMENT);
    assert_null(t);
    if (strstr(err.message, why) == NULL) fail_msg("the message does not name %s: %s", why, err.message);
}

static void bad_options_are_named(void **state) {
    (void)state;
    const struct texture_options good = texture_defaults();
    struct texture_options o = good;
    o.levels[1] = 65;
    refused(&o, "65 grey levels");
    o.levels[1] = 1;
    refused(&o, "1 grey levels");
    o = good;
    o.lengths = 26;
    refused(&o, "26 px");
    o = good;
    o.window = 30;
    refused(&o, "30 px");
    o.window = 25;
    refused(&o, "25 px");
    o.window = 65;
    refused(&o, "65 px");
    o = good;
    o.diameter = 31.4;
    refused(&o, "31.4 px");
    o.diameter = NAN;
    refused(&o, "nan px");
    o = good;
    o.stride = 0;
    refused(&o, "0 px");
    o = good;
    o.slots = 0;
    refused(&o, "0 images");
    o = good;
    o.threads = 0;
    refused(&o, "0 threads");
}

static void bad_images_are_named(void **state) {
    (void)state;
    struct err err = {0};
    struct texture_options o = texture_defaults();
    struct texture *t = NULL;
    static struct texture_features found;
    struct picture picture = make_picture(NOISE, 40, 38);
    o.diameter = 36;
    o.lengths = 1;
    must(texture_create(&o, &t, &err), &err);
    const struct {
        int x, y;
        bool good;
    } centres[] = {{17, 17, true},  {22, 20, true},  {16, 18, false},      {23, 18, false},
                   {18, 16, false}, {18, 21, false}, {INT_MAX, 18, false}, {18, INT_MIN, false}};
    for (size_t k = 0; k < sizeof centres / sizeof *centres; k++) {
        struct texture_image image = image_of(&picture, false);
        image.centre[0] = centres[k].x;
        image.centre[1] = centres[k].y;
        enum status status = texture_run(t, &image, &found, &err);
        assert_int_equal(status, centres[k].good ? STATUS_OK : STATUS_BAD_ARGUMENT);
        if (!centres[k].good) assert_non_null(strstr(err.message, "36 px"));
    }
    struct texture_image image = image_of(&picture, true);
    picture.floats[20 * 40 + 33] = NAN;
    assert_int_equal(texture_run(t, &image, &found, &err), STATUS_BAD_ARGUMENT);
    assert_non_null(strstr(err.message, "(33, 20)"));
    picture.floats[20 * 40 + 33] = 0;
    picture.floats[0] = INFINITY; /* outside the circle and every window */
    must(texture_run(t, &image, &found, &err), &err);
    image.bytes = picture.bytes;
    assert_int_equal(texture_run(t, &image, &found, &err), STATUS_BAD_ARGUMENT);
    texture_destroy(&t);
    free_picture(&picture);
}

int main(int argc, char **argv) {
    choose_seed(argc > 1 ? argv[1] : "20261122");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_is_right),
        cmocka_unit_test(levels_are_floors),
        cmocka_unit_test(counts_are_the_papers),
        cmocka_unit_test(sums_are_exact),
        cmocka_unit_test(patterns_agree),
        cmocka_unit_test(shapes_agree),
        cmocka_unit_test(borders_agree),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(slots_hold_one_image_each),
        cmocka_unit_test(bad_options_are_named),
        cmocka_unit_test(bad_images_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
