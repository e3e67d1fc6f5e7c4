/* The maps of a refinement get the other hand: the images fit them as before, once poses are turned by 180° in the plane.
 * Truth is brute force, or the images themselves. Seed as printed: test_refiner_hand [SEED]. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/formats/star.h"
#include "kernels/symmetry/symmetry.h"
#include "stages/refiner/hand.h"
#include "stages/refiner/refiner_private.h"
#include "tests/common/scratch.h"
#include "tests/stages/few_blobs.h"
#include "tests/stages/refiner_runs.h"

enum { COUNT = 96, VOXELS = BOX * BOX * BOX, HALF = COUNT / 2 };
static const double NOISE = 0.3, DEGREE = M_PI / 180;
static unsigned seed;

struct world {
    char scratch[PATH_SIZE], folder[PATH_SIZE + 16], reference[PATH_SIZE], mask[PATH_SIZE];
    struct object object;
    double angles[COUNT][3]; /* ° */
};

static void draw(const struct object *o, const double angles[3], float *image) {
    double x[3], y[3];
    axes(angles[0] * DEGREE, angles[1] * DEGREE, angles[2] * DEGREE, x, y);
    for (int i = 0; i < BOX * BOX; i++)
        image[i] = (float)(NOISE * normal());
    for (int b = 0; b < o->count; b++) {
        double bx = 0, by = 0;
        for (int j = 0; j < 3; j++)
            bx += x[j] * o->blobs[b][j], by += y[j] * o->blobs[b][j];
        for (int i = 0; i < BOX * BOX; i++) {
            double dx = i % BOX - BOX / 2 - bx, dy = i / BOX - BOX / 2 - by;
            image[i] += (float)(o->blobs[b][3] * exp(-(dx * dx + dy * dy) / (2 * SIGMA * SIGMA)));
        }
    }
}

/* Writes rows first .. end − 1 of the stack, with true poses. */
static void write_table(const struct world *w, const char *name, int first, int end) {
    char path[PATH_SIZE + 64];
    snprintf(path, sizeof path, "%s/%s.star", w->scratch, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "data_\n\nloop_\n_rlnImageName\n_rlnMagnification\n_rlnDetectorPixelSize\n_rlnAngleRot\n_rlnAngleTilt\n"
               "_rlnAnglePsi\n");
    for (int i = first; i < end; i++)
        fprintf(f, "%06d@p.mrcs 10000 %g %.6f %.6f %.6f\n", i + 1, PIXEL, w->angles[i][0], w->angles[i][1],
                w->angles[i][2]);
    assert_int_equal(fclose(f), 0);
}

/* The mask is wider to one side of each axis. */
static void write_mask(struct world *w) {
    static float mask[VOXELS];
    for (int i = 0; i < VOXELS; i++) {
        double x = i % BOX - BOX / 2 - 1.5, y = i / BOX % BOX - BOX / 2 + 1, z = i / BOX / BOX - BOX / 2 - 1;
        mask[i] = (float)(1 / (1 + exp(3 * (sqrt(x * x + y * y + z * z) - 11))));
    }
    write_map(w->scratch, "mask.mrc", mask, w->mask);
}

static void make_world(struct world *w, const char *name) {
    static float stack[COUNT][BOX * BOX], map[VOXELS];
    char path[PATH_SIZE];
    *w = (struct world){0};
    srand(seed);
    scratch_path(name, w->scratch);
    assert_int_equal(file_make_folders(w->scratch, 0755, NULL), STATUS_OK);
    snprintf(w->folder, sizeof w->folder, "%s/refiner", w->scratch);
    assert_int_equal(file_make_folders(w->folder, 0755, NULL), STATUS_OK);
    make_object(&w->object, 14);
    make_map(&w->object, map, SIGMA);
    write_map(w->scratch, "reference.mrc", map, w->reference);
    write_mask(w);
    for (int i = 0; i < COUNT; i++) {
        w->angles[i][0] = 360 * uniform() - 180;
        w->angles[i][1] = acos(2 * uniform() - 1) / DEGREE;
        w->angles[i][2] = 360 * uniform() - 180;
        draw(&w->object, w->angles[i], stack[i]);
    }
    const struct image image = {
        .nx = BOX, .ny = BOX, .nz = COUNT, .pixel_size = (float)PIXEL, .data = (float *)(void *)stack};
    assert_int_equal(path_join(w->scratch, "p.mrcs", path, sizeof path, NULL), STATUS_OK);
    assert_int_equal(mrc_write(path, &image, MRC_STACK, MRC_FLOAT32, NULL), STATUS_OK);
    write_table(w, "all", 0, COUNT);
    write_table(w, "first", 0, HALF);
    write_table(w, "second", HALF, COUNT);
}

