/* Particles that are there twice are left out, the later one, and counted, however they come: no two halves share an
 * image. Withdrawn, the earlier one makes room for the later. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/formats/star.h"
#include "stages/refiner/files/particles_export.h"
#include "stages/refiner/refiner.h"
#include "stages/refiner/refiner_private.h"
#include "stages/refiner/schedule.h"
#include "stages/refiner/twins.h"
#include "tests/common/scratch.h"
#include "tests/stages/blobs.h"
#include "tests/stages/few_blobs.h"

enum { VOXELS = BOX * BOX * BOX, PIXELS = BOX * BOX };
static struct object object;

/* A row of a table of particles. */
struct row {
    const char *stack;
    int number; /* from 1 */
    const char *micrograph;
    double x, y; /* px of 2 Å */
    int half;
};

static void write_rows(const char *folder, const char *name, const struct row *rows, int count) {
    char path[PATH_SIZE + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f,
            "data_optics\n\nloop_\n_rlnOpticsGroup #1\n_rlnImagePixelSize #2\n_rlnMicrographPixelSize #3\n1 %g 2\n\n"
            "data_particles\n\nloop_\n_rlnImageName #1\n_rlnMicrographName #2\n_rlnCoordinateX #3\n"
            "_rlnCoordinateY #4\n_rlnRandomSubset #5\n_rlnOpticsGroup #6\n",
            PIXEL);
    for (int i = 0; i < count; i++)
        fprintf(f, "%06d@%s.mrcs %s %g %g %d 1\n", rows[i].number, rows[i].stack,
                rows[i].micrograph != NULL ? rows[i].micrograph : "None", rows[i].x, rows[i].y, rows[i].half);
    assert_int_equal(fclose(f), 0);
}

static void write_stack(const char *folder, const char *name, float *images, int count) {
    char path[PATH_SIZE + 64];
    const struct image image = {.nx = BOX, .ny = BOX, .nz = count, .pixel_size = (float)PIXEL, .data = images};
    snprintf(path, sizeof path, "%s/%s.mrcs", folder, name);
    assert_int_equal(mrc_write(path, &image, MRC_STACK, MRC_FLOAT32, NULL), STATUS_OK);
}

/* Makes a folder, a reference, and the images of a stack: of noise, or of the object with noise. */
static float *prepare(const char *name, char folder[PATH_SIZE], char reference[PATH_SIZE], int count, double noise) {
    static float map[VOXELS];
    scratch_path(name, folder);
    assert_int_equal(file_make_folders(folder, 0755, NULL), STATUS_OK);
    srand(6);
    make_object(&object, 14);
    make_map(&object, map, SIGMA);
    write_map(folder, "reference.mrc", map, reference);
    float *images = malloc(sizeof *images * PIXELS * (size_t)count);
    for (int i = 0; i < count; i++)
        make_image(&object, images + (size_t)i * PIXELS, noise, 0, 0);
    return images;
}

static struct refiner *create(const char *folder, const char *reference, int threads, double memory, int twins,
                              int classes) {
    struct refiner *refiner = NULL;
    struct err err = {0};
    struct refiner_options options = few_blobs_options();
    options.reference = (char *)(uintptr_t)reference;
    options.diameter = 150;
    options.memory = memory;
    options.twins = twins;
    options.classes = classes;
    options.iterations = 2;
    assert_ok(refiner_create(&options, &(struct refiner_context){.threads = threads, .root = folder}, &refiner, &err));
    return refiner;
}

static void merge(struct refiner *refiner, const char *folder, const char *name, bool replace) {
    char path[PATH_SIZE];
    struct star_file *file = NULL;
    struct err err = {0};
    assert_int_equal(path_join(folder, name, path, sizeof path, NULL), STATUS_OK);
    assert_ok(star_read(path, &file, &err));
    assert_ok(refiner_merge(refiner, &file, path, replace, NULL, &err));
}

