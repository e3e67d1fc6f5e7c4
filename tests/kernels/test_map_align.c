/* Alignment of maps: rotation, shift and hand of blobs whose turned copies are known exactly, without and with noise, in
 * a point group; of a real map that is turned in real space; the aligned map; rotational averages. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "common/formats/image_formats.h"
#include "common/memory.h"
#include "kernels/fsc/fsc.h"
#include "kernels/map_align/map_align.h"
#include "phantom.h"
#include "seed.h"

/* Accuracy that is asked for. A grid that is not refined is off by up to 10° and 1 px. */
#define ANGLE 1.0
#define SHIFT 0.2

enum { BOX = 64, VOXELS = BOX * BOX * BOX, TRIALS = 4 };

static const struct map_align_options OPTIONS = {
    .box = BOX, .pixel_size = 2, .diameter = 110, .coarsest = 60, .finest = 8, .hands = true, .threads = 2};
static uint64_t seed;
static double blob_size = 1; /* of the phantom's blobs, times their own */

static float *new_map(int box) {
    float *map = mem_aligned((size_t)box * (size_t)box * (size_t)box, sizeof *map);
    assert_non_null(map);
    return map;
}

/* Draws a rotation (uniform), a shift of up to 3 px along each axis, and a hand. */
static struct map_alignment random_alignment(void) {
    struct map_alignment a = {.inverted = phantom_uniform(&seed) < 0.5};
    euler_to_matrix(360 * phantom_uniform(&seed), acos(2 * phantom_uniform(&seed) - 1) * 180 / M_PI,
                    360 * phantom_uniform(&seed), a.rotation);
    for (int i = 0; i < 3; i++)
        a.shift[i] = 6 * phantom_uniform(&seed) - 3;
    return a;
}

static void add_blob(const double at[3], double sigma, double height, float *map) {
    for (int z = 0; z < BOX; z++)
        for (int y = 0; y < BOX; y++)
            for (int x = 0; x < BOX; x++) {
                const double dx = x - BOX / 2 - at[0], dy = y - BOX / 2 - at[1], dz = z - BOX / 2 - at[2];
                const double r2 = dx * dx + dy * dy + dz * dz;
                if (r2 < 36 * sigma * sigma)
                    map[(z * BOX + y) * BOX + x] += (float)(height * exp(-r2 / (2 * sigma * sigma)));
            }
}

/* Adds the phantom, its points p at ±R p + s, and noise. symmetry: the phantom's, or NULL. */
static void draw(const struct symmetry *symmetry, const struct map_alignment *a, double noise, float *map) {
    const int copies = symmetry != NULL ? symmetry->count : 1;
    for (int b = 0; b < PHANTOM_BLOBS; b++)
        for (int g = 0; g < copies; g++) {
            const struct phantom_blob *blob = &phantom_blobs[b];
            const double own[3] = {blob->x * BOX, blob->y * BOX, blob->z * BOX};
            double p[3], at[3];
            for (int i = 0; i < 3; i++) {
                p[i] = own[i];
                if (symmetry == NULL) continue;
                const double *m = symmetry->matrices[g] + (ptrdiff_t)3 * i;
                p[i] = m[0] * own[0] + m[1] * own[1] + m[2] * own[2];
            }
            for (int i = 0; i < 3; i++) {
                const double *r = a->rotation + (ptrdiff_t)3 * i;
                at[i] = a->shift[i] + (a->inverted ? -1 : 1) * (r[0] * p[0] + r[1] * p[1] + r[2] * p[2]);
            }
            add_blob(at, blob_size * blob->sigma, blob->height, map);
        }
    for (int i = 0; noise > 0 && i < VOXELS; i++)
        map[i] += (float)(noise * phantom_normal(&seed));
}

static const struct map_alignment NOTHING = {.rotation = {1, 0, 0, 0, 1, 0, 0, 0, 1}};

static double angle_between(const double a[9], const double b[9]) {
    double trace = 0;
    for (int i = 0; i < 9; i++)
        trace += a[i] * b[i];
    return acos(fmax(-1, fmin(1, (trace - 1) / 2))) * 180 / M_PI;
}

