/* Back-projection into a padded Fourier grid and the Wiener M-step, in 3D or 2D (padding 2).
 *
 * data += Σ w · slice, weight += Σ w at the trilinear corners of pad · Aᵀ k. Sums are in double. An accumulator sums
 * identically, bit for bit, for any number of threads.
 *
 * Sums lie in host memory or on a device (accumulator_clear_on), and work on them is done where they lie. Two
 * accumulators that are combined must lie in the same memory. Devices agree with the CPU except for rounding. */
#ifndef ICESTREAM_KERNELS_RECONSTRUCT_RECONSTRUCT_H
#define ICESTREAM_KERNELS_RECONSTRUCT_RECONSTRUCT_H

#include <stddef.h>

#include "common/status.h"
#include "kernels/fourier/pixels.h"
#include "kernels/fourier/workspace.h"
#include "kernels/symmetry/symmetry.h"

struct accumulator;

/* Creates zeroed sums in host memory for maps of box² or box³ and frequencies up to size/2. dimensions: 2 or 3. */
enum status accumulator_create(int dimensions, int box, int size, struct accumulator **ret_accumulator,
                               struct err *err);
void accumulator_destroy(struct accumulator **accumulator);
/* Takes zeroed sums in host memory, for frequencies up to size/2. */
enum status accumulator_clear(struct accumulator *accumulator, int size, struct err *err);
/* Takes zeroed sums in the workspace's memory, until the workspace is reset; NULL: in host memory. */
enum status accumulator_clear_on(struct accumulator *accumulator, struct workspace *workspace, int size,
                                 struct err *err);
/* Uses the caller's memory of the workspace for the sums; keeps the values in it. size: as above. */
enum status accumulator_place(struct accumulator *accumulator, struct workspace *workspace, double *values, int size,
                              struct err *err);
/* Takes zeroed sums in host memory. To symmetrise them and make maps, they are copied to the workspace's device one
 * accumulator at a time, if the whole (reset) workspace has room for that; otherwise the CPU does it. */
enum status accumulator_clear_beside(struct accumulator *accumulator, struct workspace *workspace, int size,
                                     const struct symmetry *symmetry_or_null, struct err *err);
/* Returns the bytes of sums in a workspace, for frequencies up to size/2. */
size_t accumulator_bytes(int dimensions, int size);
/* Returns the temporary bytes that reconstruct_map and all earlier steps need in a workspace. */
enum status reconstruct_scratch(struct workspace *workspace, int dimensions, int box, int size,
                                const struct symmetry *symmetry_or_null, size_t *ret_bytes, struct err *err);

/* Adds n slices: matrices[n][9], data[n][2·count] (already weighted: Σ w·CTF/σ²·X), weight[n][count] (Σ w·CTF²/σ²).
 * `threads` threads scatter over n or over slabs of the grid, with the same result for any number of threads. Host
 * memory only. */
enum status accumulator_add(struct accumulator *accumulator, const struct fourier_pixels *pixels, int count, int n,
                            const float *matrices, const float *data, const float *weight, int threads,
                            struct err *err);
/* The sums themselves, for devices that add slices on their own: voxels re, im, weight, 0 about the origin,
 * [nz][ny][nx][4], x = 0 .. reach, y and z = −reach .. reach (nz = 1 in 2D). accumulator_clear moves them. */
struct accumulator_grid {
    double *values;
    size_t bytes;
    int nx, ny, nz, reach, r_max, dimensions;
    const struct workspace *workspace; /* holds values; NULL: host memory */
};
struct accumulator_grid accumulator_grid(struct accumulator *accumulator);
/* Computes a += b. */
enum status accumulator_merge(struct accumulator *a, const struct accumulator *b, struct err *err);
/* Computes a *= factor, for the decay of stepwise EM. Host memory only. */
enum status accumulator_scale(struct accumulator *a, double factor, struct err *err);
/* Joins Friedel pairs on the plane x = 0, then sums over the operators of the group. Call it once, before
 * reconstruction. */
enum status accumulator_finish(struct accumulator *accumulator, const struct symmetry *symmetry_or_null, int threads,
                               struct err *err);
/* Gives both halves the mean of their data and of their weight in shells 0 .. shells (RELION's "join low
 * resolution"). */
enum status accumulator_join_shells(struct accumulator *a, struct accumulator *b, int shells, struct err *err);
/* Computes the FSC of two finished accumulators, before any prior, from data/weight with nearest-voxel down-sampling.
 * ret_fsc: box/2+1. */
enum status accumulator_fsc(const struct accumulator *a, const struct accumulator *b, float *ret_fsc, struct err *err);
/* Computes σ² of the reconstruction per shell, on the scale of tau²: 1 / (pad³ · mean weight) (pad² in 2D); 0 where
 * nothing was added. ret_sigma2: box/2+1. tau² = σ² · FSC/(1 − FSC) makes data_vs_prior equal to FSC/(1 − FSC). */
enum status accumulator_sigma2(const struct accumulator *accumulator, float *ret_sigma2, struct err *err);

struct reconstruct_options {
    const float *tau2; /* box/2+1; NULL: no prior (unfiltered half maps) */
    double tau_fudge;  /* T */
    int minres_shell;  /* shells below get no prior; default 5 */
    int last_shell;    /* sums at radii of last_shell + 1 and more count as 0 in the map; 0: all count */
    int threads;
};
/* Makes a map (box² or box³): Wiener filter, inverse transform, sinc² correction. ret_data_vs_prior: box/2+1 or NULL.
 * ret_completeness: fraction of voxels with weight·T·tau² ≥ 1 per shell, or NULL. Does not change the accumulator. All
 * arrays are in host memory. */
enum status reconstruct_map(const struct accumulator *accumulator, const struct reconstruct_options *options,
                            float *map, float *ret_data_vs_prior, float *ret_completeness, struct err *err);

#endif
