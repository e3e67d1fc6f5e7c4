/* Makes maps from particles alone: starts from particles in poses chosen by chance, and improves them by stepwise
 * expectation maximisation (the sums of earlier iterations fade). Each start is a map of its own, compared with the
 * particles of one half alone. */
#ifndef ICESTREAM_STAGES_REFINER_INITIAL_STARTS_H
#define ICESTREAM_STAGES_REFINER_INITIAL_STARTS_H

#include "common/device.h"
#include "kernels/symmetry/symmetry.h"
#include "stages/refiner/initial/images.h"

struct starts_options {
    struct device device;
    int threads;
    double memory;                   /* GiB, of the device that compares; 0: all that is free */
    double diameter;                 /* Å */
    const struct symmetry *symmetry; /* the caller's */
    int seed;
};

enum { STARTS_ORDERS = 3 };

struct starts;

/* Returns the finest detail (Å) of images that is compared. */
double starts_finest(const struct initial_images *images);

/* count: number of starts, taken in turn from half A and half B. The images stay the caller's. */
enum status starts_create(const struct initial_images *images, const struct starts_options *options, int count,
                          struct starts **ret_starts, struct err *err);
void starts_destroy(struct starts **starts);

/* Makes the map of a start anew, of particles in poses chosen by chance. */
enum status starts_random(struct starts *starts, int start, struct err *err);

/* Gives a start its map, box³, in place of one by chance. Nothing stays of what the start has found so far. */
enum status starts_give(struct starts *starts, int start, const float *map, struct err *err);

struct starts_step {
    int particles; /* of the half, compared in this iteration */
    int order;     /* of the coarse grid (kernels/sampling), 1 to STARTS_ORDERS; compared poses are twice as fine */
    double limit;  /* Å: finer detail of the map is not compared */
    double gain;   /* 0 to 1: share of the new sums in the map; 1: nothing of earlier iterations stays */
    double fudge;  /* on the signal's power in the Wiener filter */
};
/* Does an iteration of a start. */
enum status starts_iterate(struct starts *starts, int start, const struct starts_step *step, struct err *err);

/* Compares particles of a part with a map (box³). Returns for each the logarithm of how much more probable its image is
 * with the map, in any pose, than without. ret_gains: [particles of the part]. */
enum status starts_judge(struct starts *starts, const float *map, enum initial_part part, int order, double limit,
                         double *ret_gains, struct err *err);

struct starts_state {
    int half;         /* enum initial_part */
    const float *map; /* box³, the starts' own */
    double pmax;      /* mean, of the last iteration */
};
struct starts_state starts_state(const struct starts *starts, int start);

#endif
