/* Reads the files of a snapshot, and continues a classification from them. */
#ifndef ICESTREAM_STAGES_CLASSIFIER_SNAPSHOT_RESTORE_H
#define ICESTREAM_STAGES_CLASSIFIER_SNAPSHOT_RESTORE_H

#include "common/formats/image.h"
#include "stages/classifier/snapshot.h"

/* The number of the last complete snapshot before that one below the folder, as far as names tell; 0: none. */
int snapshot_last(const char *folder, int before);

/* What a snapshot's files hold: all of it, and such as a classification can have written, or nothing. */
struct snapshot_state {
    int class_count, size;             /* without the empty class; Fourier px */
    double average_norm, sigma_offset; /* 1, px */
    double particles, kept;
    bool final;
    float *sigma2;     /* box/2+1 */
    double *fractions; /* of the classes, then of the empty one where there is one */
    struct image stack;
    struct star_file *data; /* has a table of particles */
};
/* For a model of these options. An error says in which file what is wrong. */
enum status snapshot_read(const char *folder, int iteration, const struct model_options *options,
                          struct snapshot_state *ret_state, struct err *err);
void snapshot_state_clear(struct snapshot_state *state);
/* Its particles' classes and poses, to those of the dataset; classes: the empty one included. root: that of the snapshot.
 * ret_known: how many. */
enum status snapshot_particles(const struct snapshot_state *state, struct dataset *dataset, const char *root,
                               int classes, size_t *ret_known, struct err *err);

/* Averages, priors, noise and assignments from a snapshot. The classifier has been started and its particles merged.
 * Files that are not whole change nothing: another snapshot may be tried. ret_final: it was the last of a finished
 * stream, and no particle has come since. */
enum status snapshot_restore(struct classifier *classifier, struct snapshot *snapshot, bool *ret_final,
                             struct err *err);

#endif
