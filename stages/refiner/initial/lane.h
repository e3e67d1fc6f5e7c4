/* A lane compares particles with the maps of one start at a time, and makes maps from sums. On a device several lanes
 * work side by side, each for another start: the kernels of one run while the host waits for those of another, since a
 * start alone is too small to keep a device busy. */
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
    int threads, shells, classes; /* classes: maps of a start */
    int compared;                 /* maps that particles are compared with, at most `classes` */
    struct alignment *alignment;
    struct workspace *workspace;          /* the alignment's, for references and maps; NULL: host memory */
    struct projector **projectors;        /* [classes] */
    struct sampling grids[STARTS_ORDERS]; /* by order, from 1 on */
    struct accumulator **sums;            /* [classes]: of the particles that were compared last */
    float *tau2;                          /* [classes][shells] */
    float *log_prior;                     /* [classes]: of the maps that are compared */
    int room;
    struct alignment_particle *particles; /* [room] */
    struct alignment_result *results;     /* [room] */
    float *powers;                        /* [room][shells] */
    float *weights;                       /* [room][classes]: of the classes; not of those that are not compared */
};

/* Returns the device of a lane: lanes are dealt out to the devices in turn. */
struct device lane_device(const struct starts_options *options, int lane);
/* Plans lanes for so many starts, on all devices. memory: GiB on each device, 0: what is free. ret_memory: bytes of each
 * lane, as many as if there were one device: what a lane adds up in one go follows from its memory. */
enum status lane_plan(const struct starts_options *options, int starts, int *ret_count, double *ret_memory,
                      struct err *err);

/* Opens a lane. options: memory and threads are those of this lane alone. images and pixels stay the caller's. */
enum status lane_open(const struct initial_images *images, const struct fourier_pixels *pixels,
                      const struct alignment_options *options, const struct starts_options *starts, struct lane *lane,
                      struct err *err);
void lane_close(struct lane *lane);

/* Takes the maps[count][box³] that particles are compared with, up to `size`, and as probable as each other. */
enum status lane_set_maps(struct lane *lane, const float *maps, int count, int size, struct err *err);
/* Compares members at[count] with those maps, and leaves what they give them in lane->sums, what was found in
 * lane->results. iteration: all but the reference and the sums. */
enum status lane_compare(struct lane *lane, const struct alignment_iteration *iteration, const int *at, int count,
                         struct err *err);
/* Makes a map (box³) from sums, which stay as they are; lane->sums are lost. tau2[shells]: the prior. */
enum status lane_make_map(struct lane *lane, const struct accumulator *sums, const float *tau2, double fudge,
                          float *ret_map, struct err *err);

#endif
