/* Tables that are long enough for several threads: each particle is that of its row, whatever the number of threads, and
 * an error names the first row that is wrong. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/mrc.h"
#include "common/memory.h"
#include "stages/refiner/particles.h"
#include "stages/refiner/row_images.h"
#include "stages/refiner/stack_headers.h"
#include "tests/common/scratch.h"

enum { BOX = 16, LARGE = 20, EACH = 200, STACKS = 60, ROWS = EACH * STACKS, GROUPS = 3 };

static struct err err;

/* Rows give their optics by a group, each by itself, or by the detector. */
enum given { BY_GROUP, BY_ROW, BY_DETECTOR };

static int box_of(int stack) {
    return stack % GROUPS == 2 ? LARGE : BOX;
}

static int make_stacks(void **state) {
    (void)state;
    char path[PATH_SIZE], name[32];
    for (int s = 0; s < STACKS; s++) {
        struct image image = {0};
        assert_ok(image_resize(&image, box_of(s), box_of(s), EACH, &err));
        image.pixel_size = 9; /* no table says so */
        snprintf(name, sizeof name, "stack_%d.mrcs", s);
        scratch_path(name, path);
        assert_ok(mrc_write(path, &image, MRC_STACK, MRC_FLOAT32, &err));
        image_destroy(&image);
    }
    return 0;
}

static double defocus_of(int i) {
    return 10000 + i % 7919;
}

static void put_head(FILE *f, enum given given) {
    static const char *const COLUMNS[] = {"", "_rlnImagePixelSize\n_rlnVoltage\n",
                                          "_rlnDetectorPixelSize\n_rlnMagnification\n"};
    if (given != BY_ROW) {
        fprintf(f, "data_optics\nloop_\n_rlnOpticsGroup\n_rlnOpticsGroupName\n_rlnVoltage\n%s",
                given == BY_GROUP ? "_rlnImagePixelSize\n" : "");
        for (int g = 0; g < GROUPS; g++)
            fprintf(f, given == BY_GROUP ? "%d group_%d %d %d\n" : "%d group_%d %d\n", g + 1, g, 200 + g, 2 + g);
    }
    fprintf(f,
            "\ndata_particles\nloop_\n_rlnImageName\n_rlnDefocusU\n_rlnOpticsGroup\n_rlnMicrographName\n"
            "_rlnCoordinateX\n_rlnCoordinateY\n%s",
            COLUMNS[given]);
}

static void name_of(int i, char name[64]) {
    snprintf(name, 64, "%06d@stack_%d.mrcs", i % EACH + 1, i / EACH);
}

/* Makes a table whose rows name the images of all stacks in turn. texts, until NULL, stand in place of rows[]. */
static void put_table(const char *path, enum given given, const char *const *texts, const int *rows) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    put_head(f, given);
    for (int i = 0, next = 0; i < ROWS; i++) {
        char name[64];
        if (texts != NULL && texts[next] != NULL && rows[next] == i) {
            fprintf(f, "%s\n", texts[next++]);
            continue;
        }
        const int image = i * 7 % ROWS, group = image / EACH % GROUPS;
        name_of(image, name);
        fprintf(f, "%s %.1f %d mic_%d %d %d", name, defocus_of(image), group + 1, image / EACH, 1 + image % EACH, 5);
        if (given == BY_ROW) fprintf(f, " %d %d", 2 + group, 200 + group);
        if (given == BY_DETECTOR) fprintf(f, " %d 10000", 2 + group);
        fputc('\n', f);
    }
    assert_int_equal(fclose(f), 0);
}

static enum status read_table(enum given given, const char *const *texts, const int *rows,
                              struct particle_set **ret_read) {
    char path[PATH_SIZE];
    struct particle_set set;
    struct star_file *file = NULL;
    scratch_path("long.star", path);
    put_table(path, given, texts, rows);
    particle_set_init(&set, 1, 0, NAN);
    assert_ok(star_read(path, &file, &err));
    const enum status status = particle_set_read(&set, &file, path, ret_read, &err);
    particle_set_destroy(&set);
    return status;
}

static void check_particle(const struct particle_set *set, int i) {
    const struct particle *p = &set->particles[i];
    const int image = i * 7 % ROWS, stack = image / EACH, group = stack % GROUPS;
    char name[64];
    name_of(image, name);
    const char *slash = strrchr(p->name, '/');
    assert_non_null(slash);
    assert_string_equal(slash + 1, name + 7);
    assert_int_equal(p->slice, image % EACH);
    assert_int_equal(p->row, i);
    assert_true(p->ctf.defocus_u == defocus_of(image));
    assert_true(p->ctf.voltage == 200 + group);
    assert_true(fabs(set->optics[p->optics].pixel_size - (2 + group)) < 1e-6);
    assert_int_equal(set->optics[p->optics].box, box_of(stack));
    assert_true(fabs(p->place.x - (1 + image % EACH) * (2 + group)) < 1e-3);
    assert_int_equal(p->repeated, 0);
}