/* Returns the smallest angle to the truth over the fixed map's copies g·R. */
static double angle_to(const struct symmetry *symmetry, const double truth[9], const double found[9]) {
    double least = angle_between(truth, found);
    for (int g = 1; symmetry != NULL && g < symmetry->count; g++) {
        double copy[9];
        for (int i = 0; i < 9; i++) {
            const double *row = symmetry->matrices[g] + i / 3 * 3;
            copy[i] = row[0] * truth[i % 3] + row[1] * truth[3 + i % 3] + row[2] * truth[6 + i % 3];
        }
        least = fmin(least, angle_between(copy, found));
    }
    return least;
}

static void check_found(const struct symmetry *symmetry, const struct map_alignment *truth,
                        const struct map_alignment *found) {
    const double angle = angle_to(symmetry, truth->rotation, found->rotation);
    double off = 0;
    for (int i = 0; i < 3 && symmetry == NULL; i++)
        off = fmax(off, fabs(truth->shift[i] - found->shift[i]));
    print_message("off by %.3f° and %.3f px, hand %d (truth %d), score %.3f\n", angle, off, found->inverted,
                  truth->inverted, found->score);
    assert_true(angle < ANGLE);
    assert_true(off < SHIFT);
    assert_int_equal(found->inverted, truth->inverted);
}

static struct map_aligner *aligner_of(const struct map_align_options *options) {
    struct map_aligner *aligner = NULL;
    struct err err = {0};
    if (map_align_create(options, &aligner, &err) != STATUS_OK) fail_msg("%s", err.message);
    return aligner;
}

static struct map_alignment find(struct map_aligner *aligner, const float *fixed, const float *moved) {
    struct map_alignment found;
    struct err err = {0};
    if (map_align_find(aligner, fixed, moved, &found, &err) != STATUS_OK) fail_msg("%s", err.message);
    return found;
}

/* Aligns the phantom with a copy of it that lies elsewhere. */
static struct map_alignment try_one(struct map_aligner *aligner, const struct symmetry *symmetry,
                                    const struct map_alignment *truth, double noise) {
    _cleanup_(mem_free) float *fixed = new_map(BOX);
    _cleanup_(mem_free) float *moved = new_map(BOX);
    draw(symmetry, truth, noise, fixed);
    draw(symmetry, &NOTHING, noise, moved);
    return find(aligner, fixed, moved);
}

static void finds_rotation_shift_and_hand(void **state) {
    (void)state;
    struct map_aligner *aligner = aligner_of(&OPTIONS);
    for (int t = 0; t < TRIALS; t++) {
        struct map_alignment truth = random_alignment();
        truth.inverted = t % 2;
        const struct map_alignment found = try_one(aligner, NULL, &truth, 0);
        check_found(NULL, &truth, &found);
        assert_true(found.score > 0.95);
    }
    map_align_destroy(&aligner);
}

/* The noise has ten times the power of the phantom, and half of the shells hold nothing else. */
static void finds_them_in_noise(void **state) {
    (void)state;
    struct map_align_options options = OPTIONS;
    options.finest = 5;
    struct map_aligner *aligner = aligner_of(&options);
    for (int t = 0; t < TRIALS; t++) {
        struct map_alignment truth = random_alignment();
        truth.inverted = t % 2;
        const struct map_alignment found = try_one(aligner, NULL, &truth, 0.07);
        check_found(NULL, &truth, &found);
        assert_true(found.score > 0.25 && found.score < 0.7);
    }
    map_align_destroy(&aligner);
}

/* Shells of rounding errors are as strong as others when each is divided by its power: they do not count. */
static void finds_smooth_maps(void **state) {
    (void)state;
    struct map_align_options options = OPTIONS;
    options.diameter = 128;
    options.finest = 4;
    struct map_aligner *aligner = aligner_of(&options);
    const struct map_alignment truth = random_alignment();
    blob_size = 1.7;
    const struct map_alignment found = try_one(aligner, NULL, &truth, 0);
    blob_size = 1;
    check_found(NULL, &truth, &found);
    assert_true(found.score > 0.9);
    map_align_destroy(&aligner);
}

