/* 2-D classification of a growing set of particles: which batch comes next, when classes are added or replaced, and
 * when all is settled.
 *
 * Stepwise EM: batches of a few hundred particles, new ones first; sums of earlier batches fade so that they stand for
 * at most one pass over all particles. Every particle is seen again until it has had its share of visits. At the end of
 * the stream full passes follow until fewer than 3 % of the particles change class. */
#ifndef ICESTREAM_STAGES_CLASSIFIER_CLASSIFIER_H
#define ICESTREAM_STAGES_CLASSIFIER_CLASSIFIER_H

#include "stages/classifier/dataset.h"
#include "stages/classifier/estep.h"
#include "stages/classifier/model.h"
#include "stages/classifier/quality.h"

struct stage_descriptor;

struct classifier_options {
    /* What a user sets (parameters.c). */
    int classes;
    double diameter;                                       /* Å; NaN: 0.8 of the box */
    double tau_fudge, psi_step, offset_range, offset_step; /* 1, °, px, px */
    char *keep;                                            /* the text of `rule` */
    double off_centre; /* Å: particles farther from their picks are left out; NaN: see off_centre_limit in snapshot.c */
    double resolution; /* Å: finer detail is not compared */
    int particles_per_class, minimum_particles;
    double visits; /* of each particle before the final passes */
    int final_passes;
    double snapshot_interval; /* s */
    int image_memory;         /* MiB */
    double memory;            /* GiB for comparing, of the device or of the host; 0: as kernels/alignment finds */
    int seed;
    /* What the stage adds. */
    struct quality_rule rule; /* which classes are kept */
    struct device device;     /* of the E-step */
    int threads;
};

struct classifier {
    struct classifier_options options;
    struct dataset *dataset;
    struct model *model; /* NULL until there are enough particles */
    struct estep *estep;
    size_t *order; /* of particles in the pass under way */
    size_t order_count, order_next, order_capacity;
    size_t *batch;
    size_t batch_count, batch_next, batch_capacity; /* those of one half before those of the other */
    size_t *sorted, sorted_capacity;                /* to sort them in */
    struct estep_result pass;                       /* since the pass began */
    double pass_seen, last_changed;                 /* fraction of the last whole pass */
    double probability;
    double visits; /* of all particles so far */
    int updates, final_done;
    size_t first_unseen; /* all particles before it have been visited */
    bool batch_is_everything;
    bool restored; /* the sums are empty: the first batch must be everything */
    unsigned random;
};

extern const struct stage_descriptor classifier_stage;

/* The caller keeps the dataset. */
void classifier_init(struct classifier *classifier, const struct classifier_options *options, struct dataset *dataset);
void classifier_clear(struct classifier *classifier);

struct classifier_progress {
    bool more;    /* there is work left */
    bool updated; /* the averages have changed */
};
/* One slice of work, about a second at most. final: no more particles come. */
enum status classifier_step(struct classifier *classifier, bool final, struct classifier_progress *ret_progress,
                            struct err *err);
/* Makes the model and the workspaces for the particles' box; nothing when they are there. */
enum status classifier_start(struct classifier *classifier, struct err *err);

#endif
