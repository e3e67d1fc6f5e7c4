/* The changes since a selection lead to the same set of particles as the whole table: at random, with twins, heirs,
 * optics groups and particles that return. Changes that do not fit leave the set as it was. */
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
#include "common/formats/selection_changes.h"
#include "common/text.h"
#include "stages/refiner/files/particles_export.h"
#include "stages/refiner/particles.h"
#include "stages/refiner/twins.h"
#include "tests/common/scratch.h"
#include "tests/kernels/seed.h"

enum { BOX = 16, SLICES = 12, STACKS = 10, IMAGES = SLICES * STACKS, STEPS = 100 };

static struct err err;

/* A selection of images, in the order of their numbers. */
struct choice {
    bool chosen[IMAGES];
    int defocus[IMAGES]; /* Å */
};

static double random_unit(void) {
    return rand() / (RAND_MAX + 1.0);
}

static void name_image(int i, char name[64]) {
    snprintf(name, 64, "%06d@stack_%d.mrcs", i % SLICES + 1, i / SLICES);
}

static void put_stacks(void) {
    char path[PATH_SIZE], name[64];
    struct image image = {0};
    assert_ok(image_resize(&image, BOX, BOX, SLICES, &err));
    image.pixel_size = 2;
    for (int s = 0; s < STACKS; s++) {
        snprintf(name, sizeof name, "stack_%d.mrcs", s);
        scratch_path(name, path);
        assert_ok(mrc_write(path, &image, MRC_STACK, MRC_FLOAT32, &err));
    }
    image_destroy(&image);
}

static void begin(struct particle_set *set) {
    char root[PATH_SIZE];
    scratch_path("", root);
    root[strlen(root) - 1] = '\0';
    particle_set_init(set, 1, 1 << 20, NAN);
    set->twin_distance = 30;
    assert_non_null(set->root = strdup(root));
}

/* Two stacks share a micrograph, so that some particles are twins by place, and some are the heirs of others. */
static struct star_file *whole_table(const struct choice *c, const char *path) {
    struct star_file *file = NULL;
    char name[64];
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(
        "data_optics\nloop_\n_rlnOpticsGroup\n_rlnOpticsGroupName\n_rlnImagePixelSize\n_ownOptics\n1 a 2 x\n2 b 2.5 y\n"
        "\ndata_particles\nloop_\n_rlnImageName\n_rlnMicrographName\n_rlnCoordinateX\n_rlnCoordinateY\n"
        "_rlnOpticsGroup\n_rlnDefocusU\n_own\n",
        f);
    for (int i = 0; i < IMAGES; i++) {
        if (!c->chosen[i]) continue;
        name_image(i, name);
        fprintf(f, "%s mic_%d.mrc %d %d %d %d own_%d_%d\n", name, i / SLICES / 2, 20 + 37 * (i % SLICES),
                50 + 8 * (i % SLICES % 5) + 3 * (i / SLICES % 2), 1 + i / SLICES / 2 % 2, c->defocus[i], i,
                c->defocus[i]);
    }
    assert_int_equal(fclose(f), 0);
    assert_ok(star_read(path, &file, &err));
    return file;
}

/* The file of changes from one choice to another, as the classifier makes it. */
static void put_changes(const struct choice *from, const struct choice *to, struct star_file *whole, const char *path) {
    struct selection_changes head = {.since = "it001"};
    struct star_file *file = NULL;
    static char names[IMAGES][64];
    const char *removed[IMAGES];
    size_t rows[IMAGES], row_count = 0, removed_count = 0;
    for (int i = 0; i < IMAGES; i++) {
        name_image(i, names[i]);
        const uint64_t digest = selection_digest(names[i]);
        if (to->chosen[i] && (!from->chosen[i] || from->defocus[i] != to->defocus[i])) rows[row_count++] = head.count;
        if (from->chosen[i] && !to->chosen[i]) removed[removed_count++] = names[i];
        head.since_digest += from->chosen[i] ? digest : 0;
        head.since_count += from->chosen[i];
        head.digest += to->chosen[i] ? digest : 0;
        head.count += to->chosen[i];
    }
    assert_ok(selection_changes_make(&head, whole, rows, row_count, removed, removed_count, &file, &err));
    assert_ok(star_write(file, path, &err));
    star_destroy(&file);
}

