#include "stages/tilt-reconstructor/tables.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/star_cells.h"
#include "common/memory.h"

enum { RECORD_LIMIT = 16 << 20, COLUMNS = 8 };

struct tomogram_table {
    struct star_file *file;
    struct star_table *rows;
    json_t *seen;
};

/* Lists the cells of a tomogram. record: its JSON file; NULL: only the columns are of interest. */
static void list_cells(const char *series, const char *relative, const json_t *record,
                       struct star_cell ret_cells[COLUMNS]) {
    const json_t *size = json_object_get(record, "size"), *tilts = json_object_get(record, "tilts");
    double bin = json_number_value(json_object_get(record, "bin"));
    double pixel_size = json_number_value(json_object_get(record, "pixel_size")) / (bin > 0 ? bin : 1);
    double nx = json_number_value(json_array_get(size, 0)), ny = json_number_value(json_array_get(size, 1));
    double nz = json_number_value(json_array_get(size, 2));
    const struct star_cell cells[COLUMNS] = {
        {.column = "rlnTomoName", .text = series},
        {.column = "rlnTomoTiltSeriesPixelSize", .value = pixel_size},
        {.column = "rlnTomoTomogramBinning", .value = bin},
        {.column = "rlnTomoSizeX", .value = nx * bin, .integer = true},
        {.column = "rlnTomoSizeY", .value = ny * bin, .integer = true},
        {.column = "rlnTomoSizeZ", .value = nz * bin, .integer = true},
        {.column = "rlnTomoReconstructedTomogram", .text = relative},
        {.column = "rlnTomoFrameCount", .value = (double)json_array_size(tilts), .integer = true},
    };
    memcpy(ret_cells, cells, sizeof cells);
}

enum status tomogram_table_create(struct tomogram_table **ret_table, struct err *err) {
    struct star_cell cells[COLUMNS];
    _cleanup_(tomogram_table_destroy) struct tomogram_table *table = calloc(1, sizeof *table);
    FAIL_IF(table == NULL, err, STATUS_NO_MEMORY, "no memory for a table of tomograms");
    table->seen = json_object();
    FAIL_IF(table->seen == NULL, err, STATUS_NO_MEMORY, "no memory for a table of tomograms");
    TRY(star_create(&table->file, err));
    TRY(star_table_add(table->file, "global", true, &table->rows, err));
    list_cells("", "", NULL, cells);
    for (int i = 0; i < COLUMNS; i++)
        TRY(star_column_add(table->rows, cells[i].column, "0", NULL, err));
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
    struct star_cell cells[COLUMNS];
    list_cells(series, relative, record, cells);
    return star_cells_row(table->rows, cells, COLUMNS, err);
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
