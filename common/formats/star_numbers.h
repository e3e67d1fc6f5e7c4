/* Tells numbers, texts and broken numbers of STAR tables apart. Programs write "nan" or "inf" where a fit failed, and a
 * damaged file may hold any text. Such a cell is never a value: whoever reads it leaves the column out and says why.
 *
 * Tables that are joined need a text where a row has no value. RELION reads each text that is no number as 0, and has
 * no text of its own for a missing number. "nan" is what other readers take for missing, and what icestream reads
 * so. */
#ifndef ICESTREAM_COMMON_FORMATS_STAR_NUMBERS_H
#define ICESTREAM_COMMON_FORMATS_STAR_NUMBERS_H

#include "common/formats/star.h"

enum star_cell_kind {
    STAR_CELL_NUMBER, /* finite */
    STAR_CELL_TEXT,   /* a text in a column of texts */
    STAR_CELL_BROKEN, /* "nan", "inf", an empty cell or a text where a number belongs */
};

/* Reads a cell. *ret_value: set for STAR_CELL_NUMBER only. The column must exist. */
enum star_cell_kind star_cell_read(const struct star_table *table, size_t row, int column, double *ret_value);

enum { STAR_CELL_PROBLEM = 320 };
/* Writes "row 3 of data_micrographs: rlnDefocusU is "nan"" for a message; the row counts from 1. */
void star_cell_problem(const struct star_table *table, size_t row, int column, char ret_text[STAR_CELL_PROBLEM]);

/* Returns whether a column is part of a micrograph's CTF (defocus, phase shift, envelope). Without one of these values
 * the others describe another CTF. */
bool star_column_is_ctf(const char *name);

/* Returns what stands for a missing value in a column: "nan" for a number; "0" for RELION's whole numbers, which count
 * from 1; "None" for a name. */
const char *star_missing(const char *name);

#endif
