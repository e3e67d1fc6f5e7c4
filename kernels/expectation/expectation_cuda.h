/* Parts of the E-step on a CUDA device. Pointers are device pointers unless stated otherwise; sizes and meanings as in
 * kernels/expectation/expectation.h and posterior.h. Work is queued on `stream` (a cudaStream_t), without waiting.
 * Results repeat bit for bit. */
#ifndef ICESTREAM_KERNELS_EXPECTATION_EXPECTATION_CUDA_H
#define ICESTREAM_KERNELS_EXPECTATION_EXPECTATION_CUDA_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Selection of the largest weights of a particle. */
struct top_sum {
    double total; /* sum of all weights */
    float least;  /* posterior_cuda: the smallest difference, whose weight is 1 */
    /* Largest v for which the weights >= v sum to more than the fraction, or, if that is larger, the last of the `most`
     * largest; 0 if all weights are 0 */
    float threshold;
    uint32_t count; /* number of weights that reach the threshold of the fraction alone */
    uint32_t kept;  /* number of weights >= threshold: more than `most` only if weights are equal */
};

/* Returns the bytes of device scratch for up to n particles at a time. */
size_t top_sum_scratch(int n);

/* Selects the top sum of n particles in one kernel, without sorting. Weights of particle i are weights[begin[i]] to
 * weights[begin[i+1]-1], none negative, none NaN. longest: the most weights of one particle, known to the host. most:
 * how many to keep at most; 0: no limit. */
enum status top_sum_cuda(const float *weights, const size_t *begin, int n, size_t longest, double fraction,
                         uint32_t most, void *scratch, struct top_sum *ret_sums, void *stream, struct err *err);

/* The coarse pass as a matrix product. Rows of 2·n floats (re, im of each Fourier pixel), filled up with zeros to a
 * multiple of COARSE_STEP, are multiplied in blocks of at most COARSE_BLOCK terms. Each block is one sum, so that
 * rounding grows with the number of blocks.
 *
 * With COARSE_TF32X3 a block holds each term three times, split into the part that tensor cores read and the rest:
 * high, high, low of slices beside high, low, high of images. One product of three times as many terms then loses only
 * 2^-21 of a term. COARSE_TF32 multiplies the rounded parts alone, which loses up to 2^-11 of a term and takes a third
 * of the time: enough to choose poses that are compared again. */
enum { COARSE_BLOCK = 256, COARSE_STEP = 32 };
enum coarse_precision { COARSE_FP32, COARSE_TF32X3, COARSE_TF32 };
static inline size_t coarse_row(int n_pixels, enum coarse_precision precision) {
    size_t terms = ((size_t)n_pixels * 2 + COARSE_STEP - 1) / COARSE_STEP * COARSE_STEP;
    return terms * (precision == COARSE_TF32X3 ? 3 : 1);
}
/* Returns the length of a row of |P|² or c²/(2σ²): one value per pixel. */
static inline size_t coarse_norm_row(int n_pixels) {
    return ((size_t)n_pixels + COARSE_STEP - 1) / COARSE_STEP * COARSE_STEP;
}

/* The pixel list (kernels/fourier/pixels.h) on the device. */
struct pixels_cuda {
    const short *kx, *ky;
    int box, count;
};

/* A prepared reference (kernels/projector): half grid [nz][ny][nx] complex about the origin, frequencies up to r_max.
 *
 * quads: a copy of a 3D grid that makes slices in less than half the time, or NULL. For each point it holds the value
 * and its change to the next point in y, in z, and in both: [nz][ny][nx][4] complex, so that one cell lies within 64
 * bytes. */
struct grid_cuda {
    const float *values;
    int nx, ny, reach, r_max, dimensions;
    const float *quads;
};
/* Returns the number of floats of quads; 3D only. */
static inline size_t grid_quads_floats(const struct grid_cuda *grid) {
    return 8 * (size_t)grid->nx * (size_t)grid->ny * (size_t)grid->ny;
}
/* Makes quads from values; 3D only. */
enum status grid_quads_cuda(const struct grid_cuda *grid, float *ret_quads, void *stream, struct err *err);

struct coarse_cuda; /* a cuBLAS handle */
enum status coarse_cuda_create(int device, struct coarse_cuda **ret_coarse, struct err *err);
void coarse_cuda_destroy(struct coarse_cuda **coarse);

/* Makes ret_slices[n][coarse_row] and ret_squares[n][coarse_norm_row] (|P|²; may be NULL) for matrices[n][9]. */
enum status coarse_cuda_slices(const struct grid_cuda *grid, const struct pixels_cuda *pixels, int n_pixels,
                               const float *matrices, int n, enum coarse_precision precision, float *ret_slices,
                               float *ret_squares, void *stream, struct err *err);
/* Makes ret_columns[n][n_shifts][coarse_row] = c X_t / σ² and ret_halves[n][coarse_norm_row] = c² / (2 σ²) from
 * images[n][2·stride], ctf[n][stride], weight[n][stride] and shifts[n_shifts][2] (px). */
enum status coarse_cuda_columns(const struct pixels_cuda *pixels, int n_pixels, const float *images, const float *ctf,
                                const float *weight, size_t stride, int n, const float *shifts, int n_shifts,
                                enum coarse_precision precision, float *ret_columns, float *ret_halves, void *stream,
                                struct err *err);
/* Computes ret_dots[n_particles][n_shifts][all_slices] = -Re<P, c X_t / σ²> and ret_norms[n_particles][all_slices] = ½
 * Σ (c²/σ²) |P|². Writes the first n_slices of each row; all_slices ≥ n_slices. */
enum status coarse_cuda_product(struct coarse_cuda *coarse, int n_pixels, enum coarse_precision precision,
                                const float *slices, const float *squares, int n_slices, const float *columns,
                                const float *halves, int n_particles, int n_shifts, size_t all_slices, float *ret_dots,
                                float *ret_norms, void *stream, struct err *err);

/* Input of posterior_cuda: dots[n_particles][n_shifts][n_slices] and norms[n_particles][n_slices] of
 * coarse_cuda_product. slice_log_prior[n_slices] and shift_log_prior[n_particles][n_shifts] may be NULL. */
struct posterior_input {
    const float *dots, *norms, *slice_log_prior, *shift_log_prior;
    int n_particles, n_shifts, n_slices;
    uint32_t most; /* as in top_sum_cuda */
    double fraction;
};
/* Returns the words of 32 bits that hold one bit per slice. */
static inline size_t kept_words(int n_slices) {
    return ((size_t)n_slices + 31) / 32;
}
/* Turns differences into the samples that matter, in one kernel. Weights are exp(least - difference), with difference =
 * dot + norm - log priors. The samples that hold the fraction of the total are kept.
 * ret_kept[n_particles][n_shifts][kept_words(n_slices)]: one bit per sample. Weights are not stored: few samples are
 * kept, and their weights are recomputed from dots and norms. */
enum status posterior_cuda(const struct posterior_input *posterior, void *scratch, struct top_sum *ret_sums,
                           uint32_t *ret_kept, void *stream, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
