/* Computes tiles of pairs on the CPU. A panel holds SUPERPOSE_LANES structures: float [atoms][3][lanes], centred, times
 * √w. A vector holds the same coordinate of neighbouring structures, so the product gives R as vectors of pairs. */
#ifndef ICESTREAM_KERNELS_SUPERPOSE_TILE_CPU_H
#define ICESTREAM_KERNELS_SUPERPOSE_TILE_CPU_H

#include <stddef.h>

#include "kernels/superpose/superpose.h"

enum { SUPERPOSE_LANES = 8, SUPERPOSE_BATCH = SUPERPOSE_LANES * SUPERPOSE_LANES };

/* Results for the pairs of two panels, or for one structure against up to SUPERPOSE_BATCH others. */
struct superpose_batch {
    _Alignas(64) double r[9][SUPERPOSE_BATCH]; /* R, row by row */
    double norms[SUPERPOSE_BATCH];             /* G_p + G_q */
    double rmsd[SUPERPOSE_BATCH];              /* Å */
};

/* The vectors that sum products in single precision. HALVES: half a panel, for 16 registers of 128 bits. ONE: a panel,
 * for 16 registers of 256 bits. TWO: a panel for each of two structures, for 32 registers of 256 bits. FITTING: the
 * width that fits the processor. Each width runs on each processor. All widths add in the same order, but processors
 * differ in whether they fuse multiplication and addition. */
enum superpose_width { SUPERPOSE_WIDTH_FITTING, SUPERPOSE_HALVES, SUPERPOSE_ONE, SUPERPOSE_TWO };

struct superpose_tile {
    const float *p, *q;
    const double *norm_p, *norm_q; /* [lanes] G */
    int p_count, q_count, least;   /* structures in the panels; pairs with q − p < least are left out */
    int atoms;
    double total;
    enum superpose_method method;
    enum superpose_width width;
};
/* Computes the RMSDs of all structures of panel p against all structures of panel q: batch->rmsd[p · lanes + q]. least:
 * 1 if both panels are the same, otherwise −lanes. */
void superpose_tile_run(const struct superpose_tile *tile, struct superpose_batch *batch);

/* Computes the RMSDs of one structure, `lane` of panel p, against `panels` ≤ lanes successive panels from q on:
 * batch->rmsd[panels · lanes]. norm: G of the structure; norm_q: G of the others. In double. */
void superpose_tile_row(const float *p, int lane, double norm, const float *q, const double *norm_q, int panels,
                        int atoms, double total, enum superpose_method method, struct superpose_batch *batch);

#endif
