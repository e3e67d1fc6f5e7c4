/* Remembers the selection that was sent last, and writes what the next one changes in it. */
#ifndef ICESTREAM_STAGES_CLASSIFIER_SELECTION_H
#define ICESTREAM_STAGES_CLASSIFIER_SELECTION_H

#include <stdint.h>

#include "common/digest.h"
#include "stages/classifier/dataset.h"

/* Begin with a struct of zeros. */
struct selection {
    char id[32]; /* of its item; "": no selection */
    size_t count;
    uint64_t digest;        /* of its particles' names (common/formats/selection_changes.h) */
    unsigned char *members; /* [room]: 1 for those of the dataset's particles that are in it */
    size_t room;
    uint64_t columns; /* digest of the names of its columns */
    uint64_t *optics; /* [optics_count]: digests of the rows of its optics table */
    size_t optics_count;
    size_t told; /* particles that files of changes have told since the last selection without one */
};

/* Describes the whole table of a selection: its rows are those of the particles which[count] of the dataset. */
struct selection_rows {
    const struct dataset *dataset;
    const char *root; /* as in struct snapshot */
    struct star_file *file;
    const size_t *which;
    size_t count;
};

/* Describes the selection in place of what `selection` held. */
enum status selection_take(struct selection *selection, const char *id, const struct selection_rows *rows,
                           struct err *err);
/* Writes what has changed since an earlier selection of the same dataset into a file, unless that is no gain: the rows
 * that stay would be of another form, or the files of changes would tell more than half of the particles. ret_digest: of
 * the file, "": it was not written. */
enum status selection_write_changes(struct selection *selection, const struct selection *since,
                                    const struct selection_rows *rows, const char *path, char ret_digest[DIGEST_SIZE],
                                    struct err *err);
void selection_clear(struct selection *selection);

#endif