static void each_particle_is_that_of_its_row(void **state) {
    (void)state;
    static const enum given ALL[] = {BY_GROUP, BY_ROW, BY_DETECTOR};
    for (size_t o = 0; o < sizeof ALL / sizeof *ALL; o++) {
        _cleanup_(particle_set_free) struct particle_set *read = NULL;
        assert_ok(read_table(ALL[o], NULL, NULL, &read));
        assert_int_equal(read->count, ROWS);
        assert_int_equal(read->stack_count, STACKS);
        assert_int_equal(read->optics_count, ALL[o] == BY_DETECTOR ? 2 * GROUPS : GROUPS);
        for (int i = 0; i < ROWS; i++)
            check_particle(read, i);
    }
}

static void an_image_that_is_named_again_is_counted(void **state) {
    (void)state;
    _cleanup_(particle_set_free) struct particle_set *read = NULL;
    /* Rows 3, 5000 and 9000 name the image of row 0. */
    const char *row = "000001@stack_0.mrcs 12345 1 mic_0 1 5", *texts[] = {row, row, row, NULL};
    assert_ok(read_table(BY_GROUP, texts, (const int[]){3, 5000, 9000}, &read));
    assert_int_equal(read->count, ROWS - 3);
    assert_int_equal(read->particles[0].repeated, 3);
    assert_true(read->particles[0].ctf.defocus_u == defocus_of(0));
    assert_int_equal(read->particles[3].row, 4);
    assert_int_equal(read->particles[ROWS - 4].row, ROWS - 1);
    for (size_t i = 1; i < read->count; i++)
        assert_int_equal(read->particles[i].repeated, 0);
}

static void refused(enum given given, const char *first, int row, const char *second, int second_row,
                    const char *expected) {
    struct particle_set *read = NULL;
    const char *texts[] = {first, second, NULL};
    assert_true(read_table(given, texts, (const int[]){row, second_row}, &read) != STATUS_OK);
    if (strstr(err.message, expected) == NULL) fail_msg("%s\ninstead of\n%s", err.message, expected);
    assert_null(read);
}

/* Rows are looked at in three ways, one after the other: the first wrong row is named, not what is found first. */
static void the_first_wrong_row_is_named(void **state) {
    (void)state;
    static const char name[] = "stack_0.mrcs 10000 1 m 1 1 2 10000";
    static const char absent[] = "000001@away.mrcs 10000 1 m 1 1 2 10000";
    static const char beyond[] = "000201@stack_1.mrcs 10000 1 m 1 1 2 10000";
    /* The last row names this image, so that it is new wherever else it stands. */
    static const char value[] = "000194@stack_59.mrcs far 1 m 1 1 2 10000";
    static const struct {
        const char *text;
        bool names_row;
        const char *message;
    } WRONG[] = {{name, true, "rlnImageName is \"stack_0.mrcs\""},
                 {absent, false, "names the stack away.mrcs"},
                 {beyond, true, "image 201 was asked for, but stack_1.mrcs has 200"},
                 {value, true, "rlnDefocusU is \"far\""}};
    static const int PLACES[][2] = {{0, 1}, {4095, 4096}, {5000, 11000}, {8191, ROWS - 1}};
    for (size_t i = 0; i < 16; i++)
        for (size_t j = 0; j < sizeof PLACES / sizeof *PLACES; j++) {
            char message[128];
            snprintf(message, sizeof message, WRONG[i / 4].names_row ? "row %d: %s" : "%.0d%s",
                     WRONG[i / 4].names_row ? PLACES[j][0] + 1 : 0, WRONG[i / 4].message);
            refused(BY_DETECTOR, WRONG[i / 4].text, PLACES[j][0], WRONG[i % 4].text, PLACES[j][1], message);
        }
    refused(BY_GROUP, "000001@stack_2.mrcs far 1 m 1 1", 5000, "000201@stack_1.mrcs 10000 1 m 1 1", 5001,
            "row 5001: rlnDefocusU is \"far\"");
    refused(BY_GROUP, "000001@stack_2.mrcs 1 7 m 1 1", 5000, "000001@stack_2.mrcs far 1 m 1 1", 11000,
            "row 5001 is of optics group 7");
}

