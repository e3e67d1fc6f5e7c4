/* Holds what the E-step passes to kernels/alignment, and what comes back: a batch of particles, and the references. */
#ifndef ICESTREAM_STAGES_REFINER_BATCH_H
#define ICESTREAM_STAGES_REFINER_BATCH_H

#include "kernels/alignment/alignment.h"

/* The move of a particle in an iteration. */
struct change {
    bool moved;            /* the particle had a pose before; else the rest is 0 */
    double angle, offset2; /* °, px² */
    int classes;           /* 1: the particle went to another class */
};

/* All 0: empty. */
struct batch {
    int room; /* particles that the arrays hold */
    struct alignment_particle *particles;
    struct alignment_result *results;
    struct change *changes;
    int *taken;            /* [room]: index of each particle's image among those read; images of twins are skipped */
    float *powers;         /* [room][shells]: of results */
    float *weights;        /* [room][references]: of results */
    struct sampling given; /* poses of all particles, in an iteration that keeps them (given_poses.h) */
    /* [references], as alignment takes them; NULL until batch_references */
    float *log_shares; /* prior of classes */
    struct projector **projectors;
    struct accumulator **accumulators;
};

/* Makes room for at least count particles. What the arrays held is lost if they grow. */
enum status batch_reserve(struct batch *batch, int count, int shells, int references, struct err *err);
/* Makes room for the lists of references, once. */
enum status batch_references(struct batch *batch, int references, struct err *err);
void batch_release(struct batch *batch);

#endif
