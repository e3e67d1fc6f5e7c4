#include "stages/tilt-reconstructor/tables.h"

#include <jansson.h>
#include <stdlib.h>

#include "common/files.h"
#include "common/memory.h"

enum { RECORD_LIMIT = 16 << 20, COLUMNS = 8 };

static const char *const columns[COLUMNS] = {
    "rlnTomoName",  "rlnTomoTiltSeriesPixelSize",   "rlnTomoTomogramBinning", "rlnTomoSizeX", "rlnTomoSizeY",
    "rlnTomoSizeZ", "rlnTomoReconstructedTomogram", "rlnTomoFrameCount"};

struct tomogram_table {
    struct star_file *file;
    struct star_table *rows;
    json_t *seen;
};

enum status tomogram_table_create(struct tomogram_table **ret_table, struct err *err) {
    _cleanup_(tomogram_table_destroy) struct tomogram_table *table = calloc(1, sizeof *table);
    FAIL_IF(table == NULL, err, STATUS_NO_MEMORY, "no memory for a table of tomograms");
    table->seen = json_object();
    FAIL_IF(table->seen == NULL, err, STATUS_NO_MEMORY, "no memory for a table of tomograms");
    TRY(star_create(&table->file, err));
    TRY(star_table_add(table->file, "global", true, &table->rows, err));
    for (int i = 0; i < COLUMNS; i++)
        TRY(star_column_add(table->rows, columns[i], "0", NULL, err));
    *ret_table = table;
    table = NULL;
    return STATUS_OK;
}

void tomogram_table_destroy(struct tomogram_table **table) {
    if (table == NULL || *table == NULL) return;
    star_destroy(&(*table)->file);
    json_decref((*table)->seen);
    free(*table);
    *table = NULL;
}

static enum status add_row(struct tomogram_table *table, const char *series, const char *relative, const json_t *record,
                           struct err *err) {
    const json_t *size = json_object_get(record, "size");
    double bin = json_number_value(json_object_get(record, "bin"));
    size_t row;
    TRY(star_row_add(table->rows, &row, err));
    TRY(star_set(table->rows, row, 0, series, err));
    TRY(star_set_number(table->rows, row, 1,
                        json_number_value(json_object_get(record, "pixel_size")) / (bin > 0 ? bin : 1), err));
    TRY(star_set_number(table->rows, row, 2, bin, err));
    for (size_t i = 0; i < 3; i++)
        TRY(star_set_integer(table->rows, row, 3 + (int)i, (long)(json_number_value(json_array_get(size, i)) * bin),
                             err));
    TRY(star_set(table->rows, row, 6, relative, err));
    return star_set_integer(table->rows, row, 7, (long)json_array_size(json_object_get(record, "tilts")), err);
}

enum status tomogram_table_add(struct tomogram_table *table, const char *series, const char *record,
                               const char *relative, struct err *err) {
    _cleanup_(mem_free) char *text = NULL;
    if (json_object_get(table->seen, series) != NULL) return STATUS_OK;
    FAIL_IF(json_object_set_new(table->seen, series, json_true()) != 0, err, STATUS_NO_MEMORY,
            "no memory for a table of tomograms");
    if (file_read_whole(record, RECORD_LIMIT, &text, NULL, NULL) != STATUS_OK) return STATUS_OK;
    json_t *object = json_loads(text, 0, NULL);
    enum status status = json_is_object(object) ? add_row(table, series, relative, object, err) : STATUS_OK;
    json_decref(object);
    return status;
}

enum status tomogram_table_write(const struct tomogram_table *table, const char *path, struct err *err) {
    return star_write(table->file, path, err);
}
