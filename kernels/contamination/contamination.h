/* Where a micrograph shows no particles: ice crystals, carbon, gold, dirt, and borders that a detector or a program
 * filled.
 *
 * Contamination is told from particles by what it does to low frequencies: it takes electrons away over its whole
 * width, whereas particles in focus contrast hardly change the mean over their own width. After a smooth background
 * (illumination, ice thickness) is taken off, the mean over boxes of 1, 0.7, 0.5 and 0.25 of the particle's diameter is
 * compared with the micrograph's usual. "Usual" is the densest interval that holds 30 % of all pixels, so most of a
 * micrograph may be contaminated; of two such modes the brighter is ice. Places beyond the threshold are marked up to
 * half of their contrast, together with what continues them. Then, in what remains, regions wider than a particle that
 * are far rougher than the rest are marked, and islands that contamination cuts off.
 *
 * Objects of the size of a particle that occur often and alike are particles, however strong; only what is far stronger
 * than they are is marked among them. */
#ifndef ICESTREAM_KERNELS_CONTAMINATION_CONTAMINATION_H
#define ICESTREAM_KERNELS_CONTAMINATION_CONTAMINATION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/status.h"

/* Pixels x0 ≤ x < x1, y0 ≤ y < y1. */
struct contamination_area {
    int x0, y0, x1, y1;
};

struct contamination_options {
    int work;         /* width and height of the map, px */
    double diameter;  /* of the particle, px of the map */
    double threshold; /* standard deviations of the box means */
    bool bright;      /* contamination is brighter than ice: contrast is inverted */
};
/* A threshold that leaves all particles of clean micrographs and takes ice that a person sees at once. */
#define CONTAMINATION_THRESHOLD 10.5

struct contamination;

enum status contamination_create(const struct contamination_options *options, struct contamination **ret_contamination,
                                 struct err *err);
void contamination_destroy(struct contamination **contamination);
const struct contamination_options *contamination_options(const struct contamination *contamination);

/* map: [work][work], mean about 0; the micrograph is in `area`. mask: [work][work], 1 where no particle may have its
 * centre, 0 elsewhere and outside of the area. Returns the part of the area that is marked. Allocates nothing; not to
 * be called at once by several threads with the same plan. */
double contamination_run(struct contamination *contamination, const float *map, const struct contamination_area *area,
                         uint8_t *mask);

/* The part of a micrograph [ny][nx] that holds data: without lines at its edges that repeat their neighbours or are
 * constant or no numbers, as left by motion correction, filters and detectors. Looks at a few dozen lines of each edge,
 * and further only where those are filled. An area of nothing (x0 = x1) when all of it is. */
struct contamination_area contamination_data_area(const float *micrograph, int nx, int ny);

#endif
