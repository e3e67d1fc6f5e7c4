/* Beside a selection the classifier writes what has changed since the one before: applied to that one, it gives the same
 * table. At random, with particles that come and go. No such file where rows that stay would be others, or most change. */
#include "common/formats/selection_changes.h"
#include "stages/classifier/snapshot.h"
#include "tests/kernels/seed.h"
#include "tests/stages/shapes.h"

enum { STEPS = 40, NAME = 64 };

struct run {
    struct dataset *dataset;
    struct classifier classifier;
    struct classifier_options options;
    struct selection sent, next;
    struct snapshot snapshot;
    size_t told;
};

static double chance(void) {
    return rand() / (RAND_MAX + 1.0);
}

static void begin(struct run *r) {
    struct classifier_progress progress = {.more = true};
    *r = (struct run){.options = options_of(4)};
    OK(quality_rule_parse("all", &r->options.rule, &err));
    OK(dataset_create(1 << 24, &r->dataset, &err));
    classifier_init(&r->classifier, &r->options, r->dataset);
    submit(r->dataset, 0);
    while (progress.more && r->classifier.updates < 2)
        OK(classifier_step(&r->classifier, false, &progress, &err));
    r->snapshot = (struct snapshot){.folder = folder, .relative = ".", .sent = &r->sent, .selection = &r->next};
}

static void end(struct run *r) {
    selection_clear(&r->sent);
    selection_clear(&r->next);
    classifier_clear(&r->classifier);
    dataset_destroy(&r->dataset);
}

/* Writes a snapshot, whose selection then counts as sent. */
static void write_next(struct run *r) {
    r->snapshot.iteration++;
    OK(snapshot_write(&r->classifier, &r->snapshot, &err));
    const struct selection sent = r->sent;
    r->sent = r->next;
    r->next = sent;
}

static struct star_file *read_file(const char *prefix, int iteration) {
    char path[PATH_MAX];
    struct star_file *file = NULL;
    snprintf(path, sizeof path, "%.200s/%s_it%03d.star", folder, prefix, iteration);
    OK(star_read(path, &file, &err));
    return file;
}

/* The names of a selection, in the order of its rows. */
struct list {
    char names[COUNT][NAME];
    size_t count;
};

static struct list list_of(struct star_file *file, const char *table, const char *column) {
    struct list list = {0};
    const struct star_table *t = star_table_find(file, table);
    assert_non_null(t);
    for (size_t i = 0; i < star_row_count(t); i++)
        snprintf(list.names[list.count++], NAME, "%s", star_get(t, i, star_column_find(t, column)));
    return list;
}

static bool has(const struct list *list, const char *name) {
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->names[i], name) == 0) return true;
    return false;
}

static uint64_t digest_of(const struct list *list) {
    uint64_t digest = 0;
    for (size_t i = 0; i < list->count; i++)
        digest += selection_digest(list->names[i]);
    return digest;
}

/* Puts the rows of the changes into their places, and the rest of the earlier rows into those between. */
static void apply(struct list *list, struct star_file *changes, size_t count) {
    const struct star_table *rows = star_table_find(changes, SELECTION_ROWS);
    const struct list removed = list_of(changes, SELECTION_REMOVED, SELECTION_REMOVED_NAME),
                      changed = list_of(changes, "particles", "rlnImageName"), before = *list;
    assert_int_equal(star_row_count(rows), changed.count);
    for (size_t i = 0; i < removed.count; i++)
        assert_true(has(&before, removed.names[i]));
    list->count = 0;
    for (size_t row = 0, next = 0, earlier = 0; row < count; row++) {
        long place = 0;
        if (next < changed.count) OK(star_get_integer(rows, next, 0, &place, &err));
        const bool new = (size_t)place == row + 1;
        while (!new && (has(&removed, before.names[earlier]) || has(&changed, before.names[earlier])))
            earlier++;
        memcpy(list->names[list->count++], new ? changed.names[next++] : before.names[earlier++], NAME);
    }
}

/* The rows of the changes are those of the whole table. */
static void check_rows(struct star_file *whole, struct star_file *changes) {
    static const char *const TABLES[] = {"particles", "optics"};
    for (int i = 0; i < 2; i++) {
        const struct star_table *t = star_table_find(whole, TABLES[i]), *c = star_table_find(changes, TABLES[i]),
                                *places = star_table_find(changes, SELECTION_ROWS);
        assert_int_equal(star_column_count(t), star_column_count(c));
        for (size_t row = 0; row < star_row_count(c); row++) {
            long place = (long)row + 1;
            if (i == 0) OK(star_get_integer(places, row, 0, &place, &err));
            for (size_t column = 0; column < star_column_count(t); column++) {
                assert_string_equal(star_column_name(t, column), star_column_name(c, column));
                assert_string_equal(star_get(t, (size_t)place - 1, (int)column), star_get(c, row, (int)column));
            }
        }
    }
}

static void check_changes(struct run *r, struct list *list) {
    struct star_file *whole = read_file("selected", r->snapshot.iteration),
                     *changes = read_file("changes", r->snapshot.iteration);
    struct selection_changes head;
    char digest[DIGEST_SIZE], path[PATH_MAX], id[32];
    OK(selection_changes_read(changes, "changes", &head, &err));
    const struct list expected = list_of(whole, "particles", "rlnImageName");
    snapshot_id(r->snapshot.iteration - 1, id);
    assert_string_equal(head.since, id);
    assert_int_equal(head.since_count, list->count);
    assert_true(head.since_digest == digest_of(list) && head.digest == digest_of(&expected));
    assert_int_equal(head.count, expected.count);
    assert_int_equal(expected.count, r->snapshot.kept);
    check_rows(whole, changes);
    apply(list, changes, head.count);
    for (size_t i = 0; i < expected.count; i++)
        assert_string_equal(list->names[i], expected.names[i]);
    snprintf(path, sizeof path, "%.200s/changes_it%03d.star", folder, r->snapshot.iteration);
    OK(digest_file(path, digest, NULL, &err));
    assert_string_equal(r->snapshot.changes, digest);
    star_destroy(&whole);
    star_destroy(&changes);
}

