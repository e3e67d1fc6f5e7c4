/* Kernels of the E-step's fine pass and sums on a CUDA device (kernels/alignment/alignment.h). The coarse product and
 * its selection are in kernels/expectation/expectation_cuda.h. Pointers are device pointers unless stated otherwise;
 * work is queued on `stream` (a cudaStream_t), without waiting. Results repeat bit for bit.
 *
 * Numbers in a batch:
 *   row    = (reference · directions + direction) · psi_count + psi, up to 2^31 − 1
 *   sample = row · shift_count + shift, modulo 2^32: code that has a sample knows its row    (coarse)
 *   rotation = direction child · psi_children + psi child; there are 8, 2 in 2D, or 1       (fine)
 *   slice  = a row and a rotation; in the whole grid its number is row · rotations + rotation
 *   fine shift = shift · shift_children + child, up to 2^16 − 1 */
#ifndef ICESTREAM_KERNELS_ALIGNMENT_CUDA_ALIGNMENT_H
#define ICESTREAM_KERNELS_ALIGNMENT_CUDA_ALIGNMENT_H

#include <stddef.h>
#include <stdint.h>

#include "common/arena.h"
#include "common/status.h"
#include "kernels/alignment/alignment.h"
#include "kernels/expectation/expectation_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A grid of poses. Matrix of a row: rows 0 and 1 of its frame turned by psi (c f0 + s f1, −s f0 + c f1), row 2
 * unchanged. Frames and shifts are perturbed already. Child arrays are for the fine pass; without children they are the
 * coarse arrays. Children of a shift (child = x · 2 + y) lie around it, at the same ∓ d in x and y for all shifts. */
struct sampling_cuda {
    int references, directions, psi_count, shift_count;
    int direction_children, psi_children, shift_children;
    const float *frames;       /* [directions][9] */
    const float *psi;          /* [psi_count][2]: cos, sin */
    const float *shifts;       /* [shift_count][2], px */
    const float *child_frames; /* [directions · direction_children][9] */
    const float *child_psi;    /* [psi_count · psi_children][2] */
    const float *child_shifts; /* [shift_count · shift_children][2], px */
};

/* References, and the pixels to compare; all grids have one size. shell[count], shell_begin[shells]
 * (kernels/fourier/pixels.h). */
struct references_cuda {
    struct grid_cuda grids[ALIGNMENT_REFERENCES_MOST];
    struct pixels_cuda pixels;
    const short *shell;
    int coarse_pixels;
    int fine_pixels; /* to compare in the fine pass: those within the grids */
    /* Slices of all rows for the fine pass (alignment_cuda_fine_slices); NULL: interpolated from grids when needed. */
    const float *slices;
};

/* A batch of particles. stride ≥ pixels.count. */
struct particles_cuda {
    int count;
    size_t stride;
    float *masked, *unmasked; /* [count][2·stride] */
    float *ctf, *weight;      /* [count][stride]: c, 1/σ² */
    float *shift_log_prior;   /* [count][shift_count] */
    float *power;             /* [count][shells]: mean |X|²/2 of the masked image */
    double *constant;         /* [count]: Σ ½|X|²/σ² + Σ pixels of the shell · ln 2πσ², over the pixels */
};

/* Rows of the grid that a particle is compared with, and their samples, ascending by particle, row, shift. Row i has
 * the samples first .. (row i+1).first − 1; one more entry ends the list. */
struct row_cuda {
    int particle, row;
    uint32_t first;
    float log_prior;
    uint32_t left_out; /* bits of the rotations that lie beyond the range of a local search: they have no weight */
};
struct samples_cuda {
    uint32_t count, row_count;   /* known to the host */
    const struct row_cuda *rows; /* [row_count + 1] */
    const uint32_t *samples;     /* [count] */
    const uint32_t *begin;       /* [particles + 1]: first sample of each particle (the paper's RowPointer) */
    const uint32_t *row_begin;   /* [particles + 1] */
};

