/* A micrograph that was picked again has particles of other names, or others of the same names. Those that lie where one
 * of the former lay keep its half, pose and class, with a new selection and after a restart; others are new ones. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/formats/mrc.h"
#include "kernels/sampling/sampling.h"
#include "stages/refiner/files/kept_state.h"
#include "stages/refiner/files/particles_export.h"
#include "stages/refiner/particles.h"
#include "stages/refiner/twins.h"
#include "tests/common/scratch.h"
#include "tests/stages/placed_particles.h"

enum { BOX = 16, FIRST = 6, AGAIN = 5 };
static const double DIAMETER = 150, PIXEL = 4, MICROGRAPH_PIXEL = 2;

static struct err err;

/* Places on micrographs 1 and 2, px; those of the second picks follow former ones, or none. */
static const struct {
    int micrograph;
    double x, y;
} first[FIRST] = {{1, 100, 100}, {1, 300, 100}, {1, 100, 300}, {1, 300, 300}, {2, 100, 100}, {2, 300, 300}};
static const struct {
    int micrograph;
    double x, y;
    int follows; /* of the former picks; -1: none */
} again[AGAIN] = {{1, 305, 304, 3}, {1, 100, 102, 0}, {1, 200, 200, -1}, {1, 318, 100, -1}, {1, 99, 291, 2}};

static void merge(struct particle_set *set, const char *name, bool replace) {
    char path[PATH_SIZE];
    struct star_file *file = NULL;
    scratch_path(name, path);
    assert_ok(star_read(path, &file, &err));
    assert_ok(particle_set_merge(set, &file, path, replace, NULL, &err));
}

/* Writes a selection with the second picks of micrograph 1, whose images are in a stack of that name. */
static void write_second(const char *table, const char *stack) {
    FILE *f = placed_begin_table(table, PIXEL, MICROGRAPH_PIXEL, "");
    for (int i = 0; i < AGAIN; i++)
        fprintf(f, "%06d@%s.mrcs m1.mrc %g %g 1\n", i + 1, stack, again[i].x, again[i].y);
    for (int i = 4; i < FIRST; i++)
        fprintf(f, "%06d@m2.mrcs m2.mrc %g %g 1\n", i - 3, first[i].x, first[i].y);
    assert_int_equal(fclose(f), 0);
}

/* Writes a selection of all former picks, and one in which micrograph 1 was picked again. */
static void write_tables(void) {
    placed_put_stack("m1.mrcs", BOX, PIXEL, 4);
    placed_put_stack("m2.mrcs", BOX, PIXEL, 2);
    placed_put_stack("m1_epoch001.mrcs", BOX, PIXEL, AGAIN);
    FILE *f = placed_begin_table("first.star", PIXEL, MICROGRAPH_PIXEL, "");
    for (int i = 0; i < FIRST; i++)
        fprintf(f, "%06d@m%d.mrcs m%d.mrc %g %g 1\n", i < 4 ? i + 1 : i - 3, first[i].micrograph, first[i].micrograph,
                first[i].x, first[i].y);
    assert_int_equal(fclose(f), 0);
    write_second("again.star", "m1_epoch001");
}

static void begin(struct particle_set *set) {
    char root[PATH_SIZE];
    scratch_path("", root);
    root[strlen(root) - 1] = '\0';
    particle_set_init(set, 1, 1 << 20, NAN);
    set->root = strdup(root);
    set->twin_distance = 0.1 * DIAMETER;
}

/* The half that no name of `again` decides on: the other one. */
static int half_of(int i) {
    char name[64];
    for (int k = 0; k < AGAIN; k++)
        if (again[k].follows == i) {
            snprintf(name, sizeof name, "%06d@m1_epoch001.mrcs", k + 1);
            return 1 - (int)(particle_hash(name, 1) & 1);
        }
    return i % 2;
}

static void find(struct particle *p, int i) {
    euler_to_matrix(10 * i + 5, 20, 30, p->pose);
    p->origin[0] = 0.5 * i;
    p->origin[1] = -1;
    p->class_index = i % 3;
    p->norm = 1 + 0.1 * i;
    p->half = half_of(i);
    p->aligned = p->mapped = true;
}

static void turn(struct particle *p, int k) {
    euler_to_matrix(7 * k + 1, 40, 50, p->pose);
    p->aligned = true;
}

static struct particle *at(const struct particle_set *set, const char *stack, int number) {
    char name[64];
    snprintf(name, sizeof name, "%06d@%s.mrcs", number, stack);
    struct particle *p = particle_find(set, name);
    if (p == NULL) {
        fail_msg("there is no %s", name);
        abort(); /* the compiler does not know that it does not return */
    }
    return p;
}

/* Begins with the former picks, of which iterations have found something. */
static void begin_with_first(struct particle_set *set) {
    write_tables();
    begin(set);
    merge(set, "first.star", true);
    for (int i = 0; i < FIRST; i++)
        find(at(set, i < 4 ? "m1" : "m2", i < 4 ? i + 1 : i - 3), i);
}

