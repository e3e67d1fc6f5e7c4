/* The refiner as a stage takes what has changed since the selection that it holds, and reads the whole table in every
 * other case: with a warning where the changes are broken, and always to the same particles. */
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

#include "common/digest.h"
#include "common/formats/selection_changes.h"
#include "stages/refiner/refiner_private.h"
#include "tests/common/scratch.h"
#include "tests/stages/blobs.h"
#include "tests/stages/refiner_runs.h"

enum { IMAGES = 8 };

static struct err err;
static char scratch[PATH_SIZE], reference[PATH_SIZE], present[256];
static int changed, told;

static void note_present(const struct refiner *r) {
    *present = '\0';
    for (size_t i = 0; i < r->set.count; i++)
        if (r->set.particles[i].source >= 0)
            sprintf(present + strlen(present), "%d:%g ", r->set.particles[i].slice + 1,
                    r->set.particles[i].ctf.defocus_u);
}

enum status __real_refiner_change(struct refiner *refiner, struct particle_set **read, const char **ret_misfit,
                                  struct err *e);
enum status __wrap_refiner_change(struct refiner *refiner, struct particle_set **read, const char **ret_misfit,
                                  struct err *e);
enum status __wrap_refiner_change(struct refiner *refiner, struct particle_set **read, const char **ret_misfit,
                                  struct err *e) {
    enum status status = __real_refiner_change(refiner, read, ret_misfit, e);
    changed += status == STATUS_OK && *ret_misfit == NULL;
    note_present(refiner);
    return status;
}

enum status __real_refiner_join(struct refiner *refiner, struct particle_set **read, bool replace, size_t *ret_new,
                                struct err *e);
enum status __wrap_refiner_join(struct refiner *refiner, struct particle_set **read, bool replace, size_t *ret_new,
                                struct err *e);
enum status __wrap_refiner_join(struct refiner *refiner, struct particle_set **read, bool replace, size_t *ret_new,
                                struct err *e) {
    enum status status = __real_refiner_join(refiner, read, replace, ret_new, e);
    note_present(refiner);
    return status;
}

void __wrap_stage_log(const struct stage *stage, enum log_level level, const char *id, const char *format, ...);
void __wrap_stage_log(const struct stage *stage, enum log_level level, const char *id, const char *format, ...) {
    (void)stage, (void)level, (void)format;
    told += strcmp(id, "refine-changes") == 0;
}

static void begin(const char *name) {
    static float map[BOX * BOX * BOX];
    char path[PATH_SIZE + 16];
    struct image images = {0};
    scratch_path(name, scratch);
    snprintf(path, sizeof path, "%s/refiner", scratch);
    assert_ok(file_make_folders(path, 0755, &err));
    write_map(scratch, "reference.mrc", map, reference);
    assert_ok(image_resize(&images, BOX, BOX, IMAGES, &err));
    images.pixel_size = (float)PIXEL;
    snprintf(path, sizeof path, "%s/a.mrcs", scratch);
    assert_ok(mrc_write(path, &images, MRC_STACK, MRC_FLOAT32, &err));
    image_destroy(&images);
}

static void path_of(const char *id, const char *what, char path[PATH_SIZE + 64]) {
    snprintf(path, PATH_SIZE + 64, "%s/%s_%s.star", scratch, what, id);
}

static void name_image(char digit, char name[32]) {
    snprintf(name, 32, "00000%c@a.mrcs", digit);
}

/* images: digits, such as "1347". */
static void write_whole(const char *id, const char *images) {
    char path[PATH_SIZE + 64], name[32];
    path_of(id, "selected", path);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f,
            "data_optics\nloop_\n_rlnOpticsGroup\n_rlnImagePixelSize\n1 %g\n\ndata_particles\nloop_\n_rlnImageName\n"
            "_rlnOpticsGroup\n_rlnDefocusU\n",
            PIXEL);
    for (const char *c = images; *c != '\0'; c++) {
        name_image(*c, name);
        fprintf(f, "%s 1 1000%c\n", name, *c);
    }
    assert_int_equal(fclose(f), 0);
}