/* Returns the complex values of a stored slice: fine_pixels, rounded up to FINE_SLICE_STEP. */
enum { FINE_SLICE_STEP = 128 };
static inline size_t alignment_cuda_fine_slice_row(const struct references_cuda *references) {
    return ((size_t)references->fine_pixels + FINE_SLICE_STEP - 1) / FINE_SLICE_STEP * FINE_SLICE_STEP;
}
/* Makes slices of the fine pass for rows first .. first + count - 1 of the grid: ret_slices[count ·
 * rotations][2·alignment_cuda_fine_slice_row] (re, im), filled up with zeros. Comparing with stored slices is several
 * times faster than interpolating from grids. */
enum status alignment_cuda_fine_slices(const struct references_cuda *references, const struct sampling_cuda *sampling,
                                       int first, int count, float *ret_slices, void *stream, struct err *err);

/* Computes differences without their constants: of each sample's children (fine), or of the sample itself over
 * coarse_pixels (not fine). ret_values[samples.count][rotations][shift_children]: the paper's block-compressed
 * array. */
enum status alignment_cuda_compare(const struct references_cuda *references, const struct sampling_cuda *sampling,
                                   const struct particles_cuda *particles, const struct samples_cuda *samples, int fine,
                                   float *ret_values, void *stream, struct err *err);

/* Returns the bytes of n samples in the block-compressed array: `each` values and an index per sample. */
static inline size_t alignment_cuda_blocks_bytes(size_t n, int each, size_t value) {
    return n * ((size_t)each * value + sizeof(uint32_t));
}

/* Finds, from the products of the coarse pass (dots = −D, norms = N/2, as from coarse_cuda_product), D and N of each
 * particle at the pose of the first `orientations` rows where D²/N is largest; 0 if no D is positive. Averages the
 * first particle's norms over these rows. ret_fits[particles][2], ret_mean[1]. */
enum status alignment_cuda_best_fits(const float *dots, const float *norms, int particles, int shifts, int rows,
                                     int orientations, double *ret_fits, double *ret_mean, void *stream,
                                     struct err *err);

/* Turn bits (posterior_cuda) into a list of samples, in two calls. ret_counts: the size of the list, which the host
 * must wait for. */
struct sample_counts {
    uint32_t samples, rows;
};
/* Fills ret_counts[count], begin and row_begin [count + 1]. */
enum status alignment_cuda_compress_count(const uint32_t *kept, int count, int n_shifts, int n_rows,
                                          struct sample_counts *ret_counts, uint32_t *ret_begin,
                                          uint32_t *ret_row_begin, void *stream, struct err *err);
/* Fills the lists. row_log_prior[n_rows] may be NULL. */
enum status alignment_cuda_compress_fill(const uint32_t *kept, int count, int n_shifts, int n_rows,
                                         const float *row_log_prior, const uint32_t *begin, const uint32_t *row_begin,
                                         struct row_cuda *ret_rows, uint32_t *ret_samples, void *stream,
                                         struct err *err);

/* Replaces differences by weights: exp(least − (value − priors)), the largest weight of each particle 1. each: values
 * per sample (children). ret_least[particles]. */
enum status alignment_cuda_weigh(const struct particles_cuda *particles, const struct samples_cuda *samples,
                                 const struct sampling_cuda *sampling, int each, float *values, float *ret_least,
                                 void *stream, struct err *err);

/* Counts the samples whose weight (each = 1) reaches the particle's threshold: ret_counts[particles], ret_begin and
 * ret_row_begin [particles + 1]. */
enum status alignment_cuda_keep_count(const struct samples_cuda *samples, int particles, const float *weights,
                                      const struct top_sum *sums, struct sample_counts *ret_counts, uint32_t *ret_begin,
                                      uint32_t *ret_row_begin, void *stream, struct err *err);
