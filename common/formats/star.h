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

/* Creates a file without tables. */
enum status star_create(struct star_file **ret_file, struct err *err);
/* Reads a file. Errors name path and line. */
enum status star_read(const char *path, struct star_file **ret_file, struct err *err);
/* Parses a text. name stands for the path in messages. */
enum status star_parse(const char *name, const char *text, size_t length, struct star_file **ret_file, struct err *err);
/* Does the same with a text that malloc made, whose byte after the end is 0, and takes it over, also on failure. */
enum status star_parse_taken(const char *name, char **text, size_t length, struct star_file **ret_file,
                             struct err *err);
/* Writes under another name, syncs, renames: the file is whole or not there. */
enum status star_write(const struct star_file *file, const char *path, struct err *err);
/* Frees a file and its tables, and sets the pointer to NULL. */
void star_destroy(struct star_file **file);

/* Writes a file table by table, for loops that are too long for memory: first a table with its rows, then more rows of
 * the same columns from other tables. */
struct star_writer;
/* Begins a file under another name; star_writer_commit renames it to `path`. */
enum status star_writer_create(const char *path, struct star_writer **ret_writer, struct err *err);
/* Writes a table with its rows. */
enum status star_writer_table(struct star_writer *writer, const struct star_table *table, struct err *err);
/* Writes the rows of a table as more rows of the last loop. */
enum status star_writer_rows(struct star_writer *writer, const struct star_table *table, struct err *err);
/* Completes the file, puts it in its place, and frees the writer, also on failure. */
enum status star_writer_commit(struct star_writer **writer, struct err *err);
/* Keeps the old file at the path. Accepts NULL; does nothing after star_writer_commit. */
void star_writer_discard(struct star_writer **writer);

/* Returns the number of tables. */
size_t star_table_count(const struct star_file *file);
/* Returns the table at `index`. */
struct star_table *star_table_at(struct star_file *file, size_t index);
/* Returns the table data_NAME ("" for an unnamed block), or NULL. */
struct star_table *star_table_find(struct star_file *file, const char *name);
/* Adds an empty table at the end. is_loop: a loop; else label-value pairs, whose row 0 exists from the start. A block
 * with pairs and a loop is read as two tables of one name; star_table_find returns the first. */
enum status star_table_add(struct star_file *file, const char *name, bool is_loop, struct star_table **ret_table,
                           struct err *err);

/* Returns the name of a table, without "data_". */
const char *star_table_name(const struct star_table *table);
/* Returns whether a table is a loop; if not, it holds label-value pairs. */
bool star_table_is_loop(const struct star_table *table);
/* Returns the number of rows; label-value pairs have one. */
size_t star_row_count(const struct star_table *table);
/* Returns the number of columns. */
size_t star_column_count(const struct star_table *table);
/* Returns the name of a column. */
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
/* Reads a number from a cell. STATUS_BAD_FORMAT: the cell holds other text. NaN and infinity are numbers here. */
enum status star_get_number(const struct star_table *table, size_t row, int column, double *ret_value, struct err *err);
/* Reads a whole number from a cell, also one with decimals of 0 (3.000000). STATUS_BAD_FORMAT: any other text. */
enum status star_get_integer(const struct star_table *table, size_t row, int column, long *ret_value, struct err *err);
/* Reads a number from a column that must exist; the number must lie between `least` and `most`. */
enum status star_need_number(const struct star_table *table, size_t row, const char *column, double least, double most,
                             double *ret_value, struct err *err);
/* Copies a text into a cell. */
enum status star_set(struct star_table *table, size_t row, int column, const char *value, struct err *err);
/* Sets a number as RELION prints it: six decimals, or %g style where six decimals would lose digits. Refuses NaN. */
enum status star_set_number(struct star_table *table, size_t row, int column, double value, struct err *err);
/* Sets a whole number. */
enum status star_set_integer(struct star_table *table, size_t row, int column, long value, struct err *err);

#endif