static void assert_followed(const struct particle_set *set, const char *stack) {
    for (int k = 0; k < AGAIN; k++) {
        const struct particle *p = at(set, stack, k + 1);
        int i = again[k].follows;
        double pose[9];
        assert_int_equal(p->aligned, i >= 0);
        assert_int_equal(p->mapped, i >= 0);
        if (i < 0) continue;
        euler_to_matrix(10 * i + 5, 20, 30, pose);
        for (int j = 0; j < 9; j++)
            assert_true(fabs(p->pose[j] - pose[j]) < 1e-5);
        assert_int_equal(p->half, half_of(i));
        assert_true(fabs(p->norm - 1 - 0.1 * i) < 1e-5);
        /* The particle lies where it lay: the pick minus its origin. */
        double scale = PIXEL / MICROGRAPH_PIXEL;
        assert_true(fabs(again[k].x - scale * p->origin[0] - (first[i].x - scale * 0.5 * i)) < 1e-3);
        assert_true(fabs(again[k].y - scale * p->origin[1] - (first[i].y + scale)) < 1e-3);
    }
}

/* As the refiner's classifier sends the picks: a selection replaces the one before. */
static void a_selection_of_second_picks_keeps_halves_and_poses(void **state) {
    (void)state;
    struct particle_set set;
    begin_with_first(&set);
    merge(&set, "again.star", true);
    assert_int_equal(set.present, AGAIN + 2);
    assert_followed(&set, "m1_epoch001");
    for (int k = 0; k < AGAIN; k++)
        if (again[k].follows >= 0) assert_int_equal(at(&set, "m1_epoch001", k + 1)->class_index, again[k].follows % 3);
    /* They stay there when twins are looked for. */
    assert_ok(twins_settle(&set, &err));
    assert_followed(&set, "m1_epoch001");
    /* Particles of the micrograph that was not picked again keep their halves and poses. */
    assert_true(at(&set, "m2", 2)->aligned && at(&set, "m2", 2)->origin[0] == 2.5);
    particle_set_destroy(&set);

    /* A table that replaces nothing adds particles; the others are still there. */
    begin(&set);
    merge(&set, "first.star", false);
    find(at(&set, "m1", 1), 0);
    merge(&set, "again.star", false);
    assert_false(at(&set, "m1_epoch001", 2)->aligned);
    particle_set_destroy(&set);
}

/* `icestream redo` writes the stack anew under its name. */
static void write_anew(void) {
    placed_put_stack("m1.mrcs", BOX, PIXEL, AGAIN);
    write_second("anew.star", "m1");
}

static void a_stack_that_is_made_again_has_other_images(void **state) {
    (void)state;
    struct particle_set set;
    begin_with_first(&set);
    struct particle *other = at(&set, "m2", 1);
    for (int i = 0; i < 2; i++) {
        struct particle *p = i == 0 ? at(&set, "m1", 1) : other;
        assert_non_null(p->image = particle_image_room(&set));
    }
    /* Nothing has changed: all stay what they are. */
    merge(&set, "first.star", true);
    assert_non_null(at(&set, "m1", 1)->image);
    assert_int_equal(set.count, FIRST);
    write_anew();
    merge(&set, "anew.star", true);
    assert_int_equal(set.present, AGAIN + 2);
    assert_int_equal(set.cached_bytes, BOX * BOX * sizeof(float));
    for (int k = 0; k < AGAIN; k++)
        assert_null(at(&set, "m1", k + 1)->image);
    assert_non_null(at(&set, "m2", 1)->image);
    assert_followed(&set, "m1");
    /* Made again once more, with the same picks: what was found last counts. */
    for (int k = 0; k < AGAIN; k++)
        turn(at(&set, "m1", k + 1), k);
    write_anew();
    merge(&set, "anew.star", true);
    for (int k = 0; k < AGAIN; k++) {
        double pose[9];
        euler_to_matrix(7 * k + 1, 40, 50, pose);
        for (int j = 0; j < 9; j++)
            assert_true(fabs(at(&set, "m1", k + 1)->pose[j] - pose[j]) < 1e-5);
    }
    particle_set_destroy(&set);
}

static void a_restart_with_second_picks_keeps_halves_and_poses(void **state) {
    (void)state;
    char path[PATH_SIZE];
    struct particle_set set;
    struct star_file *file = NULL;
    begin_with_first(&set);
    at(&set, "m1", 3)->compared = at(&set, "m1", 3)->junk = true;
    at(&set, "m2", 2)->compared = at(&set, "m2", 2)->junk = true;
    set.marked = true;
    assert_ok(star_create(&file, &err));
    assert_ok(particle_set_export(&set, file, &err));
    scratch_path("run_it001_data.star", path);
    assert_ok(star_write(file, path, &err));
    star_destroy(&file);
    particle_set_destroy(&set);

    static const char *const tables[] = {"again.star", "anew.star"}, *const stacks[] = {"m1_epoch001", "m1"};
    write_anew();
    for (int i = 0; i < 2; i++) {
        begin(&set);
        merge(&set, tables[i], true);
        assert_ok(star_read(path, &file, &err));
        kept_state_poses(file, &set, 1);
        assert_followed(&set, stacks[i]);
        assert_true(at(&set, "m2", 2)->aligned && at(&set, "m2", 2)->junk);
        assert_false(at(&set, stacks[i], 3)->junk); /* another image, in another place */
        star_destroy(&file);
        particle_set_destroy(&set);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_selection_of_second_picks_keeps_halves_and_poses),
        cmocka_unit_test(a_stack_that_is_made_again_has_other_images),
        cmocka_unit_test(a_restart_with_second_picks_keeps_halves_and_poses),
    };
    return scratch_run("refiner_heirs", tests, sizeof tests / sizeof *tests);
}