/* Checks that no two images of the iteration that has just been compared are equal. */
static void assert_no_image_twice(const struct refiner *r) {
    for (int a = 0; a < r->side_count; a++)
        for (int i = 0; i < r->sides[a].member_count; i++)
            for (int b = a; b < r->side_count; b++)
                for (int j = b == a ? i + 1 : 0; j < r->sides[b].member_count; j++) {
                    const struct particle *p = &r->set.particles[r->sides[a].members[i]],
                                          *q = &r->set.particles[r->sides[b].members[j]];
                    if ((p->digest.low != 0 || p->digest.high != 0) && p->digest.low == q->digest.low &&
                        p->digest.high == q->digest.high)
                        fail_msg("%s and %s are compared both", p->name, q->name);
                }
}

static void iterate_with(struct refiner *refiner, const struct refiner_iteration *iteration) {
    bool complete = false;
    struct err err = {0};
    assert_ok(refiner_begin(refiner, iteration, &err));
    while (!complete)
        assert_ok(refiner_work(refiner, &complete, &err));
    if (!refiner->set.keep_twins) assert_no_image_twice(refiner);
}

static void iterate(struct refiner *refiner, bool final) {
    iterate_with(refiner, &(struct refiner_iteration){.max_order = 1, .final = final});
}

static const struct particle *find(const struct refiner *refiner, const char *name) {
    const struct particle *p = particle_find(&refiner->set, name);
    if (p == NULL) fail_msg("there is no %s", name);
    return p;
}

static bool counts(const struct refiner *refiner, const char *name) {
    return particle_counts(find(refiner, name));
}

/* 300 images of noise, and a copy of each in the other half. */
static void copies_in_the_other_half_bring_no_agreement(void **state) {
    (void)state;
    enum { COUNT = 300 };
    static struct row rows[2 * COUNT];
    char folder[PATH_SIZE], reference[PATH_SIZE];
    float *images = prepare("noise", folder, reference, COUNT, 100);
    write_stack(folder, "a", images, COUNT);
    write_stack(folder, "copies", images, COUNT);
    free(images);
    for (int i = 0; i < COUNT; i++) {
        rows[i] = (struct row){"a", i + 1, NULL, 0, 0, 1};
        rows[COUNT + i] = (struct row){"copies", i + 1, NULL, 0, 0, 2};
    }
    write_rows(folder, "twice.star", rows, 2 * COUNT);
    for (int keep = 0; keep < 2; keep++) {
        struct refiner *refiner = create(folder, reference, 2, 0.25, keep, 1);
        double finest = 1000;
        merge(refiner, folder, "twice.star", false);
        for (int i = 0; i < (keep ? 1 : 4); i++) {
            iterate(refiner, i == 3);
            finest = fmin(finest, refiner_state(refiner).resolution);
        }
        /* Halves are given 50 Å, and share 40 Å (shell 4.8): see noise_makes_no_map_that_is_believed. */
        double shared = BOX * PIXEL / 5;
        if (keep) {
            assert_true(finest < shared - 1);
            assert_int_equal(refiner_doubts(refiner).twins, 0);
            assert_int_equal(refiner_particles(refiner), 2 * COUNT);
        } else {
            if (!(finest >= shared - 1e-3)) fail_msg("copies of noise are told to hold %.1f Å", finest);
            const struct refiner_doubts doubts = refiner_doubts(refiner);
            assert_int_equal(doubts.twins, COUNT);
            assert_int_equal(refiner_state(refiner).twins, COUNT);
            assert_int_equal(refiner_particles(refiner), COUNT);
            assert_string_equal(doubts.twin, "000001@copies.mrcs");
            assert_string_equal(doubts.twin_of, "000001@a.mrcs");
            /* The halves are even again. */
            int second = refiner->sides[1].member_count;
            assert_true(second > COUNT / 3 && second < 2 * COUNT / 3);
            for (int i = 0; i < COUNT; i++)
                assert_int_equal(refiner->set.particles[i].twin, 0);
        }
        refiner_destroy(&refiner);
    }
}