static void take_whole(const struct run *r, struct list *list) {
    struct star_file *whole = read_file("selected", r->snapshot.iteration);
    *list = list_of(whole, "particles", "rlnImageName");
    star_destroy(&whole);
}

/* Moves particles out of all classes, or back. Leaves at least one in. */
static void move(struct run *r, double share) {
    for (size_t i = 1; i < dataset_count(r->dataset); i++) {
        struct dataset_particle *p = dataset_at(r->dataset, i);
        if (chance() < share) p->class_index = p->class_index < 0 ? 0 : -1;
        p->psi = (float)(360 * chance()); /* what the classification finds is no change */
    }
    dataset_at(r->dataset, 0)->class_index = 0;
}

static void changes_lead_to_the_next_selection(void **state) {
    (void)state;
    struct run r;
    struct list list = {0};
    int with = 0, without = 0;
    size_t told = 0;
    srand((unsigned)chosen_seed(NULL));
    begin(&r);
    for (int i = 0; i < STEPS; i++) {
        if (i == STEPS / 4 || i == STEPS / 2) submit(r.dataset, i == STEPS / 2 ? 2 : 1);
        OK(dataset_merge(r.dataset, NULL, &err));
        move(&r, i % 7 == 6 ? 0.9 : 0.08);
        write_next(&r);
        const bool changes = r.snapshot.changes[0] != '\0';
        if (changes) check_changes(&r, &list);
        if (!changes) take_whole(&r, &list);
        told = changes ? r.sent.told : 0;
        assert_true(2 * told <= list.count);
        with += changes;
        without += !changes;
        snapshot_remove(&r.snapshot, r.snapshot.iteration, true);
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%.200s/changes_it%03d.star", folder, r.snapshot.iteration);
        assert_false(file_exists(path));
    }
    print_message("%d selections with changes, %d without\n", with, without);
    assert_true(with > STEPS / 3 && without > STEPS / 8);
    end(&r);
}

/* Particles of other optics put an optics group at the end, which changes nothing in others; in front of them it does. */
static void write_other(const char *name, const char *column) {
    char path[PATH_MAX], text[1024];
    snprintf(path, sizeof path, "%.200s/%s.star", folder, name);
    snprintf(text, sizeof text,
             "data_optics\nloop_\n_rlnOpticsGroup\n_rlnOpticsGroupName\n_rlnVoltage\n_rlnImagePixelSize\n"
             "_rlnImageSize\n1 %s 200 4.0 %d\n\ndata_particles\nloop_\n_rlnImageName\n_rlnOpticsGroup\n_truth\n%s"
             "000001@part1.mrcs 1 0%s\n000002@part1.mrcs 1 0%s\n",
             name, BOX, column, *column != '\0' ? " 7" : "", *column != '\0' ? " 7" : "");
    OK(file_write_whole(path, text, strlen(text), &err));
}

static void add_other(struct run *r, const char *name) {
    char path[PATH_MAX];
    struct dataset_batch *batch = NULL;
    snprintf(path, sizeof path, "%.200s/%s.star", folder, name);
    OK(dataset_batch_read(path, resolve, NULL, NAN, false, &batch, &err));
    OK(dataset_submit(r->dataset, &batch, &err));
    OK(dataset_merge(r->dataset, NULL, &err));
    for (size_t i = dataset_count(r->dataset) - 2; i < dataset_count(r->dataset); i++)
        dataset_at(r->dataset, i)->class_index = 0;
}

static void rows_that_would_differ_have_no_changes(void **state) {
    (void)state;
    struct run r;
    begin(&r);
    write_other("others", "");
    write_other("columns", "_own\n");
    const size_t first = dataset_count(r.dataset);
    for (size_t i = 0; i < first; i++)
        dataset_at(r.dataset, i)->class_index = 0;
    write_next(&r);
    assert_string_equal(r.snapshot.changes, ""); /* there is no selection before it */
    add_other(&r, "others");
    write_next(&r);
    assert_string_not_equal(r.snapshot.changes, "");
    for (size_t i = 0; i < first; i++) /* now the group of the others is the first */
        dataset_at(r.dataset, i)->class_index = i < 4 ? 0 : -1;
    write_next(&r);
    for (size_t i = 0; i < 4; i++)
        dataset_at(r.dataset, i)->class_index = -1;
    write_next(&r);
    assert_string_equal(r.snapshot.changes, "");
    for (size_t i = 0; i < first; i++)
        dataset_at(r.dataset, i)->class_index = 0;
    write_next(&r);
    dataset_at(r.dataset, 0)->class_index = -1;
    write_next(&r);
    assert_string_not_equal(r.snapshot.changes, "");
    add_other(&r, "columns");
    write_next(&r);
    assert_string_equal(r.snapshot.changes, ""); /* all rows have one column more */
    write_next(&r);
    assert_string_not_equal(r.snapshot.changes, ""); /* nothing has changed, and that is said */
    end(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_lead_to_the_next_selection),
        cmocka_unit_test(rows_that_would_differ_have_no_changes),
    };
    return cmocka_run_group_tests(tests, make_particles, remove_particles);
}
