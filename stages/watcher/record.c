#include "stages/watcher/record.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/star_cells.h"
#include "common/formats/star_numbers.h"
#include "common/harness/item_optics.h"
#include "common/memory.h"

const char *record_relative(const char *path, const char *root) {
    const char *rest;
    return root[0] != '\0' && path_is_below(path, root, &rest) ? rest : path;
}

static enum status set_optics(const struct record_source *source, struct item *item, struct err *err) {
    struct ctf_optics given = {"", NAN, NAN, NAN, NAN, NAN};
    if (source->rows != NULL) ctf_rows_optics(source->rows, source->row, &given);
    const struct optics session = session_optics(source->session);
    const struct optics table = {
        .pixel_size = given.pixel_size,
        .voltage = given.voltage,
        .spherical_aberration = given.spherical_aberration,
        .amplitude_contrast = given.amplitude_contrast,
    };
    double header = (double)source->image.pixel_size;
    if (!(header > 0) && source->tilt != NULL) header = source->tilt->pixel_size;
    const struct optics optics = optics_of_micrograph(&session, &table, header);
    FAIL_IF(isnan(optics.pixel_size), err, STATUS_NOT_FOUND,
            "%s: neither the session nor watcher.ctf nor the file's header tells its pixel size: set "
            "session.pixel_size (Å)",
            source->path);
    bool named = given.group[0] != '\0' && item_text_fits(given.group);
    TRY(item_set_string(item, "optics.group", named ? given.group : "opticsGroup1", err));
    double original = isnan(given.original_pixel_size) ? optics.pixel_size : given.original_pixel_size;
    return item_set_optics(item, &optics, original, err);
}

enum status record_failed(const char *id, const char *path, const char *root, struct item **ret_item, struct err *err) {
    _cleanup_(item_destroy) struct item *item = NULL;
    TRY(item_create(id, "micrograph", &item, err));
    const char *name = record_relative(path, root);
    TRY(item_set_string(item, "micrograph.path", item_text_fits(name) ? name : id, err));
    *ret_item = item;
    item = NULL;
    return STATUS_OK;
}

enum status record_structure(const char *id, const char *path, const char *root, struct item **ret_item,
                             struct err *err) {
    _cleanup_(item_destroy) struct item *item = NULL;
    TRY(item_create(id, "structure", &item, err));
    TRY(item_set_string(item, "structure.path", record_relative(path, root), err));
    *ret_item = item;
    item = NULL;
    return STATUS_OK;
}

/* Checks the name of a series as that of a micrograph: the tomogram's item and its files are named after it. */
static enum status check_series(const char *series, struct err *err) {
    _cleanup_(item_destroy) struct item *probe = NULL;
    char id[PATH_SIZE + 16], shown[81];
    struct err own = {0};
    snprintf(id, sizeof id, "tomogram/%s/0000", series);
    if (item_create(id, "tomogram", &probe, &own) == STATUS_OK) return STATUS_OK;
    snprintf(shown, sizeof shown, "%s", series);
    for (unsigned char *c = (unsigned char *)shown; *c != '\0'; c++)
        if (*c < 0x20 || *c >= 0x7f) *c = '?';
    FAIL(err, STATUS_BAD_ARGUMENT,
         "the name of its series, '%s', holds a line break, a control character or bytes that are not UTF-8, has an "
         "empty part, '.' or '..', or is too long, so that no tomogram can be named after it: rename the .mdoc (or the "
         "images, where watcher.series is a pattern) and run the session again",
         shown);
}

static enum status set_tilt(const struct tilt_place *tilt, struct item *item, struct err *err) {
    TRY(check_series(tilt->series, err));
    TRY(item_set_string(item, "tilt.series", tilt->series, err));
    TRY(item_set_number(item, "tilt.angle", tilt->angle, err));
    TRY(item_set_number(item, "tilt.number", tilt->number, err));
    TRY(item_set_number(item, "tilt.taken", tilt->taken, err));
    if (!isnan(tilt->time)) TRY(item_set_number(item, "tilt.time", tilt->time, err));
    if (!isnan(tilt->pixel_size)) TRY(item_set_number(item, "tilt.pixel_size", tilt->pixel_size, err));
    return isnan(tilt->axis) ? STATUS_OK : item_set_number(item, "tilt.axis", tilt->axis, err);
}

