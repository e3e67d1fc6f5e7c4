/* The parts of the E-step's fine pass and sums that run on a CUDA device (kernels/alignment/alignment.h; the coarse
 * product and its selection are in kernels/expectation/expectation_cuda.h). Pointers are the device's unless said
 * otherwise; work is queued on `stream` (a cudaStream_t) and not waited for. Results repeat bit for bit.
 *
 * Numbers of a batch:
 *   row    = (reference · directions + direction) · psi_count + psi, up to 2^31 − 1
 *   sample = row · shift_count + shift, modulo 2^32: whoever has it knows the row            (coarse)
 *   rotation = direction child · psi_children + psi child; there are 8, 2 in 2-D, or 1       (fine)
 *   slice  = a row and a rotation; of the whole grid it has the number row · rotations + rotation
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

/* A grid of poses. Matrix of a row: rows 0, 1 of its frame turned by psi (c f0 + s f1, −s f0 + c f1), row 2 as it is.
 * Frames and shifts are perturbed already. Child arrays are those of the fine pass; where it has no children they are
 * the coarse ones. Children of a shift, child = x · 2 + y, lie about its place by the same ∓ d in x and y for all
 * shifts. */
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

/* What images are compared with and over which pixels; grids have one size. shell[count], shell_begin[shells]
 * (kernels/fourier/pixels.h). */
