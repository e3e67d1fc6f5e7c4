/* A refinement begins with the poses of the table. Poses are true or known to be off; the truth is that of the images.
 * Seed as printed: test_refiner_given [SEED]. */
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
#include "kernels/sampling/sampling.h"
#include "kernels/symmetry/symmetry.h"
#include "tests/common/scratch.h"
#include "tests/stages/few_blobs.h"
#include "tests/stages/refiner_runs.h"

enum { COUNT = 128, KINDS = 2 };
static const double NOISE = 0.4, DEGREE = M_PI / 180;
static unsigned seed;

/* A pose as a table gives it. */
struct posed {
    double angles[3], origin[2]; /* °, px */
    int half;                    /* rlnRandomSubset */
};

struct world {
    char scratch[PATH_SIZE], folder[PATH_SIZE + 16], reference[PATH_SIZE];
    struct object objects[KINDS];
    struct posed truth[COUNT];
};

/* Forms in which a table gives poses. */
enum form { ANGSTROM, PIXELS, WITHOUT_ORIGINS, WITHOUT_PSI, ONE_ORIGIN };

static void draw(const struct object *o, const struct posed *p, float *image) {
    double x[3], y[3];
    axes(p->angles[0] * DEGREE, p->angles[1] * DEGREE, p->angles[2] * DEGREE, x, y);
    for (int i = 0; i < BOX * BOX; i++)
        image[i] = (float)(NOISE * normal());
    for (int b = 0; b < o->count; b++) {
        double bx = -p->origin[0], by = -p->origin[1];
        for (int j = 0; j < 3; j++)
            bx += x[j] * o->blobs[b][j], by += y[j] * o->blobs[b][j];
        for (int i = 0; i < BOX * BOX; i++) {
            double dx = i % BOX - BOX / 2 - bx, dy = i / BOX - BOX / 2 - by;
            image[i] += (float)(o->blobs[b][3] * exp(-(dx * dx + dy * dy) / (2 * SIGMA * SIGMA)));
        }
    }
}

/* Writes rows first .. end − 1 of the stack. */
static void write_table(const struct world *w, const char *name, const struct posed *poses, int first, int end,
                        enum form form) {
    char path[PATH_SIZE + 64];
    snprintf(path, sizeof path, "%s/%s.star", w->scratch, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "data_\n\nloop_\n_rlnImageName\n_rlnMagnification\n_rlnDetectorPixelSize\n_rlnRandomSubset\n"
               "_rlnAngleRot\n_rlnAngleTilt\n");
    if (form != WITHOUT_PSI) fprintf(f, "_rlnAnglePsi\n");
    if (form != WITHOUT_ORIGINS)
        fprintf(f, form == PIXELS ? "_rlnOriginX\n_rlnOriginY\n" : "_rlnOriginXAngst\n%s",
                form == ONE_ORIGIN ? "" : "_rlnOriginYAngst\n");
    for (int i = first; i < end; i++) {
        const struct posed *p = &poses[i];
        double unit = form == PIXELS ? 1 : PIXEL;
        fprintf(f, "%06d@p.mrcs 10000 %g %d %.6f %.6f", i + 1, PIXEL, p->half, p->angles[0], p->angles[1]);
        if (form != WITHOUT_PSI) fprintf(f, " %.6f", p->angles[2]);
        if (form != WITHOUT_ORIGINS) fprintf(f, " %.6f", p->origin[0] * unit);
        if (form != WITHOUT_ORIGINS && form != ONE_ORIGIN) fprintf(f, " %.6f", p->origin[1] * unit);
        fprintf(f, "\n");
    }
    assert_int_equal(fclose(f), 0);
}

