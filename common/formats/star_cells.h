/* Rows of STAR tables, written value by value. */
#ifndef ICESTREAM_COMMON_FORMATS_STAR_CELLS_H
#define ICESTREAM_COMMON_FORMATS_STAR_CELLS_H

#include "common/formats/star.h"

struct star_cell {
    const char *column;
    double value;
    bool integer;
    const char *text; /* in place of the value, unless NULL */
};

/* The columns that are new are added. */
enum status star_cells_put(struct star_table *table, size_t row, const struct star_cell *cells, size_t count,
                           struct err *err);
/* A row of a loop that may have no column yet. */
enum status star_cells_row(struct star_table *table, const struct star_cell *cells, size_t count, struct err *err);

#endif
