/* Tables of particles that come one after the other: which particles the set then has, and in which order, because the
 * order decides on the bytes of all that follows. */
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

#include "common/formats/mrc.h"
#include "stages/refiner/files/particles_export.h"
#include "stages/refiner/particles.h"
#include "tests/common/scratch.h"

enum { BOX = 16, SLICES = 4, STACKS = 60 };

static struct err err;

static void put_stack(const char *name, int slices) {
    char path[PATH_SIZE];
    struct image image = {0};
    assert_ok(image_resize(&image, BOX, BOX, slices, &err));
    image.pixel_size = 2;
    scratch_path(name, path);
    assert_ok(mrc_write(path, &image, MRC_STACK, MRC_FLOAT32, &err));
    image_destroy(&image);
}

static void begin(struct particle_set *set) {
    char root[PATH_SIZE];
    static const char *const NAMES[] = {"a.mrcs", "b.mrcs", "c.mrcs"};
    for (int i = 0; i < 3; i++)
        put_stack(NAMES[i], SLICES);
    scratch_path("", root);
    root[strlen(root) - 1] = '\0';
    particle_set_init(set, 1, 1 << 20, NAN);
    set->root = strdup(root);
    assert_non_null(set->root);
}

/* Rows are words "2@a.mrcs"; the defocus of a row is 10000 and 100 for each row before it. */
static enum status read_table(const struct particle_set *set, const char *rows, struct particle_set **ret_read) {
    char path[PATH_SIZE], word[64];
    struct star_file *file = NULL;
    scratch_path("table.star", path);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("data_particles\nloop_\n_rlnImageName\n_rlnDefocusU\n", f);
    int length = 0, count = 0;
    for (; sscanf(rows, " %63s%n", word, &length) == 1; rows += length)
        fprintf(f, "%s %d\n", word, 10000 + 100 * count++);
    assert_int_equal(fclose(f), 0);
    assert_ok(star_read(path, &file, &err));
    enum status status = particle_set_read(set, &file, path, ret_read, &err);
    assert_null(file);
    return status;
}

static enum status merge(struct particle_set *set, const char *rows, bool replace, size_t *ret_new) {
    struct particle_set *read = NULL;
    enum status status = read_table(set, rows, &read);
    if (status == STATUS_OK) status = particle_set_join(set, &read, replace, ret_new, &err);
    assert_null(read);
    return status;
}

/* Lists all particles in their order: slice and stack, and, if they are present, source:row and further rows. */
static void check_set(const struct particle_set *set, const char *expected) {
    char text[1024] = "";
    size_t present = 0, repeated = 0;
    for (size_t i = 0; i < set->count; i++) {
        const struct particle *p = &set->particles[i];
        size_t end = strlen(text);
        assert_ptr_equal(particle_find(set, p->name), p);
        assert_int_equal(atoi(p->name), p->slice + 1);
        assert_string_equal(strchr(p->name, '@') + 1, set->stacks[p->stack].name);
        end += (size_t)snprintf(text + end, sizeof text - end, "%s%d%c", i > 0 ? " " : "", p->slice + 1, p->name[7]);
        if (p->source < 0) continue;
        end += (size_t)snprintf(text + end, sizeof text - end, "%d:%zu", p->source, p->row);
        if (p->repeated > 0) snprintf(text + end, sizeof text - end, "+%d", p->repeated);
        assert_non_null(set->sources[p->source].file);
        present++;
        repeated += (size_t)p->repeated;
    }
    assert_string_equal(text, expected);
    assert_int_equal(set->present, present);
    assert_int_equal(set->repeated, repeated);
}

/* Lists the rows of the table that the set writes, with their defoci in units of 100 Å above 10000. */
static void check_export(struct particle_set *set, const char *expected) {
    struct star_file *file = NULL;
    char text[1024] = "";
    for (size_t i = 0; i < set->count; i++)
        set->particles[i].aligned = true;
    assert_ok(star_create(&file, &err));
    assert_ok(particle_set_export(set, file, &err));
    const struct star_table *rows = star_table_find(file, "particles");
    int name = star_column_find(rows, "rlnImageName"), defocus = star_column_find(rows, "rlnDefocusU");
    for (size_t row = 0; row < star_row_count(rows); row++) {
        const char *image = star_get(rows, row, name);
        size_t end = strlen(text);
        snprintf(text + end, sizeof text - end, "%s%d%c=%d", row > 0 ? " " : "", atoi(image), strchr(image, '@')[1],
                 (atoi(star_get(rows, row, defocus)) - 10000) / 100);
    }
    star_destroy(&file);
    assert_string_equal(text, expected);
}

