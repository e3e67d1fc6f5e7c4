/* Classifies on a CUDA device: a pass over particles equals that of the CPU, and a whole classification repeats bit for
 * bit, with one class, with and without an empty class, with more classes than particles in a batch, and with little
 * memory. More classes than a device takes are refused. */
#include "common/device.h"
#include "common/harness/stage_private.h"
#include "common/memory.h"
#include "stages/classifier/classifier.h"
#include "tests/stages/shapes.h"

enum { LOOKED_AT = 256 };

struct classification {
    struct dataset *dataset;
    struct classifier classifier;
};

/* bytes: of the host's memory for images. */
static void begin_with(struct classification *c, const struct classifier_options *options, enum device_kind kind,
                       size_t bytes) {
    struct classifier_options o = *options;
    o.device = (struct device){.kind = kind};
    OK(dataset_create(bytes, &c->dataset, &err));
    for (int part = 0; part < PARTS; part++)
        submit(c->dataset, part);
    classifier_init(&c->classifier, &o, c->dataset);
}

static void begin(struct classification *c, const struct classifier_options *options, enum device_kind kind) {
    begin_with(c, options, kind, 1 << 24);
}

/* Makes so many updates, or stops when the classification has converged. */
static void go_on(struct classification *c, int updates) {
    struct classifier_progress progress = {.more = true};
    for (int done = 0; progress.more && done < updates; done += progress.updated)
        OK(classifier_step(&c->classifier, true, &progress, &err));
}

static void end(struct classification *c) {
    classifier_clear(&c->classifier);
    dataset_destroy(&c->dataset);
}

static double correlation(const float *a, const float *b) {
    double ab = 0, aa = 0, bb = 0;
    for (int i = 0; i < BOX * BOX; i++)
        ab += (double)a[i] * b[i], aa += (double)a[i] * a[i], bb += (double)b[i] * b[i];
    return ab / sqrt(aa * bb);
}

/* After the first update all differences come from rounding. */
static void compare(const struct classifier_options *o) {
    struct classification cpu, cuda;
    int moved = 0, changed = 0, apart = 0;
    begin(&cpu, o, DEVICE_CPU);
    begin(&cuda, o, DEVICE_CUDA);
    go_on(&cpu, 1);
    go_on(&cuda, 1);
    const struct model *a = cpu.classifier.model, *b = cuda.classifier.model;
    assert_int_equal(a->class_count, b->class_count);
    for (size_t i = 0; i < COUNT; i++) {
        const struct dataset_particle *p = dataset_at(cpu.dataset, i), *q = dataset_at(cuda.dataset, i);
        assert_int_equal(p->visits, q->visits);
        if (p->visits == 0) continue;
        moved += p->class_index != q->class_index || fabsf(p->psi - q->psi) > 1e-3f || fabsf(p->x - q->x) > 1e-3f;
        /* If more samples matter than are compared, CPU and device may take different ones. */
        if (p->significant <= LOOKED_AT)
            changed += fabsf(p->evidence - q->evidence) > 1e-3f * fabsf(p->evidence) + 0.02f;
        if (fabsf(p->norm - q->norm) > 2e-3f * p->norm)
            fail_msg("norm of particle %zu: %g and %g", i, (double)p->norm, (double)q->norm);
    }
    if (moved > 1 + COUNT / 20 || changed > 1 + COUNT / 20)
        fail_msg("%d particles lie elsewhere, %d explained otherwise", moved, changed);
    for (int k = 0; k < a->class_count; k++) {
        double of_a = a->classes[k].weight[0] + a->classes[k].weight[1];
        double of_b = b->classes[k].weight[0] + b->classes[k].weight[1];
        if (fabs(of_a - of_b) > 0.02 * of_a + 0.05) fail_msg("class %d weighs %g and %g", k, of_a, of_b);
        double alike = correlation(a->classes[k].map, b->classes[k].map);
        if (of_a > 1 && !(alike > 0.95)) fail_msg("averages of class %d are alike to %g", k, alike);
        apart += of_a > 1 && !(alike > 0.999);
    }
    /* An average is moved by whole pixels to its centre: between two pixels, CPU and device may choose differently. */
    if (apart > a->class_count / 20) fail_msg("%d averages are not alike", apart);
    for (int s = 1; s <= BOX / 2; s++)
        if (fabsf(a->sigma2[s] - b->sigma2[s]) > 1e-2f * a->sigma2[s])
            fail_msg("noise of shell %d: %g and %g", s, (double)a->sigma2[s], (double)b->sigma2[s]);
    print_message("%d classes: %d of %d particles lie elsewhere\n", a->class_count, moved, COUNT);
    end(&cpu);
    end(&cuda);
}

static void same(const struct classification *x, const struct classification *y) {
    const struct model *a = x->classifier.model, *b = y->classifier.model;
    assert_int_equal(x->classifier.updates, y->classifier.updates);
    assert_int_equal(a->class_count, b->class_count);
    for (int k = 0; k < a->class_count; k++)
        assert_memory_equal(a->classes[k].map, b->classes[k].map, BOX * BOX * sizeof(float));
    assert_memory_equal(a->sigma2, b->sigma2, (BOX / 2 + 1) * sizeof(float));
    for (size_t i = 0; i < COUNT; i++) {
        const struct dataset_particle *p = dataset_at(x->dataset, i), *q = dataset_at(y->dataset, i);
        assert_true(p->class_index == q->class_index && p->psi == q->psi && p->x == q->x && p->y == q->y);
        assert_true(p->probability == q->probability && p->norm == q->norm && p->evidence == q->evidence);
    }
}

