#ifndef ICESTREAM_STAGES_CLASSIFIER_ESTEP_PRIVATE_H
#define ICESTREAM_STAGES_CLASSIFIER_ESTEP_PRIVATE_H

#include "estep.h"
#include "kernels/expectation/expectation.h"
#include "kernels/fourier/pixels.h"
#include "kernels/prepare/prepare.h"

enum { MAX_SIGNIFICANT = 256, CHILDREN = 8 }; /* of a coarse pose: 2 angles × 4 shifts */

struct estep_pose {
    int class_index, psi, shift; /* psi, shift: of the fine grids */
    float weight;
};

/* One thread's own. */
struct estep_worker {
    struct prepare *prepare;
    struct expectation *fine;
    float *weights; /* coarse poses */
    float *diff2;   /* fine poses */
    double *log_weights;
    int *slice, *shift;
    float *shifted;                /* 2·count */
    float *slices, *slice_weights; /* back-projection: [fine psi][2·count], [fine psi][count] */
    float *matrices;               /* [fine psi][9] */
    int *slot;                     /* of a fine psi in the above, -1: not used */
};

/* One particle of the chunk. */
struct estep_particle {
    float *masked, *unmasked; /* 2·count */
    float *ctf, *inverse_noise;
    float *power;        /* box/2+1: mean |X|²/2 of the masked image */
    double *residual;    /* box/2+1: Σ |cP − X|² of the likeliest pose */
    double old_x, old_y; /* px: whole-pixel shift made beforehand */
    struct estep_pose *poses;
    int pose_count;
    float empty; /* posterior of the empty class */
    int best;    /* likeliest pose, -1: none */
    double offset2;
    double squares; /* Σ of the residual over the half plane */
    bool outlier;   /* far noisier or smoother than the others: counts for nothing */
};

struct estep {
    struct estep_options options;
    int box, n_psi, n_shifts;
    double psi_step; /* as it divides 360° */
    double psi_offset;
    double (*shifts)[2], (*fine_shifts)[2];
    struct fourier_pixels pixels; /* of the size in use */
    int size, count, coarse_count;
    int *shell_count; /* half-plane pixels of each shell, box/2+1 */
    float *matrices;  /* coarse then fine, 9 each */
    float *coarse_slices, *fine_slices;
    size_t coarse_capacity, fine_capacity;
    float *diff2;
    size_t diff2_capacity;
    struct expectation *coarse;
    struct estep_worker *workers;
    struct estep_particle particles[ESTEP_CHUNK];
    float *image_scratch; /* chunk × box² */
    float *log_class;     /* class_capacity */
    size_t weights_capacity;
    int class_count, class_capacity;
    double log_empty;
    bool with_empty;
};

/* estep_poses.c: the posterior of one particle from its coarse differences. */
enum status estep_posterior(struct estep *estep, struct estep_worker *worker, struct estep_particle *particle,
                            const float *coarse_diff2, double sigma_offset, struct dataset_particle *ret_particle,
                            struct err *err);
/* estep_sums.c: the chunk into the sums of all classes, noise, offsets and norms. */
enum status estep_add(struct estep *estep, struct model *model, const size_t *which, int count, struct err *err);
void estep_fine_matrix(const struct estep *estep, int fine_psi, float *ret_matrix);

#endif
