/* The table of all micrographs, or movies, of a stage, as RELION reads it: micrographs.star, micrographs_ctf.star,
 * movies.star. */
#ifndef ICESTREAM_COMMON_HARNESS_MICROGRAPH_TABLE_H
#define ICESTREAM_COMMON_HARNESS_MICROGRAPH_TABLE_H

#include "common/edges/item.h"
#include "common/status.h"

/* Columns that name the files of motion correction beside a micrograph, and the members of the item that hold them. */
struct micrograph_file {
    const char *column, *member;
};
enum { MICROGRAPH_FILES = 3 };
extern const struct micrograph_file micrograph_files[MICROGRAPH_FILES];

/* Writes a STAR file of micrographs: an optics table, and a row per micrograph with all numbers of its `columns` and
 * the files that it names. First note all items (this collects groups and columns), then begin, add each item as a row,
 * and commit. Rows are written in pieces, so that a long session needs no more memory. An item whose optics were not
 * noted gets no row. */
struct micrograph_table;
enum status micrograph_table_create(struct micrograph_table **ret_table, struct err *err);
/* Makes a table of movies: data_movies with rlnMicrographMovieName, from movie.path. */
enum status micrograph_table_create_movies(struct micrograph_table **ret_table, struct err *err);
void micrograph_table_destroy(struct micrograph_table **table);
enum status micrograph_table_note(struct micrograph_table *table, const struct item *item, struct err *err);
enum status micrograph_table_begin(struct micrograph_table *table, const char *path, struct err *err);
enum status micrograph_table_add(struct micrograph_table *table, const struct item *item, struct err *err);
enum status micrograph_table_commit(struct micrograph_table *table, struct err *err);

#endif