enum status record_make(const struct record_source *source, struct item **ret_item, struct err *err) {
    _cleanup_(item_destroy) struct item *item = NULL;
    TRY(item_create(source->id, "micrograph", &item, err));
    TRY(item_set_string(item, "micrograph.path", record_relative(source->path, source->root), err));
    TRY(item_set_number(item, "micrograph.nx", source->image.nx, err));
    TRY(item_set_number(item, "micrograph.ny", source->image.ny, err));
    if (source->image.nz > 1) TRY(item_set_number(item, "micrograph.nz", source->image.nz, err));
    if (!source->unscaled) TRY(set_optics(source, item, err));
    if (source->tilt != NULL) TRY(set_tilt(source->tilt, item, err));
    if (source->rows != NULL && source->row >= 0) TRY(ctf_rows_columns(source->rows, source->row, item, err));
    *ret_item = item;
    item = NULL;
    return STATUS_OK;
}

struct record_table {
    struct star_file *file;
    struct star_table *optics, *micrographs; /* micrographs: columns without rows */
    struct star_file *piece;
    struct star_table *rows; /* the piece's, not written yet */
    struct star_writer *writer;
};

enum { PIECE_ROWS = 512 };
/* Columns of the optics table that come from an item, beside the number and the name of the group. */
enum { OPTICS_NUMBERS = 5 };
static const struct {
    const char *column, *member;
} OPTICS[OPTICS_NUMBERS] = {
    {"rlnMicrographOriginalPixelSize", "optics.original_pixel_size"},
    {"rlnMicrographPixelSize", "optics.pixel_size"},
    {"rlnVoltage", "optics.voltage"},
    {"rlnSphericalAberration", "optics.spherical_aberration"},
    {"rlnAmplitudeContrast", "optics.amplitude_contrast"},
};

enum status record_table_create(struct record_table **ret_table, struct err *err) {
    _cleanup_(record_table_destroy) struct record_table *table = calloc(1, sizeof *table);
    FAIL_IF(table == NULL, err, STATUS_NO_MEMORY, "no memory for a table of micrographs");
    TRY(star_create(&table->file, err));
    TRY(star_table_add(table->file, "optics", true, &table->optics, err));
    TRY(star_table_add(table->file, "micrographs", true, &table->micrographs, err));
    TRY(star_column_add(table->optics, "rlnOpticsGroup", "0", NULL, err));
    TRY(star_column_add(table->optics, "rlnOpticsGroupName", "0", NULL, err));
    for (int i = 0; i < OPTICS_NUMBERS; i++)
        TRY(star_column_add(table->optics, OPTICS[i].column, "0", NULL, err));
    TRY(star_column_add(table->micrographs, "rlnMicrographName", "", NULL, err));
    TRY(star_column_add(table->micrographs, "rlnOpticsGroup", "1", NULL, err));
    *ret_table = table;
    table = NULL;
    return STATUS_OK;
}

void record_table_destroy(struct record_table **table) {
    if (table == NULL || *table == NULL) return;
    star_writer_discard(&(*table)->writer);
    star_destroy(&(*table)->piece);
    star_destroy(&(*table)->file);
    free(*table);
    *table = NULL;
}

static const char *group_name(const struct item *item) {
    const char *name = item_string(item, "optics.group");
    return name != NULL ? name : "opticsGroup1";
}