/* Lists the samples that alignment_cuda_keep_count counted. */
enum status alignment_cuda_keep_fill(const struct samples_cuda *samples, int particles, const float *weights,
                                     const struct top_sum *sums, const uint32_t *begin, const uint32_t *row_begin,
                                     struct row_cuda *ret_rows, uint32_t *ret_samples, void *stream, struct err *err);

/* Computes ret_begin[particles + 1] = begin · each: where the values of each particle's samples begin, for
 * top_sum_cuda. */
enum status alignment_cuda_values_begin(const uint32_t *begin, int particles, int each, size_t *ret_begin, void *stream,
                                        struct err *err);

/* Lists the samples of rows at all shifts: ret_samples[row_count · shifts]. */
enum status alignment_cuda_whole_rows(const struct row_cuda *rows, size_t row_count, int shifts, uint32_t *ret_samples,
                                      void *stream, struct err *err);

/* A pose of the fine pass. */
struct pose_cuda {
    uint32_t row;
    uint16_t rotation, shift;
};
/* A contributing fine pose. Lists are ascending by particle, row, rotation, fine shift. Weights sum to 1 over all
 * poses, kept or not. */
struct contribution_cuda {
    struct pose_cuda pose;
    int particle;
    float weight;
};
/* Result of a particle's fine pass. */
struct best_cuda {
    double sum, offset2, weight_sum; /* Σ of weights with the largest 1; Σ w |own + shift|²; Σ w of contributions */
    float least, largest;
    struct pose_cuda pose; /* of the largest weight */
    uint32_t contributions, left_out;
    double nothing; /* set by alignment_cuda_doubt */
};
/* Counts contributions and finds the best pose of each particle. own[particles][2]: integer shifts. sums: of the
 * weights (top_sum_cuda). ret_begin[particles + 1]: first contribution. */
enum status alignment_cuda_contributions_count(const struct particles_cuda *particles,
                                               const struct samples_cuda *samples, const struct sampling_cuda *sampling,
                                               const float *weights, const struct top_sum *sums, const float *least,
                                               const int *own, struct best_cuda *ret_best, uint32_t *ret_begin,
                                               void *stream, struct err *err);
/* Fills the contributions. ret_reference_weights[particles][references] may be NULL. */
enum status alignment_cuda_contributions_fill(const struct particles_cuda *particles,
                                              const struct samples_cuda *samples, const struct sampling_cuda *sampling,
                                              const float *weights, const struct top_sum *sums,
                                              const struct best_cuda *best, const uint32_t *begin,
                                              struct contribution_cuda *ret_contributions, float *ret_reference_weights,
                                              void *stream, struct err *err);

/* Copies contributions, with particle numbers larger by `add`. */
enum status alignment_cuda_contributions_copy(const struct contribution_cuda *from, uint32_t count, int add,
                                              struct contribution_cuda *ret_contributions, void *stream,
                                              struct err *err);

/* Returns the bytes of scratch of alignment_cuda_residuals. */
static inline size_t alignment_cuda_residuals_scratch(const struct particles_cuda *particles) {
    return (size_t)particles->count * particles->stride * sizeof(float);
}
/* Computes the residuals of each particle. ret_power[particles][shells]: per shell up to the current size the mean of Σ
 * w |c P − X|²/2 / Σ w; beyond, and for a particle without contributions, particles.power. ret_residuals[particles][2]:
 * |c P − X|² at the best pose up to known_shell[particle] and up to all shells; NULL: not wanted. */
enum status alignment_cuda_residuals(const struct references_cuda *references, const struct sampling_cuda *sampling,
                                     const struct particles_cuda *particles,
                                     const struct contribution_cuda *contributions, const uint32_t *begin,
                                     const struct best_cuda *best, int shells, const int *known_shell, void *scratch,
                                     float *ret_power, double *ret_residuals, void *stream, struct err *err);

/* Computes alignment_reliability of each particle. before[particles]: residuals of the last iteration; residuals: the
 * squares from alignment_cuda_residuals, unused with ALIGNMENT_NORM_NONE. */