struct references_cuda {
    struct grid_cuda grids[ALIGNMENT_REFERENCES_MOST];
    struct pixels_cuda pixels;
    const short *shell;
    int coarse_pixels;
    const float *slices; /* of all rows for the fine pass, by fine_slices_cuda; NULL: taken from grids where needed */
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

/* Rows of the grid that a particle is compared with, and the samples of each: ascending by particle, row, shift. Row i
 * has samples first .. (row i+1).first − 1; one more entry ends the list. */
struct row_cuda {
    int particle, row;
    uint32_t first;
    float log_prior;
};
struct samples_cuda {
    uint32_t count, row_count;   /* known to the host */
    const struct row_cuda *rows; /* [row_count + 1] */
    const uint32_t *samples;     /* [count] */
    const uint32_t *begin;       /* [particles + 1]: first sample of each particle (the paper's RowPointer) */
    const uint32_t *row_begin;   /* [particles + 1] */
};

/* Slices of the fine pass for rows first .. first + count - 1 of the grid:
 * ret_slices[count · rotations][2·fine_slice_row] (re, im), filled up with zeros. Where all of them fit into memory,
 * comparisons take several times less time from these than from grids. */
enum { FINE_SLICE_STEP = 128 };
static inline size_t fine_slice_row(const struct references_cuda *references) {
    return ((size_t)references->pixels.count + FINE_SLICE_STEP - 1) / FINE_SLICE_STEP * FINE_SLICE_STEP;
}
enum status fine_slices_cuda(const struct references_cuda *references, const struct sampling_cuda *sampling, int first,
                             int count, float *ret_slices, void *stream, struct err *err);

/* compare: differences without their constants, of each sample's children (fine) or of the sample itself over
 * coarse_pixels (not fine). ret_values[samples.count][rotations][shift_children]: the paper's block-compressed array. */
enum status compare_cuda(const struct references_cuda *references, const struct sampling_cuda *sampling,
                         const struct particles_cuda *particles, const struct samples_cuda *samples, int fine,
                         float *ret_values, void *stream, struct err *err);

/* Bytes of n samples as the block-compressed array has them: `each` values and an index. */
static inline size_t blocks_bytes(size_t n, int each, size_t value) {
    return n * ((size_t)each * value + sizeof(uint32_t));
}

/* From the products of the coarse pass (dots = −D, norms = N/2, as coarse_cuda_product has them): D and N of each
 * particle at the pose of the first `orientations` rows where D²/N is largest, 0 where no D is positive; and the mean of
 * the first particle's norms over these rows. ret_fits[particles][2], ret_mean[1]. */
enum status best_fits_cuda(const float *dots, const float *norms, int particles, int shifts, int rows, int orientations,
                           double *ret_fits, double *ret_mean, void *stream, struct err *err);

/* From bits (posterior_cuda) to the list of samples. counts: what it will hold, to be waited for by the host. */
struct sample_counts {
    uint32_t samples, rows;
};
/* ret_counts[count], begin and row_begin [count + 1]. */
enum status compress_count_cuda(const uint32_t *kept, int count, int n_shifts, int n_rows,
                                struct sample_counts *ret_counts, uint32_t *ret_begin, uint32_t *ret_row_begin,
                                void *stream, struct err *err);
/* row_log_prior[n_rows], or NULL. */
enum status compress_fill_cuda(const uint32_t *kept, int count, int n_shifts, int n_rows, const float *row_log_prior,
                               const uint32_t *begin, const uint32_t *row_begin, struct row_cuda *ret_rows,
                               uint32_t *ret_samples, void *stream, struct err *err);

/* Differences become weights in place: exp(least − (value − priors)), the largest of each particle 1. each = values of a
 * sample (children). ret_least[particles]. */
enum status weigh_cuda(const struct particles_cuda *particles, const struct samples_cuda *samples,
                       const struct sampling_cuda *sampling, int each, float *values, float *ret_least, void *stream,
                       struct err *err);

/* Samples whose weight (each = 1) reaches the particle's threshold, as a list of their own. First call: NULL lists, to
 * fill ret_counts, begin, row_begin; second: the lists. */
enum status keep_count_cuda(const struct samples_cuda *samples, int particles, const float *weights,
                            const struct top_sum *sums, struct sample_counts *ret_counts, uint32_t *ret_begin,
                            uint32_t *ret_row_begin, void *stream, struct err *err);
enum status keep_fill_cuda(const struct samples_cuda *samples, int particles, const float *weights,
                           const struct top_sum *sums, const uint32_t *begin, const uint32_t *row_begin,
                           struct row_cuda *ret_rows, uint32_t *ret_samples, void *stream, struct err *err);

/* ret_begin[particles + 1] = begin · each: where the values of each particle's samples begin, as top_sum_cuda asks. */
enum status values_begin_cuda(const uint32_t *begin, int particles, int each, size_t *ret_begin, void *stream,
                              struct err *err);

/* The samples of rows of which every shift is looked at: ret_samples[row_count · shifts]. */
enum status whole_rows_cuda(const struct row_cuda *rows, size_t row_count, int shifts, uint32_t *ret_samples,
                            void *stream, struct err *err);

/* A pose of the fine pass. */
struct pose_cuda {
    uint32_t row;
    uint16_t rotation, shift;
};
/* Fine poses that contribute: ascending by particle, row, rotation, fine shift. Weights sum to 1 over all poses, kept or
 * not. */
struct contribution_cuda {
    struct pose_cuda pose;
    int particle;
    float weight;
};
/* What a particle's fine pass came to. */
struct best_cuda {
    double sum, offset2, weight_sum; /* Σ of weights with the largest 1; Σ w |own + shift|²; Σ w of contributions */
    float least, largest;
    struct pose_cuda pose; /* of the largest */
    uint32_t contributions, left_out;
    double nothing; /* doubt_cuda */
};
/* own[particles][2]: integer shifts. sums: of the weights (top_sum_cuda). ret_begin[particles + 1]: contributions. */
enum status contributions_count_cuda(const struct particles_cuda *particles, const struct samples_cuda *samples,
                                     const struct sampling_cuda *sampling, const float *weights,
                                     const struct top_sum *sums, const float *least, const int *own,
                                     struct best_cuda *ret_best, uint32_t *ret_begin, void *stream, struct err *err);
/* ret_reference_weights[particles][references], or NULL. */
enum status contributions_fill_cuda(const struct particles_cuda *particles, const struct samples_cuda *samples,
                                    const struct sampling_cuda *sampling, const float *weights,
                                    const struct top_sum *sums, const struct best_cuda *best, const uint32_t *begin,
                                    struct contribution_cuda *ret_contributions, float *ret_reference_weights,
                                    void *stream, struct err *err);

/* A copy in which particles have numbers larger by `add`. */
enum status contributions_copy_cuda(const struct contribution_cuda *from, uint32_t count, int add,
                                    struct contribution_cuda *ret_contributions, void *stream, struct err *err);

/* Residuals of each particle. ret_power[particles][shells]: per shell up to the current size the mean of
 * Σ w |c P − X|²/2 / Σ w; beyond, and for a particle to which nothing contributes, particles.power.
 * ret_residuals[particles][2]: |c P − X|² at the best pose up to known_shell[particle] and up to all; NULL: not
 * wanted. */
static inline size_t residuals_scratch(const struct particles_cuda *particles) {
    return (size_t)particles->count * particles->stride * sizeof(float);
}
enum status residuals_cuda(const struct references_cuda *references, const struct sampling_cuda *sampling,
                           const struct particles_cuda *particles, const struct contribution_cuda *contributions,
                           const uint32_t *begin, const struct best_cuda *best, int shells, const int *known_shell,
                           void *scratch, float *ret_power, double *ret_residuals, void *stream, struct err *err);

/* alignment_reliability of each particle: before[particles], the residual of the last iteration, and residuals_cuda's
 * squares, which are not looked at without a norm. */
enum status reliability_cuda(enum alignment_norm norm, const double *before, const double *residuals, int particles,
                             float *ret_factors, void *stream, struct err *err);

/* Images that may show nothing: alignment_iteration.doubtful. */
struct doubt {
    double nothing, norm_least, norm_most; /* as struct alignment_particle has them */
};
/* After residuals and reliability, before sums. ret_power becomes the mean with what is nothing; best->nothing and
 * left_out; what contributes is multiplied by 1 − nothing, or by 0 where the norm is out of bounds: contributions,
 * best->weight_sum and offset2, reference_weights[particles][references], and, only by 0, factors.
 * shell_pixels[shells]: of the half plane. */
enum status doubt_cuda(const struct particles_cuda *particles, const struct doubt *doubts, const double *shell_pixels,
                       int shells, const uint32_t *begin, struct best_cuda *best,
                       struct contribution_cuda *contributions, float *power, float *reference_weights, int references,
                       float *factors, void *stream, struct err *err);

/* Back-projection in 64-bit fixed point: integers have the same sum in any order. Voxels as
 * kernels/reconstruct/accumulator_private.h has them (re, im, weight, 0), about the origin, [nz][ny][nx]. A unit is 1/data_scale
 * of re and im, 1/weight_scale of the weight; both are powers of two.
 *
 * What bounds a voxel: a slice gives it at most its largest pixel, times 1.03 (pixels lie two voxels apart, and the
 * weights with which those about a voxel reach it sum to no more), and the weights of a particle's poses sum to 1. So
 * each particle adds at most its largest |factor c X/σ²| to re and im and its largest c²/σ² to the weight. These maxima
 * are added up, in units; where they come to more than 2^62, `overflow` is set. Sums up to 2^63 fit: none is ever wrong
 * unnoticed. */
struct sums_fill {
    uint32_t overflow, unused;
    uint64_t data, weight; /* what a voxel may hold, at most */
};
struct sums_cuda {
    int64_t *voxels[ALIGNMENT_REFERENCES_MOST];
    int nx, ny, nz, reach, r_max, dimensions;
    double data_scale, weight_scale;
    float weight_most;          /* 1/σ² beyond it counts as this */
    struct sums_fill *overflow; /* one, of the device, cleared with the voxels */
};
/* Chooses the scales, on the host. There is room for `particles` (the most that are added between two clearings; 10^6
 * where it is not known) whose CTFs are at most 2 in the shell of least noise, and whose largest pixels average at most
 * 64 σ there. Of 62 bits, 10^6 particles take 20: what a σ of noise gives is then 2^36 units where noise is least, and
 * 2^36 r where it is 1/r of that; c²/σ² is 2^40 and 2^40 r². r² is at least 2^-24: 1/σ² of shells with less noise than
 * 2^-24 of the most, which images have that were filtered, is cut off at weight_most. sigma2[optics][shells] of the
 * host; shells 1 .. r_max count, those without noise do not. */
void sums_scale_cuda(const float *sigma2, int optics, int shells, double particles, struct sums_cuda *sums);
/* Scratch that back_project_cuda wants for so many contributions. */
enum status back_project_scratch(uint32_t contributions, size_t *ret_bytes, struct err *err);
/* factor[particles]: multiplies what an image gives (reliability); begin[particles + 1], count = begin[particles], known
 * to the host. Contributions are sorted by slice; what all particles give to a slice is summed, in their order, and
 * scattered once, so that sums depend, in their last bits, on which particles are added together; slices must then be
 * such as 32 bits number (back_project_can_sort). near: slices of a
 * particle lie next to each other (local searches); what each particle gives near a place of the grid is summed first
 * instead, where back_project_can_be_near. Sums are the same but for rounding, and those of each particle are its own;
 * then no scratch is looked at, else no `begin`. */
int back_project_can_be_near(const struct sampling_cuda *sampling, const struct sums_cuda *sums);
int back_project_can_sort(const struct sampling_cuda *sampling);
enum status back_project_cuda(const struct references_cuda *references, const struct sampling_cuda *sampling,
                              const struct particles_cuda *particles, const float *factor,
                              const struct contribution_cuda *contributions, const uint32_t *begin, uint32_t count,
                              int near, void *scratch, const struct sums_cuda *sums, void *stream, struct err *err);
/* In place: fixed point becomes doubles. */
enum status sums_to_double_cuda(const struct sums_cuda *sums, int reference, void *stream, struct err *err);
/* What all of so many references hold is added to doubles of no smaller reach, each as an accumulator has them. */
struct sums_to_cuda {
    double *voxels[ALIGNMENT_REFERENCES_MOST];
    int reach;
};
enum status sums_add_cuda(const struct sums_cuda *sums, int references, const struct sums_to_cuda *to, void *stream,
                          struct err *err);

/* Preparation of images (kernels/prepare) and CTFs. */
struct prepare_cuda;
enum status prepare_cuda_create(int box, int most, struct prepare_cuda **ret_prepare, struct err *err);
void prepare_cuda_destroy(struct prepare_cuda **prepare);
struct prepare_particle_cuda { /* of the device */
    const float *image;        /* [box²] of the device; NULL: in its place among `images` */
    int shift_x, shift_y, optics, has_ctf;
    float scale;
    double ctf[7]; /* struct ctf_terms */
};
/* The transform of a mask that is even about its centre, [box][box] with the phase origin there, 1/box² norm: real. Of
 * the host, as the mask is. */
enum status prepare_spread(int box, const float *mask, float *ret_spread, struct err *err);
/* Bytes of scratch for a batch, and the work: fills masked, unmasked, ctf, weight, power, constant, shift_log_prior of
 * `particles` from images[count][box²]. shared_shell as prepare_options has it. sigma2[optics][box/2 + 1]; sigma_offset
 * px. */
size_t prepare_cuda_scratch(const struct prepare_cuda *prepare, int count, int shared_shell);
enum status prepare_cuda_run(struct prepare_cuda *prepare, const struct references_cuda *references,
                             const struct sampling_cuda *sampling, const float *images,
                             const struct prepare_particle_cuda *which, double pixel_size, double mask_radius,
                             int shared_shell, const float *sigma2, double sigma_offset, void *scratch,
                             struct particles_cuda *particles, void *stream, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
