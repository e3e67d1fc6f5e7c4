#include "stages/classifier/snapshot_restore.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/mrc.h"
#include "common/memory.h"
#include "stages/classifier/snapshot_private.h"

enum { ITERATIONS_MAX = 1000000 };

int snapshot_last(const char *folder, int before) {
    return file_last_number(folder, "run_it", "_model.star", before < ITERATIONS_MAX ? before : ITERATIONS_MAX);
}

/* Averages of another pixel size would be taken at the wrong scale. */
static enum status check_pixel_size(const struct star_table *t, double expected, struct err *err) {
    double pixel_size;
    /* Before particles of several grids could be classified together, snapshots need not have it. */
    if (star_column_find(t, "rlnPixelSize") < 0) return STATUS_OK;
    return star_need_number(t, 0, "rlnPixelSize", 0.99 * expected, 1.01 * expected, &pixel_size, err);
}

static enum status read_general(struct snapshot_state *s, const struct model_options *o, const struct star_table *t,
                                struct err *err) {
    double size, offset, final, box, normalised = 0, px = o->pixel_size;
    TRY(star_need_number(t, 0, "rlnOriginalImageSize", o->box, o->box, &box, err));
    TRY(check_pixel_size(t, px, err));
    TRY(star_need_number(t, 0, "rlnCurrentImageSize", 4, o->max_size, &size, err));
    TRY(star_need_number(t, 0, "rlnSigmaOffsetsAngst", 1e-6, 1e6, &offset, err));
    TRY(star_need_number(t, 0, "rlnNormCorrectionAverage", 1e-6, 1e6, &s->average_norm, err));
    TRY(star_need_number(t, 0, "icestreamFinal", 0, 1, &final, err));
    TRY(star_need_number(t, 0, "icestreamParticles", 0, 1e12, &s->particles, err));
    TRY(star_need_number(t, 0, "icestreamKeptParticles", 0, s->particles, &s->kept, err));
    /* Snapshots of earlier versions know of no choices by hand. */
    s->change = 0;
    if (star_column_find(t, "icestreamChange") >= 0)
        TRY(star_need_number(t, 0, "icestreamChange", 0, INT_MAX, &s->change, err));
    if (star_column_find(t, "icestreamNormalised") >= 0)
        TRY(star_need_number(t, 0, "icestreamNormalised", 0, 1, &normalised, err));
    s->normalised = normalised != 0;
    s->sigma_offset = offset / px;
    s->size = (int)size / 2 * 2;
    s->final = final != 0;
    return STATUS_OK;
}

static enum status read_classes(struct snapshot_state *s, const struct model_options *o, const char *path,
                                const struct star_table *t, struct err *err) {
    size_t rows = star_row_count(t), least = 1 + (size_t)o->with_empty;
    FAIL_IF(rows < least || rows > (size_t)o->class_capacity + (size_t)o->with_empty, err, STATUS_BAD_FORMAT,
            "%s: %zu classes; %zu to %d were expected", path, rows, least, o->class_capacity + o->with_empty);
    s->class_count = (int)rows - o->with_empty;
    TRY(mem_new(rows, sizeof *s->fractions, "classes", &s->fractions, err));
    for (size_t k = 0; k < rows; k++)
        TRY(star_need_number(t, k, "rlnClassDistribution", 0, 1.001, &s->fractions[k], err));
    return STATUS_OK;
}

static enum status read_noise(struct snapshot_state *s, const struct model_options *o, const char *path,
                              const struct star_table *t, struct err *err) {
    size_t shells = (size_t)o->box / 2 + 1;
    FAIL_IF(star_row_count(t) != shells, err, STATUS_BAD_FORMAT, "%s: noise in %zu shells; %zu were expected", path,
            star_row_count(t), shells);
    TRY(mem_new(shells, sizeof *s->sigma2, "noise spectrum", &s->sigma2, err));
    for (size_t shell = 0; shell < shells; shell++) {
        double value;
        TRY(star_need_number(t, shell, "rlnSigma2Noise", shell > 0 ? 1e-30 : 0, (double)IMAGE_VALUE_MAX, &value, err));
        s->sigma2[shell] = (float)value;
    }
    return STATUS_OK;
}

static enum status read_model(struct snapshot_state *s, const struct model_options *o, const char *path,
                              struct err *err) {
    _cleanup_(star_destroy) struct star_file *file = NULL;
    TRY(star_read(path, &file, err));
    struct star_table *general = star_table_find(file, "model_general");
    struct star_table *classes = star_table_find(file, "model_classes");
    struct star_table *noise = star_table_find(file, "model_optics_group_1");
    FAIL_IF(general == NULL || classes == NULL || noise == NULL, err, STATUS_BAD_FORMAT,
            "%s: model_general, model_classes and model_optics_group_1 were expected", path);
    TRY(read_general(s, o, general, err));
    TRY(read_classes(s, o, path, classes, err));
    return read_noise(s, o, path, noise, err);
}

