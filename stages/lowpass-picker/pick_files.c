#include "stages/lowpass-picker/pick_files.h"

#include "common/formats/star.h"

static enum status fill(struct star_table *table, const struct pick_list *picks, struct err *err) {
    int x = 0, y = 0, class_number = 0, merit = 0, psi = 0;
    TRY(star_column_add(table, "rlnCoordinateX", "0", &x, err));
    TRY(star_column_add(table, "rlnCoordinateY", "0", &y, err));
    TRY(star_column_add(table, "rlnClassNumber", "0", &class_number, err));
    TRY(star_column_add(table, "rlnAutopickFigureOfMerit", "0", &merit, err));
    TRY(star_column_add(table, "rlnAnglePsi", "0", &psi, err));
    for (size_t i = 0; i < picks->count; i++) {
        const struct pick *pick = &picks->items[i];
        size_t row = 0;
        TRY(star_row_add(table, &row, err));
        TRY(star_set_number(table, row, x, pick->x, err));
        TRY(star_set_number(table, row, y, pick->y, err));
        TRY(star_set_integer(table, row, class_number, pick->class_number, err));
        TRY(star_set_number(table, row, merit, pick->merit, err));
        TRY(star_set_number(table, row, psi, pick->psi, err));
    }
    return STATUS_OK;
}

enum status pick_files_write(const char *path, const struct pick_list *picks, struct err *err) {
    struct star_file *file = NULL;
    struct star_table *table = NULL;
    TRY(star_create(&file, err));
    enum status status = star_table_add(file, "", true, &table, err);
    if (status == STATUS_OK) status = fill(table, picks, err);
    if (status == STATUS_OK) status = star_write(file, path, err);
    star_destroy(&file);
    return status;
}
