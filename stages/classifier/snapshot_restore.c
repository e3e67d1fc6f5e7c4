#include "stages/classifier/snapshot_restore.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/mrc.h"
#include "common/formats/particle_heirs.h"
#include "common/memory.h"
#include "stages/classifier/cut.h"
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
    const int whole = model_whole_box(o);
    double size, offset, final, box, normalised = 0, px = o->pixel_size;
    TRY(star_need_number(t, 0, "rlnOriginalImageSize", whole, whole, &box, err));
    TRY(check_pixel_size(t, px * o->box / whole, err));
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
    const size_t shells = (size_t)model_whole_box(o) / 2 + 1;
    const double power = model_whole_power(o);
    FAIL_IF(star_row_count(t) != shells, err, STATUS_BAD_FORMAT, "%s: noise in %zu shells; %zu were expected", path,
            star_row_count(t), shells);
    TRY(mem_new(shells, sizeof *s->sigma2, "noise spectrum", &s->sigma2, err));
    for (size_t shell = 0; shell < shells; shell++) {
        double value;
        TRY(star_need_number(t, shell, "rlnSigma2Noise", shell > 0 ? 1e-30 : 0, (double)IMAGE_VALUE_MAX, &value, err));
        s->sigma2[shell] = (float)(value / power);
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
    const int whole = model_whole_box(o);
    FAIL_IF(s->stack.nx != whole || s->stack.ny != whole || s->stack.nz < s->class_count, err, STATUS_BAD_FORMAT,
            "%s: %d × %d × %d px; %d averages of %d px were expected", path, s->stack.nx, s->stack.ny, s->stack.nz,
            s->class_count, whole);
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

/* Gets an average from the whole grid of files. */
static enum status take_average(const struct model_options *o, const float *from, float *to, struct err *err) {
    return cut_convert(model_whole_box(o), o->box, &from, 1, to, 0, err);
}

static enum status take_model(struct model *m, const struct snapshot_state *s, struct err *err) {
    const size_t whole = (size_t)model_whole_box(&m->options), pixels = whole * whole;
    for (int k = 0; k < s->class_count; k++) {
        TRY(model_set_map(m, k, 0, err));
        TRY(take_average(&m->options, s->stack.data + (size_t)k * pixels, m->classes[k].map, err));
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

/* The rows of a snapshot, and the columns of what it has found. */
struct result_rows {
    const struct star_table *table, *optics;
    int name, columns[RESULT_COLUMNS];
    int classes;
};

static void find_columns(const struct star_file *data, int classes, struct result_rows *r) {
    static const char *const NAMES[RESULT_COLUMNS] = {"rlnClassNumber",    "rlnAnglePsi",
                                                      "rlnOriginXAngst",   "rlnOriginYAngst",
                                                      "rlnNormCorrection", "rlnMaxValueProbDistribution"};
    r->table = star_table_find((struct star_file *)data, "particles");
    r->optics = star_table_find((struct star_file *)data, "optics");
    r->name = star_column_find(r->table, "rlnImageName");
    r->classes = classes;
    for (int i = 0; i < RESULT_COLUMNS; i++)
        r->columns[i] = star_column_find(r->table, NAMES[i]);
}

/* Gives a particle that has no class yet the class and pose of a row. Returns whether it has them now. */
static bool read_row(const struct result_rows *r, size_t row, struct dataset *dataset, size_t index) {
    struct dataset_particle *p = dataset_at(dataset, index);
    double v[RESULT_COLUMNS];
    bool read = p->visits == 0;
    for (int i = 0; i < RESULT_COLUMNS && read; i++)
        read = star_get_number(r->table, row, r->columns[i], &v[i], NULL) == STATUS_OK;
    if (read) take_row(v, r->classes, dataset_box(dataset), dataset_way(dataset, index), p);
    return read && p->visits > 0;
}

/* missed: [rows], set for those whose particles are not in the dataset. */
static size_t take_rows(const struct result_rows *r, struct dataset *dataset, const struct named *names, bool *missed) {
    size_t known = 0;
    for (size_t row = 0; row < star_row_count(r->table); row++) {
        struct named key = {.name = star_get(r->table, row, r->name)};
        const struct named *found = bsearch(&key, names, dataset_count(dataset), sizeof *names, by_name);
        missed[row] = found == NULL;
        if (found != NULL) known += read_row(r, row, dataset, found->index);
    }
    return known;
}

/* Particles and rows to compare: their places, and their indices. */
struct place_list {
    struct particle_place *places;
    size_t *indices, count;
};

static enum status list_create(size_t room, struct place_list *list, struct err *err) {
    TRY(mem_new_unset(room + 1, sizeof *list->places, "the places of particles", &list->places, err));
    return mem_new_unset(room + 1, sizeof *list->indices, "the places of particles", &list->indices, err);
}

static void list_clear(struct place_list *list) {
    mem_free(&list->places);
    mem_free(&list->indices);
}

static void list_add(struct place_list *list, struct particle_place place, size_t index) {
    list->places[list->count] = place;
    list->indices[list->count++] = index;
}

static int group_of(const struct star_table *rows, const struct star_table *optics, size_t row) {
    int column = star_column_find(rows, "rlnOpticsGroup");
    long group = 0;
    bool known = optics != NULL && column >= 0 && star_get_integer(rows, row, column, &group, NULL) == STATUS_OK;
    return known && group >= 1 && (size_t)group <= star_row_count(optics) ? (int)group - 1 : -1;
}

static void list_missed(const struct result_rows *r, const bool *missed, double pixel_size, struct place_list *list) {
    struct particle_places places;
    particle_places_open(r->table, r->optics, &places);
    for (size_t row = 0; row < star_row_count(r->table); row++)
        if (missed[row])
            list_add(list, particle_places_row(&places, row, group_of(r->table, r->optics, row), pixel_size), row);
}

static void list_new(struct dataset *dataset, struct place_list *list) {
    struct particle_places places = {0};
    for (size_t i = 0; i < dataset_count(dataset); i++) {
        size_t row, optics_row;
        if (dataset_at(dataset, i)->visits > 0) continue;
        const struct star_table *rows = dataset_row(dataset, i, &row),
                                *optics = dataset_optics(dataset, i, &optics_row);
        if (places.rows != rows) particle_places_open(rows, optics, &places);
        list_add(
            list,
            particle_places_row(&places, row, optics != NULL ? (int)optics_row : -1, dataset_whole_pixel_size(dataset)),
            i);
    }
}

static enum status follow(const struct result_rows *r, struct dataset *dataset, const struct place_list *earlier,
                          const struct place_list *later, double reach, size_t *heirs, struct err *err) {
    _cleanup_(mem_free) int *heir_of = NULL;
    TRY(mem_new_unset(later->count + 1, sizeof *heir_of, "the places of particles", &heir_of, err));
    TRY(particle_heirs_find(earlier->places, earlier->count, later->places, later->count, reach, heir_of, err));
    for (size_t i = 0; i < later->count; i++) {
        if (heir_of[i] < 0 || !read_row(r, earlier->indices[heir_of[i]], dataset, later->indices[i])) continue;
        /* The shift of the row is that of the place at which the former pick lay. */
        struct dataset_particle *p = dataset_at(dataset, later->indices[i]);
        const struct particle_place *from = &earlier->places[heir_of[i]], *to = &later->places[i];
        p->x += (float)((to->x - from->x) / p->pixel_size);
        p->y += (float)((to->y - from->y) / p->pixel_size);
        ++*heirs;
    }
    return STATUS_OK;
}

/* Gives class and pose of particles whose micrographs were picked again to those that lie in their places. */
static enum status take_heirs(const struct result_rows *r, struct dataset *dataset, const bool *missed, double reach,
                              size_t *heirs, struct err *err) {
    struct place_list earlier = {0}, later = {0};
    enum status status = list_create(star_row_count(r->table), &earlier, err);
    if (status == STATUS_OK) status = list_create(dataset_count(dataset), &later, err);
    if (status == STATUS_OK) {
        list_missed(r, missed, dataset_whole_pixel_size(dataset), &earlier);
        list_new(dataset, &later);
        if (earlier.count > 0 && later.count > 0) status = follow(r, dataset, &earlier, &later, reach, heirs, err);
    }
    list_clear(&earlier);
    list_clear(&later);
    return status;
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
                               double diameter, size_t *ret_known, size_t *ret_heirs, struct err *err) {
    size_t count = dataset_count(dataset);
    struct result_rows rows;
    _cleanup_(mem_free) struct named *names = NULL;
    _cleanup_(mem_free) char *text = NULL;
    _cleanup_(mem_free) bool *missed = NULL;
    TRY(mem_new(count, sizeof *names, "names of particles", &names, err));
    TRY(name_images(dataset, root, names, &text, err));
    find_columns(s->data, classes, &rows);
    TRY(mem_new(star_row_count(rows.table) + 1, sizeof *missed, "particles of a snapshot", &missed, err));
    size_t known = take_rows(&rows, dataset, names, missed), heirs = 0;
    TRY(take_heirs(&rows, dataset, missed, PARTICLE_HEIR_REACH * diameter, &heirs, err));
    *ret_known = known + heirs;
    if (ret_heirs != NULL) *ret_heirs = heirs;
    return STATUS_OK;
}

enum status snapshot_restore(struct classifier *c, struct snapshot *s, bool *ret_final, struct err *err) {
    struct snapshot_state state = {0};
    size_t known = 0, heirs = 0;
    TRY(snapshot_read(s->folder, s->iteration, &c->model->options, &state, err));
    enum status status = take_model(c->model, &state, err);
    if (status == STATUS_OK)
        status =
            snapshot_particles(&state, c->dataset, s->root, state.class_count + c->model->options.with_empty,
                               2 * c->model->options.mask_radius * c->model->options.pixel_size, &known, &heirs, err);
    if (status == STATUS_OK) {
        /* Known particles have had their visits. The sums are lost: the first batch must hold all particles. */
        c->visits = c->options.visits * (double)known;
        c->updates = 20;
        c->restored = true;
        dataset_go_on(c->dataset, state.normalised);
        s->kept = (size_t)state.kept;
        s->change = (int)state.change;
        *ret_final =
            state.final && heirs == 0 && known == dataset_count(c->dataset) && (size_t)state.particles == known;
    }
    snapshot_state_clear(&state);
    return status;
}