/* 0.1 × 150 Å are 7.5 px of the micrograph. */
static void write_places(const char *folder) {
    const struct row first[] = {{"a", 1, "m1", 100, 100, 0}, {"a", 2, "m1", 107.5, 100, 0},
                                {"a", 3, "m1", 108, 100, 0}, {"a", 4, "m2", 100, 100, 0},
                                {"a", 5, NULL, 100, 100, 0}, {"a", 6, NULL, 100, 100, 0}};
    const struct row second[] = {{"b", 1, "m1", 105, 104, 0},
                                 {"b", 2, "m1", 115, 100, 0},
                                 {"b", 3, "m2", 0, 0, 0},
                                 {"b", 4, "m2", 0, 0, 0},
                                 {"b", 4, "m2", 0, 0, 0}};
    write_rows(folder, "first.star", first, 6);
    write_rows(folder, "second.star", second, 5);
    write_rows(folder, "without.star", first + 1, 5);
}

static void settle(struct refiner *refiner) {
    struct err err = {0};
    assert_ok(twins_settle(&refiner->set, &err));
}

/* Particle 2 is a twin of 1; 3 is near 2 alone, which is left out, so that it stays; the second table's 1 and 2 are near
 * the first's 1 and 3. Its 4 has two rows. */
static void assert_places(const struct refiner *r) {
    static const char *const STAY[] = {"000001@a.mrcs", "000003@a.mrcs", "000004@a.mrcs", "000005@a.mrcs",
                                       "000006@a.mrcs", "000003@b.mrcs", "000004@b.mrcs"};
    static const char *const LEAVE[] = {"000002@a.mrcs", "000001@b.mrcs", "000002@b.mrcs"};
    for (size_t i = 0; i < sizeof STAY / sizeof *STAY; i++)
        if (!counts(r, STAY[i])) fail_msg("%s is left out", STAY[i]);
    for (size_t i = 0; i < sizeof LEAVE / sizeof *LEAVE; i++)
        if (counts(r, LEAVE[i])) fail_msg("%s is not left out", LEAVE[i]);
    assert_int_equal(refiner_particles(r), 7);
    assert_int_equal(refiner_doubts(r).twins, 4);
    assert_int_equal(refiner_state(r).twins, 4);
}

static void one_place_has_one_particle(void **state) {
    (void)state;
    char folder[PATH_SIZE], reference[PATH_SIZE];
    float *images = prepare("places", folder, reference, 6, 1);
    write_stack(folder, "a", images, 6);
    write_stack(folder, "b", images, 6);
    free(images);
    write_places(folder);
    for (int order = 0; order < 2; order++) {
        struct refiner *refiner = create(folder, reference, 1, 0.25, 0, 1);
        merge(refiner, folder, order == 0 ? "first.star" : "second.star", false);
        settle(refiner);
        merge(refiner, folder, order == 0 ? "second.star" : "first.star", false);
        settle(refiner);
        assert_places(refiner);
        /* Without its first particle the next one counts again, and 3 is a twin of 2. */
        merge(refiner, folder, "without.star", true);
        assert_true(counts(refiner, "000002@a.mrcs") && !counts(refiner, "000003@a.mrcs"));
        assert_int_equal(refiner_doubts(refiner).twins, 1);
        merge(refiner, folder, "first.star", true);
        assert_true(!counts(refiner, "000002@a.mrcs") && counts(refiner, "000003@a.mrcs"));
        refiner_destroy(&refiner);
    }
    struct refiner *refiner = create(folder, reference, 1, 0.25, 1, 1);
    merge(refiner, folder, "first.star", false);
    settle(refiner);
    assert_int_equal(refiner_particles(refiner), 6);
    refiner_destroy(&refiner);
}

/* 80 images; the first 12 three times, in two stacks and again in the first; two that are constant. */
enum { SINGLES = 80, TRIPLES = 12, BLANKS = 2 };

static int write_triples(const char *name, char folder[PATH_SIZE], char reference[PATH_SIZE]) {
    enum { A = SINGLES + TRIPLES + BLANKS, ALL = A + TRIPLES };
    static struct row rows[ALL];
    float *images = prepare(name, folder, reference, A, 1);
    memcpy(images + SINGLES * PIXELS, images, sizeof *images * TRIPLES * PIXELS);
    for (int i = (SINGLES + TRIPLES) * PIXELS; i < A * PIXELS; i++)
        images[i] = 3;
    write_stack(folder, "a", images, A);
    write_stack(folder, "b", images, TRIPLES);
    free(images);
    /* The rows of the second stack come first: they are the earlier ones. */
    for (int i = 0; i < ALL; i++)
        rows[i] = i < TRIPLES ? (struct row){"b", i + 1, NULL, 0, 0, 0}
                              : (struct row){"a", i - TRIPLES + 1, NULL, 0, 0, 1 + i % 2};
    write_rows(folder, "all.star", rows, ALL);
    write_rows(folder, "without.star", rows + TRIPLES, A);
    return ALL;
}

