/* The E-step, for 2-D classes and 3-D references alike: how well do slices P, times a particle's CTF c, fit its image X
 * shifted by t, weighted with the noise σ²?
 *
 *   diff2(p, t) = Σ ½ |c P − X_t|² / σ²  =  const − Σ Re(P conj(c X_t / σ²)) + ½ Σ (c²/σ²) |P|²
 *
 * const is the same for every pose of a particle and is never added. Slices know nothing of CTFs and are shared by all
 * particles. Three ways, one result: expectation_reference (the sum as it stands, in double, for tests),
 * expectation_coarse (a matrix product: rows orientations, columns particles × shifts), expectation_fine (lists of
 * poses, per particle). Pixel lists as kernels/fourier/pixels.h. Sizes: n_pixels complex pixels used. */
#ifndef ICESTREAM_KERNELS_EXPECTATION_EXPECTATION_H
#define ICESTREAM_KERNELS_EXPECTATION_EXPECTATION_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "kernels/fourier/pixels.h"

struct expectation_particle {
    const float *image;  /* X, 2·n_pixels: masked, shifted by the integer pre-shift */
    const float *ctf;    /* c · scale, n_pixels */
    const float *weight; /* 1/σ², n_pixels */
};

/* Brute force: ret_diff2[n_orientations][n_shifts] with the constant left out as above. shifts[n_shifts][2] in px. */
void expectation_reference(const struct fourier_pixels *pixels, int n_pixels, const float *slices, int n_orientations,
                           const struct expectation_particle *particle, const double (*shifts)[2], int n_shifts,
                           double *ret_diff2);

struct expectation; /* workspace: kept from batch to batch */
enum status expectation_create(const struct fourier_pixels *pixels, int threads, struct expectation **ret_expectation,
                               struct err *err);
void expectation_destroy(struct expectation **expectation);

/* ret_diff2[n_particles][n_orientations][n_shifts]. sgemm in blocks of at most 256 terms, blocks summed in FP32. */
enum status expectation_coarse(struct expectation *expectation, int n_pixels, const float *slices, int n_orientations,
                               const struct expectation_particle *particles, int n_particles, const double (*shifts)[2],
                               int n_shifts, float *ret_diff2, struct err *err);

/* As above, where these orientations are a part of more: each particle's differences begin `stride` floats after those
 * of the one before. */
enum status expectation_coarse_part(struct expectation *expectation, int n_pixels, const float *slices,
                                    int n_orientations, const struct expectation_particle *particles, int n_particles,
                                    const double (*shifts)[2], int n_shifts, float *ret_diff2, size_t stride,
                                    struct err *err);

/* n_poses poses of one particle: slice index and shift index each. ret_diff2[n_poses]. Single-threaded: call it from a
 * parallel loop over particles, each thread with its own workspace. */
enum status expectation_fine(struct expectation *expectation, int n_pixels, const float *slices,
                             const struct expectation_particle *particle, const double (*shifts)[2], int n_shifts,
                             const int *slice_of_pose, const int *shift_of_pose, int n_poses, float *ret_diff2,
                             struct err *err);

/* The smallest weight v such that the weights ≥ v sum to more than fraction · total, without sorting (paper: top-sum
 * selection); ties at v are kept. ret_count: how many are ≥ v. Weights ≥ 0; sums in double. */
void expectation_top_sum(const float *weights, size_t count, double fraction, float *ret_threshold, size_t *ret_count);
/* The `most`-th largest of weights ≥ 0 (the least above 0 and not below `least` where there are fewer of these); ties
 * with it are kept as well: ret_count, how many are ≥ it, is then more. */
void expectation_largest(const float *weights, size_t count, float least, size_t most, float *ret_threshold,
                         size_t *ret_count);

#endif