/* Particles show the two objects in turn. */
static void make_world(struct world *w, const char *name, int kinds) {
    static float stack[COUNT][BOX * BOX], map[BOX * BOX * BOX];
    char path[PATH_SIZE];
    *w = (struct world){0};
    srand(seed);
    scratch_path(name, w->scratch);
    assert_int_equal(file_make_folders(w->scratch, 0755, NULL), STATUS_OK);
    snprintf(w->folder, sizeof w->folder, "%s/refiner", w->scratch);
    make_object(&w->objects[0], 14);
    w->objects[1] = w->objects[0];
    w->objects[1].count = 9;
    make_map(&w->objects[0], map, SIGMA);
    write_map(w->scratch, "reference.mrc", map, w->reference);
    for (int i = 0; i < COUNT; i++) {
        w->truth[i] = (struct posed){{360 * uniform() - 180, acos(2 * uniform() - 1) / DEGREE, 360 * uniform() - 180},
                                     {4 * uniform() - 2, 4 * uniform() - 2},
                                     1 + (i % 7 < 3)};
        draw(&w->objects[i % kinds], &w->truth[i], stack[i]);
    }
    const struct image image = {
        .nx = BOX, .ny = BOX, .nz = COUNT, .pixel_size = (float)PIXEL, .data = (float *)(void *)stack};
    assert_int_equal(path_join(w->scratch, "p.mrcs", path, sizeof path, NULL), STATUS_OK);
    assert_int_equal(mrc_write(path, &image, MRC_STACK, MRC_FLOAT32, NULL), STATUS_OK);
}

static double angle_between(const double a[3], const double b[3]) {
    double m[9], n[9], trace = 0;
    euler_to_matrix(a[0], a[1], a[2], m);
    euler_to_matrix(b[0], b[1], b[2], n);
    for (int i = 0; i < 9; i++)
        trace += m[i] * n[i];
    return acos(fmax(fmin((trace - 1) / 2, 1), -1)) / DEGREE;
}

static double distance_between(const struct posed *a, const struct posed *b) {
    return hypot(a->origin[0] - b->origin[0], a->origin[1] - b->origin[1]);
}

/* Turns each pose by `degrees` about an axis of its own, and moves its origin by `px`. */
static void perturb(struct posed *poses, double degrees, double px) {
    for (int i = 0; i < COUNT; i++) {
        double m[9], turn[9], turned[9] = {0}, rot = 360 * uniform(), tilt = acos(2 * uniform() - 1) / DEGREE,
                              along = 2 * M_PI * uniform();
        struct posed *p = &poses[i];
        euler_to_matrix(p->angles[0], p->angles[1], p->angles[2], m);
        /* Turn the axis to z, turn about z, turn it back. */
        double to[9], back[9] = {0};
        euler_to_matrix(rot, tilt, 0, to);
        euler_to_matrix(degrees, 0, 0, turn);
        for (int r = 0; r < 3; r++)
            for (int c = 0; c < 3; c++)
                for (int k = 0; k < 9; k++)
                    back[3 * r + c] += to[3 * (k / 3) + r] * turn[k] * to[3 * (k % 3) + c];
        for (int r = 0; r < 3; r++)
            for (int c = 0; c < 3; c++)
                for (int k = 0; k < 3; k++)
                    turned[3 * r + c] += m[3 * r + k] * back[3 * k + c];
        matrix_to_euler(turned, &p->angles[0], &p->angles[1], &p->angles[2]);
        p->origin[0] += px * cos(along), p->origin[1] += px * sin(along);
    }
}

/* Reads poses of a data file into poses[COUNT]. Returns how many. */
static int read_poses(const struct world *w, const char *name, struct posed *poses) {
    static const char *const COLUMNS[] = {"rlnAngleRot",     "rlnAngleTilt",    "rlnAnglePsi",
                                          "rlnOriginXAngst", "rlnOriginYAngst", "rlnRandomSubset"};
    char path[PATH_SIZE];
    struct star_file *file = NULL;
    assert_int_equal(path_join(w->folder, name, path, sizeof path, NULL), STATUS_OK);
    assert_int_equal(star_read(path, &file, NULL), STATUS_OK);
    const struct star_table *t = star_table_find(file, "particles");
    assert_non_null(t);
    int image = star_column_find(t, "rlnImageName"), count = (int)star_row_count(t);
    for (int row = 0; row < count; row++) {
        int number = atoi(star_get(t, (size_t)row, image));
        double v[6];
        assert_true(number >= 1 && number <= COUNT);
        for (int i = 0; i < 6; i++)
            assert_int_equal(star_need_number(t, (size_t)row, COLUMNS[i], -1e4, 1e4, &v[i], NULL), STATUS_OK);
        poses[number - 1] = (struct posed){{v[0], v[1], v[2]}, {v[3] / PIXEL, v[4] / PIXEL}, (int)v[5]};
    }
    star_destroy(&file);
    return count;
}

static int iterations_of(const struct world *w) {
    char path[PATH_SIZE];
    int lines = 0;
    assert_int_equal(path_join(w->folder, "history.jsonl", path, sizeof path, NULL), STATUS_OK);
    FILE *f = fopen(path, "r");
    if (f == NULL) return 0;
    for (int c; (c = fgetc(f)) != EOF;)
        lines += c == '\n';
    fclose(f);
    return lines;
}