static void assert_triples(const struct refiner *refiner, int all) {
    char name[64];
    for (int i = 0; i < TRIPLES; i++) {
        snprintf(name, sizeof name, "%06d@b.mrcs", i + 1);
        const struct particle *p = find(refiner, name);
        assert_true(particle_counts(p) && p->aligned);
        for (int copy = 0; copy < 2; copy++) {
            snprintf(name, sizeof name, "%06d@a.mrcs", copy * SINGLES + i + 1);
            assert_false(counts(refiner, name));
        }
    }
    assert_int_equal(refiner_doubts(refiner).twins, 2 * TRIPLES);
    assert_int_equal(refiner_doubts(refiner).spoiled, BLANKS);
    assert_int_equal(refiner_particles(refiner), all - 2 * TRIPLES);
}

static char *read_text(const char *folder, const char *name) {
    char path[PATH_SIZE], *text = NULL;
    size_t length;
    assert_int_equal(path_join(folder, name, path, sizeof path, NULL), STATUS_OK);
    assert_int_equal(file_read_whole(path, 1 << 24, &text, &length, NULL), STATUS_OK);
    return text;
}

/* The files are the same bytes with any number of threads, and whether images stay in memory or not. */
static void copies_are_left_out_in_the_same_way(void **state) {
    (void)state;
    static const char *const FILES[] = {"run_it003_data.star", "run_it003_half1_class001.mrc",
                                        "run_it003_half2_class001.mrc"};
    char folder[PATH_SIZE], reference[PATH_SIZE], out[PATH_SIZE + 16];
    struct err err = {0};
    const int all = write_triples("triples", folder, reference);
    const struct {
        int threads;
        size_t kept; /* images that memory has room for */
    } runs[] = {{1, 1000}, {4, 1000}, {2, 40}};
    char *texts[3][3];
    for (int run = 0; run < 3; run++) {
        struct refiner *refiner = create(folder, reference, runs[run].threads, 0.25, 0, 1);
        refiner->set.cache_limit = runs[run].kept * PIXELS * sizeof(float);
        merge(refiner, folder, "all.star", false);
        snprintf(out, sizeof out, "%s/out%d", folder, run);
        assert_int_equal(file_make_folders(out, 0755, NULL), STATUS_OK);
        for (int i = 0; i < 3; i++)
            iterate(refiner, false);
        assert_triples(refiner, all);
        assert_ok(refiner_write(refiner, out, "out", 9, &err));
        for (int i = 0; i < 3; i++) {
            char path[PATH_SIZE + 64];
            size_t length, other;
            snprintf(path, sizeof path, "%s/%s", out, FILES[i]);
            assert_ok(file_read_whole(path, 1 << 24, &texts[run][i], &length, &err));
            snprintf(path, sizeof path, "%s/out0/%s", folder, FILES[i]);
            if (run > 0) {
                char *wanted = NULL;
                assert_ok(file_read_whole(path, 1 << 24, &wanted, &other, &err));
                if (length != other || memcmp(wanted, texts[run][i], length) != 0)
                    fail_msg("%s differs in run %d", FILES[i], run);
                free(wanted);
            }
        }
        refiner_destroy(&refiner);
    }
    for (int run = 0; run < 3; run++)
        for (int i = 0; i < 3; i++)
            free(texts[run][i]);
}

static void assert_table(const char *folder, const char *name, int particles, int twins) {
    char path[PATH_SIZE];
    struct star_file *file = NULL;
    assert_int_equal(path_join(folder, name, path, sizeof path, NULL), STATUS_OK);
    assert_int_equal(star_read(path, &file, NULL), STATUS_OK);
    assert_int_equal(star_row_count(star_table_find(file, "particles")), particles);
    assert_int_equal(star_row_count(star_table_find(file, "twins")), twins);
    star_destroy(&file);
}