static enum status read_stack(struct snapshot_state *s, const struct model_options *o, const char *path,
                              struct err *err) {
    TRY(mrc_read(path, &s->stack, err));
    FAIL_IF(s->stack.nx != o->box || s->stack.ny != o->box || s->stack.nz < s->class_count, err, STATUS_BAD_FORMAT,
            "%s: %d × %d × %d px; %d averages of %d px were expected", path, s->stack.nx, s->stack.ny, s->stack.nz,
            s->class_count, o->box);
    FAIL_IF(!image_values_fit(s->stack.data, image_count(&s->stack)), err, STATUS_BAD_FORMAT,
            "%s: has pixels that are NaN, infinite or far too large", path);
    return STATUS_OK;
}

static enum status read_state(struct snapshot_state *s, const struct model_options *o, const char *prefix,
                              struct err *err) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s_model.star", prefix);
    TRY(read_model(s, o, path, err));
    snprintf(path, sizeof path, "%s_classes.mrcs", prefix);
    TRY(read_stack(s, o, path, err));
    snprintf(path, sizeof path, "%s_data.star", prefix);
    TRY(star_read(path, &s->data, err));
    FAIL_IF(star_table_find(s->data, "particles") == NULL, err, STATUS_BAD_FORMAT,
            "%s: a table of particles was expected", path);
    return STATUS_OK;
}

enum status snapshot_read(const char *folder, int iteration, const struct model_options *options,
                          struct snapshot_state *ret_state, struct err *err) {
    char prefix[PATH_MAX];
    struct snapshot_state s = {0};
    snprintf(prefix, sizeof prefix, "%s/run_it%03d", folder, iteration);
    enum status status = read_state(&s, options, prefix, err);
    if (status != STATUS_OK) {
        snapshot_state_clear(&s);
        return status;
    }
    *ret_state = s;
    return STATUS_OK;
}

void snapshot_state_clear(struct snapshot_state *s) {
    mem_free(&s->sigma2);
    mem_free(&s->fractions);
    image_destroy(&s->stack);
    star_destroy(&s->data);
}

enum status snapshot_grid(const char *folder, int iteration, int *ret_box, double *ret_pixel_size, struct err *err) {
    char path[PATH_MAX];
    double box;
    _cleanup_(star_destroy) struct star_file *file = NULL;
    snprintf(path, sizeof path, "%s/run_it%03d_model.star", folder, iteration);
    TRY(star_read(path, &file, err));
    const struct star_table *general = star_table_find(file, "model_general");
    FAIL_IF(general == NULL, err, STATUS_BAD_FORMAT, "%s: model_general was expected", path);
    TRY(star_need_number(general, 0, "rlnOriginalImageSize", 2, 1e5, &box, err));
    TRY(star_need_number(general, 0, "rlnPixelSize", 1e-3, 1e4, ret_pixel_size, err));
    *ret_box = (int)box;
    return STATUS_OK;
}

static enum status take_model(struct model *m, const struct snapshot_state *s, struct err *err) {
    size_t pixels = (size_t)m->options.box * (size_t)m->options.box;
    for (int k = 0; k < s->class_count; k++) {
        TRY(model_set_map(m, k, 0, err));
        memcpy(m->classes[k].map, s->stack.data + (size_t)k * pixels, pixels * sizeof *s->stack.data);
        TRY(model_set_map(m, k, 0, err));
        m->classes[k].weight[0] = m->classes[k].weight[1] = s->fractions[k] / 2;
    }
    if (m->options.with_empty) m->empty_weight = s->fractions[s->class_count];
    memcpy(m->sigma2, s->sigma2, ((size_t)m->options.box / 2 + 1) * sizeof *m->sigma2);
    m->average_norm = s->average_norm;
    m->sigma_offset = s->sigma_offset;
    m->size = s->size;
    m->class_count = s->class_count;
    m->empty_active = true;
    return STATUS_OK;
}

struct named {
    const char *name;
    size_t index;
};

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

enum { NUMBER, PSI, X, Y, NORM, PROBABILITY, RESULT_COLUMNS };

/* Ignores a row that no classification can have written: its particle counts as new. */
static void take_row(const double v[RESULT_COLUMNS], int classes, double box, const struct way *way,
                     struct dataset_particle *p) {
    double extent = box * p->pixel_size;
    bool plausible = v[NUMBER] >= 1 && v[NUMBER] <= classes && fabs(v[PSI]) <= 1e4 && fabs(v[X]) <= extent &&
                     fabs(v[Y]) <= extent && v[NORM] >= 0 && v[NORM] <= 1e6 && v[PROBABILITY] >= 0 &&
                     v[PROBABILITY] <= 1.001;
    if (!plausible) return;
    p->class_index = (int)v[NUMBER] - 1;
    p->psi = (float)v[PSI];
    const double shift[2] = {v[X], v[Y]};
    double own[2];
    optics_shift_from_image(&way->aberrations, shift, own);
    p->x = (float)(own[0] / p->pixel_size);
    p->y = (float)(own[1] / p->pixel_size);
    p->norm = v[NORM] > 1e-6 ? (float)v[NORM] : 1;
    p->probability = (float)v[PROBABILITY];
    p->visits = 1;
}