static void join_whole(struct particle_set *set, const struct choice *c) {
    char path[PATH_SIZE];
    scratch_path("whole.star", path);
    struct star_file *file = whole_table(c, path);
    assert_ok(particle_set_merge(set, &file, path, true, NULL, &err));
    assert_ok(twins_settle(set, &err));
}

/* Returns why the changes do not fit; NULL: they were applied. */
static const char *apply(struct particle_set *set, const char *path) {
    struct star_file *file = NULL;
    struct particle_set *read = NULL;
    const char *misfit = "";
    assert_ok(star_read(path, &file, &err));
    assert_ok(particle_set_read_changes(set, &file, path, &read, &err));
    assert_null(file);
    assert_string_equal(particle_set_since(read), "it001");
    assert_ok(particle_set_change(set, &read, &misfit, &err));
    assert_null(read);
    assert_ok(twins_settle(set, &err));
    return misfit;
}

static const char *join_changes(struct particle_set *set, const struct choice *from, const struct choice *to) {
    char path[PATH_SIZE], changes[PATH_SIZE];
    scratch_path("other.star", path);
    scratch_path("changes.star", changes);
    struct star_file *whole = whole_table(to, path);
    put_changes(from, to, whole, changes);
    star_destroy(&whole);
    return apply(set, changes);
}

static char *export_text(const struct particle_set *set) {
    struct star_file *file = NULL;
    char path[PATH_SIZE], *text = NULL;
    size_t length;
    assert_ok(star_create(&file, &err));
    assert_ok(particle_set_export(set, file, &err));
    scratch_path("export.star", path);
    assert_ok(star_write(file, path, &err));
    star_destroy(&file);
    assert_ok(file_read_whole(path, 1 << 24, &text, &length, &err));
    return text;
}

/* Digests all that is known of the particles, in their order, but from where it was read. */
static uint64_t digest_of(const struct particle_set *set) {
    uint64_t h = TEXT_FNV_BEGIN;
    const size_t counts[] = {set->count, set->present, set->left_out, set->repeated, (size_t)set->optics_count};
    h = text_fnv(h, counts, sizeof counts);
    for (size_t i = 0; i < set->count; i++) {
        const struct particle *p = &set->particles[i];
        const int numbers[] = {p->slice,  p->source >= 0, p->optics,       p->half,     p->own_half,
                               p->mapped, p->aligned,     p->class_index,  p->repeated, p->has_ctf,
                               p->twin,   p->chunk,       p->image != NULL};
        const double values[] = {p->ctf.defocus_u, p->ctf.defocus_v, p->ctf.limit,   p->place.x,
                                 p->place.y,       p->origin[0],     p->origin[1],   p->pose[0],
                                 p->pose[4],       p->norm,          p->ctf.voltage, p->ctf.defocus_angle};
        h = text_fnv(h, p->name, strlen(p->name));
        h = text_fnv(h, set->stacks[p->stack].path, strlen(set->stacks[p->stack].path));
        h = text_fnv(h, numbers, sizeof numbers);
        h = text_fnv(h, values, sizeof values);
    }
    return h;
}

static void check_exports(const struct particle_set *a, const struct particle_set *b) {
    char *x = export_text(a), *y = export_text(b);
    assert_string_equal(x, y);
    free(x);
    free(y);
}

static void check_same(const struct particle_set *a, const struct particle_set *b) {
    assert_true(digest_of(a) == digest_of(b));
    assert_int_equal(a->cached_bytes, b->cached_bytes);
    assert_true(a->digest == b->digest);
}

/* As an iteration does: particles that count get poses and images, and go into maps. */
static void iterate(struct particle_set *set, int step) {
    for (size_t i = 0; i < set->count; i++) {
        struct particle *p = &set->particles[i];
        if (!particle_counts(p)) continue;
        const double turn = (double)(particle_hash(p->name, (unsigned)step) % 1000) / 1000;
        p->aligned = p->mapped = true;
        p->pose[0] = p->pose[4] = cos(turn);
        p->pose[1] = -(p->pose[3] = sin(turn));
        p->origin[0] = turn;
        if (p->image == NULL) assert_non_null(p->image = particle_image_room(set));
    }
}

