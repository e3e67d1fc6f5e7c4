/* Writes cells and rows of STAR tables by the names of their columns. A column that a table lacks is added; rows
 * that the table has already get "0" in it. */
#ifndef ICESTREAM_COMMON_FORMATS_STAR_CELLS_H
#define ICESTREAM_COMMON_FORMATS_STAR_CELLS_H

#include "common/formats/star.h"

enum status star_put_text(struct star_table *table, size_t row, const char *column, const char *text, struct err *err);
enum status star_put_number(struct star_table *table, size_t row, const char *column, double value, struct err *err);
enum status star_put_integer(struct star_table *table, size_t row, const char *column, long value, struct err *err);

/* Adds a row to a loop that may have no column yet: first_column is added before the row. */
enum status star_row_begin(struct star_table *table, const char *first_column, size_t *ret_row, struct err *err);
/* Copies all columns of a row into a row of another table. */
enum status star_row_copy(const struct star_table *from, size_t from_row, struct star_table *to, size_t to_row,
                          struct err *err);
/* Writes "0" into the empty cells of a row: RELION wants a value in each column. */
enum status star_row_fill(struct star_table *table, size_t row, struct err *err);

/* One cell of a list of cells. */
struct star_cell {
    const char *column;
    double value;
    bool integer;     /* write the value rounded, without decimals */
    const char *text; /* written in place of the value, unless NULL */
    bool unless;      /* true: leave the cell out; its column is not added */
};

/* Writes cells of one row. */
enum status star_cells_put(struct star_table *table, size_t row, const struct star_cell *cells, size_t count,
                           struct err *err);
/* Adds a row of these cells to a loop that may have no column yet. The first cell may not be left out. */
enum status star_cells_row(struct star_table *table, const struct star_cell *cells, size_t count, struct err *err);

#endif