static struct refiner *create(struct world *w, int poses, int classes) {
    struct refiner_options options = few_blobs_options();
    struct refiner *r = NULL;
    options.reference = w->reference;
    options.mask = w->mask;
    options.diameter = 150;
    options.healpix_order = 1;
    options.memory = 0.25;
    options.poses = poses;
    options.local_range = 10;
    options.classes = classes;
    options.iterations = 5;
    assert_int_equal(refiner_create(&options, &(struct refiner_context){.threads = 2}, &r, NULL), STATUS_OK);
    return r;
}

static void merge(struct refiner *r, const struct world *w, const char *name) {
    char path[PATH_SIZE + 64];
    struct star_file *file = NULL;
    struct err err = {0};
    snprintf(path, sizeof path, "%s/%s.star", w->scratch, name);
    assert_int_equal(star_read(path, &file, NULL), STATUS_OK);
    if (refiner_merge(r, &file, path, false, NULL, &err) != STATUS_OK) fail_msg("%s", err.message);
}

static void iterate(struct refiner *r) {
    bool complete = false;
    struct err err = {0};
    enum status status = refiner_begin(r, &(struct refiner_iteration){.max_order = 1}, &err);
    while (status == STATUS_OK && !complete)
        status = refiner_work(r, &complete, &err);
    if (status != STATUS_OK) fail_msg("%s", err.message);
}

/* Fills the map of a voxel's opposite: that at box − i along each axis, and 0 for 0. */
static void invert_slowly(const float *map, float *out) {
    for (int z = 0; z < BOX; z++)
        for (int y = 0; y < BOX; y++)
            for (int x = 0; x < BOX; x++)
                out[(z * BOX + y) * BOX + x] = map[((BOX - z) % BOX * BOX + (BOX - y) % BOX) * BOX + (BOX - x) % BOX];
}

static void same_bits(const char *what, const float *map, const float *expected) {
    if (memcmp(map, expected, VOXELS * sizeof *map) != 0) fail_msg("%s differs (seed %u)", what, seed);
}

static void inverted_bits(const char *what, const float *map, const float *original) {
    static float expected[VOXELS];
    invert_slowly(original, expected);
    same_bits(what, map, expected);
}

/* Expects maps that differ by the rounding of transforms where the particle is: the corners hold what the division by the
 * interpolation's fall-off makes of it. */
static void same_map(const char *what, const float *map, const float *expected, double tolerance) {
    double norm = 0, difference = 0;
    for (int i = 0; i < VOXELS; i++) {
        double x = i % BOX - BOX / 2, y = i / BOX % BOX - BOX / 2, z = i / BOX / BOX - BOX / 2;
        if (x * x + y * y + z * z > 150) continue;
        norm += (double)expected[i] * expected[i];
        difference += ((double)map[i] - expected[i]) * ((double)map[i] - expected[i]);
    }
    print_message("%s: differs by %.1e\n", what, sqrt(difference / norm));
    if (!(norm > 0 && sqrt(difference / norm) < tolerance))
        fail_msg("%s differs by %g (seed %u)", what, sqrt(difference / norm), seed);
}

static void inverted_map(const char *what, const float *map, const float *original, double tolerance) {
    static float expected[VOXELS];
    invert_slowly(original, expected);
    same_map(what, map, expected, tolerance);
}

/* Returns the angle (°) between a pose and another one, turned by 180° in the plane. */
static double turned_by(const double pose[9], const double original[9]) {
    double angles[3], turned[9], trace = 0;
    matrix_to_euler(original, &angles[0], &angles[1], &angles[2]);
    euler_to_matrix(angles[0], angles[1], angles[2] + 180, turned);
    for (int i = 0; i < 9; i++)
        trace += turned[i] * pose[i];
    return acos(fmin(fmax((trace - 1) / 2, -1), 1)) / DEGREE;
}

