/* Reads and writes what a file says of a selection of particles beside its rows, if it holds only what has changed
 * since another selection (docs/protocol.md, "Changes of a selection"): the block data_changes. A digest of names tells
 * one set of particles from another, whatever the order of its rows. */
#ifndef ICESTREAM_COMMON_FORMATS_SELECTION_CHANGES_H
#define ICESTREAM_COMMON_FORMATS_SELECTION_CHANGES_H

#include <stddef.h>
#include <stdint.h>

#include "common/formats/star.h"

enum { SELECTION_ID_SIZE = 64 };

struct selection_changes {
    char since[SELECTION_ID_SIZE]; /* id of the item whose selection had these particles: */
    size_t since_count, count;     /* particles then, and now */
    uint64_t since_digest, digest; /* sums of selection_digest over their names, then and now */
};

/* Returns what a particle adds to the digest of its set. name: rlnImageName as the table has it. */
uint64_t selection_digest(const char *name);
/* Makes a file of changes. whole: the file of the whole selection; rows[row_count]: those of its rows that are new or
 * have changed, rising from 0 on; removed[removed_count]: names of particles that have left. */
enum status selection_changes_make(const struct selection_changes *changes, struct star_file *whole, const size_t *rows,
                                   size_t row_count, const char *const *removed, size_t removed_count,
                                   struct star_file **ret_file, struct err *err);
/* Reads the block. path: for the message. */
enum status selection_changes_read(struct star_file *file, const char *path, struct selection_changes *ret_changes,
                                   struct err *err);

/* Other tables of such a file: rows of the whole table in which the rows of data_particles stand, from 1 on, and the
 * names of particles that have left. */
#define SELECTION_ROWS "rows"
#define SELECTION_ROW "icestreamRow"
#define SELECTION_REMOVED "removed"
#define SELECTION_REMOVED_NAME "icestreamRemoved"

#endif
