/* What the files of the refiner share. */
#ifndef ICESTREAM_STAGES_REFINER_REFINER_PRIVATE_H
#define ICESTREAM_STAGES_REFINER_REFINER_PRIVATE_H

#include <stdint.h>

#include "kernels/alignment/alignment.h"
#include "kernels/fourier/pixels.h"
#include "kernels/prepare/prepare.h"
#include "kernels/projector/projector.h"
#include "kernels/reconstruct/reconstruct.h"
#include "kernels/sampling/sampling.h"
#include "kernels/symmetry/symmetry.h"
#include "stages/refiner/loader.h"
#include "stages/refiner/particles.h"
#include "stages/refiner/refiner.h"
#include "stages/refiner/schedule.h"

enum { MASK_EDGE = 5, LEAST_SHELL = 5 }; /* px; below this shell there is no prior, and no less resolution */

/* A map: of a half, or of a class. */
struct reference {
    float *map;                                                /* box³: what the next E-step compares with */
    float *unfiltered;                                         /* box³: of a half, without any prior */
    float *tau2, *ssnr, *completeness, *sigma2_reconstruction; /* [shells] */
    struct projector *projector;
    struct accumulator *accumulator;
    double share;      /* of a class: of all particles */
    double weight_sum; /* gathered: Σ w */
    double resolution; /* of a class: Å, to where the particles say more than the prior */
    int seed_end;      /* of a class in the iteration that seeds: where its members end */
};

/* What one half knows and gathers in an iteration. Auto-refinement has two of them with a map each; a classification
 * one, of all particles, with a map for each class. */
struct half {
    struct reference *references;
    float *sigma2; /* [optics][shells] */
    int *members;  /* particle indices of this iteration, in an order that does not depend on arrival */
    int member_count;
    double average_norm, sigma_offset; /* 1, px */
    double accuracy_angle, accuracy_offset;
    /* gathered */
    double *sigma2_sum; /* [optics][shells]: Σ w |cP − X|² over half-plane pixels */
    double *optics_weight;
    double norm_sum, offset2_sum, weight_sum, pmax_sum, likelihood_sum, significant_sum;
    double angle_change, offset_change, reliability_sum;
    double class_change;
    int changed; /* particles that had a pose before */
};

/* Of a particle in an iteration. */
struct change {
    bool moved; /* it had a pose before; else the rest is 0 */
    double angle, offset2;
    int classes; /* 1: it went to another */
};

struct refiner {
    struct refiner_options options;
    char *reference_path, *mask_path;
    char **map_paths; /* of the references: one, or one for each class */
    int map_count;
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
    int half_count, reference_count; /* 2, 1; or 1 and the number of classes */
    struct schedule schedule;
    int shared_shell; /* of the references that there are: the last that halves share; 0: no difference is made */
    double resolution, seconds; /* Å */
    char remark[512];
    int given_box;           /* px, of the reference that was read last; */
    double given_pixel_size; /* Å, as it was taken */

    /* of the iteration that runs */
    double steps[REFINER_STEPS], step_began; /* s */
    double device_before, device_seconds;    /* s that the device has been at work: before it, in it */
    double ended, between;                   /* when the iteration before did; from then on to when this one began, s */
    bool busy, local, started;
    bool chosen; /* members are those of the particles that are present */
    size_t chosen_most;
    bool oversampled; /* the fine pass compares children; else the coarse samples themselves */
    double began;
    struct sampling sampling;
    bool sampling_local; /* made for local searches */
    struct fourier_pixels pixels;
    int coarse_pixels;
    int current_half, cursor;
    bool half_begun; /* the half at work */
    bool reading;    /* images of a batch: what fails there is tried again where it was */
    struct alignment *alignment;
    struct loader *loader;
    bool all_read;                     /* every image is in memory */
    struct workspace *workspace;       /* the alignment's, where references are; NULL: in the host's memory */
    bool sums_on_device, sums_on_host; /* of a device: those that the M-step works on */
    struct arena_step *trace;          /* of the device's memory, or NULL */
    size_t trace_count;
    /* Of a batch; they grow with it. */
    int batch_room;
    struct alignment_particle *batch;
    struct alignment_result *results;
    struct change *changes;
    float *powers;                 /* [batch][shells], of results */
    float *weights;                /* [batch][references], of results */
    float *log_shares;             /* [references]: prior of classes */
    struct projector **projectors; /* [references], as alignment takes them */
    struct accumulator **accumulators;
    int seed_class;       /* the class at work, in the iteration that seeds; −1 in all others */
    int whole_iterations; /* of a classification: with the same particles, all of them */
    size_t whole_particles;

    /* poses of an earlier run, given to particles as they join */
    struct star_file *restored;
};

