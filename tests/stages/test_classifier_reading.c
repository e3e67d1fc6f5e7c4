/* Images that are read ahead give the same classes, byte for byte, as images that are read when they are needed. Errors
 * in stacks are the same, too. */
#include "tests/stages/shapes.h"

enum { IMAGE_SIZE = BOX * BOX * (int)sizeof(float), KEPT = 20, AMPLE = 2 * COUNT, TIGHT = 3 };

static const struct classifier_options *options(void) {
    static struct classifier_options o;
    o = options_of(3);
    o.psi_step = 24;
    o.offset_range = 2;
    o.visits = 1.5;
    o.final_passes = 1;
    o.threads = 1;
    return &o;
}

/* Makes a classification whose memory holds KEPT images. threads: that read ahead, into room for `slots` images; 0:
 * none do. */
static void begin_with(struct classifier *c, int threads, int slots, struct shards *cache) {
    struct dataset *dataset = NULL;
    OK(dataset_create(KEPT * IMAGE_SIZE, &dataset, &err));
    if (threads > 0) OK(dataset_read_ahead(dataset, threads, (size_t)slots * IMAGE_SIZE, cache, &err));
    classifier_init(c, options(), dataset);
}

static void begin(struct classifier *c, int threads, int slots) {
    begin_with(c, threads, slots, NULL);
}

static void assert_same(const struct classifier *a, const struct classifier *b) {
    assert_int_equal(a->model->class_count, b->model->class_count);
    assert_int_equal(a->updates, b->updates);
    for (int k = 0; k < a->model->class_count; k++)
        assert_memory_equal(a->model->classes[k].map, b->model->classes[k].map, IMAGE_SIZE);
    for (size_t i = 0; i < COUNT; i++) {
        const struct dataset_particle *p = dataset_at(a->dataset, i), *q = dataset_at(b->dataset, i);
        assert_true(p->class_index == q->class_index && p->psi == q->psi && p->x == q->x && p->y == q->y);
        assert_true(p->log_likelihood == q->log_likelihood && p->norm == q->norm && p->visits == q->visits);
    }
}

static void classes_are_the_same_however_images_are_read(void **state) {
    (void)state;
    static const int ways[][2] = {{1, AMPLE}, {3, TIGHT}};
    struct stack_reads ahead, asked;
    struct classifier plain, other;
    begin(&plain, 0, 0);
    shapes_classify(&plain);
    dataset_reads(plain.dataset, &ahead, &asked);
    size_t all = asked.images;
    assert_true(ahead.images == 0 && all > 2 * COUNT);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        begin(&other, ways[i][0], ways[i][1]);
        shapes_classify(&other);
        assert_same(&plain, &other);
        dataset_reads(other.dataset, &ahead, &asked);
        printf("%d threads, room for %d images: %zu read ahead, %zu when asked for; without: %zu\n", ways[i][0],
               ways[i][1], ahead.images, asked.images, all);
        assert_true(ahead.images > all / 2);
        if (ways[i][1] == AMPLE) assert_int_equal(asked.images, 0);
        shapes_end(&other);
    }
    shapes_end(&plain);
}

/* While a batch is compared, the new particles that come next are expected. */
static void new_particles_are_foreseen(void **state) {
    (void)state;
    struct classifier c;
    struct classifier_progress progress;
    begin(&c, 1, AMPLE);
    for (int part = 0; part < PARTS; part++)
        submit(c.dataset, part);
    OK(classifier_step(&c, false, &progress, &err)); /* the first averages */
    OK(classifier_step(&c, false, &progress, &err)); /* the first batch */
    assert_in_range(c.first_unseen, 1, COUNT - 1);
    assert_int_equal(c.next_count, COUNT - c.first_unseen);
    for (size_t i = 0; i < c.next_count; i++)
        assert_in_range(c.sorted[i], c.first_unseen, COUNT - 1);
    shapes_end(&c);
}

static void damage(const char *cache) {
    char command[PATH_MAX + 200];
    snprintf(command, sizeof command,
             "cd %.200s/icestream-* && printf x | dd status=none conv=notrunc bs=1 seek=9000 of=000001.shard && "
             "truncate -s $(($(stat -c %%s 000001.shard) / 2)) 000001.shard",
             cache);
    assert_int_equal(system(command), 0);
}

/* Each image is read from its stack once, and then from the cache, also in the next run. Images that are damaged there
 * meanwhile are read from their stacks again. */
