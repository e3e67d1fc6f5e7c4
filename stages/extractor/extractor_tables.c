/* Writes particle tables: one for each micrograph, and one that joins them all. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/optics_aberrations.h"
#include "common/formats/star_cells.h"
#include "common/formats/star_numbers.h"
#include "common/memory.h"
#include "stages/extractor/extractor.h"

static enum status add_optics(struct star_file *file, const struct extractor_optics *optics,
                              const struct extract_options *options, struct err *err) {
    struct star_table *table;
    const struct star_cell cells[] = {
        {.column = "rlnOpticsGroupName", .text = optics->group},
        {.column = "rlnOpticsGroup", .value = 1, .integer = true},
        {.column = "rlnMicrographOriginalPixelSize", .value = optics->original_pixel_size},
        /* Coordinates count in these pixels where the movie was binned. */
        {.column = "rlnMicrographPixelSize",
         .value = optics->pixel_size,
         .unless = optics->pixel_size == optics->original_pixel_size},
        {.column = "rlnVoltage", .value = optics->voltage},
        {.column = "rlnSphericalAberration", .value = optics->spherical_aberration},
        {.column = "rlnAmplitudeContrast", .value = optics->amplitude_contrast},
        {.column = "rlnImagePixelSize", .value = optics->pixel_size * options->box / options->size},
        {.column = "rlnImageSize", .value = options->size, .integer = true},
        {.column = "rlnImageDimensionality", .value = 2, .integer = true},
        {.column = "rlnCtfDataAreCtfPremultiplied", .integer = true},
    };
    TRY(star_table_add(file, "optics", true, &table, err));
    TRY(star_cells_row(table, cells, sizeof cells / sizeof *cells, err));
    return optics->aberrations != NULL ? optics_aberrations_put(table, 0, optics->aberrations, err) : STATUS_OK;
}

/* A number of the micrograph (such as its defocus) that each of its particles gets. */
struct carried {
    int column;
    double value;
};

static enum status carried_columns(struct star_table *table, const struct item *item, struct carried **ret_carried,
                                   size_t *ret_count, struct err *err) {
    const json_t *columns = json_object_get(item_json(item), "columns");
    size_t count = 0, room = json_object_size(columns) + 3;
    _cleanup_(mem_free) struct carried *carried = NULL;
    TRY(mem_new(room, sizeof *carried, "columns", &carried, err));
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)columns, name, value) {
        if (!json_is_number(value) || strncmp(name, "rln", 3) != 0 || star_column_find(table, name) >= 0) continue;
        TRY(star_column_add(table, name, star_missing(name), &carried[count].column, err));
        carried[count++].value = json_number_value(value);
    }
    /* RELION takes a file with a CTF but without these columns for an old one. */
    static const struct {
        const char *name;
        double value;
    } always[] = {{"rlnCtfBfactor", 0}, {"rlnCtfScalefactor", 1}, {"rlnPhaseShift", 0}};
    if (star_column_find(table, "rlnDefocusU") >= 0)
        for (size_t i = 0; i < 3; i++) {
            if (star_column_find(table, always[i].name) >= 0) continue;
            TRY(star_column_add(table, always[i].name, "0", &carried[count].column, err));
            carried[count++].value = always[i].value;
        }
    *ret_carried = carried;
    carried = NULL;
    *ret_count = count;
    return STATUS_OK;
}

enum { LOCAL_COLUMNS = 3 };

/* Finds the columns of the micrograph's defocus that each particle gets by its place instead; −1: the picks have their
 * own. */
static void find_local(const struct star_table *table, const struct carried *carried, size_t count,
                       int columns[LOCAL_COLUMNS]) {
    static const char *const NAMES[LOCAL_COLUMNS] = {"rlnDefocusU", "rlnDefocusV", "rlnDefocusAngle"};
    for (int k = 0; k < LOCAL_COLUMNS; k++) {
        int column = star_column_find(table, NAMES[k]);
        columns[k] = -1;
        for (size_t c = 0; c < count; c++)
            if (carried[c].column == column) columns[k] = column;
    }
}

static enum status set_local(const struct extractor_lane *lane, size_t pick, const int columns[LOCAL_COLUMNS],
                             struct star_table *table, size_t row, struct err *err) {
    if (lane->local.columns == 0) return STATUS_OK;
    struct local_ctf_value at = local_ctf_at(&lane->local, lane->picks.x[pick], lane->picks.y[pick]);
    const double values[LOCAL_COLUMNS] = {at.u, at.v, at.angle};
    for (int k = 0; k < LOCAL_COLUMNS; k++)
        if (columns[k] >= 0) TRY(star_set_number(table, row, columns[k], values[k], err));
    return STATUS_OK;
}