/* Only one hand is allowed, the other one is right: the score says so. */
static void keeps_the_hand_that_it_must(void **state) {
    (void)state;
    struct map_align_options options = OPTIONS;
    options.hands = false;
    struct map_aligner *aligner = aligner_of(&options);
    struct map_alignment truth = random_alignment();
    truth.inverted = false;
    const struct map_alignment same = try_one(aligner, NULL, &truth, 0);
    check_found(NULL, &truth, &same);
    truth.inverted = true;
    const struct map_alignment other = try_one(aligner, NULL, &truth, 0);
    assert_false(other.inverted);
    assert_true(other.score < 0.8);
    map_align_destroy(&aligner);
}

/* The fixed map has its axes where the group has them: the moved one is turned, so the truth is the way back. */
static void finds_copies_in_groups(void **state) {
    (void)state;
    static const char *const NAMES[] = {"C3", "D2", "O"};
    for (size_t n = 0; n < sizeof NAMES / sizeof *NAMES; n++) {
        struct symmetry symmetry;
        assert_int_equal(symmetry_create(NAMES[n], &symmetry, NULL), STATUS_OK);
        struct map_align_options options = OPTIONS;
        options.symmetry = &symmetry;
        struct map_aligner *aligner = aligner_of(&options);
        for (int t = 0; t < 2; t++) {
            struct map_alignment turn = random_alignment(), truth = {.inverted = t % 2};
            turn.inverted = t % 2;
            for (int i = 0; i < 9; i++)
                truth.rotation[i] = turn.rotation[3 * (i % 3) + i / 3];
            _cleanup_(mem_free) float *fixed = new_map(BOX);
            _cleanup_(mem_free) float *moved = new_map(BOX);
            draw(&symmetry, &NOTHING, 0, fixed);
            draw(&symmetry, &turn, 0, moved);
            const struct map_alignment found = find(aligner, fixed, moved);
            check_found(&symmetry, &truth, &found);
            assert_true(found.score > 0.9);
        }
        map_align_destroy(&aligner);
        symmetry_destroy(&symmetry);
    }
}

/* The aligned map equals the fixed one, which was drawn; also where a map only moves or only changes its hand. */
static void aligned_map_is_the_fixed_one(void **state) {
    (void)state;
    struct map_aligner *aligner = aligner_of(&OPTIONS);
    for (int t = 0; t < TRIALS; t++) {
        struct map_alignment truth = random_alignment();
        if (t < 2) memcpy(truth.rotation, NOTHING.rotation, sizeof truth.rotation);
        truth.inverted = t % 2;
        _cleanup_(mem_free) float *fixed = new_map(BOX);
        _cleanup_(mem_free) float *moved = new_map(BOX);
        _cleanup_(mem_free) float *aligned = new_map(BOX);
        draw(NULL, &truth, 0, fixed);
        draw(NULL, &NOTHING, 0, moved);
        assert_int_equal(map_align_apply(aligner, &truth, moved, aligned, NULL), STATUS_OK);
        double difference = 0, power = 0;
        for (int i = 0; i < VOXELS; i++) {
            const double d = (double)aligned[i] - (double)fixed[i];
            difference += d * d, power += (double)fixed[i] * (double)fixed[i];
        }
        print_message("difference %.4f of the map\n", sqrt(difference / power));
        assert_true(difference < 0.06 * 0.06 * power); /* trilinear in a transform that is padded by 2 */
    }
    map_align_destroy(&aligner);
}

/* A ball vanishes. A blob beside the middle loses its average over spheres, and nothing else: what is left of both is what
 * is left of the blob. */
static void rotational_average_is_taken_off(void **state) {
    (void)state;
    static const double MIDDLE[3] = {0, 0, 0}, BESIDE[3] = {9, -4, 6};
    _cleanup_(mem_free) float *ball = new_map(BOX);
    _cleanup_(mem_free) float *blob = new_map(BOX);
    _cleanup_(mem_free) float *both = new_map(BOX);
    double before[BOX] = {0}, after[BOX] = {0}, most = 0;
    add_blob(MIDDLE, 5, 3, ball);
    add_blob(BESIDE, 2, 1, blob);
    add_blob(MIDDLE, 5, 3, both);
    add_blob(BESIDE, 2, 1, both);
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < VOXELS; i++) {
            const int x = i % BOX - BOX / 2, y = i / BOX % BOX - BOX / 2, z = i / BOX / BOX - BOX / 2;
            (pass == 0 ? before : after)[(int)(sqrt(x * x + y * y + z * z) / 2)] += (double)blob[i];
        }
        if (pass == 0) {
            assert_int_equal(map_align_without_radial(BOX, ball, NULL), STATUS_OK);
            assert_int_equal(map_align_without_radial(BOX, blob, NULL), STATUS_OK);
            assert_int_equal(map_align_without_radial(BOX, both, NULL), STATUS_OK);
        }
    }
    assert_true(before[5] > 40);
    for (int r = 0; r < BOX / 4; r++)
        assert_true(fabs(after[r]) < 2); /* the lattice has few points in a direction */
    for (int i = 0; i < VOXELS; i++) {
        assert_true(fabsf(ball[i]) < 1e-5f && fabsf(both[i] - blob[i]) < 1e-5f);
        most = fmax(most, (double)blob[i]);
    }
    assert_true(most > 0.8);
}

