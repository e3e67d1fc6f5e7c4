/* What the files of the refiner share. */
#ifndef ICESTREAM_STAGES_REFINER_REFINER_PRIVATE_H
#define ICESTREAM_STAGES_REFINER_REFINER_PRIVATE_H

#include <stdint.h>

#include "kernels/expectation/expectation.h"
#include "kernels/fourier/pixels.h"
#include "kernels/prepare/prepare.h"
#include "kernels/projector/projector.h"
#include "kernels/reconstruct/reconstruct.h"
#include "kernels/sampling/sampling.h"
#include "kernels/symmetry/symmetry.h"
#include "stages/refiner/particles.h"
#include "stages/refiner/refiner.h"

enum { BATCH_PARTICLES = 192, MASK_EDGE = 5 };

/* What one half knows and gathers in an iteration. */
struct half {
    float *map;                                                /* box³: what the next E-step compares with */
    float *unfiltered;                                         /* box³: after the final iteration, without any prior */
    float *sigma2;                                             /* [optics][shells] */
    float *tau2, *ssnr, *completeness, *sigma2_reconstruction; /* [shells] */
    struct projector *projector;
    struct accumulator *accumulator;
    int *members; /* particle indices of this iteration, in an order that does not depend on arrival */
    int member_count;
    double average_norm, sigma_offset; /* 1, px */
    double accuracy_angle, accuracy_offset;
    /* gathered */
    double *sigma2_sum; /* [optics][shells]: Σ w |cP − X|² over half-plane pixels */
    double *optics_weight;
    double norm_sum, offset2_sum, weight_sum, pmax_sum, likelihood_sum, significant_sum;
    double angle_change, offset_change, reliability_sum;
    int changed; /* particles that had a pose before */
};

/* Where the sampling stands. */
struct schedule {
    int iteration, order;
    double offset_range, offset_step; /* px, coarse */
    double perturbation;
    int current_size, resolution_shell;
    int telling_size;     /* beyond it the reference says nothing of a pose: the final iteration is larger */
    int increment;        /* shells added beyond what the maps hold */
    bool large_increment; /* a quarter of the box instead */
    int since_resolution, since_changes;
    double best_resolution; /* 1/Å */
    double smallest_angle, smallest_offset;
    double accuracy_angle, accuracy_offset;
    double average_pmax, best_pmax;
    int max_order; /* while data arrive; −1: no bound */
    bool stalled;  /* would go finer, but max_order forbids it */
    bool converged, final;
};

struct int_list {
    int *data;
    int count, capacity;
};

/* A fine pose that contributes. */
struct contribution {
    int slice, shift; /* slice: of the sub-batch; shift: fine shift of the grid */
    float weight;
};

/* One particle of a batch. */
struct batch_particle {
    struct particle *particle;
    int optics, shift[2]; /* px, integer pre-shift */
    float *masked, *unmasked, *ctf, *weight, *power, *coarse;
    struct sampling_subset near;
    struct int_list significant;  /* coarse samples: row of the coarse pass · shifts + shift */
    struct int_list orientations; /* of the grid, of the significant samples, ascending */
    struct contribution *contributions;
    int contribution_count, contribution_capacity;
    float *shift_log_prior; /* [shifts] */
    int *shift_slot;        /* [fine shifts]: row of shifted images, −1 unused */
    int used_shifts;
    size_t first_shifted;    /* row in the batch's store of shifted images */
    double residual_sums[2]; /* at the best pose: up to the last iteration's shell, up to this one's */
    double best_pose[9], best_shift[2];
    double pmax, log_likelihood, offset2, weight_sum, norm_sum;
};

struct thread_space {
    struct prepare *prepare;
    struct expectation *expectation;
    struct int_list pose_slice, pose_shift;
    float *pose_values;
    size_t pose_capacity;
    float *local_slices;
    size_t local_capacity;
    float *sum;           /* 2·n: Σ_t w X_t */
    float *cross, *power; /* n each */
    float *shifted;       /* [fine shifts][2·n] */
    size_t shifted_capacity;
};

struct grown {
    float *data;
    size_t capacity;
};

