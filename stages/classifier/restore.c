/* A classification goes on from its last snapshot. */
#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/mrc.h"
#include "snapshot.h"

int snapshot_last(const char *folder) {
    DIR *dir = opendir(folder);
    int last = 0;
    if (dir == NULL) return 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        int number, length = 0;
        if (sscanf(entry->d_name, "run_it%d_model.star%n", &number, &length) == 1 && length > 0 &&
            entry->d_name[length] == '\0' && number > last)
            last = number;
    }
    closedir(dir);
    return last;
}

static enum status need_number(const struct star_table *t, size_t row, const char *name, double *ret_value,
                               struct err *err) {
    int column;
    TRY(star_column_need(t, name, &column, err));
    return star_get_number(t, row, column, ret_value, err);
}

static enum status restore_model(struct model *m, const char *prefix, bool *ret_final, double *ret_particles,
                                 double *ret_kept, struct err *err) {
    char path[PATH_MAX];
    struct image stack = {0};
    _cleanup_(star_destroy) struct star_file *file = NULL;
    snprintf(path, sizeof path, "%s_model.star", prefix);
    TRY(star_read(path, &file, err));
    struct star_table *general = star_table_find(file, "model_general");
    struct star_table *classes = star_table_find(file, "model_classes");
    struct star_table *noise = star_table_find(file, "model_optics_group_1");
    FAIL_IF(general == NULL || classes == NULL || noise == NULL, err, STATUS_BAD_FORMAT,
            "%s: model_general, model_classes and model_optics_group_1 were expected", path);
    double final, size, offset, box;
    TRY(need_number(general, 0, "rlnOriginalImageSize", &box, err));
    TRY(need_number(general, 0, "rlnCurrentImageSize", &size, err));
    TRY(need_number(general, 0, "rlnSigmaOffsetsAngst", &offset, err));
    TRY(need_number(general, 0, "rlnNormCorrectionAverage", &m->average_norm, err));
    TRY(need_number(general, 0, "icestreamFinal", &final, err));
    TRY(need_number(general, 0, "icestreamParticles", ret_particles, err));
    TRY(need_number(general, 0, "icestreamKeptParticles", ret_kept, err));
    int count = (int)star_row_count(classes) - m->options.with_empty, half = m->options.box / 2;
    FAIL_IF((int)box != m->options.box || count < 1 || count > m->options.class_capacity ||
                (int)star_row_count(noise) != half + 1 || !(size >= 4 && size <= m->options.max_size),
            err, STATUS_BAD_FORMAT, "%s: does not fit these particles and parameters", path);
    m->sigma_offset = offset / m->options.pixel_size;
    m->size = (int)size / 2 * 2;
    for (int s = 0; s <= half; s++) {
        double value;
        TRY(need_number(noise, (size_t)s, "rlnSigma2Noise", &value, err));
        m->sigma2[s] = (float)value;
    }
    m->class_count = count;
    snprintf(path, sizeof path, "%s_classes.mrcs", prefix);
    enum status status = mrc_read(path, &stack, err);
    if (status == STATUS_OK && (stack.nx != m->options.box || stack.ny != m->options.box || stack.nz < count))
        status = err_set(err, STATUS_BAD_FORMAT, __FILE__, __LINE__, "%s: %d × %d × %d px do not fit", path, stack.nx,
                         stack.ny, stack.nz);
    size_t pixels = (size_t)m->options.box * (size_t)m->options.box;
    for (int k = 0; status == STATUS_OK && k < count; k++) {
        double fraction;
        status = model_set_map(m, k, 0, err);
        if (status != STATUS_OK) break;
        memcpy(m->classes[k].map, stack.data + (size_t)k * pixels, pixels * sizeof *stack.data);
        status = model_set_map(m, k, 0, err);
        if (status == STATUS_OK) status = need_number(classes, (size_t)k, "rlnClassDistribution", &fraction, err);
        if (status == STATUS_OK) m->classes[k].weight[0] = m->classes[k].weight[1] = fraction / 2;
    }
    image_destroy(&stack);
    TRY(status);
    if (m->options.with_empty) TRY(need_number(classes, (size_t)count, "rlnClassDistribution", &m->empty_weight, err));
    *ret_final = final != 0;
    return STATUS_OK;
}

