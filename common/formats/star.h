/* Reads and writes STAR files of RELION 3.0, 3.1, 4 and 5: data blocks with loops or label-value pairs, quotes,
 * comments. The writer writes version 3.1 ("# version 30001"). All values stay text, so unknown columns survive. Column
 * and label names are given without the leading underscore: "rlnCoordinateX". Rows and columns count from 0. */
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
/* Parses a text. name stands for the path in messages. */
enum status star_parse(const char *name, const char *text, size_t length, struct star_file **ret_file, struct err *err);
/* Writes under another name, syncs, renames: the file is whole or not there. */
enum status star_write(const struct star_file *file, const char *path, struct err *err);
void star_destroy(struct star_file **file);

/* Writes a file table by table, for loops that are too long for memory: first a table with its rows, then more rows of
 * the same columns from other tables. */
struct star_writer;
enum status star_writer_create(const char *path, struct star_writer **ret_writer, struct err *err);
enum status star_writer_table(struct star_writer *writer, const struct star_table *table, struct err *err);
/* Continues the last loop. */
enum status star_writer_rows(struct star_writer *writer, const struct star_table *table, struct err *err);
enum status star_writer_commit(struct star_writer **writer, struct err *err);
/* Keeps the old file at the path. Accepts NULL; does nothing after star_writer_commit. */
void star_writer_discard(struct star_writer **writer);

size_t star_table_count(const struct star_file *file);
struct star_table *star_table_at(struct star_file *file, size_t index);
/* Returns the table data_NAME ("" for an unnamed block), or NULL. */
struct star_table *star_table_find(struct star_file *file, const char *name);
/* Adds an empty table at the end. is_loop: a loop; else label-value pairs, whose row 0 exists from the start. A block
 * with pairs and a loop is read as two tables of one name; star_table_find returns the first. */
enum status star_table_add(struct star_file *file, const char *name, bool is_loop, struct star_table **ret_table,
                           struct err *err);

const char *star_table_name(const struct star_table *table);
bool star_table_is_loop(const struct star_table *table);
size_t star_row_count(const struct star_table *table);
size_t star_column_count(const struct star_table *table);
const char *star_column_name(const struct star_table *table, size_t column);
/* Returns the index of a column, or -1. */
int star_column_find(const struct star_table *table, const char *name);
/* Finds a column that must exist; the error names file, table and the most similar column. */
enum status star_column_need(const struct star_table *table, const char *name, int *ret_column, struct err *err);
/* Finds a column, or adds it at the end with cells `fill` (NULL: empty). ret_column may be NULL. */
enum status star_column_add(struct star_table *table, const char *name, const char *fill, int *ret_column,
                            struct err *err);
/* Adds a row of empty cells at the end of a loop that has columns. ret_row may be NULL. */
enum status star_row_add(struct star_table *table, size_t *ret_row, struct err *err);

/* Returns the text of a cell, never NULL, valid until the cell is set; "" for a row or column that does not exist. */
const char *star_get(const struct star_table *table, size_t row, int column);
enum status star_get_number(const struct star_table *table, size_t row, int column, double *ret_value, struct err *err);
enum status star_get_integer(const struct star_table *table, size_t row, int column, long *ret_value, struct err *err);
/* Reads a number from a column that must exist; the number must lie between `least` and `most`. */
enum status star_need_number(const struct star_table *table, size_t row, const char *column, double least, double most,
                             double *ret_value, struct err *err);
enum status star_set(struct star_table *table, size_t row, int column, const char *value, struct err *err);
/* Sets a number as RELION prints it: six decimals, or %g style where six decimals would lose digits. Refuses NaN. */
enum status star_set_number(struct star_table *table, size_t row, int column, double value, struct err *err);
enum status star_set_integer(struct star_table *table, size_t row, int column, long value, struct err *err);

#endif