struct refiner {
    struct refiner_options options;
    char *reference_path, *mask_path;
    struct symmetry symmetry;
    struct particle_set set;
    int box, shells; /* shells = box/2 + 1 */
    double pixel_size;
    double mask_radius;      /* px */
    float *mask;             /* box³, or NULL */
    float *solvent;          /* box³: made from the map, or NULL */
    float *combined;         /* box³ */
    float *fsc, *fsc_joined; /* [shells]: of independent halves; with the low shells shared */
    double *shell_pixels;    /* [shells]: half-plane pixels */
    int all_pixels;          /* their sum */
    int sigma2_optics;       /* groups that the halves have room for */
    struct half half[2];
    struct schedule schedule;
    double resolution, seconds; /* Å */
    char remark[512];

    /* of the iteration that runs */
    bool busy, local, sharp, started;
    bool oversampled;            /* the fine pass compares children; else the coarse samples themselves */
    int rotations, translations; /* poses of the fine pass to an orientation and to a shift of the grid */
    double began;
    struct sampling sampling;
    struct fourier_pixels pixels;
    int coarse_pixels;
    int current_half, cursor;
    int batch_size, fine_shifts;
    double (*coarse_shift)[2], (*fine_shift)[2];

    struct batch_particle batch[BATCH_PARTICLES];
    struct grown coarse_slices; /* [orientations][2·coarse pixels], of the half at work */
    struct grown images, spectra, coarse, priors, fine_slices, shifted, scatter;
    bool all_slices; /* slots and fine_slices hold the whole grid for the rest of this half */
    struct int_list slots, fine_slots;
    struct thread_space *threads;
    struct expectation *expectation;

    /* poses of an earlier run, given to particles as they join */
    struct star_file *restored;
};

void thread_space_destroy(struct thread_space *spaces, int count);
enum status grown_reserve(struct grown *buffer, size_t count, const char *what, struct err *err);
enum status int_list_reserve(struct int_list *list, int capacity, struct err *err);
double refiner_now(void);

/* setup.c: once the particles' box is known */
enum status setup_allocate(struct refiner *r, struct err *err);
enum status setup_threads(struct refiner *r, int threads, struct err *err); /* their working space */
enum status setup_optics(struct refiner *r, struct err *err);               /* room for new optics groups */
enum status setup_reference(struct refiner *r, struct err *err);            /* on the particles' grid, low-passed */
enum status setup_noise(struct refiner *r, struct err *err);
enum status setup_scale(struct refiner *r, struct err *err); /* grey scale of the reference */

/* resample.c: a map on another grid; out: box³ */
enum status resample_map(const float *map, int from_box, double from_pixel, int box, double pixel_size, float *out,
                         struct err *err);
/* Raised cosine from shell − 2 to shell. */
enum status lowpass_map(float *map, int box, double shell, struct err *err);

/* expectation of one batch: members first .. first+count−1 of a half */
enum status estep_open(struct refiner *r, struct err *err);
enum status estep_batch(struct refiner *r, struct half *half, int first, int count, struct err *err);
/* coarse.c: preparation, coarse pass, significant samples */
enum status estep_coarse(struct refiner *r, struct half *half, int count, struct err *err);
enum status estep_coarse_slices(struct refiner *r, struct half *half, struct err *err);
enum status estep_reserve_values(struct thread_space *space, size_t count, struct err *err);
enum status estep_load(struct refiner *r, const struct half *half, int first, int count, struct err *err);
enum status estep_prepare(struct refiner *r, struct half *half, int count, struct err *err);
/* fine.c: fine pass, sums, back-projection */
enum status estep_fine(struct refiner *r, struct half *half, int count, struct err *err);

/* mstep.c */
enum status mstep(struct refiner *r, struct err *err);
/* Noise spectrum of `shells` shells: none less than 3 % of the largest. */
void mstep_floor_noise(float *sigma2, int shells);

/* Steps of the fine pass: °, px. */
static inline double fine_angle_step(const struct refiner *r) {
    return r->sampling.angle_step / (r->oversampled ? 2 : 1);
}
static inline double fine_offset_step(const struct refiner *r) {
    return r->sampling.offset_step / (r->oversampled ? 2 : 1);
}

/* schedule.c */
void schedule_start(struct refiner *r);
void schedule_sizes(struct refiner *r);
void schedule_after(struct refiner *r);
enum status schedule_accuracy(struct refiner *r, struct err *err);

#endif
