/* A lane compares particles with the map of one start at a time, and makes maps from sums. On a device several lanes work
 * side by side, each for another start: the kernels of one run while the host waits for those of another, since a start
 * alone is too small to keep a device busy. */
#ifndef ICESTREAM_STAGES_REFINER_INITIAL_LANE_H
#define ICESTREAM_STAGES_REFINER_INITIAL_LANE_H

#include "kernels/alignment/alignment.h"
#include "kernels/projector/projector.h"
#include "kernels/reconstruct/reconstruct.h"
#include "kernels/sampling/sampling.h"
#include "stages/refiner/initial/images.h"
#include "stages/refiner/initial/starts.h"

struct lane {
    const struct initial_images *images;
    const struct fourier_pixels *pixels;
    const struct symmetry *symmetry;
    int threads, shells;
    struct alignment *alignment;
    struct workspace *workspace; /* the alignment's, for references and maps; NULL: host memory */
    struct projector *projector;
    struct sampling grids[STARTS_ORDERS]; /* by order, from 1 on */
    struct accumulator *sums;             /* of the particles that were compared last */
    float *tau2;                          /* [shells] */
    int room;
    struct alignment_particle *particles; /* [room] */
    struct alignment_result *results;     /* [room] */
    float *powers;                        /* [room][shells] */
};

/* Plans lanes for so many starts. memory: GiB for all of them, 0: what is free. ret_memory: bytes of each. */
enum status lane_plan(const struct starts_options *options, int starts, int *ret_count, double *ret_memory,
                      struct err *err);

/* Opens a lane. options: memory and threads are those of this lane alone. images and pixels stay the caller's. */
enum status lane_open(const struct initial_images *images, const struct fourier_pixels *pixels,
                      const struct alignment_options *options, const struct starts_options *starts, struct lane *lane,
                      struct err *err);
void lane_close(struct lane *lane);

/* Takes the map (box³) that particles are compared with, up to `size`. */
enum status lane_set_map(struct lane *lane, const float *map, int size, struct err *err);
/* Compares members at[count] with that map, and leaves what they give it in lane->sums, what was found in lane->results.
 * iteration: all but the reference and the sums. */
enum status lane_compare(struct lane *lane, const struct alignment_iteration *iteration, const int *at, int count,
                         struct err *err);
/* Makes a map (box³) from sums, which stay as they are; lane->sums are lost. The prior is lane->tau2. */
enum status lane_make_map(struct lane *lane, const struct accumulator *sums, double fudge, float *ret_map,
                          struct err *err);

#endif