/* Balls that differ by a blob: what they share does not count. */
static void score_does_not_count_a_ball(void **state) {
    (void)state;
    struct map_aligner *aligner = aligner_of(&OPTIONS);
    _cleanup_(mem_free) float *one = new_map(BOX);
    _cleanup_(mem_free) float *other = new_map(BOX);
    add_blob((double[3]){0, 0, 0}, 8, 20, one);
    add_blob((double[3]){0, 0, 0}, 8, 20, other);
    for (int i = 0; i < VOXELS; i++)
        one[i] += (float)(0.1 * phantom_normal(&seed)), other[i] += (float)(0.1 * phantom_normal(&seed));
    const struct map_alignment found = find(aligner, one, other);
    print_message("score of two balls in noise: %.3f\n", found.score);
    assert_true(found.score < 0.2);
    map_align_destroy(&aligner);
}

static void threads_change_nothing(void **state) {
    (void)state;
    const struct map_alignment truth = random_alignment();
    struct map_alignment found[2];
    const uint64_t before = seed;
    for (int i = 0; i < 2; i++) {
        struct map_align_options options = OPTIONS;
        options.threads = 1 + 2 * i;
        struct map_aligner *aligner = aligner_of(&options);
        seed = before;
        found[i] = try_one(aligner, NULL, &truth, 0.1);
        map_align_destroy(&aligner);
    }
    assert_memory_equal(found[0].rotation, found[1].rotation, sizeof found[0].rotation);
    assert_memory_equal(found[0].shift, found[1].shift, sizeof found[0].shift);
    assert_true(found[0].score == found[1].score && found[0].inverted == found[1].inverted);
}

static void wrong_input_is_refused(void **state) {
    (void)state;
    static const struct {
        int box;
        double pixel_size, diameter, coarsest, finest;
    } wrong[] = {{63, 2, 100, 60, 8}, {64, 0, 100, 60, 8}, {64, 2, 130, 60, 8},  {64, 2, 100, 8, 60},
                 {64, 2, 100, 60, 3}, {64, 2, 0, 60, 8},   {64, 2, 100, 60, 50}, {64, NAN, 100, 60, 8}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct map_align_options options = {
            wrong[i].box, wrong[i].pixel_size, wrong[i].diameter, wrong[i].coarsest, wrong[i].finest, true, NULL, 1};
        struct map_aligner *aligner = NULL;
        struct err err = {0};
        assert_int_equal(map_align_create(&options, &aligner, &err), STATUS_BAD_ARGUMENT);
        assert_null(aligner);
        assert_true(strlen(err.message) > 0);
    }
    struct map_aligner *aligner = aligner_of(&OPTIONS);
    _cleanup_(mem_free) float *map = new_map(BOX);
    _cleanup_(mem_free) float *empty = new_map(BOX);
    draw(NULL, &NOTHING, 0, map);
    assert_true(find(aligner, map, empty).score == 0);
    map[77] = NAN;
    struct map_alignment found = {.score = -7};
    struct err err = {0};
    assert_int_equal(map_align_find(aligner, empty, map, &found, &err), STATUS_BAD_FORMAT);
    assert_non_null(strstr(err.message, "moved map"));
    assert_true(found.score == -7);
    map_align_destroy(&aligner);
}

