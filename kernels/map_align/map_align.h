/* Finds the rotation, the shift and the hand that bring one map onto another, wherever the two come from.
 *
 * Maps are box³ floats in host memory, x fastest; their origin is the voxel box/2 of each axis. With R and s the aligned
 * map is
 *     aligned(x) = moved(Rᵀ (x − s)), or moved(−Rᵀ (x − s)) if the hand is inverted:
 * content is inverted, then rotated by R, then moved by +s. On the CPU.
 *
 * Both maps are moved to their centres of mass and cut to a sphere. Their transforms are compared on central planes of
 * Fourier space, each shell divided by the root of its powers. The power is that of the maps without their rotational
 * averages: a ball that the two share must not hide what differs.
 *
 * 1. A grid: the sampling of order 2 (15°, 4,608 rotations) × 33 shifts × 2 hands, up to an eighth of the diameter. As a
 *    matrix product: the transform of a real map that is inverted is the conjugate, so hands cost no samples.
 * 2. The best 20 that lie apart are refined over 3 angles and 3 shifts, then the best 5 of these, with more and more
 *    shells up to `finest`, and last with shells weighted by how well they agree. */
#ifndef ICESTREAM_KERNELS_MAP_ALIGN_MAP_ALIGN_H
#define ICESTREAM_KERNELS_MAP_ALIGN_MAP_ALIGN_H

#include <stdbool.h>

#include "common/status.h"
#include "kernels/symmetry/symmetry.h"

struct map_align_options {
    int box;                         /* px, even */
    double pixel_size;               /* Å */
    double diameter;                 /* Å: of the soft sphere that both maps are cut to */
    double coarsest, finest;         /* Å: shells that are compared */
    bool hands;                      /* whether the other hand is tried too */
    const struct symmetry *symmetry; /* of the fixed map, about its own axes: its copies are not searched. NULL: C1 */
    int threads;                     /* 0 counts as 1 */
};

struct map_alignment {
    double rotation[9]; /* R, row-major */
    double shift[3];    /* s, px: x, y, z */
    bool inverted;
    double
        score; /* 0 to 1: mean FSC over the shells that are compared, of the maps without their rotational averages */
};

struct map_aligner;

/* Creates plans and takes memory. The options are copied; the symmetry is used here only. Fails if the shells or the
 * sphere do not fit the box. */
enum status map_align_create(const struct map_align_options *options, struct map_aligner **ret_aligner,
                             struct err *err);
void map_align_destroy(struct map_aligner **aligner);

/* Finds how `moved` lies on `fixed`. Maps must be finite. A map without any structure has the score 0. The result does
 * not depend on the number of threads. */
enum status map_align_find(struct map_aligner *aligner, const float *fixed, const float *moved,
                           struct map_alignment *ret_alignment, struct err *err);
/* Makes the aligned map, ret_aligned[box³] (not `moved`). Interpolates in Fourier space. Cuts `moved` to the sphere
 * inside its box, and frequencies to those within Nyquist in every direction. */
enum status map_align_apply(struct map_aligner *aligner, const struct map_alignment *alignment, const float *moved,
                            float *ret_aligned, struct err *err);

/* Subtracts from a map its average over all rotations about the voxel box/2, V - V_rad. In Fourier space, so that no
 * shell changes another one: a shell of noise stays one. box: even, 2 to 2048. */
enum status map_align_without_radial(int box, float *map, struct err *err);

#endif