enum status alignment_cuda_reliability(enum alignment_norm norm, const double *before, const double *residuals,
                                       int particles, float *ret_factors, void *stream, struct err *err);

/* Images that may show no particle: alignment_iteration.doubtful. */
struct doubt {
    double nothing, norm_least, norm_most; /* as in struct alignment_particle */
};
/* Applies doubt; call it after residuals and reliability, before the sums. ret_power becomes the mean that includes
 * nothing as a pose. Fills best->nothing and left_out. Multiplies contributions, best->weight_sum and offset2, and
 * reference_weights[particles][references] by 1 − nothing, or by 0 if the norm is out of range; multiplies factors by 0
 * only then. shell_pixels[shells]: pixels of the half plane. */
enum status alignment_cuda_doubt(const struct particles_cuda *particles, const struct doubt *doubts,
                                 const double *shell_pixels, int shells, const uint32_t *begin, struct best_cuda *best,
                                 struct contribution_cuda *contributions, float *power, float *reference_weights,
                                 int references, float *factors, void *stream, struct err *err);

/* Back-projection in 64-bit fixed point: integers have the same sum in any order. Voxels as in
 * kernels/reconstruct/accumulator_private.h (re, im, weight, 0), about the origin, [nz][ny][nx]. A unit is 1/data_scale
 * of re and im, 1/weight_scale of the weight; both scales are powers of two.
 *
 * Bound of a voxel: a slice gives it at most 1.03 times its largest pixel (pixels lie two voxels apart, and the
 * interpolation weights of the pixels around a voxel sum to no more), and the weights of a particle's poses sum to 1.
 * So each particle adds at most its largest |factor c X/σ²| to re and im, and its largest c²/σ² to the weight. These
 * maxima are summed, in units; if they exceed 2^62, `overflow` is set. Sums up to 2^63 fit, so that no sum is ever
 * wrong without notice. */
struct sums_fill {
    uint32_t overflow, unused;
    uint64_t data, weight; /* upper bound of the sums in a voxel */
};
struct sums_cuda {
    int64_t *voxels[ALIGNMENT_REFERENCES_MOST];
    int nx, ny, nz, reach, r_max, dimensions;
    double data_scale, weight_scale;
    float weight_most;          /* larger 1/σ² count as this */
    struct sums_fill *overflow; /* one, in device memory, cleared with the voxels */
};
/* Chooses the scales, on the host. They leave room for `particles` images: the most that are added between two
 * clearings; 10^6 if unknown. CTFs may reach 2 in the shell of least noise, and the largest pixels may average 64 σ
 * there.
 *
 * 10^6 particles use 20 of the 62 bits. A σ of noise then gives 2^36 units where noise is least, and 2^36 r where σ is
 * 1/r times as large; c²/σ² gives 2^40 and 2^40 r² units. r² is at least 2^-24: filtered images have shells with less
 * noise than 2^-24 of the most, and their 1/σ² is cut off at weight_most.
 *
 * sigma2[optics][shells] is in host memory. Shells 1 .. r_max count, except those without noise. */
void alignment_cuda_sums_scale(const float *sigma2, int optics, int shells, double particles, struct sums_cuda *sums);
/* Returns the scratch that alignment_cuda_back_project needs for so many contributions. */
enum status alignment_cuda_back_project_scratch(uint32_t contributions, size_t *ret_bytes, struct err *err);
/* Returns whether each particle can be summed on its own: in 3D, if the fine shifts are not too many. */
int alignment_cuda_back_project_can_be_near(const struct sampling_cuda *sampling, const struct sums_cuda *sums);
/* Returns whether the numbers of all slices fit into 32 bits. */
int alignment_cuda_back_project_can_sort(const struct sampling_cuda *sampling);
/* Back-projects contributions. factor[particles] multiplies what an image gives (reliability). begin[particles + 1];
 * count = begin[particles], known to the host.
 *
 * near = 0: contributions are sorted by slice. The contributions of all particles to a slice are summed, in their
 * order, and scattered once; the last bits of the sums therefore depend on which particles are added together. Slice
 * numbers must fit into 32 bits (alignment_cuda_back_project_can_sort). begin is not used.
 *
 * near = 1 (local searches, if alignment_cuda_back_project_can_be_near): the slices of a particle lie close together,
 * and what each particle gives near a place of the grid is summed first. Sums are the same except for rounding, and
 * each particle's sum does not depend on the others. scratch is not used. */