/* Returns a value of a map of 128³, between voxels. */
static double between_voxels(const float *map, const double at[3]) {
    enum { N = 128 };
    int low[3];
    double part[3], sum = 0;
    for (int i = 0; i < 3; i++) {
        low[i] = (int)floor(at[i]), part[i] = at[i] - low[i];
        if (low[i] < 0 || low[i] >= N - 1) return 0;
    }
    for (int c = 0; c < 8; c++) {
        double weight = 1;
        size_t voxel = 0;
        for (int i = 2; i >= 0; i--) {
            const int up = c >> i & 1;
            weight *= up ? part[i] : 1 - part[i];
            voxel = voxel * N + (size_t)(low[i] + up);
        }
        sum += weight * (double)map[voxel];
    }
    return sum;
}

/* Turns a map of 128³ in real space and bins it by 2. */
static void turn_and_bin(const float *map, const struct map_alignment *a, float *out) {
    for (int v = 0; v < VOXELS; v++) {
        double sum = 0;
        for (int c = 0; c < 8; c++) {
            double to[3], from[3];
            for (int i = 0; i < 3; i++) {
                const int whole = i == 0 ? v % BOX : i == 1 ? v / BOX % BOX : v / BOX / BOX;
                to[i] = 2 * (whole - BOX / 2 - a->shift[i]) + (c >> i & 1) - 0.5;
            }
            for (int i = 0; i < 3; i++) {
                from[i] = a->rotation[i] * to[0] + a->rotation[3 + i] * to[1] + a->rotation[6 + i] * to[2];
                from[i] = 64.5 + (a->inverted ? -from[i] : from[i]);
            }
            sum += between_voxels(map, from) / 8;
        }
        out[v] = (float)sum;
    }
}

static void real_map_is_found(void **state) {
    (void)state;
    char path[512];
    const char *data = getenv("ICESTREAM_DATA");
    snprintf(path, sizeof path, "%s/maps/cand1_1u6g_128.mrc", data != NULL ? data : "../shared/data");
    _cleanup_(image_destroy) struct image image = {0};
    if (image_read(path, &image, NULL) != STATUS_OK) {
        print_message("no maps/cand1_1u6g_128.mrc beside the checkout (../shared/data, or ICESTREAM_DATA)\n");
        skip();
    }
    assert_int_equal(image.nx, 128);
    const double side = 128 * (double)image.pixel_size;
    struct map_align_options options = {.box = BOX,
                                        .pixel_size = side / BOX,
                                        .diameter = 0.9 * side,
                                        .coarsest = side / 3,
                                        .finest = side / 20,
                                        .hands = true,
                                        .threads = 2};
    struct map_aligner *aligner = aligner_of(&options);
    _cleanup_(mem_free) float *fixed = new_map(BOX);
    _cleanup_(mem_free) float *moved = new_map(BOX);
    double power = 0;
    for (int t = 0; t < TRIALS; t++) {
        struct map_alignment truth = random_alignment();
        truth.inverted = t % 2;
        turn_and_bin(image.data, &truth, fixed);
        turn_and_bin(image.data, &NOTHING, moved);
        for (int i = 0; t == 0 && i < VOXELS; i++)
            power += (double)moved[i] * (double)moved[i] / VOXELS;
        /* The second half has noise of as much power as the whole map. */
        for (int i = 0; t >= TRIALS / 2 && i < VOXELS; i++) {
            fixed[i] += (float)(sqrt(power) * phantom_normal(&seed));
            moved[i] += (float)(sqrt(power) * phantom_normal(&seed));
        }
        struct timespec begin, end;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        const struct map_alignment found = find(aligner, fixed, moved);
        clock_gettime(CLOCK_MONOTONIC, &end);
        print_message("%.3f s: ", (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec));
        check_found(NULL, &truth, &found);
    }
    map_align_destroy(&aligner);
}

int main(void) {
    seed = chosen_seed(NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_rotation_shift_and_hand),
        cmocka_unit_test(finds_them_in_noise),
        cmocka_unit_test(finds_smooth_maps),
        cmocka_unit_test(keeps_the_hand_that_it_must),
        cmocka_unit_test(finds_copies_in_groups),
        cmocka_unit_test(aligned_map_is_the_fixed_one),
        cmocka_unit_test(rotational_average_is_taken_off),
        cmocka_unit_test(score_does_not_count_a_ball),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(wrong_input_is_refused),
        cmocka_unit_test(real_map_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