static void take_rows(struct dataset *dataset, const struct star_table *t, const struct named *names, int classes,
                      size_t *ret_known) {
    static const char *const NAMES[RESULT_COLUMNS] = {"rlnClassNumber",    "rlnAnglePsi",
                                                      "rlnOriginXAngst",   "rlnOriginYAngst",
                                                      "rlnNormCorrection", "rlnMaxValueProbDistribution"};
    int columns[RESULT_COLUMNS], name = star_column_find(t, "rlnImageName");
    size_t known = 0;
    for (int i = 0; i < RESULT_COLUMNS; i++)
        columns[i] = star_column_find(t, NAMES[i]);
    for (size_t row = 0; row < star_row_count(t); row++) {
        struct named key = {.name = star_get(t, row, name)};
        const struct named *found = bsearch(&key, names, dataset_count(dataset), sizeof *names, by_name);
        if (found == NULL) continue;
        struct dataset_particle *p = dataset_at(dataset, found->index);
        double v[RESULT_COLUMNS];
        bool read = p->visits == 0;
        for (int i = 0; i < RESULT_COLUMNS && read; i++)
            read = star_get_number(t, row, columns[i], &v[i], NULL) == STATUS_OK;
        if (read) take_row(v, classes, dataset_box(dataset), dataset_way(dataset, found->index), p);
        known += read && p->visits > 0;
    }
    *ret_known = known;
}

void snapshot_image(const char *root, const struct dataset *dataset, size_t index, char name[SNAPSHOT_NAME]) {
    size_t row;
    const struct star_table *own = dataset_row(dataset, index, &row);
    const char *given = star_get(own, row, star_column_find(own, "rlnImageName")), *rest = NULL;
    const char *stack = dataset_stack(dataset, index);
    if (root == NULL)
        stack = strchr(given, '@') + 1;
    else if (path_is_below(stack, root, &rest))
        stack = rest;
    snprintf(name, SNAPSHOT_NAME, "%.*s@%s", (int)strcspn(given, "@"), given, stack);
}

/* Lists the names of all particles in order. ret_text: the memory of the names. */
static enum status name_images(struct dataset *dataset, const char *root, struct named *names, char **ret_text,
                               struct err *err) {
    char name[SNAPSHOT_NAME], *text = NULL;
    size_t count = dataset_count(dataset), bytes = 1, used = 0;
    for (size_t i = 0; i < count; i++) {
        snapshot_image(root, dataset, i, name);
        bytes += strlen(name) + 1;
    }
    TRY(mem_new(bytes, 1, "names of particles", &text, err));
    for (size_t i = 0; i < count; i++) {
        snapshot_image(root, dataset, i, name);
        names[i] = (struct named){.name = memcpy(text + used, name, strlen(name) + 1), .index = i};
        used += strlen(name) + 1;
    }
    qsort(names, count, sizeof *names, by_name);
    *ret_text = text;
    return STATUS_OK;
}

enum status snapshot_particles(const struct snapshot_state *s, struct dataset *dataset, const char *root, int classes,
                               size_t *ret_known, struct err *err) {
    size_t count = dataset_count(dataset);
    _cleanup_(mem_free) struct named *names = NULL;
    _cleanup_(mem_free) char *text = NULL;
    TRY(mem_new(count, sizeof *names, "names of particles", &names, err));
    TRY(name_images(dataset, root, names, &text, err));
    take_rows(dataset, star_table_find(s->data, "particles"), names, classes, ret_known);
    return STATUS_OK;
}

enum status snapshot_restore(struct classifier *c, struct snapshot *s, bool *ret_final, struct err *err) {
    struct snapshot_state state = {0};
    size_t known = 0;
    TRY(snapshot_read(s->folder, s->iteration, &c->model->options, &state, err));
    enum status status = take_model(c->model, &state, err);
    if (status == STATUS_OK)
        status = snapshot_particles(&state, c->dataset, s->root, state.class_count + c->model->options.with_empty,
                                    &known, err);
    if (status == STATUS_OK) {
        /* Known particles have had their visits. The sums are lost: the first batch must hold all particles. */
        c->visits = c->options.visits * (double)known;
        c->updates = 20;
        c->restored = true;
        dataset_go_on(c->dataset, state.normalised);
        s->kept = (size_t)state.kept;
        s->change = (int)state.change;
        *ret_final = state.final && known == dataset_count(c->dataset) && (size_t)state.particles == known;
    }
    snapshot_state_clear(&state);
    return status;
}