/* Moves in and out, and changes rows that stay. */
static struct choice next_choice(const struct choice *from) {
    struct choice to = *from;
    const double moving = random_unit() < 0.2 ? 0.5 : 0.06, changing = random_unit() < 0.5 ? 0.05 : 0;
    for (int i = 0; i < IMAGES; i++) {
        if (random_unit() < moving) to.chosen[i] = !to.chosen[i];
        if (random_unit() < changing) to.defocus[i] += 100;
    }
    return to;
}

static void changes_lead_to_the_same_set(void **state) {
    (void)state;
    struct particle_set whole, changed;
    struct choice now = {0}, then;
    int applied = 0, heirs = 0;
    size_t twins = 0;
    put_stacks();
    begin(&whole);
    begin(&changed);
    for (int i = 0; i < IMAGES; i++) {
        now.defocus[i] = 10000 + 100 * i;
        now.chosen[i] = i % 3 != 0;
    }
    join_whole(&whole, &now);
    join_whole(&changed, &now);
    for (int step = 0; step < STEPS; step++) {
        check_same(&whole, &changed);
        if (step % 5 == 0) check_exports(&whole, &changed);
        if (random_unit() < 0.5) iterate(&whole, step), iterate(&changed, step);
        then = now;
        now = next_choice(&then);
        const size_t before = whole.count;
        join_whole(&whole, &now);
        for (size_t i = before; i < whole.count; i++)
            heirs += whole.particles[i].aligned;
        twins += whole.left_out;
        if (random_unit() < 0.1) {
            join_whole(&changed, &now);
            continue;
        }
        assert_null(join_changes(&changed, &then, &now));
        applied++;
    }
    check_same(&whole, &changed);
    check_exports(&whole, &changed);
    printf("%d steps with changes, %zu twins, %d heirs\n", applied, twins, heirs);
    assert_true(heirs > 0);
    assert_true(applied > STEPS / 2 && twins > 0);
    particle_set_destroy(&whole);
    particle_set_destroy(&changed);
}

static void check_misfit(struct particle_set *set, const char *misfit, const char *expected) {
    static uint64_t before;
    if (misfit == NULL) before = digest_of(set);
    if (misfit == NULL) return;
    assert_non_null(strstr(misfit, expected));
    assert_true(digest_of(set) == before);
}

static struct choice first_choice(void) {
    struct choice c = {0};
    for (int i = 0; i < IMAGES; i++) {
        c.defocus[i] = 12000;
        c.chosen[i] = i < IMAGES / 2;
    }
    return c;
}

/* The set holds another selection, particles that came otherwise, or a table that names an image twice. */
static void changes_of_another_selection_do_not_fit(void **state) {
    (void)state;
    struct particle_set set;
    char path[PATH_SIZE];
    put_stacks();
    begin(&set);
    struct choice first = first_choice(), other = first, next = first;
    next.chosen[1] = false;
    next.chosen[IMAGES - 1] = true;
    other.chosen[2] = false;
    other.chosen[IMAGES / 2] = true; /* as many particles */
    check_misfit(&set, NULL, NULL);
    check_misfit(&set, join_changes(&set, &first, &next), "other particles");
    join_whole(&set, &first);
    check_misfit(&set, NULL, NULL);
    check_misfit(&set, join_changes(&set, &other, &next), "other particles");
    assert_null(join_changes(&set, &first, &next));
    check_misfit(&set, NULL, NULL);
    check_misfit(&set, join_changes(&set, &first, &next), "other particles"); /* once more */
    scratch_path("added.star", path);
    struct choice added = {.chosen = {[IMAGES - 2] = true}, .defocus = {[IMAGES - 2] = 12000}};
    struct star_file *file = whole_table(&added, path);
    assert_ok(particle_set_merge(&set, &file, path, false, NULL, &err));
    check_misfit(&set, NULL, NULL);
    check_misfit(&set, join_changes(&set, &next, &first), "other particles");
    join_whole(&set, &first);
    assert_null(join_changes(&set, &first, &next));
    particle_set_destroy(&set);
}

