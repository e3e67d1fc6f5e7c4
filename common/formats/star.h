/* STAR files as RELION 3.0, 3.1, 4 and 5 write them: data blocks with loops or label-value pairs, quoting, comments.
 * Written as 3.1 ("# version 30001"). All values are kept as text, so columns that nobody here understands survive.
 * Column and label names are given without the leading underscore: "rlnCoordinateX". Rows and columns from 0. */
#ifndef ICESTREAM_COMMON_FORMATS_STAR_H
#define ICESTREAM_COMMON_FORMATS_STAR_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

struct star_file;  /* an ordered set of tables */
struct star_table; /* one data block; owned by its file */

enum status star_create(struct star_file **ret_file, struct err *err);
/* Errors name path and line. */
enum status star_read(const char *path, struct star_file **ret_file, struct err *err);
/* name stands for the path in messages. */
enum status star_parse(const char *name, const char *text, size_t length, struct star_file **ret_file, struct err *err);
/* Writes beside, syncs, renames: the file is whole or not there. */
enum status star_write(const struct star_file *file, const char *path, struct err *err);
void star_destroy(struct star_file **file);

/* The same table by table, for loops that are too long to be held: a table with its rows, then more rows of the same
 * columns out of other tables. */
struct star_writer;
enum status star_writer_create(const char *path, struct star_writer **ret_writer, struct err *err);
enum status star_writer_table(struct star_writer *writer, const struct star_table *table, struct err *err);
/* Goes on with the loop that was begun last. */
enum status star_writer_rows(struct star_writer *writer, const struct star_table *table, struct err *err);
enum status star_writer_commit(struct star_writer **writer, struct err *err);
/* Leaves what was at the path; accepts NULL, and does nothing after star_writer_commit. */
void star_writer_discard(struct star_writer **writer);

size_t star_table_count(const struct star_file *file);
struct star_table *star_table_at(struct star_file *file, size_t index);
/* The table data_NAME ("" for an unnamed block), or NULL. */
struct star_table *star_table_find(struct star_file *file, const char *name);
/* A new empty table at the end. is_loop: a loop, else label-value pairs: row 0 is there from the start. A block that
 * holds pairs and a loop is read as two tables of one name; star_table_find gives the first. */
enum status star_table_add(struct star_file *file, const char *name, bool is_loop, struct star_table **ret_table,
                           struct err *err);

const char *star_table_name(const struct star_table *table);
bool star_table_is_loop(const struct star_table *table);
size_t star_row_count(const struct star_table *table);
size_t star_column_count(const struct star_table *table);
const char *star_column_name(const struct star_table *table, size_t column);
/* Index of a column, or -1. */
int star_column_find(const struct star_table *table, const char *name);
/* Index of a column that must be there; the error names file, table and the nearest column that is. */
enum status star_column_need(const struct star_table *table, const char *name, int *ret_column, struct err *err);
/* The column's index; where it is absent it is added at the end, its cells filled with `fill` (NULL: empty).
 * ret_column may be NULL. */
enum status star_column_add(struct star_table *table, const char *name, const char *fill, int *ret_column,
                            struct err *err);
/* A row of empty cells at the end of a loop that has columns. ret_row may be NULL. */
enum status star_row_add(struct star_table *table, size_t *ret_row, struct err *err);

/* The text of a cell, never NULL, valid until that cell is set; "" for a row or column that is not there. */
const char *star_get(const struct star_table *table, size_t row, int column);
enum status star_get_number(const struct star_table *table, size_t row, int column, double *ret_value, struct err *err);
enum status star_get_integer(const struct star_table *table, size_t row, int column, long *ret_value, struct err *err);
/* A number between two others, of a column that must be there. */
enum status star_need_number(const struct star_table *table, size_t row, const char *column, double least, double most,
                             double *ret_value, struct err *err);
enum status star_set(struct star_table *table, size_t row, int column, const char *value, struct err *err);
/* As RELION prints: six decimals, or %g style where that would lose it. NaN is refused. */
enum status star_set_number(struct star_table *table, size_t row, int column, double value, struct err *err);
enum status star_set_integer(struct star_table *table, size_t row, int column, long value, struct err *err);

#endif