/* Finds the row of the item's optics; *ret_row is the number of rows when there is none. Groups are few. */
static enum status find_group(const struct star_table *optics, const struct item *item, size_t *ret_row,
                              struct err *err) {
    const int names = star_column_find(optics, "rlnOpticsGroupName");
    size_t row = 0;
    for (; row < star_row_count(optics); row++) {
        bool same = strcmp(star_get(optics, row, names), group_name(item)) == 0;
        for (int i = 0; i < OPTICS_NUMBERS && same; i++) {
            double value;
            TRY(star_get_number(optics, row, star_column_find(optics, OPTICS[i].column), &value, err));
            same = fabs(value - item_number(item, OPTICS[i].member, 0)) <= 1e-5 * fabs(value);
        }
        if (same) break;
    }
    *ret_row = row;
    return STATUS_OK;
}

static enum status add_group(struct star_table *optics, const struct item *item, struct err *err) {
    size_t row;
    TRY(star_row_add(optics, &row, err));
    TRY(star_put_integer(optics, row, "rlnOpticsGroup", (long)row + 1, err));
    TRY(star_put_text(optics, row, "rlnOpticsGroupName", group_name(item), err));
    for (int i = 0; i < OPTICS_NUMBERS; i++)
        TRY(star_put_number(optics, row, OPTICS[i].column, item_number(item, OPTICS[i].member, 0), err));
    return STATUS_OK;
}

enum status record_table_note(struct record_table *table, const struct item *item, struct err *err) {
    size_t group;
    if (item_has(item, "structure")) return STATUS_OK;
    TRY(find_group(table->optics, item, &group, err));
    if (group == star_row_count(table->optics)) TRY(add_group(table->optics, item, err));
    const char *name;
    const json_t *value;
    json_object_foreach(json_object_get(item_json(item), "columns"), name, value) if (json_is_number(value))
        TRY(star_column_add(table->micrographs, name, NULL, NULL, err));
    return STATUS_OK;
}

static enum status begin_piece(struct record_table *table, struct err *err) {
    star_destroy(&table->piece);
    TRY(star_create(&table->piece, err));
    TRY(star_table_add(table->piece, "micrographs", true, &table->rows, err));
    for (size_t i = 0; i < star_column_count(table->micrographs); i++)
        TRY(star_column_add(table->rows, star_column_name(table->micrographs, i), NULL, NULL, err));
    return STATUS_OK;
}

enum status record_table_begin(struct record_table *table, const char *path, struct err *err) {
    TRY(star_writer_create(path, &table->writer, err));
    TRY(star_writer_table(table->writer, table->optics, err));
    TRY(star_writer_table(table->writer, table->micrographs, err));
    return begin_piece(table, err);
}

enum status record_table_add(struct record_table *table, const struct item *item, struct err *err) {
    const char *path;
    size_t group, row;
    if (item_has(item, "structure")) return STATUS_OK;
    TRY(item_need_string(item, "micrograph.path", &path, err));
    TRY(find_group(table->optics, item, &group, err));
    if (group == star_row_count(table->optics)) return STATUS_OK; /* the item came after the groups were noted */
    if (star_row_count(table->rows) == PIECE_ROWS) {
        TRY(star_writer_rows(table->writer, table->rows, err));
        TRY(begin_piece(table, err));
    }
    TRY(star_row_add(table->rows, &row, err));
    const json_t *columns = json_object_get(item_json(item), "columns");
    for (size_t i = 0; i < star_column_count(table->rows); i++) {
        const char *name = star_column_name(table->rows, i);
        const json_t *value = json_object_get(columns, name);
        TRY(json_is_number(value) ? star_set_number(table->rows, row, (int)i, json_number_value(value), err)
                                  : star_set(table->rows, row, (int)i, star_missing(name), err));
    }
    TRY(star_put_text(table->rows, row, "rlnMicrographName", path, err));
    return star_put_integer(table->rows, row, "rlnOpticsGroup", (long)group + 1, err);
}

enum status record_table_commit(struct record_table *table, struct err *err) {
    TRY(star_writer_rows(table->writer, table->rows, err));
    return star_writer_commit(&table->writer, err);
}
