#include "stages/lowpass-picker/pick_files.h"

#include "common/formats/star.h"
#include "common/memory.h"

static enum status fill(struct star_table *table, const struct pick_list *picks, int epoch, struct err *err) {
    int x = 0, y = 0, class_number = 0, merit = 0, psi = 0, own = 0;
    TRY(star_column_add(table, "rlnCoordinateX", "0", &x, err));
    TRY(star_column_add(table, "rlnCoordinateY", "0", &y, err));
    TRY(star_column_add(table, "rlnClassNumber", "0", &class_number, err));
    TRY(star_column_add(table, "rlnAutopickFigureOfMerit", "0", &merit, err));
    TRY(star_column_add(table, "rlnAnglePsi", "0", &psi, err));
    if (epoch != PICK_NO_EPOCH) TRY(star_column_add(table, "icestreamPickEpoch", "0", &own, err));
    for (size_t i = 0; i < picks->count; i++) {
        const struct pick *pick = &picks->items[i];
        size_t row = 0;
        TRY(star_row_add(table, &row, err));
        TRY(star_set_number(table, row, x, pick->x, err));
        TRY(star_set_number(table, row, y, pick->y, err));
        TRY(star_set_integer(table, row, class_number, pick->class_number, err));
        TRY(star_set_number(table, row, merit, pick->merit, err));
        TRY(star_set_number(table, row, psi, pick->psi, err));
        if (epoch != PICK_NO_EPOCH) TRY(star_set_integer(table, row, own, epoch, err));
    }
    return STATUS_OK;
}

enum status pick_files_write(const char *path, const struct pick_list *picks, int epoch, struct err *err) {
    struct star_file *file = NULL;
    struct star_table *table = NULL;
    TRY(star_create(&file, err));
    enum status status = star_table_add(file, "", true, &table, err);
    if (status == STATUS_OK) status = fill(table, picks, epoch, err);
    if (status == STATUS_OK) status = star_write(file, path, err);
    star_destroy(&file);
    return status;
}

enum { SUMMARY_PIECE = 512 }; /* rows */

struct pick_summary {
    struct star_writer *writer;
    struct star_file *file; /* of the piece */
    struct star_table *table;
    int micrograph, coordinates; /* columns */
    bool begun;                  /* the table's head is written */
};

static enum status begin_piece(struct pick_summary *summary, struct err *err) {
    star_destroy(&summary->file);
    TRY(star_create(&summary->file, err));
    TRY(star_table_add(summary->file, "coordinate_files", true, &summary->table, err));
    TRY(star_column_add(summary->table, "rlnMicrographName", "", &summary->micrograph, err));
    return star_column_add(summary->table, "rlnMicrographCoordinates", "", &summary->coordinates, err);
}

static enum status write_piece(struct pick_summary *summary, struct err *err) {
    TRY((summary->begun ? star_writer_rows : star_writer_table)(summary->writer, summary->table, err));
    summary->begun = true;
    return STATUS_OK;
}

enum status pick_summary_create(const char *path, struct pick_summary **ret_summary, struct err *err) {
    struct pick_summary *summary = NULL;
    TRY(mem_new(1, sizeof *summary, "a table of picks", &summary, err));
    enum status status = star_writer_create(path, &summary->writer, err);
    if (status == STATUS_OK) status = begin_piece(summary, err);
    if (status != STATUS_OK) {
        pick_summary_destroy(&summary);
        return status;
    }
    *ret_summary = summary;
    return STATUS_OK;
}

enum status pick_summary_add(struct pick_summary *summary, const char *micrograph, const char *star, struct err *err) {
    if (star_row_count(summary->table) == SUMMARY_PIECE) {
        TRY(write_piece(summary, err));
        TRY(begin_piece(summary, err));
    }
    size_t row = 0;
    TRY(star_row_add(summary->table, &row, err));
    TRY(star_set(summary->table, row, summary->micrograph, micrograph, err));
    return star_set(summary->table, row, summary->coordinates, star, err);
}

enum status pick_summary_commit(struct pick_summary *summary, struct err *err) {
    TRY(write_piece(summary, err));
    return star_writer_commit(&summary->writer, err);
}

void pick_summary_destroy(struct pick_summary **summary) {
    if (*summary == NULL) return;
    star_writer_discard(&(*summary)->writer);
    star_destroy(&(*summary)->file);
    mem_free(summary);
}