struct named {
    const char *name;
    size_t index;
};

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

static enum status restore_particle(const struct star_table *t, size_t row, int classes, struct dataset_particle *p,
                                    struct err *err) {
    double number, psi, x, y, norm, probability;
    TRY(need_number(t, row, "rlnClassNumber", &number, err));
    TRY(need_number(t, row, "rlnAnglePsi", &psi, err));
    TRY(need_number(t, row, "rlnOriginXAngst", &x, err));
    TRY(need_number(t, row, "rlnOriginYAngst", &y, err));
    TRY(need_number(t, row, "rlnNormCorrection", &norm, err));
    TRY(need_number(t, row, "rlnMaxValueProbDistribution", &probability, err));
    if (number < 1 || number > classes) return STATUS_OK;
    p->class_index = (int)number - 1;
    p->psi = (float)psi;
    p->x = (float)(x / p->pixel_size);
    p->y = (float)(y / p->pixel_size);
    p->norm = norm > 0 ? (float)norm : 1;
    p->probability = (float)probability;
    p->visits = 1;
    return STATUS_OK;
}

static enum status restore_particles(struct classifier *c, const char *prefix, size_t *ret_known, struct err *err) {
    char path[PATH_MAX];
    _cleanup_(star_destroy) struct star_file *file = NULL;
    snprintf(path, sizeof path, "%s_data.star", prefix);
    TRY(star_read(path, &file, err));
    struct star_table *t = star_table_find(file, "particles");
    FAIL_IF(t == NULL, err, STATUS_BAD_FORMAT, "%s: a table of particles was expected", path);
    size_t count = dataset_count(c->dataset), known = 0;
    _cleanup_(mem_free) struct named *names = NULL;
    TRY(mem_new(count, sizeof *names, "names of particles", &names, err));
    for (size_t i = 0; i < count; i++) {
        size_t row;
        const struct star_table *own = dataset_row(c->dataset, i, &row);
        names[i] = (struct named){.name = star_get(own, row, star_column_find(own, "rlnImageName")), .index = i};
    }
    qsort(names, count, sizeof *names, by_name);
    int column;
    TRY(star_column_need(t, "rlnImageName", &column, err));
    for (size_t row = 0; row < star_row_count(t); row++) {
        struct named key = {.name = star_get(t, row, column)};
        const struct named *found = bsearch(&key, names, count, sizeof *names, by_name);
        if (found == NULL) continue;
        struct dataset_particle *p = dataset_at(c->dataset, found->index);
        TRY(restore_particle(t, row, c->model->class_count + c->model->options.with_empty, p, err));
        known += p->visits > 0;
    }
    *ret_known = known;
    return STATUS_OK;
}

enum status snapshot_restore(struct classifier *c, struct snapshot *s, bool *ret_final, struct err *err) {
    char prefix[PATH_MAX];
    bool final = false;
    double particles = 0, kept = 0;
    size_t known = 0;
    snprintf(prefix, sizeof prefix, "%s/run_it%03d", s->folder, s->iteration);
    TRY(restore_model(c->model, prefix, &final, &particles, &kept, err));
    TRY(restore_particles(c, prefix, &known, err));
    /* What was visited before has had its share; the sums themselves are gone, so the first batch is everything. */
    c->visits = c->options.visits * (double)known;
    c->updates = 20;
    c->model->empty_active = true;
    c->restored = true;
    s->kept = (size_t)kept;
    *ret_final = final && known == dataset_count(c->dataset) && (size_t)particles == known;
    return STATUS_OK;
}
