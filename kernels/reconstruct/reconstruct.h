/* Back-projection into a padded Fourier grid and the Wiener M-step, 3-D (pad 2) or 2-D (pad 2).
 * data += Σ w · slice, weight += Σ w at the trilinear corners of pad · Aᵀ k; sums in double (or float with a test that
 * shows it is enough). An accumulator adds up bit-identically however many threads take part.
 *
 * Sums lie in the host's memory or on a device (accumulator_clear_on), and where they lie the work on them is done; two
 * that are worked on together lie in one place. Devices agree with the CPU but for rounding. */
#ifndef ICESTREAM_KERNELS_RECONSTRUCT_RECONSTRUCT_H
#define ICESTREAM_KERNELS_RECONSTRUCT_RECONSTRUCT_H

#include <stddef.h>

#include "common/status.h"
#include "kernels/fourier/pixels.h"
#include "kernels/fourier/workspace.h"
#include "kernels/symmetry/symmetry.h"

struct accumulator;

enum status accumulator_create(int dimensions, int box, int size, struct accumulator **ret_accumulator,
                               struct err *err);
void accumulator_destroy(struct accumulator **accumulator);
/* Zeroes it, for frequencies up to size/2, in the host's memory. */
enum status accumulator_clear(struct accumulator *accumulator, int size, struct err *err);
/* The same in memory of the workspace, until that is reset; NULL: as above. */
enum status accumulator_clear_on(struct accumulator *accumulator, struct workspace *workspace, int size,
                                 struct err *err);
/* The same with memory of the workspace that is the caller's, `size` as above: what it holds stays. */
enum status accumulator_place(struct accumulator *accumulator, struct workspace *workspace, double *values, int size,
                              struct err *err);
/* In the host's memory; but for a moment they are brought to the workspace's device one after the other, which
 * symmetrises them and makes maps of them, if the whole workspace has room for that (reset before); else the CPU does. */
enum status accumulator_clear_beside(struct accumulator *accumulator, struct workspace *workspace, int size,
                                     const struct symmetry *symmetry_or_null, struct err *err);
/* Bytes of a workspace that such sums take, and those that reconstruction and all before it want for a moment. */
size_t accumulator_bytes(int dimensions, int size);
enum status reconstruct_scratch(struct workspace *workspace, int dimensions, int box, int size,
                                const struct symmetry *symmetry_or_null, size_t *ret_bytes, struct err *err);

/* Adds n slices: matrices[n][9], data[n][2·count] (already weighted: Σ w·CTF/σ²·X), weight[n][count] (Σ w·CTF²/σ²).
 * Scattered in parallel over n or over slabs of the grid by `threads` threads, the same result for any number. In the
 * host's memory only. */
enum status accumulator_add(struct accumulator *accumulator, const struct fourier_pixels *pixels, int count, int n,
                            const float *matrices, const float *data, const float *weight, int threads,
                            struct err *err);
/* The sums themselves, for devices that add slices of their own: voxels re, im, weight, 0 about the origin,
 * [nz][ny][nx][4], x = 0 .. reach, y and z = −reach .. reach (nz = 1 in 2-D); accumulator_clear moves them. */
struct accumulator_grid {
    double *values;
    size_t bytes;
    int nx, ny, nz, reach, r_max, dimensions;
    const struct workspace *workspace; /* whose memory values are in; NULL: the host's */
};
struct accumulator_grid accumulator_grid(struct accumulator *accumulator);
/* a += b. */
enum status accumulator_merge(struct accumulator *a, const struct accumulator *b, struct err *err);
/* a *= factor (stepwise EM decays so). In the host's memory only. */
enum status accumulator_scale(struct accumulator *a, double factor, struct err *err);
/* Joins conjugate pairs on the plane x = 0, then sums over the group's operators. Once, before reconstruction. */
enum status accumulator_finish(struct accumulator *accumulator, const struct symmetry *symmetry_or_null, int threads,
                               struct err *err);
/* Shells 0 .. shells: both halves get the mean of their data and of their weight (the "join low resolution" rule). */
enum status accumulator_join_shells(struct accumulator *a, struct accumulator *b, int shells, struct err *err);
/* FSC of two finished accumulators, before any prior: nearest-voxel down-sampling, data/weight; ret_fsc: box/2+1. */
enum status accumulator_fsc(const struct accumulator *a, const struct accumulator *b, float *ret_fsc, struct err *err);
/* 1 / (pad³ · mean weight) per shell (pad² in 2-D): σ² of the reconstruction, on the scale of tau²; 0 where nothing was
 * added; box/2+1 values. tau² = σ² · FSC/(1 − FSC) makes data_vs_prior equal to FSC/(1 − FSC). */
enum status accumulator_sigma2(const struct accumulator *accumulator, float *ret_sigma2, struct err *err);

struct reconstruct_options {
    const float *tau2; /* box/2+1, or NULL: no prior (unfiltered half maps) */
    double tau_fudge;  /* T */
    int minres_shell;  /* shells below it get no prior: 5 */
    int last_shell;    /* sums at radii of last_shell + 1 and more count as 0 in the map; 0: all are in it */
    int threads;
};
/* Wiener filter, inverse transform, sinc² correction; map box² or box³. ret_data_vs_prior: box/2+1 or NULL;
 * ret_completeness: fraction of voxels with weight·T·tau² ≥ 1 per shell, or NULL. The accumulator is not changed. All of
 * these are the host's. */
enum status reconstruct_map(const struct accumulator *accumulator, const struct reconstruct_options *options,
                            float *map, float *ret_data_vs_prior, float *ret_completeness, struct err *err);

#endif