/* Writes the changes from one selection to another. claimed: the id with which they say to begin. */
static void write_changes(const char *id, const char *from, const char *to, const char *claimed) {
    struct selection_changes head = {.since_count = strlen(from), .count = strlen(to)};
    struct star_file *whole = NULL, *file = NULL;
    char path[PATH_SIZE + 64], name[32];
    static char names[IMAGES][32];
    const char *removed[IMAGES];
    size_t rows[IMAGES], row_count = 0, removed_count = 0;
    snprintf(head.since, sizeof head.since, "%s", claimed);
    for (const char *c = to; *c != '\0'; c++) {
        name_image(*c, name);
        head.digest += selection_digest(name);
        if (strchr(from, *c) == NULL) rows[row_count++] = (size_t)(c - to);
    }
    for (const char *c = from; *c != '\0'; c++) {
        name_image(*c, names[removed_count]);
        head.since_digest += selection_digest(names[removed_count]);
        removed[removed_count] = names[removed_count];
        removed_count += strchr(to, *c) == NULL;
    }
    path_of(id, "selected", path);
    assert_ok(star_read(path, &whole, &err));
    assert_ok(selection_changes_make(&head, whole, rows, row_count, removed, removed_count, &file, &err));
    path_of(id, "changes", path);
    assert_ok(star_write(file, path, &err));
    star_destroy(&whole);
    star_destroy(&file);
}

static struct item *item_of(const char *id, const char *kind, const char *since) {
    struct item *item = NULL;
    char path[PATH_SIZE + 64], member[32], digest[DIGEST_SIZE];
    path_of(id, "selected", path);
    snprintf(member, sizeof member, "%s.star", kind);
    assert_ok(item_create(id, kind, &item, &err));
    assert_ok(item_set_string(item, member, path, &err));
    if (since == NULL) return item;
    path_of(id, "changes", path);
    assert_ok(digest_file(path, digest, NULL, &err));
    assert_ok(item_set_string(item, "selection.changes.since", since, &err));
    assert_ok(item_set_string(item, "selection.changes.star", path, &err));
    assert_ok(item_set_string(item, "selection.changes.digest", digest, &err));
    return item;
}

