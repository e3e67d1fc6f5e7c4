/* Counts the independent numbers in shells of noise: how far two maps of noise agree by chance.
 *
 * Over the voxels k of a shell, the FSC (fsc.h) of two maps of independent noise is 0 on average, with the variance
 *     Σ |R(k, k')|² / (Σ R(k, k))² = 1/N,
 * first sum over all pairs of voxels, R(k, k') = ⟨D(k) conj D(k')⟩ the covariance of the noise D. White noise has N =
 * the number of voxels of the shell. Noise that poses have spread over directions has far fewer: its voxels are alike,
 * and an FSC of 0.143 or more is no rarity.
 *
 * The difference of two half maps holds their noise alone, whatever the signal. R is taken from it, as a function of
 * the angle between k and k' (noise without a preferred direction): the mean over pairs in bins of 1/shell radians,
 * about one voxel. Noise of maps with symmetry is alike in all copies of a voxel, which lie at many angles: one of the
 * copies is looked at, the one nearest to a line (either end; −k is a copy too). */
#ifndef ICESTREAM_KERNELS_FSC_INDEPENDENT_H
#define ICESTREAM_KERNELS_FSC_INDEPENDENT_H

#include "common/status.h"
#include "kernels/fourier/workspace.h"
#include "kernels/symmetry/symmetry.h"

struct independent_shells {
    int box;                         /* px, even, 4 to 2048 */
    int first, last;                 /* 1 <= first, last < box/2; first > last: none */
    const struct symmetry *symmetry; /* of both maps; NULL: none */
};

/* Fills ret_numbers[first .. last] (indexed by shell; the rest stays as it is) from two maps of box³. The maps are
 * transformed on the workspace's device if one is given (workspace_fits_volumes tells whether it has room), and may lie
 * there then; else on the CPU. The numbers agree except for rounding. Of a large shell, 1,000 voxels are looked at:
 * numbers of 10,000 or so scatter by half. Equal maps, without noise, have as many numbers as voxels. The result does
 * not depend on the number of threads. */
enum status fsc_independent(struct workspace *workspace_or_null, const struct independent_shells *shells,
                            const float *a, const float *b, double *ret_numbers, struct err *err);

#endif