static struct classifier_options options_at(int i) {
    static const struct { int classes, each; } cases[] = {{1, 25}, {3, 25}, {8, 25}, {100, 1}};
    struct classifier_options o = options_of(cases[i].classes);
    o.particles_per_class = cases[i].each;
    return o;
}
enum { CASES = 4 };

static void agrees_with_the_cpu(void **state) {
    (void)state;
    for (int i = 0; i < CASES; i++) {
        struct classifier_options o = options_at(i);
        compare(&o);
    }
}

static void repeats_to_the_bit(void **state) {
    (void)state;
    for (int i = 0; i < CASES; i++) {
        struct classification a, b;
        struct classifier_options o = options_at(i);
        begin(&a, &o, DEVICE_CUDA);
        begin(&b, &o, DEVICE_CUDA);
        go_on(&a, i < 3 ? 100 : 8);
        go_on(&b, i < 3 ? 100 : 8);
        same(&a, &b);
        end(&a);
        end(&b);
    }
}

/* Seeds read images of so few particles three times, before a device keeps any. */
static void images_are_read_once_after_the_seeds(void **state) {
    (void)state;
    struct classification kept, read;
    struct classifier_options o = options_of(8);
    struct stack_reads ahead, asked;
    begin(&kept, &o, DEVICE_CUDA);
    begin_with(&read, &o, DEVICE_CUDA, 0);
    go_on(&kept, 100);
    go_on(&read, 100);
    same(&kept, &read);
    dataset_reads(read.dataset, &ahead, &asked);
    print_message("%d particles, %d updates, %zu images read\n", COUNT, read.classifier.updates, asked.images);
    assert_true(ahead.images == 0 && asked.images >= COUNT && asked.images <= 4 * COUNT);
    end(&kept);
    end(&read);
}

/* Runs to the end: most particles of a shape share classes of their own. */
static void shapes_are_told_apart(void **state) {
    (void)state;
    struct classification c;
    struct classifier_options o = options_of(8);
    int table[16][SHAPES + 1] = {{0}}, pure = 0;
    begin(&c, &o, DEVICE_CUDA);
    go_on(&c, 100);
    OK(quality_judge(c.classifier.model, c.dataset, &o.rule, &err));
    for (size_t i = 0; i < COUNT; i++)
        table[dataset_at(c.dataset, i)->class_index][shape_of((int)i)]++;
    for (int k = 0; k < c.classifier.model->class_count; k++) {
        int most = 0;
        for (int shape = 0; shape < SHAPES; shape++)
            if (table[k][shape] > most) most = table[k][shape];
        if (c.classifier.model->classes[k].kept) pure += most;
    }
    print_message("%d of %d pure and kept, %d updates\n", pure, SHAPES * PER_SHAPE, c.classifier.updates);
    assert_true(pure >= 0.9 * SHAPES * PER_SHAPE);
    end(&c);
}

static void little_memory_is_enough_or_refused(void **state) {
    (void)state;
    struct classification plenty, little;
    struct classifier_options o = options_of(8);
    begin(&plenty, &o, DEVICE_CUDA);
    go_on(&plenty, 1);
    o.memory = 1e6 / 0x1p30;
    for (;; o.memory *= 1.2) {
        struct err err = {0};
        struct classifier_progress progress = {.more = true};
        enum status status = STATUS_OK;
        begin(&little, &o, DEVICE_CUDA);
        while (status == STATUS_OK && !progress.updated)
            status = classifier_step(&little.classifier, true, &progress, &err);
        if (status == STATUS_OK) break;
        if (status != STATUS_NO_MEMORY || o.memory > 1e9 / 0x1p30) fail_msg("%s", err.message);
        end(&little);
    }
    print_message("%.1f MB are enough\n", o.memory * 0x1p30 / 1e6);
    for (int k = 0; k < plenty.classifier.model->class_count; k++)
        assert_true(correlation(plenty.classifier.model->classes[k].map, little.classifier.model->classes[k].map) >
                    0.999);
    end(&plenty);
    end(&little);
}

static void too_many_classes_are_refused(void **state) {
    (void)state;
    char ledger[PATH_MAX];
    const char *const parameters[] = {"classes", "300", "device", "cuda:0", NULL};
    struct stage_results results = {0};
    struct err err = {0};
    snprintf(ledger, sizeof ledger, "%.200s/classifier.sqlite", folder);
    assert_int_equal(stage_run_results(&classifier_stage, folder, ledger, parameters, NULL, 0, &results, &err),
                     STATUS_BAD_ARGUMENT);
    assert_non_null(strstr(err.message, "at most 257"));
    stage_results_clear(&results);
}

int main(void) {
    int devices = 0;
    if (device_count(&devices, NULL) != STATUS_OK || devices < 1) {
        puts("skipped: no CUDA device");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_cpu),          cmocka_unit_test(repeats_to_the_bit),
        cmocka_unit_test(shapes_are_told_apart),        cmocka_unit_test(little_memory_is_enough_or_refused),
        cmocka_unit_test(too_many_classes_are_refused), cmocka_unit_test(images_are_read_once_after_the_seeds),
    };
    return cmocka_run_group_tests(tests, make_particles, remove_particles);
}