static void classes_are_the_same_with_a_cache(void **state) {
    (void)state;
    char disk[PATH_MAX];
    struct stack_reads ahead, asked;
    struct shards_report report;
    struct classifier plain, other;
    snprintf(disk, sizeof disk, "%.200s/disk", folder);
    begin(&plain, 2, AMPLE);
    shapes_classify(&plain);
    for (int run = 0; run < 3; run++) {
        struct shards *cache = NULL;
        OK(shards_open(disk, folder, 0, &cache, &err));
        shards_report(cache, &report);
        assert_true(run == 0 ? report.found == 0 : report.found >= COUNT);
        begin_with(&other, 2, AMPLE, cache);
        if (run == 2) damage(disk);
        shapes_classify(&other);
        assert_same(&plain, &other);
        dataset_reads(other.dataset, &ahead, &asked);
        shards_report(cache, &report);
        printf("run %d: %zu of %zu images from stacks, %zu damaged\n", run, ahead.images + asked.images,
               ahead.images + asked.images + ahead.cached + asked.cached, report.damaged);
        /* Two threads may read one image at the same time if it was given up and is needed after all. */
        assert_in_range(ahead.images + asked.images,
                        run == 0   ? COUNT
                        : run == 1 ? 0
                                   : report.damaged,
                        run == 0 ? COUNT + 10 : report.damaged);
        assert_true(run == 2 ? report.damaged > COUNT / 3 : report.damaged == 0);
        shapes_end(&other);
        shards_close(&cache, run == 2);
    }
    shapes_end(&plain);
}

static void stack_of(int part, char path[PATH_MAX]) {
    snprintf(path, PATH_MAX, "%.200s/part%d.mrcs", folder, part);
}

/* Steps until the classification is over, or an image cannot be read. */
static enum status work(struct classifier *c, struct err *err) {
    struct classifier_progress progress;
    do
        TRY(classifier_step(c, true, &progress, err));
    while (progress.more);
    return STATUS_OK;
}

/* A stack is away, or too short, for a while. The error is that of a run without reading ahead, and the same call goes
 * on when the stack is back. */
static void errors_are_the_same_and_pass(void **state) {
    (void)state;
    static const enum status expected[] = {STATUS_NOT_FOUND, STATUS_TRUNCATED};
    char stack[PATH_MAX], away[PATH_MAX + 8], messages[2][sizeof((struct err *)NULL)->message];
    struct classifier c[2];
    stack_of(1, stack);
    snprintf(away, sizeof away, "%s.away", stack);
    for (int kind = 0; kind < 2; kind++) {
        for (int i = 0; i < 2; i++) {
            struct classifier_progress progress;
            struct err refusal = {0};
            begin(&c[i], i == 0 ? 0 : 2, AMPLE);
            for (int part = 0; part < PARTS; part++)
                submit(c[i].dataset, part);
            OK(classifier_step(&c[i], true, &progress, &err)); /* makes the first averages */
            OK(rename(stack, away) == 0 ? STATUS_OK : STATUS_IO);
            if (kind == 1) OK(file_write_whole(stack, "MAP", 3, &err));
            assert_int_equal(work(&c[i], &refusal), expected[kind]);
            assert_int_equal(work(&c[i], &refusal), expected[kind]);
            snprintf(messages[i], sizeof messages[i], "%s", refusal.message);
            OK(rename(away, stack) == 0 ? STATUS_OK : STATUS_IO);
            OK(work(&c[i], &err));
        }
        assert_string_equal(messages[0], messages[1]);
        assert_same(&c[0], &c[1]);
        shapes_end(&c[0]);
        shapes_end(&c[1]);
    }
}

/* Whoever ends does not wait for images that nobody will look at. */
static void a_classification_may_end_while_images_are_read(void **state) {
    (void)state;
    size_t which[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        which[i] = COUNT - 1 - i;
    for (int i = 0; i < 20; i++) {
        struct classifier c;
        begin(&c, 1 + i % 4, i % 2 == 0 ? AMPLE : TIGHT);
        for (int part = 0; part < PARTS; part++)
            submit(c.dataset, part);
        OK(dataset_merge(c.dataset, NULL, &err));
        dataset_expect(c.dataset, which, COUNT, NULL, 0);
        dataset_expect(c.dataset, which + i, COUNT / 2, which, i % 3 == 0 ? COUNT : 0);
        shapes_end(&c);
    }
}

/* A classification that cannot be restored begins anew with the same particles. */
static void images_may_be_read_between_two_classifications(void **state) {
    (void)state;
    size_t which[COUNT];
    struct classifier c;
    struct classifier_progress progress;
    for (size_t i = 0; i < COUNT; i++)
        which[i] = i;
    begin(&c, 2, AMPLE);
    for (int part = 0; part < PARTS; part++)
        submit(c.dataset, part);
    OK(classifier_step(&c, true, &progress, &err));
    struct dataset *dataset = c.dataset;
    classifier_clear(&c);
    dataset_expect(dataset, which, COUNT, NULL, 0);
    classifier_init(&c, options(), dataset);
    OK(classifier_step(&c, true, &progress, &err));
    shapes_end(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_are_the_same_however_images_are_read),
        cmocka_unit_test(new_particles_are_foreseen),
        cmocka_unit_test(classes_are_the_same_with_a_cache),
        cmocka_unit_test(errors_are_the_same_and_pass),
        cmocka_unit_test(a_classification_may_end_while_images_are_read),
        cmocka_unit_test(images_may_be_read_between_two_classifications),
    };
    return cmocka_run_group_tests(tests, make_particles, remove_particles);
}
