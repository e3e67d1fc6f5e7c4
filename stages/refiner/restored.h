/* What an iteration has left in its files, as it is read back: all of it, and such as an iteration can have written, or
 * nothing. */
#ifndef ICESTREAM_STAGES_REFINER_RESTORED_H
#define ICESTREAM_STAGES_REFINER_RESTORED_H

#include "common/formats/image.h"
#include "common/formats/star.h"
#include "stages/refiner/particles.h"
#include "stages/refiner/schedule.h"

struct restored {
    int classes, half_count; /* 1 and 2: of a refinement; else of a classification, which has no halves */
    int box, shells;
    double pixel_size, resolution; /* Å */
    int groups;                    /* of optics */
    struct restored_half {
        struct image *maps;                /* [classes]: box³ */
        double *shares;                    /* [classes] */
        double average_norm, sigma_offset; /* 1, px */
        float *sigma2;                     /* [groups][shells] */
    } half[2];
    struct schedule schedule; /* what its files do not hold is 0 */
    int whole_iterations;     /* of a classification */
    size_t whole_particles;
    struct star_file *data;
};

/* The last iteration below `before` that has a whole set of files below the folder, as far as names tell; 0: none. */
int restored_last(const char *folder, int before);
/* For a refinement (classes: 1) or a classification. An error says in which file what is wrong; STATUS_BAD_STATE: its
 * files are good, but of the other, or of other classes. */
enum status restored_read(const char *folder, int iteration, int classes, struct restored *ret_restored,
                          struct err *err);
void restored_clear(struct restored *restored);

/* Poses and classes of the table that restored_read has read, to particles of the set that have none. */
void restored_poses(const struct star_file *data, struct particle_set *set, int classes);

#endif
