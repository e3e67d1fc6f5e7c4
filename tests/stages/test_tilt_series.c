/* Tests that a series is sorted and checked, that images lie as their transforms say, on one grey scale, and that the
 * coarse alignment finds known shifts. */
#include "tests/common/scratch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/mrc.h"
#include "common/memory.h"
#include "examples/simulate-tilts/balls.h"
#include "examples/simulate/random.h"
#include "stages/tilt-reconstructor/coarse.h"
#include "stages/tilt-reconstructor/groups.h"
#include "stages/tilt-reconstructor/projections.h"

static struct series series_of(const double *angles, int count) {
    struct series series = {.name = strdup("ts"), .nx = 8, .ny = 8, .pixel_size = NAN, .tilt_axis = NAN};
    struct err err;
    for (int i = 0; i < count; i++) {
        struct tilt tilt = {.number = i + 1, .angle = angles[i], .slice = i, .taken = i};
        assert_ok(series_add(&series, &tilt, "ts.st", &err));
    }
    return series;
}

static bool noted(const struct series *series, const char *words) {
    size_t i;
    const json_t *note;
    json_array_foreach(series->notes, i, note) if (strstr(json_string_value(note), words) != NULL) return true;
    return false;
}

static void is_sorted_by_angle(void **state) {
    (void)state;
    static const double angles[] = {0, 3, -3, 6, -6, 12, -9};
    static const int views[] = {7, 5, 3, 1, 2, 4, 6};
    struct series series = series_of(angles, 7);
    struct err err;
    assert_ok(series_settle(&series, NULL, 0, true, &err));
    for (int i = 0; i < 7; i++)
        assert_int_equal(series.tilts[i].number, views[i]);
    assert_int_equal(json_array_size(series.notes), 1);
    assert_true(noted(&series, "no tilt between 6.00° and 12.00°"));
    series_clear(&series);
}

static void duplicates(void **state) {
    (void)state;
    static const double angles[] = {-3, 0, 3, 0.02};
    struct err err;
    struct series series = series_of(angles, 4);
    series.retaken = true;
    assert_ok(series_settle(&series, NULL, 0, true, &err));
    assert_int_equal(series.count, 3);
    assert_int_equal(series.tilts[1].number, 4);
    assert_true(noted(&series, "view 2 at 0.00° was taken again as view 4"));
    series_clear(&series);
    /* By the times, the first tilt is the later one. Without times the order decides. */
    series = series_of(angles, 4);
    series.retaken = true;
    series.tilts[1].time = 3600;
    series.tilts[3].time = 60;
    assert_ok(series_settle(&series, NULL, 0, true, &err));
    assert_true(series.count == 3 && series.tilts[1].number == 2);
    assert_true(noted(&series, "view 4 at 0.02° was taken again as view 2"));
    series_clear(&series);
    series = series_of(angles, 4);
    series.retaken = true;
    series.tilts[1].time = 3600;
    series.tilts[3].time = NAN;
    assert_ok(series_settle(&series, NULL, 0, true, &err));
    assert_true(series.count == 3 && series.tilts[1].number == 4);
    series_clear(&series);
    series = series_of(angles, 4);
    assert_ok(series_settle(&series, NULL, 0, true, &err));
    assert_int_equal(series.count, 4);
    assert_true(noted(&series, "views 2 and 4 are both at 0.02°: both are used"));
    series_clear(&series);
}

static void exclusion(void **state) {
    (void)state;
    static const double angles[] = {-3, 0, 3};
    static bool exclude[TILTS_MAX + 1];
    struct err err;
    exclude[2] = true;
    struct series series = series_of(angles, 3);
    assert_ok(series_settle(&series, exclude, 2, true, &err));
    assert_int_equal(series.count, 2);
    assert_true(series.tilts[1].number == 3 && noted(&series, "1 of 3 tilts are left out"));
    series_clear(&series);
    exclude[3] = true;
    series = series_of(angles, 3);
    assert_int_equal(series_settle(&series, exclude, 3, true, &err), STATUS_BAD_ARGUMENT);
    assert_non_null(strstr(err.message, "exclude leaves 1 of 3 tilts"));
    series_clear(&series);
    series = series_of(angles, 3);
    assert_int_equal(series_settle(&series, exclude, 4, true, &err), STATUS_BAD_ARGUMENT);
    assert_non_null(strstr(err.message, "exclude names view 4, but the last of the series is 3"));
    series_clear(&series);
}

