/* Tables of text with commas between (RFC 4180): cells may be quoted, quotes in them doubled; lines end with LF or CRLF,
 * empty ones are passed over, as is a byte-order mark. */
#ifndef ICESTREAM_COMMON_FORMATS_CSV_H
#define ICESTREAM_COMMON_FORMATS_CSV_H

#include <stddef.h>
#include <stdio.h>

#include "common/status.h"

struct csv_row {
    int line; /* in which it begins, from 1 */
    int count;
    char **cells; /* UTF-8 or whatever the file holds, without blanks at their ends; owned by the table */
};

struct csv {
    struct csv_row *rows;
    size_t count;
    char *text; /* what cells point into */
    char **cells;
};

/* The whole file, at most 1 GiB of it. STATUS_BAD_FORMAT with file and line: a quote that is not closed, or a byte 0. */
enum status csv_read(const char *path, struct csv *ret_csv, struct err *err);
void csv_clear(struct csv *csv); /* of {0} too */

/* A cell, quoted where it must be. Commas and line ends between cells are the caller's. */
void csv_write(FILE *out, const char *cell);

#endif
