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
 * about one voxel. Noise of maps with symmetry has fewer independent numbers than this: copies by symmetry lie at many
 * angles, and the bins average them away. */
#ifndef ICESTREAM_KERNELS_FSC_INDEPENDENT_H
#define ICESTREAM_KERNELS_FSC_INDEPENDENT_H

#include "common/status.h"

/* Fills ret_numbers[first .. last] (indexed by shell; the rest stays as it is) from two maps of box³ in host memory, on
 * the CPU. 1 <= first, last < box/2; first > last does nothing. Of a large shell, 1,000 voxels are looked at: beyond
 * some 2,000, numbers are too small. Equal maps, without noise, have as many numbers as voxels. The result does not
 * depend on the number of threads. */
enum status fsc_independent(int box, const float *a, const float *b, int first, int last, double *ret_numbers,
                            struct err *err);

#endif
