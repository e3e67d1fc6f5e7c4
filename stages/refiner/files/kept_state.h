/* Reads back what an iteration has kept in its files: all of it, with values that an iteration can have written, or
 * nothing. */
#ifndef ICESTREAM_STAGES_REFINER_FILES_KEPT_STATE_H
#define ICESTREAM_STAGES_REFINER_FILES_KEPT_STATE_H

#include "common/formats/image.h"
#include "common/formats/star.h"
#include "stages/refiner/particles.h"
#include "stages/refiner/refiner.h"
#include "stages/refiner/schedule.h"
#include "stages/refiner/signal.h"

struct kept_state {
    int classes, side_count; /* 1 and 2: of a refinement; else of a classification, which has one side */
    int box, shells;
    double pixel_size, resolution, told; /* Å */
    enum refiner_unresolved unresolved;
    int groups; /* of optics */
    struct kept_side {
        struct image *maps;                /* [classes]: box³ */
        double *shares;                    /* [classes] */
        double average_norm, sigma_offset; /* 1, px */
        float *sigma2;                     /* [groups][shells] */
    } sides[2];
    struct signal signal;
    bool normalised;          /* images were normalised in memory */
    bool inverted;            /* maps and poses have the other hand than the reference (hand.h) */
    struct schedule schedule; /* members that the files do not hold are 0 */
    struct star_file *data;
};

/* Returns the last iteration before `before` whose files below the folder are complete, judged by their names; 0:
 * none. */
int kept_state_last(const char *folder, int before);
/* Reads the files of a refinement (classes: 1) or of a classification. An error names the file and what is wrong
 * with it. STATUS_BAD_STATE: the files are good, but of the other kind, or with other classes. */
enum status kept_state_read(const char *folder, int iteration, int classes, struct kept_state *ret_state,
                            struct err *err);
void kept_state_clear(struct kept_state *state);

/* Gives the poses and classes of the table that kept_state_read has read to particles of the set that have none,
 * and names the twins that it has left out. */
void kept_state_poses(const struct star_file *data, struct particle_set *set, int classes);

#endif