enum status extractor_write_particles(const char *path, const char *stack_name, const struct item *item,
                                      const struct extractor_optics *optics, const struct extract_options *options,
                                      const struct extractor_lane *lane, struct err *err) {
    _cleanup_(star_destroy) struct star_file *file = NULL;
    TRY(star_create(&file, err));
    TRY(add_optics(file, optics, options, err));
    struct star_table *table;
    TRY(star_table_add(file, "particles", true, &table, err));
    const struct extractor_picks *picks = &lane->picks;
    size_t picked_columns = picks->table != NULL ? star_column_count(picks->table) : 0;
    _cleanup_(mem_free) int *to = NULL;
    _cleanup_(mem_free) struct carried *carried = NULL;
    size_t carried_count = 0;
    TRY(mem_new(picked_columns + 1, sizeof *to, "columns", &to, err));
    for (size_t c = 0; c < picked_columns; c++)
        TRY(star_column_add(table, star_column_name(picks->table, c), NULL, &to[c], err));
    int image, micrograph, group;
    TRY(star_column_add(table, "rlnImageName", "", &image, err));
    TRY(star_column_add(table, "rlnMicrographName", "", &micrograph, err));
    TRY(star_column_add(table, "rlnOpticsGroup", "1", &group, err));
    TRY(carried_columns(table, item, &carried, &carried_count, err));
    int local[LOCAL_COLUMNS];
    find_local(table, carried, carried_count, local);
    for (size_t i = 0; i < picks->count; i++) {
        size_t row;
        char name[PATH_MAX + 16];
        TRY(star_row_add(table, &row, err));
        for (size_t c = 0; c < picked_columns; c++)
            TRY(star_set(table, row, to[c], star_get(picks->table, picks->rows[i], (int)c), err));
        snprintf(name, sizeof name, "%06zu@%s", i + 1, stack_name);
        TRY(star_set(table, row, image, name, err));
        TRY(star_set(table, row, micrograph, lane->micrograph_name, err));
        TRY(star_set_integer(table, row, group, 1, err));
        for (size_t c = 0; c < carried_count; c++)
            TRY(star_set_number(table, row, carried[c].column, carried[c].value, err));
        TRY(set_local(lane, i, local, table, row, err));
    }
    return star_write(file, path, err);
}

/* A joined table may have millions of rows. Memory holds only its optics groups and columns; rows are written as they
 * are read for the second time. */
struct extractor_join {
    struct star_file *file;
    struct star_table *optics, *particles; /* particles: columns without rows */
    struct star_writer *writer;
};

enum status extractor_join_create(struct extractor_join **ret_join, struct err *err) {
    struct extractor_join *join = calloc(1, sizeof *join);
    FAIL_IF(join == NULL, err, STATUS_NO_MEMORY, "no memory to join particle tables");
    enum status status = star_create(&join->file, err);
    if (status == STATUS_OK) status = star_table_add(join->file, "optics", true, &join->optics, err);
    if (status == STATUS_OK) status = star_table_add(join->file, "particles", true, &join->particles, err);
    if (status != STATUS_OK) {
        extractor_join_destroy(&join);
        return status;
    }
    *ret_join = join;
    return STATUS_OK;
}

void extractor_join_destroy(struct extractor_join **join) {
    if (join == NULL || *join == NULL) return;
    star_destroy(&(*join)->file);
    star_writer_discard(&(*join)->writer);
    free(*join);
    *join = NULL;
}

enum { GROUP_NAME_SIZE = 512 };

/* Makes a name unique that another group has already: appends the number of the group, which is row + 1. */
static void number_name(const char *name, size_t row, char unique[GROUP_NAME_SIZE]) {
    snprintf(unique, GROUP_NAME_SIZE, "%.480s_%zu", name, row + 1);
}

static bool same_name(const char *joined, size_t row, const char *name) {
    char unique[GROUP_NAME_SIZE];
    number_name(name, row, unique);
    return strcmp(joined, name) == 0 || strcmp(joined, unique) == 0;
}

/* Returns whether row `row` of `optics` equals the only row of `other`, apart from the number of the group. */
static bool same_optics(const struct star_table *optics, size_t row, const struct star_table *other) {
    for (size_t c = 0; c < star_column_count(other); c++) {
        const char *name = star_column_name(other, c), *value = star_get(other, 0, (int)c);
        int column = star_column_find(optics, name);
        if (strcmp(name, "rlnOpticsGroup") == 0) continue;
        if (column < 0) return false;
        const char *joined = star_get(optics, row, column);
        bool same =
            strcmp(name, "rlnOpticsGroupName") == 0 ? same_name(joined, row, value) : strcmp(joined, value) == 0;
        if (!same) return false;
    }
    return optics_aberrations_same_rows(optics, row, other, 0);
}