static void particles_leave_and_return(void **state) {
    (void)state;
    struct particle_set set;
    size_t added = 9;
    begin(&set);
    assert_ok(merge(&set, "1@a.mrcs 2@a.mrcs 1@b.mrcs 2@b.mrcs", false, &added));
    assert_int_equal(added, 4);
    check_set(&set, "1a0:0 2a0:1 1b0:2 2b0:3");
    assert_ok(merge(&set, "2@b.mrcs 1@c.mrcs 1@a.mrcs", true, &added));
    assert_int_equal(added, 1);
    check_set(&set, "1a1:2 2a 1b 2b1:0 1c1:1");
    check_export(&set, "1a=2 2b=0 1c=1");
    assert_null(set.sources[0].file);
    assert_ok(merge(&set, "2@a.mrcs 3@b.mrcs", false, &added));
    assert_int_equal(added, 2);
    check_set(&set, "1a1:2 2a2:0 1b 2b1:0 1c1:1 3b2:1");
    assert_ok(merge(&set, "1@b.mrcs 3@b.mrcs 2@a.mrcs 1@a.mrcs", true, &added));
    assert_int_equal(added, 0);
    check_set(&set, "1a3:3 2a3:2 1b3:0 2b 1c 3b3:1");
    check_export(&set, "1a=3 2a=2 1b=0 3b=1");
    assert_true(set.sources[1].file == NULL && set.sources[2].file == NULL);
    particle_set_destroy(&set);
}

static void rows_are_repeated(void **state) {
    (void)state;
    struct particle_set set;
    size_t added = 9;
    begin(&set);
    assert_ok(merge(&set, "1@a.mrcs 2@b.mrcs 1@a.mrcs 1@a.mrcs 000002@b.mrcs", false, &added));
    assert_int_equal(added, 2);
    check_set(&set, "1a0:0+2 2b0:1+1");
    check_export(&set, "1a=0 2b=1");
    assert_ok(merge(&set, "2@a.mrcs 1@a.mrcs", false, NULL));
    check_set(&set, "1a1:1 2b0:1+1 2a1:0");
    assert_ok(merge(&set, "2@a.mrcs 2@a.mrcs", true, NULL));
    check_set(&set, "1a 2b 2a2:0+1");
    particle_set_destroy(&set);
}

/* A file held for a writer is released once the writer is done, and not before. */
static void files_are_kept_while_they_are_held(void **state) {
    (void)state;
    struct particle_set set;
    begin(&set);
    assert_ok(merge(&set, "1@a.mrcs", false, NULL));
    particle_set_hold(&set);
    assert_ok(merge(&set, "1@b.mrcs", true, NULL));
    assert_non_null(set.sources[0].file);
    particle_set_let_go(&set);
    assert_null(set.sources[0].file);
    assert_non_null(set.sources[1].file);
    particle_set_destroy(&set);
}

static void give_images(struct particle_set *set) {
    for (size_t i = 0; i < set->count; i++) {
        if (set->particles[i].image != NULL) continue;
        assert_non_null(set->particles[i].image = particle_image_room(set));
    }
}

static void check_images(const struct particle_set *set, const char *expected) {
    char text[64] = "";
    size_t held = 0;
    for (size_t i = 0; i < set->count; i++) {
        text[i] = set->particles[i].image != NULL ? '+' : '-';
        held += set->particles[i].image != NULL;
    }
    assert_string_equal(text, expected);
    assert_int_equal(set->cached_bytes, held * BOX * BOX * sizeof(float));
}

static void images_of_the_absent_are_freed(void **state) {
    (void)state;
    struct particle_set set;
    begin(&set);
    assert_ok(merge(&set, "1@a.mrcs 2@a.mrcs 1@b.mrcs", false, NULL));
    give_images(&set);
    assert_ok(merge(&set, "1@c.mrcs", false, NULL));
    check_images(&set, "+++-");
    assert_ok(merge(&set, "1@b.mrcs 1@c.mrcs", true, NULL));
    check_images(&set, "--+-");
    particle_set_destroy(&set);
}

static void a_selection_is_empty(void **state) {
    (void)state;
    struct particle_set set;
    begin(&set);
    assert_ok(merge(&set, "1@a.mrcs 2@a.mrcs", false, NULL));
    assert_ok(merge(&set, "", true, NULL));
    check_set(&set, "1a 2a");
    assert_true(set.sources[0].file == NULL && set.sources[1].file == NULL);
    particle_set_destroy(&set);
}

