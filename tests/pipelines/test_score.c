/* icestream-score's figures of the map: a session whose map is a turned and inverted copy has those of the map itself,
 * and a map that lies as the phantom does is compared as it lies. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/mrc.h"
#include "common/memory.h"
#include "examples/score/score.h"
#include "kernels/symmetry/symmetry.h"
#include "tests/common/scratch.h"
#include "tests/kernels/phantom.h"
#include "tests/kernels/seed.h"

/* Maps of 128 Å; the phantom's pixels are finer. */
enum { BOX = 48, PHANTOM_BOX = 64 };
#define SIDE 128.0
#define NOISE 0.04

static uint64_t seed;

/* A place of a map: its points p lie at ±R p + s. */
struct lie {
    double rotation[9], shift[3]; /* Å */
    bool inverted;
};
static const struct lie AS_IT_IS = {.rotation = {1, 0, 0, 0, 1, 0, 0, 0, 1}};

static void draw(int box, const struct lie *lie, double noise, float *map) {
    const double pixel = SIDE / box;
    size_t voxel = 0;
    for (int z = 0; z < box; z++)
        for (int y = 0; y < box; y++)
            for (int x = 0; x < box; x++) {
                const double to[3] = {(x - box / 2) * pixel, (y - box / 2) * pixel, (z - box / 2) * pixel};
                double value = 0;
                for (int b = 0; b < PHANTOM_BLOBS; b++) {
                    const struct phantom_blob *blob = &phantom_blobs[b];
                    const double p[3] = {blob->x * SIDE, blob->y * SIDE, blob->z * SIDE}, sigma = 2 * blob->sigma;
                    double r2 = 0;
                    for (int i = 0; i < 3; i++) {
                        const double *r = lie->rotation + (ptrdiff_t)3 * i;
                        const double turned = r[0] * p[0] + r[1] * p[1] + r[2] * p[2];
                        const double d = to[i] - lie->shift[i] - (lie->inverted ? -turned : turned);
                        r2 += d * d;
                    }
                    value += blob->height * exp(-r2 / (2 * sigma * sigma));
                }
                map[voxel++] = (float)(value + noise * phantom_normal(&seed));
            }
}

static void write_map(const char *name, int box, const float *map) {
    char path[PATH_SIZE];
    struct err err = {0};
    scratch_path(name, path);
    const struct image image = {
        .nx = box, .ny = box, .nz = box, .pixel_size = (float)(SIDE / box), .data = (float *)(uintptr_t)map};
    assert_ok(mrc_write(path, &image, MRC_VOLUME, MRC_FLOAT32, &err));
}

/* Scores a session whose half maps, and their mean, lie somewhere. The noise is the same each time. */
static struct score_map score_of(const struct lie *lie) {
    static const char *const NAMES[] = {"session/refiner/run_half1_class001_unfil.mrc",
                                        "session/refiner/run_half2_class001_unfil.mrc",
                                        "session/refiner/run_class001.mrc"};
    enum { VOXELS = BOX * BOX * BOX };
    char session[PATH_SIZE], truth[PATH_SIZE];
    _cleanup_(mem_free) float *phantom = mem_aligned(PHANTOM_BOX * PHANTOM_BOX * PHANTOM_BOX, sizeof *phantom);
    _cleanup_(mem_free) float *maps = mem_aligned(3 * VOXELS, sizeof *maps);
    assert_true(phantom != NULL && maps != NULL);
    scratch_path("session", session);
    scratch_path("truth", truth);
    assert_int_equal(scratch_shell("mkdir -p '%s/refiner' '%s'", session, truth), 0);
    const uint64_t before = seed;
    draw(PHANTOM_BOX, &AS_IT_IS, 0, phantom);
    draw(BOX, lie, NOISE, maps);
    draw(BOX, lie, NOISE, maps + VOXELS);
    seed = before;
    for (size_t i = 0; i < VOXELS; i++)
        maps[2 * VOXELS + i] = (maps[i] + maps[VOXELS + i]) / 2;
    write_map("truth/phantom.mrc", PHANTOM_BOX, phantom);
    for (size_t i = 0; i < 3; i++)
        write_map(NAMES[i], BOX, maps + i * VOXELS);
    struct score_map score = {0};
    struct err err = {0};
    assert_ok(score_map(session, truth, &score, &err));
    print_message("%.2f Å between halves, %.2f Å against the phantom; aligned %d by %.1f° and %.2f px, inverted %d\n",
                  score.gold_standard, score.against_phantom, score.aligned, score.angle, score.shift, score.inverted);
    return score;
}

static void turned_and_inverted_maps_score_alike(void **state) {
    (void)state;
    const struct score_map own = score_of(&AS_IT_IS);
    assert_false(own.aligned);
    assert_true(own.against_phantom < 13 && own.against_phantom > 2 * SIDE / BOX);
    for (int i = 0; i < 4; i++) {
        struct lie lie = {.shift = {4, -3, 5}, .inverted = i % 2};
        if (i < 2)
            euler_to_matrix(40, 75, 60, lie.rotation);
        else
            memcpy(lie.rotation, AS_IT_IS.rotation, sizeof lie.rotation);
        const struct score_map score = score_of(&lie);
        assert_true(score.aligned);
        assert_int_equal(score.inverted, lie.inverted);
        assert_true(fabs(SIDE / score.against_phantom - SIDE / own.against_phantom) < 1.01);
        const double *r = lie.rotation;
        assert_true(fabs(score.angle - acos(fmin(1, (r[0] + r[4] + r[8] - 1) / 2)) * 180 / M_PI) < 1);
        assert_true(fabs(score.shift - sqrt(50) * BOX / SIDE) < 0.3);
    }
}

/* A refinement may end a little off. That is its own error, which an alignment would hide. */
static void small_errors_stay(void **state) {
    (void)state;
    struct lie lie = {.shift = {3, 3, 0}};
    euler_to_matrix(1, 1, 0, lie.rotation);
    const struct score_map own = score_of(&AS_IT_IS), off = score_of(&lie);
    assert_false(off.aligned);
    assert_true(off.angle == 0 && off.against_phantom > own.against_phantom);
}

int main(void) {
    seed = chosen_seed(NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turned_and_inverted_maps_score_alike),
        cmocka_unit_test(small_errors_stay),
    };
    return scratch_run("score", tests, sizeof tests / sizeof *tests);
}
