/* The E-step, for 2D classes and 3D references alike: how well do slices P, times a particle's CTF c, fit its image X
 * shifted by t, weighted with the noise σ²?
 *
 *   diff2(p, t) = Σ ½ |c P − X_t|² / σ²  =  const − Σ Re(P conj(c X_t / σ²)) + ½ Σ (c²/σ²) |P|²
 *
 * const is the same for every pose of a particle and is never added. Slices do not contain a CTF, so that all particles
 * share them.
 *
 * Three functions compute the same: expectation_reference (the plain sum in double, for tests), expectation_coarse (a
 * matrix product: rows are orientations, columns particles × shifts), expectation_fine (lists of poses, per particle).
 *
 * Pixel lists as in kernels/fourier/pixels.h. n_pixels: complex pixels used. */
#ifndef ICESTREAM_KERNELS_EXPECTATION_EXPECTATION_H
#define ICESTREAM_KERNELS_EXPECTATION_EXPECTATION_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "kernels/fourier/pixels.h"

struct expectation_particle {
    const float *image;  /* X, 2·n_pixels: masked, after the integer pre-shift */
    const float *ctf;    /* c · scale, n_pixels */
    const float *weight; /* 1/σ², n_pixels */
};

/* Computes differences by brute force, without the constant: ret_diff2[n_orientations][n_shifts]. shifts[n_shifts][2]
 * in px. */
void expectation_reference(const struct fourier_pixels *pixels, int n_pixels, const float *slices, int n_orientations,
                           const struct expectation_particle *particle, const double (*shifts)[2], int n_shifts,
                           double *ret_diff2);

struct expectation; /* memory kept from batch to batch */
enum status expectation_create(const struct fourier_pixels *pixels, int threads, struct expectation **ret_expectation,
                               struct err *err);
void expectation_destroy(struct expectation **expectation);

/* Computes ret_diff2[n_particles][n_orientations][n_shifts] with sgemm, in blocks of at most 256 terms; sums the blocks
 * in FP32. */
enum status expectation_coarse(struct expectation *expectation, int n_pixels, const float *slices, int n_orientations,
                               const struct expectation_particle *particles, int n_particles, const double (*shifts)[2],
                               int n_shifts, float *ret_diff2, struct err *err);

/* Like expectation_coarse for a part of all orientations: the differences of consecutive particles are `stride` floats
 * apart. */
enum status expectation_coarse_part(struct expectation *expectation, int n_pixels, const float *slices,
                                    int n_orientations, const struct expectation_particle *particles, int n_particles,
                                    const double (*shifts)[2], int n_shifts, float *ret_diff2, size_t stride,
                                    struct err *err);

/* Computes ret_diff2[n_poses] for n_poses poses of one particle, each given by a slice index and a shift index.
 * Single-threaded: call it from a parallel loop over particles, with one expectation per thread. */
enum status expectation_fine(struct expectation *expectation, int n_pixels, const float *slices,
                             const struct expectation_particle *particle, const double (*shifts)[2], int n_shifts,
                             const int *slice_of_pose, const int *shift_of_pose, int n_poses, float *ret_diff2,
                             struct err *err);

/* Finds the smallest weight v for which the weights ≥ v sum to more than fraction · total, without sorting (paper:
 * top-sum selection). Ties with v are kept. ret_count: number of weights ≥ v. Weights must be ≥ 0; sums are in
 * double. */
void expectation_top_sum(const float *weights, size_t count, double fraction, float *ret_threshold, size_t *ret_count);
/* Finds the `most`-th largest of weights ≥ 0; if fewer are above 0 and not below `least`, the smallest of these. Ties
 * with it are kept, so that ret_count, the number of weights ≥ it, may exceed `most`. */
void expectation_largest(const float *weights, size_t count, float least, size_t most, float *ret_threshold,
                         size_t *ret_count);

#endif
