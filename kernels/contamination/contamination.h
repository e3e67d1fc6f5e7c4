/* Finds the parts of a micrograph that cannot hold particles: ice crystals, carbon, gold, dirt, and borders that a
 * detector or a program filled.
 *
 * Contamination differs from particles at low frequencies: it absorbs electrons over its whole width, whereas particles
 * in focus contrast hardly change the mean over their own width. The algorithm subtracts a smooth background
 * (illumination, ice thickness), and compares the mean over boxes of 1, 0.7, 0.5 and 0.25 of the particle's diameter
 * with the usual mean of the micrograph. "Usual" is the densest interval that holds 30 % of all pixels, so most of a
 * micrograph may be contaminated; of two such modes the brighter one is ice. Places beyond the threshold are marked up
 * to half of their contrast, together with their continuations. In the rest of the micrograph the algorithm then marks
 * regions wider than a particle that are far rougher than their surroundings, and islands cut off by contamination.
 *
 * Objects of a particle's size that occur often and look alike are particles. Among them only far stronger objects are
 * marked. Facetted crystals can be alike too: a population that is stronger than particles of this size can be, and has
 * no bright halos of defocus, is marked. */
#ifndef ICESTREAM_KERNELS_CONTAMINATION_CONTAMINATION_H
#define ICESTREAM_KERNELS_CONTAMINATION_CONTAMINATION_H

#include <stdbool.h>
#include <stddef.h>
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
    double particles; /* thresholds; objects that are alike and stronger are particles only if they have bright halos */
    bool bright;      /* contamination is brighter than ice: contrast is inverted */
};
/* This threshold spares all particles of clean micrographs, and marks ice that a person sees at once. */
#define CONTAMINATION_THRESHOLD 10.5

struct contamination;

/* Creates a plan for maps of the given size. */
enum status contamination_create(const struct contamination_options *options, struct contamination **ret_contamination,
                                 struct err *err);
void contamination_destroy(struct contamination **contamination);
/* Returns the options that the plan was created with. */
const struct contamination_options *contamination_options(const struct contamination *contamination);

/* Marks contamination. map: [work][work], mean about 0; the micrograph lies in `area`. mask: [work][work], 1 where no
 * particle may have its centre, 0 elsewhere and outside the area. Returns the marked part of the area. Allocates
 * nothing. Only one thread at a time may use a plan. */
double contamination_run(struct contamination *contamination, const float *map, const struct contamination_area *area,
                         uint8_t *mask);

enum { CONTAMINATION_BINS = 8192 };
/* Finds the usual value: the middle of the densest interval that holds 30 % of the values, and the deviation of the mode
 * around it. bins: [CONTAMINATION_BINS], scratch. count > 0. brighter: take the brighter of two modes. */
void contamination_usual(uint32_t *bins, const float *values, size_t count, bool brighter, float *ret_middle,
                         float *ret_spread);

/* Returns the part of a micrograph [ny][nx] that holds data. Excludes lines at the edges that repeat their neighbours,
 * are constant, or are NaN, as motion correction, filters and detectors leave them. Looks at a few dozen lines of each
 * edge, and at more only if these are filled. The area is empty (x0 = x1) if the whole micrograph is filled. */
struct contamination_area contamination_data_area(const float *micrograph, int nx, int ny);

#endif