/* Runs the stage on tables of these names, in pairs of parameters up to NULL. */
static enum status run(const struct world *w, const char *const *names, size_t count, const char *const *more,
                       struct err *err) {
    const char *parameters[40] = {
        "reference",    w->reference, "diameter",      "150",    "initial_lowpass", "50",  "healpix_order",    "1",
        "offset_range", "3",          "min_particles", "100000", "keep_iterations", "100", "local_resolution", "false"};
    struct item *items[2], **out = NULL;
    size_t out_count = 0, at = 16;
    for (; *more != NULL; more++)
        parameters[at++] = *more;
    for (size_t i = 0; i < count; i++)
        items[i] = particles_item(names[i], "particles", w->scratch);
    enum status status =
        stage_run_in_process(&refiner_stage, w->scratch, parameters, items, count, &out, &out_count, err);
    free(out);
    for (size_t i = 0; i < count; i++)
        item_destroy(&items[i]);
    return status;
}

static void run_well(const struct world *w, const char *const *names, size_t count, const char *const *more) {
    struct err err = {0};
    if (run(w, names, count, more, &err) != STATUS_OK) fail_msg("%s (seed %u)", err.message, seed);
}

static void near(const char *what, int particle, double value, double expected, double tolerance) {
    if (!(fabs(value - expected) <= tolerance))
        fail_msg("%s of particle %d is %.9g, %.9g was expected (seed %u)", what, particle + 1, value, expected, seed);
}

static void same_poses(const struct posed *a, const struct posed *b) {
    for (int i = 0; i < COUNT; i++) {
        near("turn", i, angle_between(a[i].angles, b[i].angles), 0, 2e-2);
        near("shift", i, distance_between(&a[i], &b[i]), 0, 1e-4);
        near("half", i, a[i].half, b[i].half, 0);
    }
}

/* Returns how much like the object a map is: its correlation inside a sphere. */
static double likeness(const struct world *w, const char *name, int object) {
    static float map[BOX * BOX * BOX], truth[BOX * BOX * BOX];
    double sums[6] = {0};
    read_map(w->folder, name, map);
    make_map(&w->objects[object], truth, SIGMA);
    for (int i = 0; i < BOX * BOX * BOX; i++) {
        double x = i % BOX - BOX / 2, y = i / BOX % BOX - BOX / 2, z = i / BOX / BOX - BOX / 2;
        if (x * x + y * y + z * z > 150) continue;
        double a = map[i], b = truth[i], terms[] = {1, a, b, a * a, b * b, a * b};
        for (int j = 0; j < 6; j++)
            sums[j] += terms[j];
    }
    double n = sums[0], cov = sums[5] / n - sums[1] * sums[2] / n / n;
    return cov / sqrt((sums[3] / n - sums[1] * sums[1] / n / n) * (sums[4] / n - sums[2] * sums[2] / n / n));
}

/* Expects that neither a check of the file nor a merge accepts it. */
static void expect_refusal(const struct world *w, struct refiner_options options, const char *expected) {
    char path[PATH_SIZE];
    struct refiner *refiner = NULL;
    struct star_file *file = NULL;
    struct err err[2] = {{0}};
    options.reference = (char *)(uintptr_t)w->reference;
    options.diameter = 150;
    assert_int_equal(refiner_create(&options, &(struct refiner_context){.threads = 1}, &refiner, NULL), STATUS_OK);
    assert_int_equal(path_join(w->scratch, "table.star", path, sizeof path, NULL), STATUS_OK);
    assert_int_equal(star_read(path, &file, NULL), STATUS_OK);
    assert_int_equal(refiner_try(refiner, &file, path, &err[0]), STATUS_BAD_FORMAT);
    assert_int_equal(refiner_merge(refiner, &file, path, false, NULL, &err[1]), STATUS_BAD_FORMAT);
    for (int i = 0; i < 2; i++)
        if (strstr(err[i].message, expected) == NULL || strstr(err[i].message, path) == NULL)
            fail_msg("'%s', not '%s'", err[i].message, expected);
    refiner_destroy(&refiner);
}

