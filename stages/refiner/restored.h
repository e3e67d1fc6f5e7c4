/* What an iteration has left in its files, as it is read back: all of it, and such as an iteration can have written, or
 * nothing. */
#ifndef ICESTREAM_STAGES_REFINER_RESTORED_H
#define ICESTREAM_STAGES_REFINER_RESTORED_H

#include "common/image.h"
#include "common/star.h"
#include "stages/refiner/refiner_private.h"

struct restored {
    int box, shells;
    double pixel_size, resolution; /* Å */
    int groups;                    /* of optics */
    struct restored_half {
        struct image map;                  /* box³ */
        double average_norm, sigma_offset; /* 1, px */
        float *sigma2;                     /* [groups][shells] */
    } half[2];
    struct schedule schedule; /* what its files do not hold is 0 */
    struct star_file *data;
};

/* The last iteration below `before` that has a whole set of files below the folder, as far as names tell; 0: none. */
int restored_last(const char *folder, int before);
/* An error says in which file what is wrong. */
enum status restored_read(const char *folder, int iteration, struct restored *ret_restored, struct err *err);
void restored_clear(struct restored *restored);

/* Poses of the table that restored_read has read, to particles of the set that have none. */
void restored_poses(const struct star_file *data, struct particle_set *set);

#endif