/* Fewer than ten particles make no map: the run ends with the particles that there are. */
static void run_on(const char *ledger, struct item **items, size_t count) {
    const char *parameters[] = {"reference", reference, "diameter", "60", NULL};
    struct stage_results results = {0};
    changed = told = 0;
    *present = '\0';
    if (stage_run_results(&refiner_stage, scratch, ledger, parameters, items, count, &results, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    for (size_t i = 0; i < results.outcome_count; i++)
        assert_int_equal(results.outcomes[i].state, LEDGER_DONE);
    stage_results_clear(&results);
    for (size_t i = 0; i < count; i++)
        item_destroy(&items[i]);
}

static void expect(int expected_changed, int expected_told, const char *expected) {
    assert_string_equal(present, expected);
    assert_int_equal(changed, expected_changed);
    assert_int_equal(told, expected_told);
}

#define FIRST "1247"
#define SECOND "13478"
#define SECOND_PRESENT "1:10001 4:10004 7:10007 3:10003 8:10008 "
#define SECOND_ALONE "1:10001 3:10003 4:10004 7:10007 8:10008 "

/* The order of particles alone tells whether the first selection had joined before the second one came. */
static void expect_second(int expected_changed, int expected_told) {
    const bool alone = strcmp(present, SECOND_ALONE) == 0;
    expect(expected_changed, expected_told, alone && expected_changed == 0 ? SECOND_ALONE : SECOND_PRESENT);
}

static void prepare(const char *name) {
    begin(name);
    write_whole("it001", FIRST);
    write_whole("it002", SECOND);
    write_changes("it002", FIRST, SECOND, "it001");
}

static void changes_are_applied(void **state) {
    (void)state;
    prepare("applied");
    write_whole("it003", "478");
    write_changes("it003", SECOND, "478", "it002");
    run_on(":memory:", (struct item *[]){item_of("it001", "selection", NULL), item_of("it002", "selection", "it001")},
           2);
    expect_second(1, 0);
    run_on(":memory:",
           (struct item *[]){item_of("it001", "selection", NULL), item_of("it002", "selection", "it001"),
                             item_of("it003", "selection", "it002")},
           3);
    expect(2, 0, "4:10004 7:10007 8:10008 ");
}

static void other_particles_have_come(void **state) {
    (void)state;
    prepare("others");
    write_whole("more", "56");
    run_on(":memory:", (struct item *[]){item_of("it002", "selection", "it001")}, 1); /* it001 was never here */
    expect(0, 0, SECOND_ALONE);
    struct item *items[] = {item_of("it001", "selection", NULL), item_of("more", "particles", NULL),
                            item_of("it002", "selection", "it001")};
    run_on(":memory:", items, 3);
    assert_true(strncmp(present, "1:10001 4:10004 7:10007 3:10003 8:10008", 39) == 0 ||
                strcmp(present, SECOND_ALONE) == 0);
    assert_int_equal(changed + told, 0);
}

/* The changes begin with what has the same name, and is not what is held. */
static void another_selection_has_the_name(void **state) {
    (void)state;
    prepare("name");
    write_changes("it002", "1248", SECOND, "it001");
    run_on(":memory:", (struct item *[]){item_of("it001", "selection", NULL), item_of("it002", "selection", "it001")},
           2);
    expect_second(0, 1);
    write_changes("it002", FIRST, SECOND, "it000");
    run_on(":memory:", (struct item *[]){item_of("it001", "selection", NULL), item_of("it002", "selection", "it001")},
           2);
    expect_second(0, 1);
}

static void change_byte(const char *path, const char *old, char new) {
    char *text = NULL;
    size_t length;
    assert_ok(file_read_whole(path, 1 << 20, &text, &length, &err));
    char *at = strstr(text, old);
    assert_non_null(at);
    *at = new;
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, length, f), length);
    assert_int_equal(fclose(f), 0);
    free(text);
}

static void broken_changes_are_passed_over(void **state) {
    (void)state;
    char path[PATH_SIZE + 64];
    for (int kind = 0; kind < 4; kind++) {
        prepare("broken");
        struct item *items[] = {item_of("it001", "selection", NULL), item_of("it002", "selection", "it001")};
        path_of("it002", "changes", path);
        if (kind == 0) change_byte(path, "10003", '2'); /* a defocus */
        if (kind == 1) assert_int_equal(truncate(path, 500), 0);
        if (kind == 2) assert_int_equal(unlink(path), 0);
        if (kind == 3) assert_ok(item_set_number(items[1], "selection.changes.digest", 7, &err));
        run_on(":memory:", items, 2);
        expect_second(0, 1);
    }
}

static void a_restart_reads_the_whole_table(void **state) {
    (void)state;
    char ledger[PATH_SIZE + 16];
    prepare("restart");
    write_whole("it003", "478");
    write_changes("it003", SECOND, "478", "it002");
    snprintf(ledger, sizeof ledger, "%s/refiner.sqlite", scratch);
    run_on(ledger, (struct item *[]){item_of("it001", "selection", NULL), item_of("it002", "selection", "it001")}, 2);
    expect_second(1, 0);
    run_on(ledger, NULL, 0);
    expect(0, 0, SECOND_ALONE);
    run_on(ledger, (struct item *[]){item_of("it003", "selection", "it002")}, 1);
    expect(1, 0, "4:10004 7:10007 8:10008 ");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_are_applied),
        cmocka_unit_test(other_particles_have_come),
        cmocka_unit_test(another_selection_has_the_name),
        cmocka_unit_test(broken_changes_are_passed_over),
        cmocka_unit_test(a_restart_reads_the_whole_table),
    };
    return scratch_run("refiner_selections", tests, sizeof tests / sizeof *tests);
}