/* Replaces a text in the file of changes from `first` to `next`, and applies it to a set that holds `first`. */
static void check_wrong(struct particle_set *set, const char *old, const char *new, enum status expected,
                        const char *reason) {
    char path[PATH_SIZE], *text = NULL, *at;
    struct star_file *file = NULL;
    struct particle_set *read = NULL;
    const char *misfit = NULL;
    size_t length;
    scratch_path("changes.star", path);
    assert_ok(file_read_whole(path, 1 << 20, &text, &length, &err));
    if ((at = strstr(text, old)) == NULL) fail_msg("no %s in %s", old, text);
    char *wrong = malloc(length + strlen(new) + 1);
    assert_non_null(wrong);
    length = (size_t)sprintf(wrong, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
    assert_ok(star_parse("wrong.star", wrong, length, &file, &err));
    enum status status = particle_set_read_changes(set, &file, path, &read, &err);
    assert_null(file);
    if (status == STATUS_OK) assert_ok(particle_set_change(set, &read, &misfit, &err));
    if (status != expected) fail_msg("%s → %s: %s, not %s", old, new, status_name(status), status_name(expected));
    if (status == STATUS_OK) check_misfit(set, misfit != NULL ? misfit : "applied", reason);
    if (status != STATUS_OK && strstr(err.message, reason) == NULL) fail_msg("%s: %s", reason, err.message);
    free(text);
    free(wrong);
}

static void wrong_changes_do_not_fit(void **state) {
    (void)state;
    struct particle_set set;
    char path[PATH_SIZE], changes[PATH_SIZE];
    put_stacks();
    begin(&set);
    struct choice first = first_choice(), next = first;
    next.chosen[1] = next.chosen[3] = false;
    next.chosen[IMAGES - 1] = next.chosen[IMAGES - 2] = true;
    next.defocus[5] = 13000;
    join_whole(&set, &first);
    check_misfit(&set, NULL, NULL);
    scratch_path("other.star", path);
    scratch_path("changes.star", changes);
    struct star_file *whole = whole_table(&next, path);
    put_changes(&first, &next, whole, changes);
    star_destroy(&whole);
    check_wrong(&set, "000012@stack_9", "000010@stack_9", STATUS_OK, "lead to");   /* an image of another name */
    check_wrong(&set, "000002@stack_0", "000003@stack_0", STATUS_OK, "lead to");   /* another one leaves */
    check_wrong(&set, "000004@stack_0", "000002@stack_0", STATUS_OK, "not there"); /* one leaves twice */
    check_wrong(&set, "000004@stack_0", "000006@stack_0", STATUS_OK, "twice");
    check_wrong(&set, "000004@stack_0", "000004@stack_8", STATUS_OK, "not there");
    check_wrong(&set, "000004@stack_0", "000004@gone_0", STATUS_OK, "not there");
    check_wrong(&set, "000004@stack_0.mrcs", "stack", STATUS_BAD_FORMAT, "NNNNNN@STACK");
    check_wrong(&set, "000012@stack_9", "000011@stack_9", STATUS_BAD_FORMAT, "different particles");
    check_wrong(&set, "000012@stack_9", "000013@stack_9", STATUS_BAD_FORMAT, "image 13");
    check_wrong(&set, "data_changes", "data_other", STATUS_BAD_FORMAT, "data_changes");
    check_wrong(&set, "_icestreamDigest", "_icestreamOther", STATUS_NOT_FOUND, "icestreamDigest");
    check_wrong(&set, "data_rows", "data_others", STATUS_BAD_FORMAT, "data_rows");
    check_wrong(&set, "_icestreamRemoved", "_other", STATUS_NOT_FOUND, "icestreamRemoved");
    check_wrong(&set, " 60 \n", " 61 \n", STATUS_BAD_FORMAT, "rows of a table of 60 rise");
    check_wrong(&set, " 59 \n", " 60 \n", STATUS_BAD_FORMAT, "rows of a table of 60 rise");
    check_wrong(&set, " 59 \n", " 0 \n", STATUS_BAD_FORMAT, "rows of a table of 60 rise");
    assert_null(apply(&set, changes));
    particle_set_destroy(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_lead_to_the_same_set),
        cmocka_unit_test(changes_of_another_selection_do_not_fit),
        cmocka_unit_test(wrong_changes_do_not_fit),
    };
    srand((unsigned)chosen_seed(NULL));
    return scratch_run("refiner_changes", tests, sizeof tests / sizeof *tests);
}
