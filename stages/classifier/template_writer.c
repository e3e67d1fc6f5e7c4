#include "stages/classifier/template_writer.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/files.h"
#include "common/memory.h"

/* Each epoch makes the picker try its templates, so they do not come often. */
static const double GROWTH = 2;
/* Epochs whose images are kept. */
enum { KEPT_EPOCHS = 3 };

void template_writer_clear(struct template_writer *w) {
    class_templates_clear(&w->last);
    class_templates_clear(&w->written);
    *w = (struct template_writer){0};
}

/* Goes on after the last epoch of an earlier run, whose images may have another grid. A damaged one is no reason to stop, but
 * its number is not used again. radius: of the mask, Å. */
static enum status look(struct template_writer *w, const char *folder, double radius, struct err *err) {
    struct template_set set = {0};
    w->looked = true;
    w->epoch = file_last_number(folder, "templates_e", ".mrcs", INT_MAX);
    if (template_set_read(folder, &set, NULL) != STATUS_OK) return STATUS_OK;
    if (set.epoch > w->epoch) w->epoch = set.epoch;
    w->particles = set.particles;
    return class_templates_of(&set.images, radius / (double)set.images.pixel_size, &w->written, err);
}

static enum status write(const struct template_writer *w, const struct class_templates *t, const struct snapshot *s,
                         double particles, const char *name, struct err *err) {
    char path[PATH_SIZE], old[TEMPLATE_SET_NAME];
    /* Borrows the images. */
    struct template_set set = {
        .epoch = w->epoch + 1, .iteration = s->iteration, .particles = particles, .images = t->images};
    snprintf(set.stage, sizeof set.stage, "%s", name);
    for (int i = 0; i < t->images.nz; i++)
        set.classes[i] = t->classes[i] + 1;
    TRY(template_set_write(s->folder, &set, err));
    if (set.epoch <= KEPT_EPOCHS) return STATUS_OK;
    snprintf(old, sizeof old, "templates_e%03d.mrcs", set.epoch - KEPT_EPOCHS);
    TRY(path_join(s->folder, old, path, sizeof path, err));
    (void)file_remove(path, NULL); /* a file that cannot be removed only takes room */
    return STATUS_OK;
}

/* Returns whether the templates of this snapshot are to be written. */
static bool is_due(const struct template_writer *w, const struct class_templates *now, bool final, double particles) {
    if (now->images.nz == 0) return false;
    bool same = class_templates_within(now, &w->written) && class_templates_within(&w->written, now);
    return !same && (final || (class_templates_within(now, &w->last) && particles >= GROWTH * w->particles));
}

enum status template_writer_step(struct template_writer *w, const struct classifier *c, const struct snapshot *s,
                                 const char *name, int *ret_count, struct err *err) {
    struct class_templates now = {0};
    const struct model_options *o = &c->model->options;
    double particles = (double)dataset_count(c->dataset);
    *ret_count = 0;
    if (!w->looked) TRY(look(w, s->folder, o->mask_radius * o->pixel_size, err));
    TRY(class_templates_choose(c->model, &now, err));
    bool due = is_due(w, &now, s->final, particles);
    enum status status = due ? write(w, &now, s, particles, name, err) : STATUS_OK;
    if (status != STATUS_OK) {
        class_templates_clear(&now);
        return status;
    }
    if (!due) {
        class_templates_clear(&w->last);
        w->last = now;
        return STATUS_OK;
    }
    *ret_count = now.images.nz;
    class_templates_clear(&w->last);
    class_templates_clear(&w->written);
    w->written = now;
    w->epoch++;
    w->particles = particles;
    return STATUS_OK;
}
