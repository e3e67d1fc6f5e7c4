/* Reads and writes tables of text with commas between cells (RFC 4180). Cells may be quoted, with quotes in them
 * doubled. Lines end with LF or CRLF. The reader skips empty lines and a byte-order mark. */
#ifndef ICESTREAM_COMMON_FORMATS_CSV_H
#define ICESTREAM_COMMON_FORMATS_CSV_H

#include <stddef.h>
#include <stdio.h>

#include "common/status.h"

struct csv_row {
    int line; /* where the row begins, from 1 */
    int count;
    char **cells; /* UTF-8, or any bytes of the file, without blanks at their ends; owned by the table */
};

struct csv {
    struct csv_row *rows;
    size_t count;
    char *text; /* the cells point into it */
    char **cells;
};

/* Reads a whole file of at most 1 GiB. STATUS_BAD_FORMAT: a quote that is not closed, or a byte 0; the message names
 * file and line. */
enum status csv_read(const char *path, struct csv *ret_csv, struct err *err);
void csv_clear(struct csv *csv); /* accepts {0} */

/* Writes a cell, quoted where necessary. The caller writes commas and line ends. */
void csv_write(FILE *out, const char *cell);

#endif
