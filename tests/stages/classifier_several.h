/* Classifies the same particles with one worker and with several, and compares particles and averages bit by bit. */
#ifndef ICESTREAM_TESTS_STAGES_CLASSIFIER_SEVERAL_H
#define ICESTREAM_TESTS_STAGES_CLASSIFIER_SEVERAL_H

#include "tests/stages/shapes.h"

struct several_case {
    struct device device;
    int stacks;           /* stacks of COUNT images each */
    size_t image_memory;  /* bytes */
    double memory;        /* GiB */
    int classes, updates; /* batches: the first are small, the last hold all particles */
};

struct several_run {
    struct dataset *dataset;
    struct classifier classifier;
    size_t most; /* particles that one step has compared */
};

/* Writes stacks of particles that all are others, in parts from PARTS on. */
static inline void several_write(int stacks) {
    unsigned random = 777;
    for (int stack = 0; stack < stacks; stack++) {
        static char text[32 * 1024];
        char path[PATH_MAX];
        struct image image = {0};
        int length = snprintf(text, sizeof text,
                              "data_optics\n\nloop_\n_rlnOpticsGroup #1\n_rlnOpticsGroupName #2\n_rlnVoltage #3\n"
                              "_rlnImagePixelSize #4\n_rlnImageSize #5\n1 og 300 4.0 %d\n\n\ndata_particles\n\n"
                              "loop_\n_rlnImageName #1\n_rlnOpticsGroup #2\n",
                              BOX);
        OK(image_resize(&image, BOX, BOX, COUNT, &err));
        image.pixel_size = 4;
        for (int i = 0; i < COUNT; i++) {
            draw(i, image.data + (size_t)i * BOX * BOX, &random);
            length +=
                snprintf(text + length, sizeof text - (size_t)length, "%06d@part%d.mrcs 1\n", i + 1, PARTS + stack);
        }
        length += snprintf(text + length, sizeof text - (size_t)length, "\n");
        assert_true((size_t)length < sizeof text - 1);
        snprintf(path, sizeof path, "%.200s/part%d.mrcs", folder, PARTS + stack);
        OK(mrc_write(path, &image, MRC_STACK, MRC_FLOAT32, &err));
        snprintf(path, sizeof path, "%.200s/part%d.star", folder, PARTS + stack);
        OK(file_write_whole(path, text, (size_t)length, &err));
        image_destroy(&image);
    }
}

static inline void several_run(const struct several_case *c, int workers, struct several_run *run) {
    struct classifier_options o = options_of(c->classes);
    struct classifier_progress progress = {.more = true};
    *run = (struct several_run){0};
    o.device = c->device;
    o.memory = c->memory;
    o.sharing_count = workers;
    for (int i = 0; i < workers; i++)
        o.sharing[i] = c->device;
    OK(dataset_create(c->image_memory, &run->dataset, &err));
    for (int stack = 0; stack < c->stacks; stack++)
        submit(run->dataset, PARTS + stack);
    classifier_init(&run->classifier, &o, run->dataset);
    for (int done = 0; progress.more && done < c->updates; done += progress.updated) {
        double before = run->classifier.visits;
        OK(classifier_step(&run->classifier, done >= c->updates - 2, &progress, &err));
        size_t compared = (size_t)fmax(run->classifier.visits - before, 0);
        if (compared > run->most) run->most = compared;
    }
}

static inline void several_end(struct several_run *run) {
    classifier_clear(&run->classifier);
    dataset_destroy(&run->dataset);
}

static inline void several_same(const struct several_run *x, const struct several_run *y) {
    const struct model *a = x->classifier.model, *b = y->classifier.model;
    assert_int_equal(x->classifier.updates, y->classifier.updates);
    assert_int_equal(a->class_count, b->class_count);
    for (int k = 0; k < a->class_count; k++) {
        assert_memory_equal(a->classes[k].map, b->classes[k].map, BOX * BOX * sizeof(float));
        assert_memory_equal(a->classes[k].weight, b->classes[k].weight, sizeof a->classes[k].weight);
    }
    assert_memory_equal(a->sigma2, b->sigma2, (BOX / 2 + 1) * sizeof(float));
    for (size_t i = 0; i < dataset_count(x->dataset); i++) {
        const struct dataset_particle *p = dataset_at(x->dataset, i), *q = dataset_at(y->dataset, i);
        assert_true(p->class_index == q->class_index && p->psi == q->psi && p->x == q->x && p->y == q->y);
        assert_true(p->probability == q->probability && p->norm == q->norm && p->evidence == q->evidence);
    }
}

/* Compares one worker with up to `most`. */
static inline void several_check(const struct several_case *c, int most) {
    struct several_run one, other;
    several_run(c, 1, &one);
    for (int workers = 2; workers <= most; workers++) {
        several_run(c, workers, &other);
        several_same(&one, &other);
        print_message("%d workers: %zu particles at a time, one %zu\n", workers, other.most, one.most);
        if (c->device.kind == DEVICE_CPU) assert_true(other.most > one.most); /* they did share a batch */
        several_end(&other);
    }
    several_end(&one);
}

#endif