/* Returns the number (from 1) of a file's group in the joined table, or 0. */
static long find_optics(const struct extractor_join *join, const struct star_table *other) {
    for (size_t row = 0; row < star_row_count(join->optics); row++)
        if (same_optics(join->optics, row, other)) return (long)row + 1;
    return 0;
}

static enum status add_joined_optics(struct extractor_join *join, const struct star_table *other, struct err *err) {
    size_t groups = star_row_count(join->optics), row;
    int name_column = star_column_find(other, "rlnOpticsGroupName");
    const char *name = name_column >= 0 ? star_get(other, 0, name_column) : "opticsGroup";
    char unique[GROUP_NAME_SIZE];
    snprintf(unique, sizeof unique, "%s", name);
    int joined_names = star_column_find(join->optics, "rlnOpticsGroupName");
    for (row = 0; row < groups && joined_names >= 0; row++)
        if (strcmp(star_get(join->optics, row, joined_names), name) == 0) number_name(name, groups, unique);
    TRY(star_row_begin(join->optics, star_column_name(other, 0), &row, err));
    TRY(star_row_copy(other, 0, join->optics, row, err));
    TRY(star_put_text(join->optics, row, "rlnOpticsGroupName", unique, err));
    TRY(star_put_integer(join->optics, row, "rlnOpticsGroup", (long)row + 1, err));
    return star_row_fill(join->optics, row, err);
}

static enum status read_particles(const char *path, struct star_file **ret_file, struct star_table **ret_optics,
                                  struct star_table **ret_particles, struct err *err) {
    _cleanup_(star_destroy) struct star_file *file = NULL;
    TRY(star_read(path, &file, err));
    *ret_optics = star_table_find(file, "optics");
    *ret_particles = star_table_find(file, "particles");
    FAIL_IF(*ret_optics == NULL || *ret_particles == NULL || star_row_count(*ret_optics) != 1, err, STATUS_BAD_FORMAT,
            "%s: a table of optics with one row and a table of particles were expected", path);
    *ret_file = file;
    file = NULL;
    return STATUS_OK;
}

enum status extractor_join_note(struct extractor_join *join, const char *path, struct err *err) {
    _cleanup_(star_destroy) struct star_file *file = NULL;
    struct star_table *optics, *particles;
    TRY(read_particles(path, &file, &optics, &particles, err));
    if (star_row_count(particles) == 0) return STATUS_OK;
    for (size_t c = 0; c < star_column_count(particles); c++)
        TRY(star_column_add(join->particles, star_column_name(particles, c), NULL, NULL, err));
    return find_optics(join, optics) > 0 ? STATUS_OK : add_joined_optics(join, optics, err);
}

enum status extractor_join_begin(struct extractor_join *join, const char *path, struct err *err) {
    TRY(star_writer_create(path, &join->writer, err));
    TRY(star_writer_table(join->writer, join->optics, err));
    return star_writer_table(join->writer, join->particles, err);
}

/* Copies the particles of a file into rows with the joined columns. Columns that the file lacks hold no value
 * (star_missing). */
static enum status rearrange(const struct extractor_join *join, const struct star_table *particles, long group,
                             struct star_table *rows, struct err *err) {
    size_t columns = star_column_count(join->particles);
    for (size_t c = 0; c < columns; c++)
        TRY(star_column_add(rows, star_column_name(join->particles, c), NULL, NULL, err));
    for (size_t i = 0; i < star_row_count(particles); i++) {
        size_t row;
        TRY(star_row_add(rows, &row, err));
        for (size_t c = 0; c < columns; c++) {
            const char *name = star_column_name(join->particles, c);
            int from = star_column_find(particles, name);
            TRY(star_set(rows, row, (int)c, from >= 0 ? star_get(particles, i, from) : star_missing(name), err));
        }
        TRY(star_put_integer(rows, row, "rlnOpticsGroup", group, err));
    }
    return STATUS_OK;
}

enum status extractor_join_rows(struct extractor_join *join, const char *path, struct err *err) {
    _cleanup_(star_destroy) struct star_file *file = NULL;
    _cleanup_(star_destroy) struct star_file *joined = NULL;
    struct star_table *optics, *particles, *rows;
    TRY(read_particles(path, &file, &optics, &particles, err));
    long group = find_optics(join, optics);
    if (star_row_count(particles) == 0 || group == 0) return STATUS_OK;
    TRY(star_create(&joined, err));
    TRY(star_table_add(joined, "particles", true, &rows, err));
    TRY(rearrange(join, particles, group, rows, err));
    return star_writer_rows(join->writer, rows, err);
}

enum status extractor_join_commit(struct extractor_join *join, struct err *err) {
    return star_writer_commit(&join->writer, err);
}
