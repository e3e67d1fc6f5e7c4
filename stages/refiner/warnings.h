/* Warns about particles that make a map worse than it could be, which the map itself would not show. */
#ifndef ICESTREAM_STAGES_REFINER_WARNINGS_H
#define ICESTREAM_STAGES_REFINER_WARNINGS_H

#include "common/harness/stage.h"
#include "stages/refiner/refiner.h"

/* Warnings that the log has already. */
struct warned {
    size_t spoiled;      /* number of images that count as empty */
    size_t twins;        /* number of particles that are left out as twins */
    bool told_of_grids;  /* particles are resampled */
    bool told_of_mtf;    /* an MTF is missing */
    bool told_of_optics; /* the optics of particles are corrected */
    bool of_ctf;         /* particles have no CTF */
    bool of_background;  /* particles are not normalised */
    bool of_low_defocus; /* its unit is doubtful */
    bool of_negative_defocus;
    bool of_contrast; /* the reference fits no better than its inverse */
    bool of_cut;      /* the diameter cuts the reference */
    bool of_mask;     /* the mask was compared with the box */
};

/* Warns about the particles (refiner_doubts). Call it between iterations, or when one has begun. */
void warnings_of_particles(struct stage *stage, const struct refiner *refiner, struct warned *warned);
/* Warns if the final map does not have the symmetry that it was refined in, or if the diameter cuts it. Without an
 * answer the refinement is complete. */
void warnings_of_map(struct stage *stage, struct refiner *refiner);

#endif