static void a_map_and_a_pose_are_inverted(void **state) {
    static float map[VOXELS], kept[VOXELS], expected[VOXELS];
    double pose[9], original[9];
    (void)state;
    srand(seed);
    for (int i = 0; i < VOXELS; i++)
        kept[i] = map[i] = (float)normal();
    invert_slowly(map, expected);
    for (int threads = 1; threads <= 3; threads++) {
        hand_invert_map(BOX, threads, map);
        same_bits("the inverted map", map, expected);
        hand_invert_map(BOX, threads, map);
        same_bits("the map inverted twice", map, kept);
    }
    euler_to_matrix(31, 77, -140, original);
    memcpy(pose, original, sizeof pose);
    hand_turn_pose(pose);
    assert_true(turned_by(pose, original) < 1e-4);
}

/* Likelihoods are those of the same iteration in the old hand. */
static void expect_same_fit(const struct refiner *r, const struct refiner *old, double tolerance) {
    double worst = 0;
    int elsewhere = 0;
    for (int i = 0; i < COUNT; i++) {
        const struct particle *p = &r->set.particles[i], *q = &old->set.particles[i];
        double difference = fabs(p->log_likelihood - q->log_likelihood) / fabs(q->log_likelihood);
        worst = fmax(worst, difference);
        elsewhere += turned_by(p->pose, q->pose) > 0.1 || fabs(p->origin[0] - q->origin[0]) > 1e-3 ||
                     fabs(p->origin[1] - q->origin[1]) > 1e-3;
    }
    print_message("log-likelihoods differ by %.1e; %d of %d poses are others\n", worst, elsewhere, COUNT);
    if (!(worst < tolerance)) fail_msg("a log-likelihood differs by %g (seed %u)", worst, seed);
    /* Of poses that fit alike, rounding decides. */
    if (elsewhere > COUNT / 30) fail_msg("%d poses are others (seed %u)", elsewhere, seed);
}

static void expect_inverted_maps(const struct refiner *r, const struct refiner *old, double tolerance) {
    for (int side = 0; side < r->side_count; side++)
        for (int k = 0; k < r->reference_count; k++)
            inverted_map("a reference", r->sides[side].references[k].map, old->sides[side].references[k].map,
                         tolerance);
    if (!classifies(r)) inverted_map("the map of both", r->combined, old->combined, tolerance);
}

/* The iteration after the inversion finds what it would have found without: a search of all poses, then near the last
 * ones, or of several classes. */
static void the_next_iteration_fits_as_before(void **state) {
    static const struct {
        const char *name;
        int poses, classes, before;
        double fit, map; /* tolerances, relative */
    } cases[] = {
        {"searched", 0, 1, 2, 1e-5, 1e-4},
        {"near", 1, 1, 2, 1e-5, 1e-4},
        {"classes", 0, 2, 2, 1e-5, 1e-4},
        /* The filtered reference reaches the first planes, which have no opposites: close decisions, such as how far the halves
         * agree, may fall otherwise. */
        {"from the beginning", 0, 1, 0, 1e-4, 0.5},
    };
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct world w;
        static float mask[VOXELS];
        make_world(&w, cases[c].name);
        print_message("%s\n", cases[c].name);
        struct refiner *old = create(&w, cases[c].poses, cases[c].classes),
                       *r = create(&w, cases[c].poses, cases[c].classes);
        merge(old, &w, "all");
        merge(r, &w, "all");
        for (int i = 0; i < cases[c].before; i++) {
            iterate(old);
            iterate(r);
        }
        refiner_set_hand(r, true);
        assert_true(refiner_inverts(r) == (cases[c].before > 0));
        assert_false(refiner_state(r).inverted);
        iterate(old);
        iterate(r);
        assert_true(refiner_state(r).inverted && !refiner_inverts(r));
        expect_same_fit(r, old, cases[c].fit);
        expect_inverted_maps(r, old, cases[c].map);
        invert_slowly(old->mask, mask);
        same_bits("the mask", r->mask, mask);
        refiner_destroy(&old);
        refiner_destroy(&r);
    }
}

/* The maps and poses that an inversion changes. */
struct content {
    float maps[2][2][VOXELS], combined[VOXELS], mask[VOXELS];
    double poses[COUNT][9];
};

static void take_content(const struct refiner *r, struct content *c) {
    for (int side = 0; side < 2; side++) {
        memcpy(c->maps[side][0], r->sides[side].references->map, sizeof c->mask);
        memcpy(c->maps[side][1], r->sides[side].references->unfiltered, sizeof c->mask);
    }
    memcpy(c->combined, r->combined, sizeof c->combined);
    memcpy(c->mask, r->mask, sizeof c->mask);
    for (int i = 0; i < COUNT; i++)
        memcpy(c->poses[i], r->set.particles[i].pose, sizeof *c->poses);
}