/* Particles that the set has are found, and those that are not in the table leave. */
static void a_long_table_joins_another(void **state) {
    (void)state;
    struct particle_set set;
    struct particle_set *read = NULL;
    size_t new_ones = 0;
    const char *row = "000001@stack_0.mrcs 12345 1 mic_0 1 5", *texts[] = {row, row, NULL};
    const int left[] = {10, 9000};
    particle_set_init(&set, 1, 0, NAN);
    assert_ok(read_table(BY_GROUP, texts, left, &read));
    assert_ok(particle_set_join(&set, &read, true, &new_ones, &err));
    assert_int_equal(new_ones, ROWS - 2);
    assert_ok(read_table(BY_GROUP, NULL, NULL, &read));
    assert_ok(particle_set_join(&set, &read, true, &new_ones, &err));
    assert_int_equal(new_ones, 2);
    assert_int_equal(set.count, ROWS);
    assert_ok(read_table(BY_GROUP, texts, left, &read));
    assert_ok(particle_set_join(&set, &read, true, &new_ones, &err));
    assert_int_equal(new_ones, 0);
    assert_int_equal(set.present, ROWS - 2);
    for (size_t i = 0; i < set.count; i++) {
        const bool there = set.particles[i].row != 10 && set.particles[i].row != 9000;
        assert_int_equal(set.particles[i].source >= 0, there);
    }
    particle_set_destroy(&set);
}

/* Counts its calls. Stacks whose name begins with "away" are not there. */
static enum status check_stack(const void *context, const char *star_path, const char *name, struct err *ret_err) {
    int *calls = (int *)(uintptr_t)context;
    (void)star_path;
    __atomic_fetch_add(calls, 1, __ATOMIC_RELAXED);
    FAIL_IF(strncmp(name, "away", 4) == 0, ret_err, STATUS_NOT_FOUND, "%s is not there", name);
    return STATUS_OK;
}

static enum status checked(const char *const *names, const int *rows, int *ret_calls) {
    char path[PATH_SIZE];
    _cleanup_(star_destroy) struct star_file *file = NULL;
    scratch_path("long.star", path);
    put_table(path, BY_GROUP, names, rows);
    assert_ok(star_read(path, &file, &err));
    *ret_calls = 0;
    return row_images_check(file, "long.star", check_stack, ret_calls, &err);
}

static void stacks_are_checked_before_they_are_read(void **state) {
    (void)state;
    static const char *const AWAY[] = {"000001@away_1.mrcs 1 1 m 1 1", "000001@away_2.mrcs 1 1 m 1 1", NULL};
    static const char *const LATE[] = {"000001@away_1.mrcs 1 1 m 1 1", "no_name 1 1 m 1 1", NULL};
    static const char *const EARLY[] = {"000000@stack_1.mrcs 1 1 m 1 1", "000001@away_1.mrcs 1 1 m 1 1", NULL};
    int calls, changes = 1;
    for (int i = 1; i < ROWS; i++)
        changes += i * 7 % ROWS / EACH != (i - 1) * 7 % ROWS / EACH;
    assert_ok(checked(NULL, NULL, &calls));
    assert_int_equal(calls, changes);
    const int rows[] = {3000, 9000};
    assert_int_equal(checked(AWAY, rows, &calls), STATUS_NOT_FOUND);
    assert_string_equal(err.message, "away_1.mrcs is not there");
    assert_int_equal(checked(LATE, rows, &calls), STATUS_NOT_FOUND);
    assert_string_equal(err.message, "away_1.mrcs is not there");
    assert_int_equal(checked(EARLY, rows, &calls), STATUS_BAD_FORMAT);
    assert_non_null(strstr(err.message, "long.star, row 3001: rlnImageName is \"000000@stack_1.mrcs\""));
}

