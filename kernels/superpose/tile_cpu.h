/* Tiles of pairs on the CPU. Structures lie in panels of SUPERPOSE_LANES: float [atoms][3][lanes], centred, times √w,
 * so that a vector holds the same coordinate of neighbouring structures and R comes out of the product as vectors of
 * pairs. */
#ifndef ICESTREAM_KERNELS_SUPERPOSE_TILE_CPU_H
#define ICESTREAM_KERNELS_SUPERPOSE_TILE_CPU_H

#include <stddef.h>

#include "kernels/superpose/superpose.h"

enum { SUPERPOSE_LANES = 8, SUPERPOSE_BATCH = SUPERPOSE_LANES * SUPERPOSE_LANES };

/* The pairs of two panels, or of one structure with as many others. */
struct superpose_batch {
    _Alignas(64) double r[9][SUPERPOSE_BATCH];
    double norms[SUPERPOSE_BATCH]; /* G_p + G_q */
    double rmsd[SUPERPOSE_BATCH];
};

/* How products in single precision are summed: with vectors of half a panel, of whole panels, or two structures at a
 * time with whole panels. These fit 16 registers of 128 bits, 16 of 256, or 32 of 256. Each runs on any processor; by
 * default the one that fits the processor's registers. Sums of a pair are in the same order, with or without fused
 * operations. */
enum superpose_width { SUPERPOSE_WIDTH_FITTING, SUPERPOSE_HALVES, SUPERPOSE_ONE, SUPERPOSE_TWO };

struct superpose_tile {
    const float *p, *q;
    const double *norm_p, *norm_q; /* [lanes] G */
    int p_count, q_count, least;
    int atoms;
    double total;
    enum superpose_method method;
    enum superpose_width width;
};
/* Computes the RMSDs of all structures p of a panel with all q of another, into batch->rmsd[p · lanes + q]. Leaves out
 * pairs with q − p < least (a panel with itself: 1; otherwise −lanes), and structures beyond p_count or q_count. */
void superpose_tile_run(const struct superpose_tile *tile, struct superpose_batch *batch);

/* Compares one structure, at `lane` of panel p, with `panels` ≤ lanes panels from q on, in double:
 * batch->rmsd[panels · lanes]. */
void superpose_tile_row(const float *p, int lane, double norm, const float *q, const double *norm_q, int panels,
                        int atoms, double total, enum superpose_method method, struct superpose_batch *batch);

#endif