/* Bytes of the host's memory to work with, about. */
static inline double host_memory(const struct refiner_options *options) {
    return options->memory > 0 ? options->memory : 4 * 0x1p30;
}

double refiner_now(void);
/* The time since the last call, or since the iteration began, went into this step. */
void refiner_spent(struct refiner *r, enum refiner_step step);

/* setup.c: once the particles' box is known */
enum status setup_allocate(struct refiner *r, struct err *err); /* all or nothing: it may be tried again */
void setup_release(struct refiner *r);
enum status setup_alignment(struct refiner *r, struct err *err); /* for options.threads */
enum status setup_optics(struct refiner *r, struct err *err);    /* room for new optics groups */
enum status setup_reference(struct refiner *r, struct err *err); /* on the particles' grid, low-passed */
enum status setup_noise(struct refiner *r, struct err *err);
enum status setup_scale(struct refiner *r, struct err *err); /* grey scale of the reference */

/* resample.c: a map on another grid; out: box³ */
enum status resample_map(const float *map, int from_box, double from_pixel, int box, double pixel_size, float *out,
                         struct err *err);
/* Raised cosine from shell − edge to shell; edge 0: sharp. */
enum status lowpass_map(float *map, int box, double shell, double edge, struct err *err);

/* A map as the sum of what lies up to a shell and of what lies beyond. */
enum status part_map(const float *map, int box, int shell, float *ret_low, float *ret_high, struct err *err);

/* trace.c: with options.memory_trace, around an iteration */
enum status trace_begin(struct refiner *r, struct err *err);
void trace_end(struct refiner *r);

/* estep.c */
enum status estep_open(struct refiner *r, struct err *err);  /* grids and pixel lists of an iteration */
enum status estep_place(struct refiner *r, struct err *err); /* where its references and sums are to be */
enum status estep_begin(struct refiner *r, struct half *half, struct err *err);
/* Maps of references first .. first+count−1 become what is projected; their sums are cleared. */
enum status estep_set_references(struct refiner *r, struct half *half, int first, int count, struct err *err);
/* Particles are compared with references first .. first+count−1 from here on; what went before is added up. */
enum status estep_compare_with(struct refiner *r, struct half *half, int first, int count, struct err *err);
/* Particles of a half from `first` on into the batch: how many. */
enum status estep_load(struct refiner *r, const struct half *half, int first, int *ret_count, struct err *err);
enum status estep_batch(struct refiner *r, struct half *half, int first, int *ret_count, struct err *err);

/* classes.c: classification */
static inline bool classifies(const struct refiner *r) {
    return r->half_count == 1;
}
/* The references' paths: one map, or the maps that a STAR file lists (rlnReferenceImage). */
enum status classes_find_maps(struct refiner *r, struct err *err);
/* Members in an order of classes, each with one by chance: where there is one map for several classes. */
enum status classes_seed(struct refiner *r, struct err *err);
enum status classes_mstep(struct refiner *r, struct err *err);
/* classes_output.c: files of a classification's iteration and, after the last one, of its end. */
enum status classes_write(const struct refiner *r, const char *folder, const char *prefix, int keep, struct err *err);

/* mstep.c */
enum status mstep(struct refiner *r, struct err *err);
/* Noise, norm and offsets, from the half's sums. */
void mstep_parameters(const struct refiner *r, struct half *half);
/* What lies outside the mask (NULL: none was made) becomes 0. */
void mstep_flatten(const struct refiner *r, const float *mask, float *map);
/* Noise spectrum of `shells` shells: none less than 3 % of the largest. */
void mstep_floor_noise(float *sigma2, int shells);

/* bands.c: shared_shell for the next E-step, by what the halves show (r->resolution). */
int bands_shared(const struct refiner *r);
/* The reference's map becomes what is projected. */
enum status bands_set_reference(struct refiner *r, const struct reference *reference, struct err *err);

/* Steps of the fine pass: °, px. */
static inline double fine_angle_step(const struct refiner *r) {
    return r->sampling.angle_step / (r->oversampled ? 2 : 1);
}
static inline double fine_offset_step(const struct refiner *r) {
    return r->sampling.offset_step / (r->oversampled ? 2 : 1);
}

/* schedule.c */
/* How far the first iteration compares, px. */
int schedule_first_size(const struct refiner *r);
void schedule_start(struct refiner *r);
void schedule_sizes(struct refiner *r);
void schedule_after(struct refiner *r);
/* The last shell in which a map's signal outweighs its noise. */
int schedule_resolution_shell(const struct refiner *r, const struct reference *reference);

/* accuracy.c: of a half whose E-step is done and whose reference is still there */
enum status accuracy_of_half(struct refiner *r, struct half *half, struct err *err);

#endif