static void a_second_inversion_restores_every_bit(void **state) {
    static struct content before, between, after;
    struct world w;
    (void)state;
    make_world(&w, "twice");
    struct refiner *r = create(&w, 0, 1);
    merge(r, &w, "all");
    iterate(r);
    take_content(r, &before);
    refiner_set_hand(r, true);
    refiner_invert(r);
    take_content(r, &between);
    assert_true(refiner_state(r).inverted);
    for (int i = 0; i < 4; i++)
        inverted_bits("a map of a half", between.maps[i / 2][i % 2], before.maps[i / 2][i % 2]);
    inverted_bits("the map of both", between.combined, before.combined);
    inverted_bits("the mask", between.mask, before.mask);
    for (int i = 0; i < COUNT; i++)
        assert_true(turned_by(between.poses[i], before.poses[i]) < 0.1);
    refiner_set_hand(r, false);
    refiner_invert(r);
    take_content(r, &after);
    assert_false(refiner_state(r).inverted);
    assert_memory_equal(&before, &after, sizeof before);
    refiner_destroy(&r);
}

/* Continues from the files of `r`, with this hand, up to the beginning of the next iteration. */
static struct refiner *continued(struct world *w, const struct refiner *r, bool inverted) {
    struct err err = {0};
    struct refiner *again = create(w, 0, 1);
    if (refiner_resume(again, w->folder, refiner_state(r).iteration, &err) != STATUS_OK) fail_msg("%s", err.message);
    assert_true(refiner_state(again).inverted);
    refiner_set_hand(again, inverted);
    merge(again, w, "all");
    if (refiner_begin(again, &(struct refiner_iteration){.max_order = 1}, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    assert_true(refiner_state(again).inverted == inverted);
    return again;
}

/* Files name the hand. A run that goes on from them keeps it, or turns back. */
static void a_restart_keeps_the_hand(void **state) {
    static float inverted[VOXELS];
    struct world w;
    (void)state;
    make_world(&w, "restart");
    struct refiner *r = create(&w, 0, 1);
    merge(r, &w, "all");
    iterate(r);
    refiner_set_hand(r, true);
    iterate(r);
    assert_int_equal(refiner_write(r, w.folder, "refiner", 3, NULL), STATUS_OK);
    struct refiner *kept = continued(&w, r, true), *back = continued(&w, r, false);
    for (int side = 0; side < 2; side++) {
        same_bits("a reference", kept->sides[side].references->map, r->sides[side].references->map);
        invert_slowly(r->sides[side].references->map, inverted);
        same_bits("a reference that was turned back", back->sides[side].references->map, inverted);
    }
    same_bits("the mask", kept->mask, r->mask);
    invert_slowly(r->mask, inverted);
    same_bits("the mask that was turned back", back->mask, inverted);
    for (int i = 0; i < COUNT; i++) {
        const double *pose = r->set.particles[i].pose;
        for (int j = 0; j < 9; j++)
            assert_true(fabs(kept->set.particles[i].pose[j] - pose[j]) < 1e-5);
        assert_true(turned_by(back->set.particles[i].pose, pose) < 0.1);
    }
    refiner_destroy(&kept);
    refiner_destroy(&back);
    refiner_destroy(&r);
}

/* Poses of tables are in the hand of the reference, whenever they come. */
static void given_poses_are_turned(void **state) {
    struct world w;
    (void)state;
    make_world(&w, "given");
    struct refiner *r = create(&w, 1, 1);
    merge(r, &w, "first");
    iterate(r);
    refiner_set_hand(r, true);
    iterate(r);
    merge(r, &w, "second");
    for (int i = HALF; i < COUNT; i++) {
        double given[9];
        euler_to_matrix(w.angles[i][0], w.angles[i][1], w.angles[i][2], given);
        assert_true(turned_by(r->set.particles[i].pose, given) < 0.1);
    }
    refiner_destroy(&r);
}

/* ---- The stage ---- */

static void run(const struct world *w, const char *hand, const char *classes) {
    const char *parameters[] = {"reference",
                                w->reference,
                                "mask",
                                w->mask,
                                "diameter",
                                "150",
                                "poses",
                                "table",
                                "initial_lowpass",
                                "50",
                                "healpix_order",
                                "1",
                                "offset_range",
                                "3",
                                "keep_iterations",
                                "100",
                                "min_particles",
                                "100000",
                                "local_resolution",
                                "false",
                                "max_iterations",
                                "2",
                                "iterations",
                                "2",
                                "classes",
                                classes,
                                "invert_hand",
                                hand,
                                NULL};
    struct item *items[] = {particles_item("all", "particles", w->scratch)};
    run_refiner(w->scratch, parameters, items, 1);
}

/* Returns how many lines the history has, and how many of them are of inverted maps, and of final ones. */
static int lines_of(const struct world *w, int *ret_inverted, int *ret_final) {
    char path[PATH_SIZE], line[4096];
    int lines = 0;
    *ret_inverted = *ret_final = 0;
    assert_int_equal(path_join(w->folder, "history.jsonl", path, sizeof path, NULL), STATUS_OK);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    for (; fgets(line, sizeof line, f) != NULL; lines++) {
        *ret_inverted += strstr(line, "\"inverted\": true") != NULL;
        *ret_final += strstr(line, "\"final\": true") != NULL;
    }
    assert_int_equal(fclose(f), 0);
    return lines;
}

/* Returns the correlation of the final map with the object, or with the inverted object. */
static double likeness(const struct world *w, const char *name, bool inverted) {
    static float map[VOXELS], truth[VOXELS];
    double sums[6] = {0};
    read_map(w->folder, name, map);
    make_map(&w->object, truth, SIGMA);
    if (inverted) hand_invert_map(BOX, 1, truth);
    for (int i = 0; i < VOXELS; i++) {
        double x = i % BOX - BOX / 2, y = i / BOX % BOX - BOX / 2, z = i / BOX / BOX - BOX / 2;
        if (x * x + y * y + z * z > 100) continue;
        double a = map[i], b = truth[i], terms[] = {1, a, b, a * a, b * b, a * b};
        for (int j = 0; j < 6; j++)
            sums[j] += terms[j];
    }
    double n = sums[0], cov = sums[5] / n - sums[1] * sums[2] / n / n;
    return cov / sqrt((sums[3] / n - sums[1] * sums[1] / n / n) * (sums[4] / n - sums[2] * sums[2] / n / n));
}

static void expect_hand(const struct world *w, const char *name, bool inverted) {
    double like = likeness(w, name, inverted), other = likeness(w, name, !inverted);
    print_message("%s: like the object in its hand by %.3f, in the other by %.3f\n", name, like, other);
    if (!(like > 0.7 && like > other + 0.1))
        fail_msg("%s is of another hand: %.3f, %.3f (seed %u)", name, like, other, seed);
}

/* A refinement that has ended makes its final map once more in the other hand, and then has nothing to do. */
static void what_has_ended_is_made_anew(void **state) {
    static const char *const CLASSES[] = {"1", "2"};
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        struct world w;
        int inverted, final;
        make_world(&w, kind == 0 ? "ended" : "ended_classes");
        run(&w, "false", CLASSES[kind]);
        const int first = lines_of(&w, &inverted, &final), finals = final;
        assert_true(inverted == 0 && finals == (kind == 0));
        expect_hand(&w, "run_class001.mrc", false);
        run(&w, "true", CLASSES[kind]);
        const int second = lines_of(&w, &inverted, &final);
        assert_true(second > first && inverted == second - first && final == 2 * finals);
        expect_hand(&w, "run_class001.mrc", true);
        expect_hand(&w, "run_it001_class001.mrc", false);
        run(&w, "true", CLASSES[kind]);
        assert_int_equal(lines_of(&w, &inverted, &final), second);
        run(&w, "false", CLASSES[kind]);
        assert_true(lines_of(&w, &inverted, &final) > second);
        expect_hand(&w, "run_class001.mrc", false);
    }
}

int main(int argc, char **argv) {
    seed = argc > 1 ? (unsigned)atoi(argv[1]) : 7;
    printf("seed %u\n", seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_map_and_a_pose_are_inverted),
        cmocka_unit_test(the_next_iteration_fits_as_before),
        cmocka_unit_test(a_second_inversion_restores_every_bit),
        cmocka_unit_test(a_restart_keeps_the_hand),
        cmocka_unit_test(given_poses_are_turned),
        cmocka_unit_test(what_has_ended_is_made_anew),
    };
    return scratch_run("refiner-hand", tests, sizeof tests / sizeof *tests);
}