/* Notes halves and twins by name. */
static void describe(const struct refiner *refiner, char *text, size_t size) {
    size_t used = 0;
    for (size_t i = 0; i < refiner->set.count && used < size; i++) {
        const struct particle *p = &refiner->set.particles[i];
        used +=
            (size_t)snprintf(text + used, size - used, "%s %d %s%s\n", p->name, p->twin == 0 ? p->half : -1,
                             p->twin > 0 ? refiner->set.particles[p->twin - 1].name : "", p->source < 0 ? " gone" : "");
    }
}

/* A run that goes on from the files of its first iteration leaves out the same particles, keeps halves and poses, and
 * knows when all is done. */
static void a_run_that_goes_on_knows_its_twins(void **state) {
    (void)state;
    static char straight[1 << 16], resumed[1 << 16];
    char folder[PATH_SIZE], reference[PATH_SIZE], name[64];
    struct err err = {0};
    const int all = write_triples("resumed", folder, reference);
    struct refiner *refiner = create(folder, reference, 2, 0.25, 0, 1);
    merge(refiner, folder, "all.star", false);
    iterate(refiner, false);
    assert_ok(refiner_write(refiner, folder, "x", 9, &err));
    assert_table(folder, "run_it001_data.star", all - 2 * TRIPLES, 2 * TRIPLES);
    iterate(refiner, false);
    describe(refiner, straight, sizeof straight);
    refiner_destroy(&refiner);

    refiner = create(folder, reference, 2, 0.25, 0, 1);
    assert_ok(refiner_resume(refiner, folder, 1, &err));
    merge(refiner, folder, "all.star", false);
    assert_ok(refiner_begin(refiner, &(struct refiner_iteration){.max_order = 1}, &err));
    assert_int_equal(refiner_particles(refiner), all - 2 * TRIPLES); /* before any image is read */
    for (int i = 0; i < TRIPLES; i++) {                              /* with the pose of the twin that was compared */
        snprintf(name, sizeof name, "%06d@b.mrcs", i + 1);
        assert_true(find(refiner, name)->aligned);
    }
    for (bool complete = false; !complete;)
        assert_ok(refiner_work(refiner, &complete, &err));
    describe(refiner, resumed, sizeof resumed);
    assert_string_equal(resumed, straight);
    iterate(refiner, true);
    assert_triples(refiner, all);
    assert_ok(refiner_write(refiner, folder, "x", 9, &err));
    assert_table(folder, "run_data.star", all - 2 * TRIPLES, 2 * TRIPLES);
    char path[PATH_SIZE];
    assert_int_equal(path_join(folder, "postprocess.star", path, sizeof path, NULL), STATUS_OK);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fclose(f), 0);
    refiner_destroy(&refiner);
    refiner = create(folder, reference, 2, 0.25, 0, 1);
    merge(refiner, folder, "all.star", false);
    assert_true(refiner_is_final(refiner, folder));
    merge(refiner, folder, "without.star", true);
    assert_false(refiner_is_final(refiner, folder));
    refiner_destroy(&refiner);
    char *text = read_text(folder, "run_data.star");
    assert_non_null(strstr(text, "data_twins"));
    free(text);
}

/* The rows of the second stack are withdrawn: the copies of the first stack count, one of each. */
static void the_next_twin_counts_when_the_first_is_gone(void **state) {
    (void)state;
    char folder[PATH_SIZE], reference[PATH_SIZE], name[64];
    const int all = write_triples("withdrawn", folder, reference);
    struct refiner *refiner = create(folder, reference, 2, 0.25, 0, 1);
    merge(refiner, folder, "all.star", false);
    iterate(refiner, false);
    iterate(refiner, false);
    assert_triples(refiner, all);
    merge(refiner, folder, "without.star", true);
    assert_int_equal(refiner_particles(refiner), all - 2 * TRIPLES);
    iterate(refiner, false);
    for (int i = 0; i < TRIPLES; i++) {
        snprintf(name, sizeof name, "%06d@a.mrcs", i + 1);
        assert_true(counts(refiner, name));
        snprintf(name, sizeof name, "%06d@a.mrcs", SINGLES + i + 1);
        assert_false(counts(refiner, name));
    }
    assert_int_equal(refiner_doubts(refiner).twins, TRIPLES);
    merge(refiner, folder, "all.star", true);
    iterate(refiner, true);
    assert_triples(refiner, all);
    refiner_destroy(&refiner);
}