static void a_table_without_poses_is_refused(void **state) {
    (void)state;
    struct world w;
    struct refiner_options table = few_blobs_options(), kept = few_blobs_options();
    table.poses = 1;
    kept.skip_align = true;
    make_world(&w, "refused", 1);
    write_table(&w, "table", w.truth, 0, COUNT, WITHOUT_PSI);
    expect_refusal(&w, table,
                   "has no column rlnAnglePsi, but poses are to be those of the table: give a table with "
                   "rlnAngleRot, rlnAngleTilt and rlnAnglePsi");
    expect_refusal(&w, kept, "has no column rlnAnglePsi");
    write_table(&w, "table", w.truth, 0, COUNT, ONE_ORIGIN);
    expect_refusal(&w, table, "has the column rlnOriginXAngst, but not rlnOriginYAngst");
    w.truth[11].angles[1] = NAN;
    write_table(&w, "table", w.truth, 0, COUNT, ANGSTROM);
    expect_refusal(&w, table, "particle 12: rlnAngleTilt is 'nan'");
}

/* True poses that are kept make the map in one iteration and the final one, whichever unit their origins have. */
static void kept_poses_stay(void **state) {
    static const char *const NAMES[] = {"table"}, *const KEPT[] = {"skip_align", "true", NULL};
    static const enum form FORMS[] = {ANGSTROM, PIXELS};
    (void)state;
    for (int form = 0; form < 2; form++) {
        struct world w;
        struct posed found[COUNT];
        make_world(&w, form == 0 ? "kept" : "kept_px", 1);
        write_table(&w, "table", w.truth, 0, COUNT, FORMS[form]);
        run_well(&w, NAMES, 1, KEPT);
        assert_int_equal(iterations_of(&w), 2);
        assert_int_equal(read_poses(&w, "run_data.star", found), COUNT);
        same_poses(found, w.truth);
        double alike = likeness(&w, "run_class001.mrc", 0);
        print_message("kept poses: map like the truth by %.3f\n", alike);
        assert_true(alike > 0.9);
        run_well(&w, NAMES, 1, KEPT);
        assert_int_equal(iterations_of(&w), 2);
    }
}

