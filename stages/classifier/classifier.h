/* Classifies a growing set of particles in 2D: chooses the next batch, adds and replaces classes, and decides when
 * the classification has converged.
 *
 * Stepwise EM: a batch holds a few hundred particles, new particles first. Sums of earlier batches fade, so that they
 * stand for at most one pass over all particles. Each particle is compared again until it has had its share of visits.
 * At the end of the stream, passes over all particles follow until fewer than 3 % of the particles change class. */
#ifndef ICESTREAM_STAGES_CLASSIFIER_CLASSIFIER_H
#define ICESTREAM_STAGES_CLASSIFIER_CLASSIFIER_H

#include "common/harness/choices.h"
#include "stages/classifier/dataset.h"
#include "stages/classifier/estep.h"
#include "stages/classifier/model.h"
#include "stages/classifier/quality.h"

struct stage_descriptor;

struct classifier_options {
    /* The parameters that a user sets (parameters.c). */
    int classes;
    double diameter;                                       /* Å; NaN: 0.8 of the box */
    double tau_fudge, psi_step, offset_range, offset_step; /* 1, °, px, px */
    char *keep;                                            /* the text of `rule` */
    double off_centre; /* Å: particles farther from their picks are left out; NaN: see off_centre_limit in snapshot.c */
    double resolution; /* Å: finer detail is not compared */
    bool cut;          /* images are cut to it */
    int normalise;     /* enum image_check_mode */
    int particles_per_class, minimum_particles;
    double visits; /* of each particle before the final passes */
    int final_passes;
    double snapshot_interval; /* s */
    int image_memory;         /* MiB */
    char *scratch;            /* folder for copies of images (common/harness/scratch.h); NULL: none */
    double scratch_size;      /* GiB; NaN: what is free */
    double memory; /* GiB for comparing, of each device or of the host. 0 or NaN: kernels/alignment finds it */
    int devices;   /* CUDA devices that share the E-step; used by the stage alone. 0: all of its `gpu` */
    int seed;
    bool ignore_optics; /* aberrations are not corrected */
    /* Values that the stage adds. */
    struct quality_rule rule;                      /* which classes are kept */
    struct device device;                          /* of the E-step */
    struct device sharing[ALIGNMENT_DEVICES_MOST]; /* that share the E-step, the first of them `device` */
    int sharing_count;                             /* 0: `device` alone */
    int threads;
};

struct classifier {
    struct classifier_options options;
    struct dataset *dataset;
    const struct choices *choices; /* by hand; NULL: none */
    struct model *model;           /* NULL until there are enough particles */
    struct estep *estep;
    size_t *order; /* of particles in the pass under way */
    size_t order_count, order_next, order_capacity;
    size_t *batch;
    size_t batch_count, batch_next, batch_capacity; /* one half after the other */
    size_t *sorted, sorted_capacity;                /* space for sorting a batch */
    size_t *known_next, known_next_capacity;        /* particles of the next batch as far as they are known */
    size_t next_count;                              /* particles in `sorted` that the next batch will probably hold */
    struct estep_result pass;                       /* sums since the pass began */
    double pass_seen, last_changed;                 /* fraction of particles that changed class in the last pass */
    double probability;
    double visits; /* by all particles so far */
    int updates, final_done;
    size_t first_unseen; /* all particles before it have been visited */
    bool batch_is_everything;
    bool expected; /* the dataset knows which images the batch needs */
    bool restored; /* the sums are empty: the first batch must hold all particles */
    unsigned random;
};

extern const struct stage_descriptor classifier_stage;

/* The caller keeps the dataset. */
void classifier_init(struct classifier *classifier, const struct classifier_options *options, struct dataset *dataset);
void classifier_clear(struct classifier *classifier);

struct classifier_progress {
    bool more;    /* work is left */
    bool updated; /* the averages have changed */
};
/* Does one slice of work, about a second at most. final: no more particles come. */
enum status classifier_step(struct classifier *classifier, bool final, struct classifier_progress *ret_progress,
                            struct err *err);
/* Lets a restored classification, whose classes are not judged yet, compare all particles once more. */
void classifier_review(struct classifier *classifier);
/* Makes the model and the workspaces for the box of the particles. Does nothing if they exist. */
enum status classifier_start(struct classifier *classifier, struct err *err);

#endif
