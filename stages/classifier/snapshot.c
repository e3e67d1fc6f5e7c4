#include "stages/classifier/snapshot.h"

#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/files.h"
#include "common/formats/mrc.h"
#include "common/formats/optics_aberrations.h"
#include "common/formats/star_cells.h"
#include "common/formats/star_numbers.h"
#include "common/memory.h"
#include "stages/classifier/cut.h"
#include "stages/classifier/snapshot_private.h"

/* Finds the group of the joined optics table that equals `row` of `from`, or adds it. way: of its particles. */
static enum status optics_group(struct star_table *joined, const struct star_table *from, size_t row,
                                const struct way *way, long *ret_group, struct err *err) {
    size_t groups = star_row_count(joined);
    for (size_t g = 0; g < groups; g++) {
        bool same = true;
        for (size_t c = 0; same && c < star_column_count(from); c++) {
            const char *name = star_column_name(from, c);
            int column = star_column_find(joined, name);
            same = strcmp(name, "rlnOpticsGroup") == 0 ||
                   (column >= 0 && strcmp(star_get(joined, g, column), star_get(from, row, (int)c)) == 0);
        }
        if (same && optics_aberrations_same_rows(joined, g, from, row)) {
            *ret_group = (long)g + 1;
            return STATUS_OK;
        }
    }
    size_t added;
    TRY(star_row_begin(joined, star_column_name(from, 0), &added, err));
    TRY(star_row_fill(joined, added, err)); /* columns that only other tables have */
    TRY(star_row_copy(from, row, joined, added, err));
    /* A group that lacks one of these had the session's value or the default. */
    const struct star_cell known[] = {
        {.column = "rlnVoltage", .value = way->voltage},
        {.column = "rlnSphericalAberration", .value = way->spherical_aberration},
        {.column = "rlnAmplitudeContrast", .value = way->amplitude_contrast},
        {.column = "rlnImagePixelSize", .value = way->pixel_size},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (star_column_find(from, known[i].column) < 0) TRY(star_cells_put(joined, added, &known[i], 1, err));
    TRY(star_put_integer(joined, added, "rlnOpticsGroup", (long)added + 1, err));
    *ret_group = (long)added + 1;
    return STATUS_OK;
}

enum { RESULTS = 10 };

/* Lists the columns that classification adds, in this order, with a particle's values. shift: Å, of its image as it is. */
static void list_results(const struct dataset_particle *p, const double shift[2], long group,
                         struct star_cell ret_cells[RESULTS]) {
    const struct star_cell cells[] = {
        {.column = "rlnAnglePsi", .value = p->psi},
        {.column = "rlnOriginXAngst", .value = shift[0]},
        {.column = "rlnOriginYAngst", .value = shift[1]},
        {.column = "rlnClassNumber", .value = p->class_index + 1, .integer = true},
        {.column = "rlnNormCorrection", .value = p->norm},
        {.column = "rlnLogLikeliContribution", .value = p->log_likelihood},
        {.column = "rlnMaxValueProbDistribution", .value = p->probability},
        {.column = "rlnNrOfSignificantSamples", .value = p->significant, .integer = true},
        {.column = "rlnOpticsGroup", .value = (double)group, .integer = true},
        /* One noise spectrum means one group in RELION 3.1. */
        {.column = "rlnGroupName", .text = SNAPSHOT_GROUP},
    };
    _Static_assert(sizeof cells / sizeof *cells == RESULTS, "RESULTS is the number of columns");
    memcpy(ret_cells, cells, sizeof cells);
}

/* Maps columns of the table of the last row to columns of the table that is written. */
struct columns {
    const struct star_table *table, *optics;
    size_t optics_row;
    long group;
    double own[4]; /* optics of the last row without an optics table, and its group; 0: none yet */
    long own_group;
    int *to;
    size_t capacity;
    int image; /* rlnImageName */
    int results[RESULTS];
};

static enum status map_columns(struct columns *map, const struct star_table *from, struct star_table *to,
                               struct err *err) {
    static const struct dataset_particle NONE;
    static const double STAY[2];
    struct star_cell results[RESULTS];
    size_t count = star_column_count(from);
    map->table = NULL;
    if (count > map->capacity) {
        int *moved = realloc(map->to, count * sizeof *moved);
        FAIL_IF(moved == NULL, err, STATUS_NO_MEMORY, "no memory for %zu columns", count);
        map->to = moved;
        map->capacity = count;
    }
    for (size_t c = 0; c < count; c++)
        TRY(star_column_add(to, star_column_name(from, c), star_missing(star_column_name(from, c)), &map->to[c], err));
    list_results(&NONE, STAY, 0, results);
    for (int i = 0; i < RESULTS; i++)
        TRY(star_column_add(to, results[i].column, "0", &map->results[i], err));
    TRY(star_column_add(to, "rlnImageName", "0", &map->image, err));
    map->table = from;
    return STATUS_OK;
}

/* Makes a group from the values of a row: before RELION 3.1 there was no optics table. */
static enum status own_group(const struct way *way, struct columns *map, struct star_table *joined, struct err *err) {
    const double own[4] = {way->voltage, way->spherical_aberration, way->amplitude_contrast, way->pixel_size};
    if (map->own_group == 0 || memcmp(own, map->own, sizeof own) != 0) {
        _cleanup_(star_destroy) struct star_file *file = NULL;
        struct star_table *t;
        const size_t row = 0;
        TRY(star_create(&file, err));
        TRY(star_table_add(file, "optics", false, &t, err));
        const struct star_cell cells[] = {
            {.column = "rlnOpticsGroupName", .text = "opticsGroup1"},
            {.column = "rlnVoltage", .value = own[0]},
            {.column = "rlnSphericalAberration", .value = own[1]},
            {.column = "rlnAmplitudeContrast", .value = own[2]},
            {.column = "rlnImagePixelSize", .value = own[3]},
            {.column = "rlnImageSize", .value = way->box, .integer = true},
            {.column = "rlnImageDimensionality", .value = 2, .integer = true},
        };
        TRY(star_cells_put(t, row, cells, sizeof cells / sizeof *cells, err));
        TRY(optics_group(joined, t, row, way, &map->own_group, err));
        memcpy(map->own, own, sizeof own);
    }
    map->optics = NULL;
    map->group = map->own_group;
    return STATUS_OK;
}

static enum status add_particle(struct classifier *c, size_t index, const char *root, struct columns *map,
                                struct star_table *optics, struct star_table *table, struct err *err) {
    char name[SNAPSHOT_NAME];
    struct star_cell results[RESULTS];
    size_t from_row, optics_row, row;
    const struct star_table *from = dataset_row(c->dataset, index, &from_row);
    const struct star_table *own_optics = dataset_optics(c->dataset, index, &optics_row);
    const struct dataset_particle *p = dataset_at(c->dataset, index);
    const struct way *way = dataset_way(c->dataset, index);
    const double own_shift[2] = {p->x * p->pixel_size, p->y * p->pixel_size};
    double shift[2];
    optics_shift_to_image(&way->aberrations, own_shift, shift);
    if (from != map->table) TRY(map_columns(map, from, table, err));
    if (own_optics == NULL) TRY(own_group(way, map, optics, err));
    if (own_optics != NULL && (own_optics != map->optics || optics_row != map->optics_row)) {
        TRY(optics_group(optics, own_optics, optics_row, way, &map->group, err));
        map->optics = own_optics;
        map->optics_row = optics_row;
    }
    TRY(star_row_add(table, &row, err));
    size_t columns = star_column_count(from);
    if (star_column_count(table) > columns + RESULTS) TRY(star_row_fill(table, row, err));
    for (size_t k = 0; k < columns; k++)
        TRY(star_set(table, row, map->to[k], star_get(from, from_row, (int)k), err));
    snapshot_image(root, c->dataset, index, name);
    TRY(star_set(table, row, map->image, name, err));
    list_results(p, shift, map->group, results);
    for (int i = 0; i < RESULTS; i++)
        TRY(star_cell_set(table, row, map->results[i], &results[i], err));
    return STATUS_OK;
}

static bool in_kept_class(struct classifier *c, size_t index) {
    int k = dataset_at(c->dataset, index)->class_index;
    return k >= 0 && k < c->model->class_count && c->model->classes[k].kept;
}

/* Returns what a person has chosen for a particle: a rejected exposure leaves it out, whatever was chosen for its
 * class. */
static enum choice choice_of(struct classifier *c, const char *root, size_t index) {
    const char *source, *id;
    char name[SNAPSHOT_NAME];
    size_t row;
    if (c->choices == NULL) return CHOICE_NONE;
    dataset_item(c->dataset, index, &source, &id);
    if (choices_of_item(c->choices, (struct ledger_key){source, id}) == CHOICE_REJECT) return CHOICE_REJECT;
    const struct star_table *table = dataset_row(c->dataset, index, &row);
    snapshot_image(root, c->dataset, index, name);
    return choices_of_particle(c->choices, name, star_get(table, row, star_column_find(table, "rlnCoordinateX")),
                               star_get(table, row, star_column_find(table, "rlnCoordinateY")));
}

static int by_size(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Returns the largest distance (px) of a particle from its pick. A pick farther away has caught the rim of a particle
 * or the gap between two. The limit widens with the median distance, so that a picker that centres badly loses
 * nothing. */
static enum status off_centre_limit(struct classifier *c, double *ret_limit, struct err *err) {
    const struct classifier_options *o = &c->options;
    double px = c->model->options.pixel_size;
    if (!isnan(o->off_centre)) {
        *ret_limit = o->off_centre / px;
        return STATUS_OK;
    }
    *ret_limit = INFINITY;
    if (o->rule.count == 0) return STATUS_OK;
    _cleanup_(mem_free) float *distances = NULL;
    TRY(mem_new(dataset_count(c->dataset), sizeof *distances, "distances from the picks", &distances, err));
    size_t count = 0;
    for (size_t i = 0; i < dataset_count(c->dataset); i++)
        if (in_kept_class(c, i))
            distances[count++] = hypotf(dataset_at(c->dataset, i)->x, dataset_at(c->dataset, i)->y);
    if (count == 0) return STATUS_OK;
    qsort(distances, count, sizeof *distances, by_size);
    double diameter = isnan(o->diameter) ? 0.8 * c->model->options.box * px : o->diameter;
    *ret_limit = fmax(0.13 * diameter / px, 4 * (double)distances[count / 2]);
    return STATUS_OK;
}

/* Returns whether a particle goes on: by hand, or because it is of a kept class and lies within `limit` px of its pick.
 * Counts in the snapshot what a choice by hand decides otherwise than the rules. */
static bool is_selected(struct classifier *c, struct snapshot *s, size_t index, double limit) {
    const struct dataset_particle *p = dataset_at(c->dataset, index);
    bool by_rule = in_kept_class(c, index) && hypot(p->x, p->y) <= limit;
    enum choice choice = choice_of(c, s->root, index);
    s->kept_by_hand += choice == CHOICE_KEEP && !by_rule;
    s->left_by_hand += choice == CHOICE_REJECT && by_rule;
    return choice == CHOICE_KEEP || (choice == CHOICE_NONE && by_rule);
}

/* Adds rows for the particles which[count] of the dataset. */
static enum status add_particles(struct classifier *c, const char *root, const size_t *which, size_t count,
                                 struct star_file *file, struct err *err) {
    struct star_table *optics, *table;
    struct columns map = {.group = 1};
    TRY(star_table_add(file, "optics", true, &optics, err));
    TRY(star_table_add(file, "particles", true, &table, err));
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < count; i++)
        status = add_particle(c, which[i], root, &map, optics, table, err);
    free(map.to);
    return status;
}

static enum status write_all(struct classifier *c, const struct snapshot *s, size_t *which, struct err *err) {
    _cleanup_(star_destroy) struct star_file *file = NULL;
    char path[PATH_MAX];
    for (size_t i = 0; i < dataset_count(c->dataset); i++)
        which[i] = i;
    TRY(star_create(&file, err));
    TRY(add_particles(c, s->root, which, dataset_count(c->dataset), file, err));
    snapshot_name(s, "_data.star", path, s->folder);
    return star_write(file, path, err);
}

void snapshot_id(int iteration, char id[32]) {
    snprintf(id, 32, "it%03d", iteration);
}

static enum status write_changes(struct classifier *c, struct snapshot *s, struct star_file *file, const size_t *which,
                                 struct err *err) {
    char path[PATH_MAX], id[32];
    const struct selection_rows rows = {c->dataset, s->root, file, which, s->kept};
    snapshot_id(s->iteration, id);
    TRY(selection_take(s->selection, id, &rows, err));
    snprintf(path, sizeof path, "%s/changes_it%03d.star", s->folder, s->iteration);
    return selection_write_changes(s->selection, s->sent, &rows, path, s->changes, err);
}

static enum status write_selected(struct classifier *c, struct snapshot *s, size_t *which, struct err *err) {
    _cleanup_(star_destroy) struct star_file *file = NULL;
    char path[PATH_MAX];
    double limit;
    TRY(off_centre_limit(c, &limit, err));
    s->kept = 0;
    for (size_t i = 0; i < dataset_count(c->dataset); i++)
        if (is_selected(c, s, i, limit)) which[s->kept++] = i;
    TRY(star_create(&file, err));
    TRY(add_particles(c, s->root, which, s->kept, file, err));
    snprintf(path, sizeof path, "%s/selected_it%03d.star", s->folder, s->iteration);
    TRY(star_write(file, path, err));
    return s->sent != NULL && s->kept > 0 ? write_changes(c, s, file, which, err) : STATUS_OK;
}

/* Fills averages on the whole grid: [class_count][whole box²]. */
static enum status fill_stack(const struct model *m, float *to, struct err *err) {
    const struct model_options *o = &m->options;
    const size_t whole = (size_t)model_whole_box(o), each = whole * whole;
    const float **maps = NULL;
    TRY(mem_new((size_t)m->class_count + 1, sizeof *maps, "averages", &maps, err));
    for (int k = 0; k < m->class_count; k++)
        maps[k] = m->classes[k].map;
    enum status status = cut_convert(o->box, (int)whole, maps, (size_t)m->class_count, to, each, err);
    mem_free(&maps);
    return status;
}

static enum status write_stack(const struct model *m, const char *path, struct err *err) {
    const int box = model_whole_box(&m->options);
    struct image stack = {0};
    enum status status = image_resize(&stack, box, box, m->class_count + m->options.with_empty, err);
    if (status == STATUS_OK) {
        stack.pixel_size = (float)(m->options.box * m->options.pixel_size / box);
        memset(stack.data, 0, image_count(&stack) * sizeof *stack.data);
        status = fill_stack(m, stack.data, err);
    }
    if (status == STATUS_OK) status = mrc_write(path, &stack, MRC_STACK, MRC_FLOAT32, err);
    image_destroy(&stack);
    return status;
}

enum status snapshot_write(struct classifier *c, struct snapshot *s, struct err *err) {
    TRY(quality_judge(c->model, c->dataset, &c->options.rule, err));
    return snapshot_write_judged(c, s, err);
}

enum status snapshot_write_judged(struct classifier *c, struct snapshot *s, struct err *err) {
    char path[PATH_MAX];
    _cleanup_(mem_free) size_t *which = NULL;
    TRY(mem_new_unset(dataset_count(c->dataset) + 1, sizeof *which, "particles of a snapshot", &which, err));
    s->classes = c->model->class_count + c->model->options.with_empty;
    s->kept_classes = 0;
    s->kept_by_hand = s->left_by_hand = 0;
    s->changes[0] = '\0';
    s->change = c->choices != NULL ? choices_number(c->choices) : 0;
    for (int k = 0; k < c->model->class_count; k++)
        s->kept_classes += c->model->classes[k].kept;
    snapshot_name(s, "_classes.mrcs", path, s->folder);
    TRY(write_stack(c->model, path, err));
    snapshot_name(s, "_classes.png", path, s->folder);
    TRY(snapshot_picture(c->model, dataset_count(c->dataset), path, err));
    TRY(write_all(c, s, which, err));
    TRY(write_selected(c, s, which, err));
    /* The model comes last: if it exists, the other files exist. */
    TRY(snapshot_write_sampling(c, s, err));
    TRY(snapshot_write_optimiser(c, s, err));
    return snapshot_write_model(c, s, err);
}

enum status snapshot_link(const struct snapshot *s, struct err *err) {
    static const char *const links[] = {"latest_classes.mrcs", "latest_classes.png", "latest_selected.star"};
    enum { LINKS = sizeof links / sizeof *links };
    char targets[LINKS][64], path[PATH_MAX];
    snprintf(targets[0], sizeof targets[0], "run_it%03d_classes.mrcs", s->iteration);
    snprintf(targets[1], sizeof targets[1], "run_it%03d_classes.png", s->iteration);
    snprintf(targets[2], sizeof targets[2], "selected_it%03d.star", s->iteration);
    for (int i = 0; i < LINKS; i++) {
        TRY(path_join(s->folder, links[i], path, sizeof path, err));
        TRY(file_link(targets[i], path, err));
    }
    return STATUS_OK;
}

/* Returns the resolution of the finest class that is kept (Å), 0 where none has one. Classes of ice or carbon that are
 * dropped often seem finer. */
static double finest_kept(const struct classifier *c) {
    double finest = 0;
    for (int k = 0; k < c->model->class_count; k++) {
        const struct model_class *class = &c->model->classes[k];
        if (class->kept && class->resolution > 0 && class->resolution < 900 &&
            (finest <= 0 || class->resolution < finest))
            finest = class->resolution;
    }
    return finest;
}

enum status snapshot_history(const struct classifier *c, const struct snapshot *s, struct err *err) {
    char path[PATH_MAX], prefix[64];
    snprintf(prefix, sizeof prefix, "run_it%03d", s->iteration);
    json_t *files = json_array();
    static const char *const endings[] = {"_classes.mrcs", "_classes.png", "_data.star", "_model.star"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        json_array_append_new(files, json_sprintf("%s/%s%s", s->relative, prefix, endings[i]));
    json_array_append_new(files, json_sprintf("%s/selected_it%03d.star", s->relative, s->iteration));
    double resolution = c->model->options.box * c->model->options.pixel_size /
                        (c->model->current_shell > 0 ? c->model->current_shell : 1);
    json_t *line = json_pack("{s:f, s:s, s:i, s:I, s:I, s:i, s:i, s:f, s:b, s:o}", "time", clock_realtime(), "event",
                             "classes", "iteration", s->iteration, "particles", (json_int_t)dataset_count(c->dataset),
                             "kept", (json_int_t)s->kept, "classes", s->classes, "kept_classes", s->kept_classes,
                             "resolution", resolution, "final", s->final, "files", files);
    double finest = finest_kept(c);
    if (finest > 0) json_object_set_new(line, "kept_resolution", json_real(finest));
    if (s->change > 0) {
        json_object_set_new(line, "change", json_integer(s->change));
        json_object_set_new(line, "kept_by_hand", json_integer((json_int_t)s->kept_by_hand));
        json_object_set_new(line, "left_by_hand", json_integer((json_int_t)s->left_by_hand));
    }
    char *text = line != NULL ? json_dumps(line, JSON_COMPACT) : NULL;
    json_decref(line);
    FAIL_IF(text == NULL, err, STATUS_NO_MEMORY, "no memory for a line of history");
    snprintf(path, sizeof path, "%s/history.jsonl", s->folder);
    enum status status = file_append_line(path, text, err);
    free(text);
    return status;
}

void snapshot_remove(const struct snapshot *snapshot, int iteration, bool selection) {
    struct snapshot old = *snapshot;
    old.iteration = iteration;
    static const char *const endings[] = {"_model.star", "_optimiser.star", "_sampling.star",
                                          "_data.star",  "_classes.png",    "_classes.mrcs"};
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/selected_it%03d.star", old.folder, iteration);
    if (selection) (void)file_remove(path, NULL); /* a file that cannot be removed only takes room */
    snprintf(path, sizeof path, "%s/changes_it%03d.star", old.folder, iteration);
    if (selection) (void)file_remove(path, NULL);
    for (size_t i = 0; i < sizeof endings / sizeof *endings && !selection; i++) {
        snapshot_name(&old, endings[i], path, old.folder);
        (void)file_remove(path, NULL);
    }
}