static void origins_may_be_missing(void **state) {
    static const char *const NAMES[] = {"table"}, *const KEPT[] = {"skip_align", "true", NULL};
    (void)state;
    struct world w;
    struct posed found[COUNT];
    make_world(&w, "no_origins", 1);
    write_table(&w, "table", w.truth, 0, COUNT, WITHOUT_ORIGINS);
    run_well(&w, NAMES, 1, KEPT);
    assert_int_equal(read_poses(&w, "run_data.star", found), COUNT);
    for (int i = 0; i < COUNT; i++)
        w.truth[i].origin[0] = w.truth[i].origin[1] = 0;
    same_poses(found, w.truth);
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_turn(const struct posed *a, const struct posed *b) {
    double turns[COUNT];
    for (int i = 0; i < COUNT; i++)
        turns[i] = angle_between(a[i].angles, b[i].angles);
    qsort(turns, COUNT, sizeof *turns, ascending);
    return turns[COUNT / 2];
}

/* Expects direction and in-plane angle each within the range, wherever the pole is. The half angle of the rotation
 * between two poses has the cosine cos(direction/2) cos(plane/2). Tables have six digits. */
static void expect_within(const struct posed *found, const struct posed *given, double range) {
    double most = 0;
    for (int i = 0; i < COUNT; i++) {
        double m[9], n[9], half = cos(angle_between(found[i].angles, given[i].angles) * DEGREE / 2);
        euler_to_matrix(found[i].angles[0], found[i].angles[1], found[i].angles[2], m);
        euler_to_matrix(given[i].angles[0], given[i].angles[1], given[i].angles[2], n);
        double view = acos(fmin(m[6] * n[6] + m[7] * n[7] + m[8] * n[8], 1));
        double plane = 2 * acos(fmin(half / cos(view / 2), 1));
        most = fmax(most, fmax(view, plane) / DEGREE);
    }
    print_message("%.2f° away at most, range %g°\n", most, range);
    if (!(most < range + 1e-2)) fail_msg("a pose is %.2f° away, range %g° (seed %u)", most, range, seed);
    assert_true(most > 0.5 * range);
}

/* Poses that are off come nearer. The first iteration leaves them, the second finds all within the range. */
static void poses_come_back(void **state) {
    static const char *const NAMES[] = {"table"}, *const TABLE[] = {"poses", "table", "local_range", "8", NULL};
    (void)state;
    struct world w;
    struct posed given[COUNT], found[COUNT];
    make_world(&w, "near", 1);
    memcpy(given, w.truth, sizeof given);
    perturb(given, 5, 1);
    near("median turn", 0, median_turn(given, w.truth), 5, 1e-3);
    write_table(&w, "table", given, 0, COUNT, ANGSTROM);
    run_well(&w, NAMES, 1, TABLE);
    assert_int_equal(read_poses(&w, "run_it001_data.star", found), COUNT);
    same_poses(found, given);
    assert_int_equal(read_poses(&w, "run_it002_data.star", found), COUNT);
    expect_within(found, given, 8);
    assert_int_equal(read_poses(&w, "run_data.star", found), COUNT);
    double off = median_turn(found, w.truth);
    print_message("poses 5° off: %.2f° off in the end\n", off);
    if (!(off < 3.5)) fail_msg("poses are %.2f° off (seed %u)", off, seed);
    for (int i = 0; i < COUNT; i++)
        near("half", i, found[i].half, given[i].half, 0);
}

/* Poses that are all wrong stay near what was given in the first search. */
static void far_poses_stay_within_the_range(void **state) {
    static const char *const NAMES[] = {"table"};
    static const char *const TABLE[] = {"poses", "table", "local_range", "4", "max_iterations", "2", NULL};
    (void)state;
    struct world w;
    struct posed given[COUNT], found[COUNT];
    make_world(&w, "far", 1);
    memcpy(given, w.truth, sizeof given);
    perturb(given, 60, 0);
    write_table(&w, "table", given, 0, COUNT, ANGSTROM);
    run_well(&w, NAMES, 1, TABLE);
    assert_int_equal(read_poses(&w, "run_it002_data.star", found), COUNT);
    expect_within(found, given, 4);
}

/* A run that ended early goes on from what it found, not from the table. */
static void a_run_goes_on(void **state) {
    static const char *const NAMES[] = {"table"};
    static const char *const CUT[] = {"poses", "table", "max_iterations", "3", NULL};
    (void)state;
    struct world w;
    struct posed given[COUNT], before[COUNT], after[COUNT];
    make_world(&w, "again", 1);
    memcpy(given, w.truth, sizeof given);
    perturb(given, 6, 1);
    write_table(&w, "table", given, 0, COUNT, ANGSTROM);
    run_well(&w, NAMES, 1, CUT);
    assert_int_equal(iterations_of(&w), 4);
    assert_int_equal(read_poses(&w, "run_it003_data.star", before), COUNT);
    char path[PATH_SIZE];
    assert_int_equal(path_join(w.folder, "run_data.star", path, sizeof path, NULL), STATUS_OK);
    assert_int_equal(remove(path), 0); /* the final files are not there: the run goes on */
    run_well(&w, NAMES, 1, CUT);
    assert_true(iterations_of(&w) > 4);
    assert_int_equal(read_poses(&w, "run_it004_data.star", after), COUNT);
    double on = median_turn(after, before), anew = median_turn(after, given);
    print_message("one iteration later: %.2f° from what was found, %.2f° from the table\n", on, anew);
    if (!(on < anew)) fail_msg("%.2f° from what was found, %.2f° from the table (seed %u)", on, anew, seed);
}

/* Two items of a stream bring their own poses; the second one is there when the first has its map. */
static void later_particles_bring_their_poses(void **state) {
    static const char *const NAMES[] = {"first", "second"};
    static const char *const KEPT[] = {"skip_align", "true", "min_particles", "50", NULL};
    (void)state;
    struct world w;
    struct posed found[COUNT];
    make_world(&w, "stream", 1);
    write_table(&w, "first", w.truth, 0, COUNT / 2, ANGSTROM);
    write_table(&w, "second", w.truth, COUNT / 2, COUNT, PIXELS);
    run_well(&w, NAMES, 1, KEPT);
    assert_int_equal(read_poses(&w, "run_data.star", found), COUNT / 2);
    run_well(&w, NAMES, 2, KEPT);
    assert_int_equal(read_poses(&w, "run_data.star", found), COUNT);
    same_poses(found, w.truth);
    assert_true(likeness(&w, "run_class001.mrc", 0) > 0.9);
}

/* Returns the share of particles that are in the class of their kind; classes may be in either order. Expects that no
 * particle is missing. */
static double sorted_share(const struct world *w, const char *name) {
    char path[PATH_SIZE];
    struct star_file *file = NULL;
    int right = 0;
    assert_int_equal(path_join(w->folder, name, path, sizeof path, NULL), STATUS_OK);
    assert_int_equal(star_read(path, &file, NULL), STATUS_OK);
    const struct star_table *t = star_table_find(file, "particles");
    int image = star_column_find(t, "rlnImageName");
    assert_int_equal(star_row_count(t), COUNT);
    for (size_t row = 0; row < COUNT; row++) {
        double class_number;
        assert_int_equal(star_need_number(t, row, "rlnClassNumber", 1, KINDS, &class_number, NULL), STATUS_OK);
        right += (atoi(star_get(t, row, image)) - 1) % KINDS == (int)class_number - 1;
    }
    star_destroy(&file);
    return fmax(right, COUNT - right) / COUNT;
}

/* Expects one class for each kind, whose map is that of the kind, and particles in their class. */
static void expect_sorted(const struct world *w, double least_alike, double least_sorted) {
    double like[KINDS][KINDS], sorted = sorted_share(w, "run_data.star");
    for (int kind = 0; kind < KINDS; kind++)
        for (int k = 0; k < KINDS; k++)
            like[kind][k] = likeness(w, k == 0 ? "run_class001.mrc" : "run_class002.mrc", kind);
    int first = like[0][0] > like[0][1] ? 0 : 1;
    print_message("classes like the kinds: %.3f %.3f, %.3f %.3f; %.3f sorted\n", like[0][0], like[0][1], like[1][0],
                  like[1][1], sorted);
    if (!(like[0][first] > least_alike && like[1][1 - first] > least_alike && sorted >= least_sorted))
        fail_msg("the kinds are not told apart (seed %u)", seed);
}

/* Two classes from one reference, at poses that are kept: each class holds one kind. */
static void kept_poses_are_classified(void **state) {
    static const char *const NAMES[] = {"table"};
    static const char *const KEPT[] = {"skip_align", "true", "classes", "2", "iterations", "12", NULL};
    (void)state;
    struct world w;
    struct posed found[COUNT];
    make_world(&w, "classes", KINDS);
    write_table(&w, "table", w.truth, 0, COUNT, ANGSTROM);
    run_well(&w, NAMES, 1, KEPT);
    assert_int_equal(read_poses(&w, "run_data.star", found), COUNT);
    same_poses(found, w.truth);
    expect_sorted(&w, 0.9, 0.95);
}

/* Two classes that search near poses that are off: particles are sorted, and their poses come nearer. */
static void poses_are_searched_while_classes_are_told_apart(void **state) {
    static const char *const NAMES[] = {"table"};
    static const char *const TABLE[] = {"poses", "table", "local_range", "6", "classes", "2", "iterations", "10", NULL};
    (void)state;
    struct world w;
    struct posed given[COUNT], found[COUNT];
    make_world(&w, "classes_near", KINDS);
    memcpy(given, w.truth, sizeof given);
    perturb(given, 5, 1);
    write_table(&w, "table", given, 0, COUNT, ANGSTROM);
    run_well(&w, NAMES, 1, TABLE);
    assert_int_equal(read_poses(&w, "run_it001_data.star", found), COUNT);
    same_poses(found, given);
    assert_int_equal(read_poses(&w, "run_it002_data.star", found), COUNT);
    expect_within(found, given, 6);
    assert_int_equal(read_poses(&w, "run_data.star", found), COUNT);
    double off = median_turn(found, w.truth);
    print_message("classes, poses 5° off: %.2f° off in the end\n", off);
    if (!(off < 4.75)) fail_msg("poses are %.2f° off (seed %u)", off, seed);
    expect_sorted(&w, 0.9, 0.9);
}

int main(int argc, char **argv) {
    seed = argc > 1 ? (unsigned)atoi(argv[1]) : 7;
    printf("seed %u\n", seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_without_poses_is_refused),
        cmocka_unit_test(kept_poses_stay),
        cmocka_unit_test(origins_may_be_missing),
        cmocka_unit_test(poses_come_back),
        cmocka_unit_test(far_poses_stay_within_the_range),
        cmocka_unit_test(a_run_goes_on),
        cmocka_unit_test(later_particles_bring_their_poses),
        cmocka_unit_test(kept_poses_are_classified),
        cmocka_unit_test(poses_are_searched_while_classes_are_told_apart),
    };
    return scratch_run("refiner-given", tests, sizeof tests / sizeof *tests);
}