/* A table that cannot join leaves all as it was, also if others were to leave for it. */
static void tables_fail_midway(void **state) {
    (void)state;
    struct particle_set set;
    begin(&set);
    assert_ok(merge(&set, "1@a.mrcs 2@a.mrcs", false, NULL));
    give_images(&set);
    assert_int_equal(merge(&set, "2@b.mrcs 2@a.mrcs 1@missing.mrcs 1@c.mrcs", false, NULL), STATUS_NOT_FOUND);
    check_set(&set, "1a0:0 2a0:1");
    assert_int_equal(merge(&set, "1@c.mrcs 9@a.mrcs 2@a.mrcs", true, NULL), STATUS_BAD_FORMAT);
    assert_non_null(strstr(err.message, "row 2: image 9 was asked for, but "));
    check_set(&set, "1a0:0 2a0:1");
    check_images(&set, "++");
    assert_int_equal(set.source_count, 1);
    assert_ok(merge(&set, "2@a.mrcs 1@c.mrcs 2@b.mrcs", true, NULL));
    check_set(&set, "1a 2a1:0 1c1:1 2b1:2");
    check_images(&set, "-+--");
    check_export(&set, "2a=0 1c=1 2b=2");
    particle_set_destroy(&set);
}

/* A table waits while an iteration runs. */
static void stacks_change_while_a_table_waits(void **state) {
    (void)state;
    struct particle_set set, *read = NULL;
    char gone[PATH_SIZE];
    begin(&set);
    assert_ok(merge(&set, "1@a.mrcs 1@c.mrcs", false, NULL));
    assert_ok(read_table(&set, "2@a.mrcs 1@b.mrcs", &read));
    scratch_path("b.mrcs", gone);
    assert_int_equal(unlink(gone), 0);
    assert_int_equal(particle_set_join(&set, &read, true, NULL, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.message, "table.star names the stack "));
    assert_null(read);
    check_set(&set, "1a0:0 1c0:1");
    put_stack("b.mrcs", SLICES);
    put_stack("a.mrcs", SLICES + 1);
    assert_ok(merge(&set, "5@a.mrcs 1@b.mrcs", false, NULL));
    check_set(&set, "1a0:0 1c0:1 5a1:0 1b1:1");
    assert_int_equal(set.stacks[set.particles[0].stack].images, SLICES + 1);
    particle_set_destroy(&set);
}

/* Many stacks, named in turn, in another order, and under two names: a stack has one index, the first that it got. */
static void stacks_are_found_again(void **state) {
    (void)state;
    static char rows[64 * STACKS];
    struct particle_set set;
    char name[64], *end = rows;
    begin(&set);
    assert_ok(file_make_folders(set.root, 0755, &err));
    for (int i = 0; i < STACKS; i++) {
        snprintf(name, sizeof name, "stack_%d.mrcs", i);
        put_stack(name, SLICES);
    }
    for (int row = 0; row < 2 * STACKS; row++)
        end += sprintf(end, "%d@stack_%d.mrcs ", row / STACKS + 1, row % STACKS);
    assert_ok(merge(&set, rows, false, NULL));
    assert_int_equal(set.stack_count, STACKS);
    end = rows;
    for (int row = 2 * STACKS - 1; row >= 0; row--)
        end += sprintf(end, "%d@%sstack_%d.mrcs ", row / STACKS + 3, row % 2 ? "" : "./", row % STACKS);
    assert_ok(merge(&set, rows, false, NULL));
    assert_int_equal(set.stack_count, STACKS + STACKS / 2);
    assert_int_equal(set.count, 4 * STACKS);
    for (int i = 0; i < 2 * STACKS; i++) {
        assert_int_equal(set.particles[i].stack, i % STACKS);
        assert_int_equal(set.particles[i].slice, i / STACKS);
    }
    for (size_t i = 0; i < set.count; i++)
        assert_ptr_equal(particle_find(&set, set.particles[i].name), &set.particles[i]);
    assert_null(particle_find(&set, "000001@stack_9999.mrcs"));
    particle_set_destroy(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(particles_leave_and_return),
        cmocka_unit_test(rows_are_repeated),
        cmocka_unit_test(files_are_kept_while_they_are_held),
        cmocka_unit_test(images_of_the_absent_are_freed),
        cmocka_unit_test(a_selection_is_empty),
        cmocka_unit_test(tables_fail_midway),
        cmocka_unit_test(stacks_change_while_a_table_waits),
        cmocka_unit_test(stacks_are_found_again),
    };
    return scratch_run("refiner_tables", tests, sizeof tests / sizeof *tests);
}
