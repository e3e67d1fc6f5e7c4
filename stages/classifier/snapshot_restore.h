/* Reads the files of a snapshot, and continues a classification from them. */
#ifndef ICESTREAM_STAGES_CLASSIFIER_SNAPSHOT_RESTORE_H
#define ICESTREAM_STAGES_CLASSIFIER_SNAPSHOT_RESTORE_H

#include "common/formats/image.h"
#include "stages/classifier/snapshot.h"

/* Returns the number of the last snapshot below `before` in the folder, by names of files alone; 0: none. */
int snapshot_last(const char *folder, int before);

/* Reads the box (px) and the pixel size (Å) of a snapshot's averages. */
enum status snapshot_grid(const char *folder, int iteration, int *ret_box, double *ret_pixel_size, struct err *err);

/* The content of a snapshot's files, checked to be such as a classification can have written. */
struct snapshot_state {
    int class_count, size;             /* without the empty class; Fourier px */
    double average_norm, sigma_offset; /* 1, px */
    double change;                     /* the last change of the session whose choices by hand the snapshot obeys */
    double particles, kept;
    bool final, normalised; /* normalised: images were found not to be, and all are */
    float *sigma2;          /* box/2+1 */
    double *fractions;      /* of the classes, then of the empty class if there is one */
    struct image stack;
    struct star_file *data; /* has a table of particles */
};
/* Reads the state of a model of these options, wholly or not at all. An error names the file and what is wrong with
 * it. */
enum status snapshot_read(const char *folder, int iteration, const struct model_options *options,
                          struct snapshot_state *ret_state, struct err *err);
void snapshot_state_clear(struct snapshot_state *state);
/* Gives the particles of the dataset their classes and poses. classes: with the empty class. root: of the snapshot.
 * diameter: Å; a particle of a micrograph that was picked again takes those of the one at its place
 * (particle_heirs.h). ret_known: how many particles the snapshot knows. ret_heirs: how many of these by their place; may
 * be NULL. */
enum status snapshot_particles(const struct snapshot_state *state, struct dataset *dataset, const char *root,
                               int classes, double diameter, size_t *ret_known, size_t *ret_heirs, struct err *err);

/* Restores averages, priors, noise, classes and poses from a snapshot. Start the classifier and merge its particles
 * before. Damaged files change nothing, so that the caller may try another snapshot. ret_final: the snapshot was the
 * last of a finished stream, and no particle has come since. */
enum status snapshot_restore(struct classifier *classifier, struct snapshot *snapshot, bool *ret_final,
                             struct err *err);

#endif
