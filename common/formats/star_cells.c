#include "common/formats/star_cells.h"

#include <math.h>

enum status star_cells_put(struct star_table *t, size_t row, const struct star_cell *cells, size_t count,
                           struct err *err) {
    for (size_t i = 0; i < count; i++) {
        const struct star_cell *c = &cells[i];
        int index;
        TRY(star_column_add(t, c->column, "0", &index, err));
        if (c->text != NULL)
            TRY(star_set(t, row, index, c->text, err));
        else
            TRY(c->integer ? star_set_integer(t, row, index, lround(c->value), err)
                           : star_set_number(t, row, index, c->value, err));
    }
    return STATUS_OK;
}

enum status star_cells_row(struct star_table *t, const struct star_cell *cells, size_t count, struct err *err) {
    size_t row;
    TRY(star_column_add(t, cells[0].column, "0", NULL, err));
    TRY(star_row_add(t, &row, err));
    return star_cells_put(t, row, cells, count, err);
}