/* An excluded view needs no angle; earlier notes stay. */
static void excluded_without_angle(void **state) {
    (void)state;
    static const double angles[] = {-3, NAN, 3};
    static bool exclude[TILTS_MAX + 1];
    struct err err;
    exclude[2] = true;
    struct series series = series_of(angles, 3);
    assert_ok(series_note(&series, &err, "%s", "said before"));
    assert_ok(series_settle(&series, exclude, 2, true, &err));
    assert_true(series.count == 2 && noted(&series, "said before") && noted(&series, "1 of 3 tilts are left out"));
    series_clear(&series);
}

static void pixel_sizes_are_compared(void **state) {
    (void)state;
    static const double angles[] = {-3, 0, 3};
    static const struct {
        double header, spacing;
        bool differ;
    } cases[] = {{10, 10, false},  {10.09, 10, false}, {20, 10, true},
                 {10.2, 10, true}, {NAN, 10, false},   {10, NAN, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct series series = series_of(angles, 3);
        struct err err;
        series.pixel_size = cases[i].header;
        series.spacing = cases[i].spacing;
        assert_ok(series_settle(&series, NULL, 0, true, &err));
        assert_int_equal(noted(&series, "PixelSpacing"), cases[i].differ);
        series_clear(&series);
    }
}

static void no_series(void **state) {
    (void)state;
    static const double same[] = {5, 5.01, 5.02}, nan[] = {0, NAN}, far[] = {0, 91}, one[] = {0};
    static const struct {
        const double *angles;
        int count;
        const char *said;
    } cases[] = {{same, 3, "all 3 tilts are at 5.00°"},
                 {nan, 2, "view 2 has no angle"},
                 {far, 2, "beyond ±90°"},
                 {one, 1, "1 tilt:"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct series series = series_of(cases[i].angles, cases[i].count);
        struct err err;
        assert_int_equal(series_settle(&series, NULL, 0, true, &err), STATUS_BAD_FORMAT);
        if (strstr(err.message, cases[i].said) == NULL)
            fail_msg("'%s' is not said, but: %s", cases[i].said, err.message);
        series_clear(&series);
    }
}

enum { NX = 60, NY = 48 };

/* Draws a bump at (x, y) from the centre. */
static void draw(float *image, double x, double y) {
    for (int j = 0; j < NY; j++)
        for (int i = 0; i < NX; i++) {
            double u = i - 0.5 * (NX - 1) - x, v = j - 0.5 * (NY - 1) - y;
            image[j * NX + i] = (float)exp(-(u * u + v * v) / 18);
        }
}

static void find_bump(const float *image, int nx, int ny, double *ret_x, double *ret_y) {
    double sum = 0, x = 0, y = 0;
    for (int j = 0; j < ny; j++)
        for (int i = 0; i < nx; i++) {
            double value =
                fmax((double)image[(size_t)j * (size_t)nx + (size_t)i] - 0.2, 0); /* not the fill at the rim */
            sum += value;
            x += value * (i - 0.5 * (nx - 1));
            y += value * (j - 0.5 * (ny - 1));
        }
    *ret_x = x / sum;
    *ret_y = y / sum;
}

static void read_bump(const struct tilt_transform *transform, double tilt_axis, int bin, int *ret_nx, int *ret_ny,
                      double *ret_x, double *ret_y) {
    static float image[NX * NY];
    draw(image, 9, 4);
    struct series series = {.name = strdup("ts"), .nx = NX, .ny = NY, .pixel_size = NAN, .tilt_axis = NAN};
    struct tilt tilt = {.number = 1, .pixels = image, .shifted = transform != NULL};
    if (transform != NULL) tilt.transform = *transform;
    struct projections_options options = {.bin = bin, .tilt_axis = tilt_axis, .threads = 2};
    struct projections projections = {0};
    struct err err;
    assert_ok(series_add(&series, &tilt, "memory", &err));
    assert_ok(projections_read(&series, &options, &projections, &err));
    *ret_nx = projections.nx;
    *ret_ny = projections.ny;
    find_bump(projections.data, projections.nx, projections.ny, ret_x, ret_y);
    projections_clear(&projections);
    series_clear(&series);
}

/* X' = A (X − C) + D + C', as in IMOD. */
static void transforms_move_images(void **state) {
    (void)state;
    const struct tilt_transform shift = {1, 0, 0, 1, 3.25, -2.5}, turn = {0, -1, 1, 0, 1, 2},
                                scale = {1.1, 0, 0, 1.1, 0, 0};
    int nx, ny;
    double x, y;
    read_bump(NULL, NAN, 1, &nx, &ny, &x, &y);
    assert_true(nx == NX && ny == NY && fabs(x - 9) < 0.02 && fabs(y - 4) < 0.02);
    read_bump(&shift, NAN, 1, &nx, &ny, &x, &y);
    assert_true(nx == NX && ny == NY && fabs(x - 12.25) < 0.02 && fabs(y - 1.5) < 0.02);
    read_bump(&shift, NAN, 2, &nx, &ny, &x, &y);
    assert_true(nx == NX / 2 && ny == NY / 2 && fabs(x - 12.25 / 2) < 0.05 && fabs(y - 1.5 / 2) < 0.05);
    read_bump(&turn, NAN, 1, &nx, &ny, &x, &y); /* (x, y) → (−y, x): the sides are exchanged */
    assert_true(nx == NY && ny == NX && fabs(x + 3) < 0.02 && fabs(y - 11) < 0.02);
    read_bump(&scale, NAN, 1, &nx, &ny, &x, &y);
    assert_true(fabs(x - 9.9) < 0.05 && fabs(y - 4.4) < 0.05);
    /* An axis 90° anticlockwise of y, along −x, is turned upright: points along the axis come to lie along y. */
    read_bump(NULL, 90, 1, &nx, &ny, &x, &y);
    assert_true(nx == NY && ny == NX && fabs(x - 4) < 0.02 && fabs(y + 9) < 0.02);
}

static void grey_scales(void **state) {
    (void)state;
    struct projections p = {0};
    struct projections_options options = {.normalise = PROJECTIONS_MASS, .threads = 1};
    struct err err;
    assert_ok(projections_resize(&p, 4, 4, 2, &err));
    for (int positive = 0; positive < 2; positive++) {
        for (int i = 0; i < 32; i++)
            p.data[i] = (float)((i < 16 ? 10 : 30) + i % 4);
        options.positive = positive;
        projections_normalise(&p, &options);
        assert_true(fabs(p.means[0] - 11.5) < 1e-6 && fabs(p.means[1] - 31.5) < 1e-6);
        /* Both images get one mean, and their contrast follows; the contrast is never inverted. The mean is a background
         * and subtracted, unless densities must be positive. */
        float off = positive ? 0 : 21.5f;
        assert_true(fabsf(p.data[0] + off - 10 * 21.5f / 11.5f) < 1e-4f &&
                    fabsf(p.data[16] + off - 30 * 21.5f / 31.5f) < 1e-4f);
        assert_true(p.data[3] > p.data[0] && p.data[19] > p.data[16]);
    }
    options.positive = false;
    for (int i = 0; i < 32; i++)
        p.data[i] = i % 16 == 5 ? (i < 16 ? 8.0f : 24.0f) : 0;
    projections_normalise(&p, &options); /* masses without a background: no mean is subtracted */
    assert_true(fabsf(p.data[5] - 16) < 1e-4f && fabsf(p.data[21] - 16) < 1e-4f && p.data[0] == 0 && p.data[16] == 0);
    for (int i = 0; i < 32; i++)
        p.data[i] = (float)((i < 16 ? -3 : 1) + i % 4);
    projections_normalise(&p, &options); /* no masses: means are subtracted */
    assert_true(fabsf(p.data[0] + 1.5f) < 1e-5f && fabsf(p.data[16] + 1.5f) < 1e-5f);
    options.normalise = PROJECTIONS_VARIANCE;
    projections_normalise(&p, &options);
    assert_true(fabsf(p.data[3] - 1.5f / (float)sqrt(1.25)) < 1e-5f);
    projections_clear(&p);
}

static void nonsense_is_refused(void **state) {
    (void)state;
    char path[PATH_SIZE];
    struct err err;
    struct image image = {0};
    scratch_path("nan.mrc", path);
    assert_ok(image_resize(&image, 8, 8, 2, &err));
    image.data[64 + 2 * 8 + 5] = NAN;
    assert_ok(mrc_write(path, &image, MRC_STACK, MRC_FLOAT32, &err));
    image_destroy(&image);
    struct series series = {.name = strdup("ts"), .nx = 8, .ny = 8};
    struct projections_options options = {.bin = 1, .tilt_axis = NAN, .threads = 1};
    struct projections projections = {0};
    for (int i = 0; i < 2; i++) {
        struct tilt tilt = {.number = i + 1, .slice = i, .angle = 3 * i};
        assert_ok(series_add(&series, &tilt, path, &err));
    }
    assert_int_equal(projections_read(&series, &options, &projections, &err), STATUS_BAD_FORMAT);
    assert_non_null(strstr(err.message, "view 2 (3.00°) holds nan at column 6, row 3"));
    projections_clear(&projections);
    series_clear(&series);
}

/* Aligns noise-free and noisy images of a slab, each moved by a known shift. A shift by x cos θ + z sin θ only moves
 * the tilt axis to another point: the test fits and subtracts this part. */
static void finds_shifts(double noise, double tolerance) {
    enum { SIDE = 160, TILTS = 27 };
    static double angles[TILTS], dx[TILTS], dy[TILTS], peaks[TILTS], true_x[TILTS], true_y[TILTS];
    struct random random = random_stream(5, 0, 0);
    struct balls balls;
    struct err err;
    struct coarse *coarse = NULL;
    struct image image = {0};
    assert_ok(balls_create(5, 40, SIDE, SIDE, 40, &balls, &err));
    assert_ok(image_resize(&image, SIDE, SIDE, TILTS, &err));
    for (int i = 0; i < TILTS; i++) {
        struct image one = {.nx = SIDE, .ny = SIDE, .nz = 1, .data = image.data + (size_t)i * SIDE * SIDE};
        angles[i] = -52 + 4 * i;
        true_x[i] = random_uniform(&random, -7, 7);
        true_y[i] = random_uniform(&random, -7, 7);
        balls_project(&balls, angles[i], true_x[i], true_y[i], &one);
        for (int p = 0; p < SIDE * SIDE; p++)
            one.data[p] += (float)(noise * random_normal(&random));
    }
    assert_ok(coarse_create(SIDE, SIDE, 2, &coarse, &err));
    assert_ok(coarse_align(coarse, image.data, angles, TILTS, dx, dy, peaks, &err));
    double cc = 0, cs = 0, ss = 0, ec = 0, es = 0, worst = 0, mean_y = 0;
    for (int i = 0; i < TILTS; i++) {
        double c = cos(angles[i] * M_PI / 180), s = sin(angles[i] * M_PI / 180), e = dx[i] + true_x[i];
        cc += c * c, cs += c * s, ss += s * s, ec += e * c, es += e * s;
        mean_y += (dy[i] + true_y[i]) / TILTS;
    }
    double det = cc * ss - cs * cs, x = (ec * ss - es * cs) / det, z = (es * cc - ec * cs) / det;
    for (int i = 0; i < TILTS; i++) {
        double e = dx[i] + true_x[i] - x * cos(angles[i] * M_PI / 180) - z * sin(angles[i] * M_PI / 180);
        worst = fmax(worst, fmax(fabs(e), fabs(dy[i] + true_y[i] - mean_y)));
        assert_true(i == TILTS / 2 || peaks[i] > 5);
    }
    printf("noise %g: shifts are found to %.3f px\n", noise, worst);
    if (!(worst < tolerance)) fail_msg("noise %g: a shift is off by %g px", noise, worst);
    coarse_destroy(&coarse);
    image_destroy(&image);
    balls_destroy(&balls);
}

static void coarse_alignment_finds_shifts(void **state) {
    (void)state;
    finds_shifts(0, 0.5);
    finds_shifts(5, 0.6);
}

static struct arrival arrival_of(const char *series, const char *path, double angle, int number) {
    static char items[16][16]; /* by number */
    snprintf(items[number], sizeof items[number], "item-%s", path);
    return (struct arrival){.series = series,
                            .path = path,
                            .item = items[number],
                            .angle = angle,
                            .number = number,
                            .taken = number,
                            .nx = 8,
                            .ny = 8,
                            .pixel_size = NAN,
                            .tilt_axis = NAN};
}

static void groups_become_complete(void **state) {
    (void)state;
    struct groups *groups = NULL;
    struct err err;
    struct odd_tilt odd = {0};
    const char *items[8];
    size_t count;
    assert_ok(groups_create(&groups, &err));
    struct arrival first = arrival_of("a", "a1", 0, 1), second = arrival_of("a", "a2", 3, 2),
                   third = arrival_of("b", "b1", 0, 1);
    assert_ok(groups_submit(groups, &first, &err));
    assert_ok(groups_submit(groups, &first, &err)); /* after a restart the same tilt comes twice */
    assert_ok(groups_submit(groups, &third, &err));
    assert_ok(groups_take_in(groups, 100, &odd, &err));
    assert_int_equal(groups_count(groups), 2);
    assert_null(groups_to_preview(groups));
    assert_null(groups_complete(groups, 101, 2, 50, false));
    assert_ok(groups_submit(groups, &second, &err));
    assert_ok(groups_take_in(groups, 110, &odd, &err));
    struct group *group = groups_to_preview(groups);
    assert_true(group != NULL && group->series.count == 2);
    group->previewed = 2;
    assert_null(groups_to_preview(groups));
    assert_ptr_equal(groups_complete(groups, 111, 2, 50, false), group); /* the announced number */
    assert_null(groups_complete(groups, 111, 0, 50, false));
    assert_ptr_equal(groups_complete(groups, 160, 0, 50, false),
                     group); /* quiet: b has one tilt, and is a series too */
    group_settle(group, true, items, &count);
    assert_int_equal(count, 0);
    assert_true(groups_complete(groups, 160, 0, 50, false) != group);
    struct arrival late = arrival_of("a", "a3", 6, 3);
    assert_ok(groups_submit(groups, &late, &err));
    assert_ok(groups_take_in(groups, 161, &odd, &err));
    assert_int_equal(groups_waiting(groups), 4);
    assert_ptr_equal(groups_complete(groups, 161, 0, 50, true), group); /* opened again; the stream has ended */
    struct arrival other = arrival_of("a", "a4", 9, 4);
    other.nx = 9;
    assert_ok(groups_submit(groups, &other, &err));
    assert_ok(groups_take_in(groups, 162, &odd, &err));
    assert_true(odd.reason != NULL && strstr(odd.reason, "a4 has 9 × 8 px") != NULL && group->series.count == 3);
    assert_string_equal(odd.item, "item-a4");
    odd_tilt_clear(&odd);
    groups_destroy(&groups);
}

static struct group *bring(struct groups *groups, struct arrival arrival, double now) {
    struct odd_tilt odd = {0};
    struct err err;
    assert_ok(groups_submit(groups, &arrival, &err));
    assert_ok(groups_take_in(groups, now, &odd, &err));
    return groups_complete(groups, now, 2, 50, false);
}

/* Tilts fail if no tomogram could be made of them, except those that are in an earlier one. */
static void groups_fail_and_are_mended(void **state) {
    (void)state;
    struct groups *groups = NULL;
    struct err err;
    const char *items[8];
    size_t count;
    assert_ok(groups_create(&groups, &err));
    struct arrival first = arrival_of("a", "a1", 3, 1), second = arrival_of("a", "a2", 3, 2),
                   third = arrival_of("a", "a3", 6, 3), before = arrival_of("a", "a4", 9, 4);
    assert_null(bring(groups, first, 100));
    struct group *group = bring(groups, second, 101);
    assert_non_null(group);
    group_settle(group, false, items, &count);
    assert_int_equal(count, 2);
    assert_string_equal(items[0], "item-a1");
    assert_null(groups_complete(groups, 1000, 2, 50, true)); /* not a second time, because nothing has changed */
    assert_null(groups_to_preview(groups));
    assert_null(bring(groups, second, 1001)); /* a retry: other tilts may be on their way too */
    assert_ptr_equal(groups_complete(groups, 1052, 2, 50, false), group);
    group_settle(group, false, items, &count);
    assert_int_equal(count, 1);
    assert_string_equal(items[0], "item-a2");
    before.failed = true; /* before a restart */
    assert_null(bring(groups, before, 1053));
    assert_null(groups_complete(groups, 2000, 2, 50, true));
    assert_null(bring(groups, third, 2001));
    assert_ptr_equal(groups_to_preview(groups), group);
    assert_ptr_equal(groups_complete(groups, 2002, 2, 50, true), group);
    group_settle(group, true, items, &count);
    assert_int_equal(count, 3); /* a1, a2 and a4 are now done */
    assert_null(bring(groups, second, 2003));
    assert_null(groups_complete(groups, 3000, 2, 50, true));
    struct arrival late = arrival_of("a", "a5", 12, 5);
    assert_ptr_equal(bring(groups, late, 3001), group);
    group_settle(group, false, items, &count);
    assert_int_equal(count, 1);
    assert_string_equal(items[0], "item-a5");
    groups_destroy(&groups);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_sorted_by_angle),
        cmocka_unit_test(duplicates),
        cmocka_unit_test(exclusion),
        cmocka_unit_test(excluded_without_angle),
        cmocka_unit_test(pixel_sizes_are_compared),
        cmocka_unit_test(no_series),
        cmocka_unit_test(transforms_move_images),
        cmocka_unit_test(grey_scales),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(coarse_alignment_finds_shifts),
        cmocka_unit_test(groups_become_complete),
        cmocka_unit_test(groups_fail_and_are_mended),
    };
    return scratch_run("tilt-series", tests, sizeof tests / sizeof *tests);
}
