#include "common/harness/micrograph_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/optics_aberrations.h"
#include "common/formats/star.h"
#include "common/formats/star_cells.h"
#include "common/formats/star_numbers.h"
#include "common/memory.h"

/* Names of the table, of the column that names a row, and of the member of the item that fills it. */
struct naming {
    const char *table, *column, *member;
};

struct micrograph_table {
    struct naming naming;
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

const struct micrograph_file micrograph_files[MICROGRAPH_FILES] = {
    {"rlnCtfPowerSpectrum", "spectrum.path"},
    {"rlnMicrographMetadata", "motion.star"},
    {"rlnMicrographNameNoDW", "micrograph.unweighted"},
};

static enum status create(struct naming naming, struct micrograph_table **ret_table, struct err *err) {
    _cleanup_(micrograph_table_destroy) struct micrograph_table *table = calloc(1, sizeof *table);
    FAIL_IF(table == NULL, err, STATUS_NO_MEMORY, "no memory for a table of micrographs");
    TRY(star_create(&table->file, err));
    TRY(star_table_add(table->file, "optics", true, &table->optics, err));
    table->naming = naming;
    TRY(star_table_add(table->file, naming.table, true, &table->micrographs, err));
    TRY(star_column_add(table->optics, "rlnOpticsGroup", "0", NULL, err));
    TRY(star_column_add(table->optics, "rlnOpticsGroupName", "0", NULL, err));
    for (int i = 0; i < OPTICS_NUMBERS; i++)
        TRY(star_column_add(table->optics, OPTICS[i].column, "0", NULL, err));
    TRY(star_column_add(table->micrographs, naming.column, "", NULL, err));
    TRY(star_column_add(table->micrographs, "rlnOpticsGroup", "1", NULL, err));
    *ret_table = table;
    table = NULL;
    return STATUS_OK;
}

enum status micrograph_table_create(struct micrograph_table **ret_table, struct err *err) {
    return create((struct naming){"micrographs", "rlnMicrographName", "micrograph.path"}, ret_table, err);
}

enum status micrograph_table_create_movies(struct micrograph_table **ret_table, struct err *err) {
    return create((struct naming){"movies", "rlnMicrographMovieName", "movie.path"}, ret_table, err);
}

void micrograph_table_destroy(struct micrograph_table **table) {
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

static const char *aberrations_of(const struct item *item) {
    const char *list = item_string(item, "optics.aberrations");
    return list != NULL ? list : "";
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
        char aberrations[OPTICS_ABERRATIONS_TEXT];
        optics_aberrations_list(optics, row, aberrations, sizeof aberrations);
        if (same && strcmp(aberrations, aberrations_of(item)) == 0) break;
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
    TRY(optics_aberrations_put(optics, row, aberrations_of(item), err));
    return star_row_fill(optics, row, err);
}

enum status micrograph_table_note(struct micrograph_table *table, const struct item *item, struct err *err) {
    size_t group;
    if (item_has(item, "structure")) return STATUS_OK;
    TRY(find_group(table->optics, item, &group, err));
    if (group == star_row_count(table->optics)) TRY(add_group(table->optics, item, err));
    for (int i = 0; i < MICROGRAPH_FILES; i++)
        if (item_string(item, micrograph_files[i].member) != NULL)
            TRY(star_column_add(table->micrographs, micrograph_files[i].column, NULL, NULL, err));
    const char *name;
    const json_t *value;
    json_object_foreach(json_object_get(item_json(item), "columns"), name, value) {
        if (json_is_number(value)) TRY(star_column_add(table->micrographs, name, NULL, NULL, err));
    }
    return STATUS_OK;
}

static enum status begin_piece(struct micrograph_table *table, struct err *err) {
    star_destroy(&table->piece);
    TRY(star_create(&table->piece, err));
    TRY(star_table_add(table->piece, table->naming.table, true, &table->rows, err));
    for (size_t i = 0; i < star_column_count(table->micrographs); i++)
        TRY(star_column_add(table->rows, star_column_name(table->micrographs, i), NULL, NULL, err));
    return STATUS_OK;
}

enum status micrograph_table_begin(struct micrograph_table *table, const char *path, struct err *err) {
    TRY(star_writer_create(path, &table->writer, err));
    TRY(star_writer_table(table->writer, table->optics, err));
    TRY(star_writer_table(table->writer, table->micrographs, err));
    return begin_piece(table, err);
}

enum status micrograph_table_add(struct micrograph_table *table, const struct item *item, struct err *err) {
    const char *path;
    size_t group, row;
    if (item_has(item, "structure")) return STATUS_OK;
    TRY(item_need_string(item, table->naming.member, &path, err));
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
    for (int i = 0; i < MICROGRAPH_FILES; i++) {
        const char *file = item_string(item, micrograph_files[i].member);
        int column = star_column_find(table->rows, micrograph_files[i].column);
        if (file != NULL && column >= 0) TRY(star_set(table->rows, row, column, file, err));
    }
    TRY(star_put_text(table->rows, row, table->naming.column, path, err));
    return star_put_integer(table->rows, row, "rlnOpticsGroup", (long)group + 1, err);
}

enum status micrograph_table_commit(struct micrograph_table *table, struct err *err) {
    TRY(star_writer_rows(table->writer, table->rows, err));
    return star_writer_commit(&table->writer, err);
}
