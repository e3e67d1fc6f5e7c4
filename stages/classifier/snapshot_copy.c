#include "stages/classifier/snapshot_copy.h"

#include <string.h>

#include "common/memory.h"

/* Copies values behind those that are there, and lets the pointer lead to the copy. */
static void move_to(float **values, float **next, size_t count) {
    if (*values == NULL) return;
    memcpy(*next, *values, count * sizeof **values);
    *values = *next;
    *next += count;
}

static enum status copy_model(struct snapshot_copy *copy, const struct model *m, struct err *err) {
    const size_t pixels = (size_t)m->options.box * (size_t)m->options.box, shells = (size_t)m->options.box / 2 + 1;
    const size_t count = (size_t)m->class_count;
    static const char what[] = "a copy of the classes";
    TRY(mem_renew(count + 1, sizeof *copy->classes, what, &copy->classes, &copy->class_room, err));
    TRY(mem_renew(count * (pixels + 4 * shells) + shells, sizeof *copy->values, what, &copy->values, &copy->value_room,
                  err));
    float *next = copy->values;
    copy->model = *m;
    copy->model.classes = copy->classes;
    for (size_t k = 0; k < count; k++) {
        struct model_class *c = &copy->classes[k];
        *c = m->classes[k];
        move_to(&c->map, &next, pixels);
        move_to(&c->tau2, &next, shells);
        move_to(&c->ssnr, &next, shells);
        move_to(&c->fsc, &next, shells);
        move_to(&c->completeness, &next, shells);
    }
    move_to(&copy->model.sigma2, &next, shells);
    copy->model.averages = NULL; /* sums belong to the classification that goes on */
    copy->model.made = NULL;
    copy->model.sigma2_sum = copy->model.sigma2_lacking = NULL;
    return STATUS_OK;
}

enum status snapshot_copy_take(struct snapshot_copy *copy, struct classifier *c, struct err *err) {
    TRY(quality_judge(c->model, c->dataset, &c->options.rule, err));
    TRY(dataset_copy(c->dataset, &copy->dataset, err));
    TRY(copy_model(copy, c->model, err));
    copy->classifier = (struct classifier){.options = c->options,
                                           .dataset = copy->dataset,
                                           .choices = c->choices,
                                           .model = &copy->model,
                                           .last_changed = c->last_changed,
                                           .probability = c->probability,
                                           .updates = c->updates};
    return STATUS_OK;
}

void snapshot_copy_clear(struct snapshot_copy *copy) {
    dataset_copy_destroy(&copy->dataset);
    mem_free(&copy->classes);
    mem_free(&copy->values);
    *copy = (struct snapshot_copy){0};
}