/* The first iteration of a classification seeds the classes, each from its own members. */
static void classes_share_no_image_either(void **state) {
    (void)state;
    char folder[PATH_SIZE], reference[PATH_SIZE];
    const int all = write_triples("classes", folder, reference);
    for (int classes = 2; classes < 9; classes += 6) {
        struct refiner *refiner = create(folder, reference, 2, 0.25, 0, classes);
        merge(refiner, folder, "all.star", false);
        for (int i = 0; i < 3; i++) {
            iterate(refiner, false);
            assert_int_equal(refiner->sides[0].member_count, all - 2 * TRIPLES);
        }
        assert_triples(refiner, all);
        refiner_destroy(&refiner);
    }
}

/* The first iterations see a part of the particles: an image may be in the map of a half before its twin is met in the
 * other one. Copies arrive later, too, with rows before those of the first. */
static void an_image_stays_in_its_half(void **state) {
    (void)state;
    enum { COUNT = 80, LATER = 30 };
    static struct row rows[2 * COUNT + LATER];
    static int halves[COUNT]; /* 1, 2; 0: not seen yet */
    char folder[PATH_SIZE], reference[PATH_SIZE];
    float *images = prepare("halves", folder, reference, COUNT, 1);
    write_stack(folder, "a", images, COUNT);
    write_stack(folder, "b", images, COUNT);
    write_stack(folder, "c", images, LATER);
    free(images);
    for (int i = 0; i < 2 * COUNT + LATER; i++)
        rows[i] = (struct row){i < COUNT ? "a" : i < 2 * COUNT ? "b" : "c", i % COUNT + 1, NULL, 0, 0, 0};
    write_rows(folder, "m.star", rows, 2 * COUNT);
    write_rows(folder, "b.star", rows + 2 * COUNT, LATER);
    static const size_t MOST[] = {40, 70, 0, 0, 0};
    struct refiner *refiner = create(folder, reference, 2, 0.25, 0, 1);
    memset(halves, 0, sizeof halves);
    merge(refiner, folder, "m.star", false);
    for (int i = 0; i < 5; i++) {
        if (i == 3) merge(refiner, folder, "b.star", false);
        iterate_with(refiner, &(struct refiner_iteration){.max_order = 1, .most = MOST[i], .final = i == 4});
        for (int side = 0; side < 2; side++)
            for (int j = 0; j < refiner->sides[side].member_count; j++) {
                int *half = &halves[refiner->set.particles[refiner->sides[side].members[j]].slice];
                if (*half != 0 && *half != side + 1) fail_msg("an image is in both halves, by iteration %d", i + 1);
                *half = side + 1;
            }
    }
    assert_int_equal(refiner_particles(refiner), COUNT);
    assert_int_equal(refiner_doubts(refiner).twins, COUNT + LATER);
    for (int i = 0; i < LATER; i++) {
        char name[64];
        snprintf(name, sizeof name, "%06d@c.mrcs", i + 1);
        assert_true(counts(refiner, name));
    }
    refiner_destroy(&refiner);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_place_has_one_particle),
        cmocka_unit_test(copies_are_left_out_in_the_same_way),
        cmocka_unit_test(a_run_that_goes_on_knows_its_twins),
        cmocka_unit_test(the_next_twin_counts_when_the_first_is_gone),
        cmocka_unit_test(an_image_stays_in_its_half),
        cmocka_unit_test(classes_share_no_image_either),
        cmocka_unit_test(copies_in_the_other_half_bring_no_agreement),
    };
    return scratch_run("refiner_twins", tests, sizeof tests / sizeof *tests);
}
