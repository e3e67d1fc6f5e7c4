/* Writes cells and rows of STAR tables by the names of their columns. A column that a table lacks is added; the rows
 * before hold star_missing() in it. */
#ifndef ICESTREAM_COMMON_FORMATS_STAR_CELLS_H
#define ICESTREAM_COMMON_FORMATS_STAR_CELLS_H

#include "common/formats/star.h"

/* Write one cell of an existing row. */
enum status star_put_text(struct star_table *table, size_t row, const char *column, const char *text, struct err *err);
enum status star_put_number(struct star_table *table, size_t row, const char *column, double value, struct err *err);
enum status star_put_integer(struct star_table *table, size_t row, const char *column, long value, struct err *err);

/* Adds a row to a loop. Adds first_column before, because a loop without columns cannot have rows. */
enum status star_row_begin(struct star_table *table, const char *first_column, size_t *ret_row, struct err *err);
/* Copies all columns of a row into a row of another table. */
enum status star_row_copy(const struct star_table *from, size_t from_row, struct star_table *to, size_t to_row,
                          struct err *err);
/* Writes star_missing() into the empty cells of a row: RELION wants a value in each column. */
enum status star_row_fill(struct star_table *table, size_t row, struct err *err);

/* One cell of a row, with its column's name and its value. */
struct star_cell {
    const char *column;
    double value;
    bool integer;     /* write the value rounded, without decimals */
    const char *text; /* written in place of the value, unless NULL */
    bool unless;      /* true: leave the cell out; its column is not added */
};

/* Writes a cell into the column at `index`, whatever its name; ignores cell->unless. */
enum status star_cell_set(struct star_table *table, size_t row, int index, const struct star_cell *cell,
                          struct err *err);
/* Writes cells[count] into one row. */
enum status star_cells_put(struct star_table *table, size_t row, const struct star_cell *cells, size_t count,
                           struct err *err);
/* Adds a row with cells[count] to a loop, which need not have columns. cells[0].unless must be false. */
enum status star_cells_row(struct star_table *table, const struct star_cell *cells, size_t count, struct err *err);

#endif