enum status alignment_cuda_back_project(const struct references_cuda *references, const struct sampling_cuda *sampling,
                                        const struct particles_cuda *particles, const float *factor,
                                        const struct contribution_cuda *contributions, const uint32_t *begin,
                                        uint32_t count, int near, void *scratch, const struct sums_cuda *sums,
                                        void *stream, struct err *err);
/* Converts fixed point to doubles in place. */
enum status alignment_cuda_sums_to_double(const struct sums_cuda *sums, int reference, void *stream, struct err *err);
/* Sums in double, each laid out as an accumulator. reach: at least that of the fixed-point sums. */
struct sums_to_cuda {
    double *voxels[ALIGNMENT_REFERENCES_MOST];
    int reach;
};
/* Adds the fixed-point sums of the first `references` references to doubles. */
enum status alignment_cuda_sums_add_to(const struct sums_cuda *sums, int references, const struct sums_to_cuda *to,
                                       void *stream, struct err *err);

/* Lets two devices copy from each other directly, where they can; else copies go through the host. */
enum status alignment_cuda_see(int device, int other, struct err *err);
/* Queues a copy from the memory of another device, on a stream of the device that gets it. */
enum status alignment_cuda_copy_from(void *to, int device, const void *from, int other, size_t bytes, void *stream,
                                     struct err *err);
/* Queues to[count] += from[count], in the memory of one device. count is even. */
enum status alignment_cuda_add_integers(int64_t *to, const int64_t *from, size_t count, void *stream, struct err *err);

/* Plans of the preparation of images (kernels/prepare) and CTFs. */
struct prepare_cuda;
/* Creates plans for boxes of `box` px and at most `most` images at a time. */
enum status prepare_cuda_create(int box, int most, struct prepare_cuda **ret_prepare, struct err *err);
void prepare_cuda_destroy(struct prepare_cuda **prepare);
struct prepare_particle_cuda { /* in device memory */
    const float *image;        /* [box²], in device memory; NULL: at its place in `images` */
    int shift_x, shift_y, optics, has_ctf;
    float scale;
    float rest_x, rest_y;  /* px: alignment_cuda_shift_rest */
    double ctf[CTF_TERMS]; /* as struct ctf_terms */
};
/* Computes the transform of a mask that is even about its centre: [box][box] with the phase origin at the centre, norm
 * 1/box², real. Mask and result are in host memory. */
enum status prepare_spread(int box, const float *mask, float *ret_spread, struct err *err);
/* Shifts masked and unmasked images by (rest_x, rest_y) of which[particles], by phases. */
enum status alignment_cuda_shift_rest(const struct references_cuda *references,
                                      const struct prepare_particle_cuda *which, struct particles_cuda *particles,
                                      void *stream, struct err *err);
/* Returns the bytes of scratch for a batch of `count` images. */
size_t prepare_cuda_scratch(const struct prepare_cuda *prepare, int count, int shared_shell);
/* Prepares a batch: fills masked, unmasked, ctf, weight, power, constant and shift_log_prior of `particles` from
 * images[count][box²]. shared_shell as in prepare_options. sigma2[optics][box/2 + 1]; sigma_offset in px. */
enum status prepare_cuda_run(struct prepare_cuda *prepare, const struct references_cuda *references,
                             const struct sampling_cuda *sampling, const float *images,
                             const struct prepare_particle_cuda *which, double pixel_size, double mask_radius,
                             int shared_shell, const float *sigma2, double sigma_offset, void *scratch,
                             struct particles_cuda *particles, void *stream, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
