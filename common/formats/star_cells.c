#include "common/formats/star_cells.h"

#include <math.h>

#include "common/formats/star_numbers.h"

enum status star_put_text(struct star_table *t, size_t row, const char *column, const char *text, struct err *err) {
    int index;
    TRY(star_column_add(t, column, star_missing(column), &index, err));
    return star_set(t, row, index, text, err);
}

enum status star_put_number(struct star_table *t, size_t row, const char *column, double value, struct err *err) {
    int index;
    TRY(star_column_add(t, column, star_missing(column), &index, err));
    return star_set_number(t, row, index, value, err);
}

enum status star_put_integer(struct star_table *t, size_t row, const char *column, long value, struct err *err) {
    int index;
    TRY(star_column_add(t, column, star_missing(column), &index, err));
    return star_set_integer(t, row, index, value, err);
}

enum status star_row_begin(struct star_table *t, const char *first_column, size_t *ret_row, struct err *err) {
    TRY(star_column_add(t, first_column, star_missing(first_column), NULL, err));
    return star_row_add(t, ret_row, err);
}

enum status star_row_copy(const struct star_table *from, size_t from_row, struct star_table *to, size_t to_row,
                          struct err *err) {
    for (size_t c = 0; c < star_column_count(from); c++)
        TRY(star_put_text(to, to_row, star_column_name(from, c), star_get(from, from_row, (int)c), err));
    return STATUS_OK;
}

enum status star_row_fill(struct star_table *t, size_t row, struct err *err) {
    for (size_t c = 0; c < star_column_count(t); c++)
        if (*star_get(t, row, (int)c) == '\0') TRY(star_set(t, row, (int)c, star_missing(star_column_name(t, c)), err));
    return STATUS_OK;
}

enum status star_cell_set(struct star_table *t, size_t row, int index, const struct star_cell *c, struct err *err) {
    if (c->text != NULL) return star_set(t, row, index, c->text, err);
    return c->integer ? star_set_integer(t, row, index, lround(c->value), err)
                      : star_set_number(t, row, index, c->value, err);
}

static enum status put_cell(struct star_table *t, size_t row, const struct star_cell *c, struct err *err) {
    int index;
    TRY(star_column_add(t, c->column, star_missing(c->column), &index, err));
    return star_cell_set(t, row, index, c, err);
}

enum status star_cells_put(struct star_table *t, size_t row, const struct star_cell *cells, size_t count,
                           struct err *err) {
    for (size_t i = 0; i < count; i++)
        if (!cells[i].unless) TRY(put_cell(t, row, &cells[i], err));
    return STATUS_OK;
}

enum status star_cells_row(struct star_table *t, const struct star_cell *cells, size_t count, struct err *err) {
    size_t row;
    TRY(star_row_begin(t, cells[0].column, &row, err));
    return star_cells_put(t, row, cells, count, err);
}
