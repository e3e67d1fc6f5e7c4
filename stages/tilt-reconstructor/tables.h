/* Writes tomograms.star: a row for each tomogram, with RELION's column names. */
#ifndef ICESTREAM_STAGES_TILT_RECONSTRUCTOR_TABLES_H
#define ICESTREAM_STAGES_TILT_RECONSTRUCTOR_TABLES_H

#include "common/formats/star.h"

struct tomogram_table;
/* Creates a table without rows. */
enum status tomogram_table_create(struct tomogram_table **ret_table, struct err *err);
void tomogram_table_destroy(struct tomogram_table **table);
/* Adds the row of a series, from its record. Adds none when the record is missing or the series has a row already. */
enum status tomogram_table_add(struct tomogram_table *table, const char *series, const char *record,
                               const char *relative, struct err *err);
/* Writes the table. */
enum status tomogram_table_write(const struct tomogram_table *table, const char *path, struct err *err);

#endif