/* A file is another one if any of its numbers differs. Within the seconds after a change it may change unseen. */
static void a_stack_stays_closed_while_its_file_is_the_same(void **state) {
    (void)state;
    _cleanup_(stack_headers_destroy) struct stack_headers *headers = NULL;
    const struct particle_stack_header first = {16, 5, 1.5}, second = {20, 7, 2.5};
    struct particle_stack_header found = {0};
    const struct stat file = {.st_dev = 1, .st_ino = 2, .st_size = 3, .st_mtim = {4, 5}, .st_ctim = {6, 7}};
    static const time_t LATER = 9;
    struct stat others[7];
    for (int i = 0; i < 7; i++)
        others[i] = file;
    others[0].st_dev++, others[1].st_ino++, others[2].st_size++, others[3].st_mtim.tv_sec++;
    others[4].st_mtim.tv_nsec++, others[5].st_ctim.tv_sec++, others[6].st_ctim.tv_nsec++;
    assert_ok(stack_headers_create(&headers, &err));
    assert_false(stack_headers_find(headers, &file, &found));
    for (time_t now = 0; now < LATER; now++)
        stack_headers_keep(headers, &file, now, &first);
    assert_false(stack_headers_find(headers, &file, &found));
    stack_headers_keep(headers, &file, LATER, &first);
    assert_true(stack_headers_find(headers, &file, &found));
    assert_int_equal(found.images, 5);
    for (int i = 0; i < 7; i++)
        assert_false(stack_headers_find(headers, &others[i], &found));
    stack_headers_keep(headers, &others[2], LATER, &second); /* the file was written anew */
    assert_false(stack_headers_find(headers, &file, &found));
    assert_true(stack_headers_find(headers, &others[2], &found));
    assert_int_equal(found.box, 20);
    for (int i = 0; i < 1000; i++) {
        struct stat another = file;
        another.st_ino = 100 + (ino_t)i;
        stack_headers_keep(headers, &another, LATER, &(struct particle_stack_header){16, i, 1});
    }
    for (int i = 0; i < 1000; i++) {
        struct stat another = file;
        another.st_ino = 100 + (ino_t)i;
        assert_true(stack_headers_find(headers, &another, &found));
        assert_int_equal(found.images, i);
    }
    assert_false(stack_headers_find(NULL, &file, &found));
    stack_headers_keep(NULL, &file, LATER, &first);
}

static enum status count_file(void *context, const char *path, int descriptor, const struct stat *info,
                              struct err *ret_err) {
    (void)path, (void)descriptor, (void)info, (void)ret_err;
    __atomic_fetch_add((int *)context, 1, __ATOMIC_RELAXED);
    return STATUS_OK;
}

static void read_with(struct stack_headers *headers, int images) {
    char path[PATH_SIZE];
    struct particle_set set;
    struct star_file *file = NULL;
    _cleanup_(particle_set_free) struct particle_set *read = NULL;
    scratch_path("long.star", path);
    particle_set_init(&set, 1, 0, NAN);
    set.headers = headers;
    assert_ok(star_read(path, &file, &err));
    assert_ok(particle_set_read(&set, &file, path, &read, &err));
    for (int i = 0; i < read->stack_count; i++)
        assert_int_equal(read->stacks[i].images, i == 0 ? images : EACH);
    set.headers = NULL;
    particle_set_destroy(&set);
}

/* Keeps a header of stack 0 that has so many images, as if its file had been there for long. */
static void keep_header(struct stack_headers *headers, int images) {
    char path[PATH_SIZE];
    struct stat info;
    scratch_path("stack_0.mrcs", path);
    assert_int_equal(stat(path, &info), 0);
    stack_headers_keep(headers, &info, info.st_ctim.tv_sec + 3, &(struct particle_stack_header){BOX, images, 9});
}

/* Files that stay closed are those that nobody observes, that are the same ones, and that hold all images of rows. */
static void a_stack_that_was_written_anew_is_opened_again(void **state) {
    (void)state;
    char path[PATH_SIZE];
    int opened = 0;
    const struct file_observer observer = {.context = &opened, .read = count_file};
    _cleanup_(stack_headers_destroy) struct stack_headers *headers = NULL;
    assert_ok(stack_headers_create(&headers, &err));
    scratch_path("long.star", path);
    put_table(path, BY_GROUP, NULL, NULL);
    read_with(headers, EACH);
    keep_header(headers, EACH + 5);
    read_with(headers, EACH + 5); /* the file stayed closed */
    keep_header(headers, EACH - 1);
    read_with(headers, EACH);
    keep_header(headers, EACH);
    struct image image = {0};
    assert_ok(image_resize(&image, BOX, BOX, EACH + 1, &err));
    scratch_path("stack_0.mrcs", path);
    assert_ok(mrc_write(path, &image, MRC_STACK, MRC_FLOAT32, &err));
    image_destroy(&image);
    read_with(headers, EACH + 1);
    (void)file_observe(&observer);
    read_with(headers, EACH + 1);
    (void)file_observe(NULL);
    assert_int_equal(opened, STACKS + 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(each_particle_is_that_of_its_row, make_stacks),
        cmocka_unit_test(an_image_that_is_named_again_is_counted),
        cmocka_unit_test(the_first_wrong_row_is_named),
        cmocka_unit_test(a_long_table_joins_another),
        cmocka_unit_test(stacks_are_checked_before_they_are_read),
        cmocka_unit_test(a_stack_stays_closed_while_its_file_is_the_same),
        cmocka_unit_test(a_stack_that_was_written_anew_is_opened_again),
    };
    return scratch_run("refiner-long-table", tests, sizeof tests / sizeof *tests);
}
