/* Shared by star.c (tables in memory), star_read.c and star_write.c. */
#ifndef ICESTREAM_COMMON_FORMATS_STAR_PRIVATE_H
#define ICESTREAM_COMMON_FORMATS_STAR_PRIVATE_H

#include "common/formats/star.h"

struct star_chunk; /* a piece of memory for values */

struct star_column {
    const char *name;
    const char *fill; /* shared by the cells that star_column_add filled, so never overwritten */
};

struct star_table {
    struct star_file *file;
    const char *name;
    bool is_loop;
    struct star_column *columns;
    size_t column_count, column_capacity;
    size_t last_found;  /* by star_column_add */
    const char **cells; /* [row * column_capacity + column] */
    size_t row_count, row_capacity;
};

struct star_file {
    char *path;
    char *text; /* the parsed text, into which cells point; NULL for a new file */
    struct star_table **tables;
    size_t table_count, table_capacity;
    struct star_chunk *chunks;
};

/* Copies length bytes and a 0 into the file's memory. */
enum status star_keep(struct star_file *file, const char *text, size_t length, char **ret_copy, struct err *err);
/* As star_column_add, but keeps the pointer to the name. The column must be new. */
enum status star_column_append(struct star_table *table, const char *name, const char *fill, struct err *err);
/* As star_row_add, but leaves the cells unset: the caller sets all of them, or destroys the file. */
enum status star_row_append(struct star_table *table, size_t *ret_row, struct err *err);
/* Does the same for several rows, of which *ret_row is the first. */
enum status star_rows_append(struct star_table *table, size_t count, size_t *ret_row, struct err *err);
/* As star_table_add, but keeps the pointer to the name and allows any name. */
enum status star_table_append(struct star_file *file, const char *name, struct star_table **ret_table, struct err *err);
/* Returns whether a text is a keyword (data_*, loop_, save_, stop_, global_) that may stand in place of a value. */
bool star_is_keyword(const char *text);

#endif
