/* A comparison fails after it has added particles to the sums: the half begins anew, and no particle counts twice. */
#include "tests/stages/shapes.h"

#include "kernels/alignment/alignment.h"

enum status __real_alignment_add(struct alignment *alignment, const struct alignment_particle *particles, int count,
                                 struct alignment_result *results, struct err *err);
enum status __wrap_alignment_add(struct alignment *alignment, const struct alignment_particle *particles, int count,
                                 struct alignment_result *results, struct err *err);

static int calls, failing; /* the call that fails; 0: none does */

enum status __wrap_alignment_add(struct alignment *alignment, const struct alignment_particle *particles, int count,
                                 struct alignment_result *results, struct err *err) {
    TRY(__real_alignment_add(alignment, particles, count, results, err));
    FAIL_IF(++calls == failing, err, STATUS_NO_MEMORY, "as the test wants it");
    return STATUS_OK;
}

struct classification {
    struct dataset *dataset;
    struct classifier classifier;
};

static void begin(struct classification *c, int fails) {
    const struct device cpu = {.kind = DEVICE_CPU};
    struct classifier_options o = options_of(3);
    o.device = cpu;
    calls = 0;
    failing = fails;
    OK(dataset_create(1 << 24, &c->dataset, &err));
    for (int part = 0; part < PARTS; part++)
        submit(c->dataset, part);
    classifier_init(&c->classifier, &o, c->dataset);
}

static void end(struct classification *c) {
    classifier_clear(&c->classifier);
    dataset_destroy(&c->dataset);
}

/* Returns how many steps failed. */
static int update(struct classification *c) {
    struct classifier_progress progress = {.more = true};
    int failures = 0;
    while (progress.more && !progress.updated) {
        enum status status = classifier_step(&c->classifier, true, &progress, NULL);
        if (status != STATUS_OK) assert_int_equal(status, STATUS_NO_MEMORY);
        failures += status != STATUS_OK;
        if (status != STATUS_OK) progress = (struct classifier_progress){.more = true};
    }
    return failures;
}

static double weight_of(const struct model *m) {
    double weight = m->empty_weight;
    for (int k = 0; k < m->class_count; k++)
        weight += m->classes[k].weight[0] + m->classes[k].weight[1];
    return weight;
}

/* If the first call of a half fails, it leaves no trace. If a later call fails, particles are compared again, from the
 * poses of the first comparison. */
static void nothing_counts_twice(void **state) {
    (void)state;
    struct classification plain;
    begin(&plain, 0);
    assert_int_equal(update(&plain), 0);
    int all = calls;
    assert_true(all >= 2);
    const struct model *a = plain.classifier.model;
    for (int fails = 1; fails <= all; fails++) {
        struct classification c;
        begin(&c, fails);
        assert_int_equal(update(&c), 1);
        const struct model *b = c.classifier.model;
        assert_true(b->effective == a->effective);
        assert_true(b->sigma2_count == a->sigma2_count);
        assert_true(fabs(weight_of(b) - weight_of(a)) < 0.01 * weight_of(a));
        assert_true(c.classifier.visits == plain.classifier.visits);
        for (int k = 0; k < a->class_count && fails == 1; k++)
            assert_memory_equal(a->classes[k].map, b->classes[k].map, BOX * BOX * sizeof(float));
        end(&c);
    }
    end(&plain);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_counts_twice)};
    return cmocka_run_group_tests(tests, make_particles, remove_particles);
}
