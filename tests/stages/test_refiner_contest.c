/* Tests the contest of two maps that explain particles alike: of two octahedral shells the one that the particles show
 * wins, whichever is given first, from maps of a coarser grid; also where one half alone has a rival. The sphere fits the
 * particle, not the diameter that was given. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "stages/refiner/initial/contest.h"
#include "stages/refiner/refiner_private.h"
#include "stages/refiner/resample.h"
#include "tests/common/scratch.h"
#include "tests/stages/blobs.h"

enum { VOXELS = BOX * BOX * BOX, SMALL = 24, SMALL_VOXELS = SMALL * SMALL * SMALL, UNIQUE = 2, PARTICLES = 200 };
#define DIAMETER 170.0                               /* Å, that is given */
#define SHELL 48.0                                   /* Å, of the radius where blobs lie */
static const double SMALL_PIXEL = BOX * 6.0 / SMALL; /* Å */

static struct refiner *refiner;
static float right[SMALL_VOXELS], wrong[SMALL_VOXELS];

/* Makes a shell of blobs: a few, and what the point group makes of them. */
static void make_shell(const struct symmetry *symmetry, struct object *o) {
    o->count = 0;
    for (int i = 0; i < UNIQUE; i++) {
        double at[3], length = 0;
        for (int j = 0; j < 3; j++) {
            at[j] = normal();
            length += at[j] * at[j];
        }
        for (int g = 0; g < symmetry->count; g++) {
            double *blob = o->blobs[o->count++];
            for (int j = 0; j < 3; j++) {
                const double *row = symmetry->matrices[g] + 3 * j;
                blob[j] = (row[0] * at[0] + row[1] * at[1] + row[2] * at[2]) * SHELL / PIXEL / sqrt(length);
            }
            blob[3] = 1;
        }
    }
}

static void coarse_map(const struct object *o, float *ret_map) {
    static float map[VOXELS];
    struct object shell = *o;
    make_map(&shell, map, SIGMA);
    assert_int_equal(resample_map(map, BOX, PIXEL, SMALL, SMALL_PIXEL, ret_map, NULL), STATUS_OK);
}

static int prepare(void **state) {
    (void)state;
    char folder[PATH_SIZE], path[PATH_SIZE + 64], group[] = "O";
    struct refiner_options options = {.classes = 1,
                                      .symmetry = group,
                                      .diameter = DIAMETER,
                                      .initial_lowpass = 60,
                                      .healpix_order = 2,
                                      .local_order = 4,
                                      .offset_range = 3,
                                      .offset_step = 1,
                                      .tau_fudge = NAN,
                                      .join_resolution = 40,
                                      .max_significant = 60,
                                      .seed = 1,
                                      .memory = 1};
    const struct refiner_context context = {.threads = 1, .device = {.kind = DEVICE_CPU}, .fallback_pixel_size = NAN};
    struct star_file *file = NULL;
    struct object objects[2] = {0};
    size_t joined;
    srand(20261128);
    scratch_path("contest", folder);
    assert_int_equal(file_make_folders(folder, 0755, NULL), STATUS_OK);
    assert_int_equal(refiner_create(&options, &context, &refiner, NULL), STATUS_OK);
    for (int i = 0; i < 2; i++)
        make_shell(&refiner->symmetry, &objects[i]);
    coarse_map(&objects[0], right);
    coarse_map(&objects[1], wrong);
    write_particles(folder, "a", objects, 1, PARTICLES, 1);
    snprintf(path, sizeof path, "%s/a.star", folder);
    assert_int_equal(star_read(path, &file, NULL), STATUS_OK);
    assert_int_equal(refiner_merge(refiner, &file, path, false, &joined, NULL), STATUS_OK);
    assert_int_equal((int)joined, PARTICLES);
    return refiner_look(refiner, NULL);
}

static int clear(void **state) {
    (void)state;
    refiner_destroy(&refiner);
    return 0;
}

static double correlation(const float *a, const float *b) {
    double products = 0, squares[2] = {0};
    for (int i = 0; i < SMALL_VOXELS; i++) {
        products += (double)a[i] * (double)b[i];
        squares[0] += (double)a[i] * (double)a[i];
        squares[1] += (double)b[i] * (double)b[i];
    }
    return products / sqrt(squares[0] * squares[1]);
}

/* Returns what a contest finds; ret_map: the first family's map of half B. */
static struct contest_result hold(const float *const maps[CONTEST_FAMILIES][CONTEST_HALVES], float *ret_map) {
    const struct starts_options starts = {.device = {.kind = DEVICE_CPU},
                                          .threads = 1,
                                          .memory = 1,
                                          .diameter = DIAMETER,
                                          .symmetry = &refiner->symmetry,
                                          .seed = 1};
    const struct contest_options options = {.refiner = refiner,
                                            .starts = &starts,
                                            .most = PARTICLES,
                                            .finest = 15,
                                            .order = STARTS_ORDERS,
                                            .box = SMALL,
                                            .pixel_size = SMALL_PIXEL};
    struct contest *contest = NULL;
    bool complete = false;
    int steps = 0;
    assert_int_equal(contest_create(&options, maps, &contest, NULL), STATUS_OK);
    for (; !complete; steps++)
        assert_int_equal(contest_work(contest, &complete, NULL), STATUS_OK);
    assert_int_equal(steps, contest_steps(contest));
    const struct contest_result result = contest_result(contest);
    assert_int_equal(contest_map(contest, 0, 1, ret_map, NULL), STATUS_OK);
    contest_destroy(&contest);
    print_message("verdict %.1f, detail of %.1f Å inside %.1f Å; first family: correlation %.3f\n", result.verdict,
                  result.limit, result.diameter, correlation(ret_map, right));
    return result;
}

static void the_right_map_wins(void **state) {
    (void)state;
    static float map[SMALL_VOXELS];
    const struct contest_result first = hold((const float *const[2][2]){{right, right}, {wrong, wrong}}, map);
    assert_true(first.verdict > 3);
    assert_true(correlation(map, right) > 0.8);
    assert_true(first.diameter > 2 * SHELL && first.diameter < 0.85 * DIAMETER);
    assert_true(fabs(first.limit - BOX * PIXEL / (BOX / 3)) < 0.01); /* as fine as the pixels allow */
    const struct contest_result second = hold((const float *const[2][2]){{wrong, wrong}, {right, right}}, map);
    assert_true(second.verdict < -3);
}

static void one_half_alone_has_a_rival(void **state) {
    (void)state;
    static float map[SMALL_VOXELS];
    const struct contest_result result = hold((const float *const[2][2]){{right, right}, {NULL, wrong}}, map);
    assert_true(result.verdict > 3);
}

static void equal_maps_are_told_apart_less(void **state) {
    (void)state;
    static float map[SMALL_VOXELS];
    const struct contest_result result = hold((const float *const[2][2]){{right, right}, {right, right}}, map);
    /* Two paths from one map end a little apart: the verdict was 3.7 once in six. Different maps are told apart by 6 and more. */
    assert_true(fabs(result.verdict) < 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_right_map_wins, prepare, clear),
        cmocka_unit_test_setup_teardown(one_half_alone_has_a_rival, prepare, clear),
        cmocka_unit_test_setup_teardown(equal_maps_are_told_apart_less, prepare, clear),
    };
    return scratch_run("refiner_contest", tests, sizeof tests / sizeof *tests);
}
