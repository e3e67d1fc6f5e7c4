/* Makes maps from particles alone: starts from particles in poses chosen by chance, and improves them by stepwise
 * expectation maximisation (the sums of earlier iterations fade). Each start is a map of its own, or several that share
 * the particles as classes, and is compared with the particles of one half alone. */
#ifndef ICESTREAM_STAGES_REFINER_INITIAL_STARTS_H
#define ICESTREAM_STAGES_REFINER_INITIAL_STARTS_H

#include "common/device.h"
#include "kernels/alignment/alignment.h"
#include "kernels/symmetry/symmetry.h"
#include "stages/refiner/initial/images.h"

struct starts_options {
    struct device device;
    /* Devices that the starts are dealt out to; device_count 0 or 1: `device` alone, which else is the first of them. What
     * is found does not depend on them. */
    struct device devices[ALIGNMENT_DEVICES_MOST];
    int device_count, threads;
    double memory;                   /* GiB, most of the device that compares; 0: what is free */
    double diameter;                 /* Å */
    const struct symmetry *symmetry; /* the caller's */
    int seed;
    int classes; /* maps of each start; 0 counts as 1 */
};

enum { STARTS_ORDERS = 3 };

struct starts;

/* Returns the finest detail (Å) of images that is compared. */
double starts_finest(const struct initial_images *images);

/* Returns the bytes of host memory that each map of a start takes for its sums. */
size_t starts_bytes(const struct initial_images *images);

/* count: number of starts, taken in turn from half A and half B. The images stay the caller's. */
enum status starts_create(const struct initial_images *images, const struct starts_options *options, int count,
                          struct starts **ret_starts, struct err *err);
void starts_destroy(struct starts **starts);

/* Returns how many starts all devices work on at once; 1 on the CPU, whose threads all work on one start. Functions
 * below that take several starts or maps are as fast as they can be with so many. */
int starts_at_once(const struct starts *starts);

/* Makes the maps of starts which[count] anew, of particles in poses chosen by chance. */
enum status starts_random(struct starts *starts, const int *which, int count, struct err *err);

/* Gives a start its maps, [classes][box³], in place of those by chance. Nothing stays of what the start has found so
 * far. */
enum status starts_give(struct starts *starts, int start, const float *maps, struct err *err);

struct starts_step {
    int particles; /* of the half, compared in this iteration */
    int order;     /* of the coarse grid (kernels/sampling), 1 to STARTS_ORDERS; compared poses are twice as fine */
    double limit;  /* Å: finer detail of the map is not compared */
    double gain;   /* 0 to 1: share of the new sums in the map; 1: nothing of earlier iterations stays */
    double fudge;  /* on the signal's power in the Wiener filter */
    /* Classes get priors by which each takes the same share: a map that is a little better would take all particles,
     * have less noise for it, and keep them. false: all have the same prior. */
    bool balance;
};
/* Does an iteration of starts which[count], all different. */
enum status starts_iterate(struct starts *starts, const int *which, int count, const struct starts_step *step,
                           struct err *err);

struct starts_judgement {
    const float *map; /* box³ */
    enum initial_part part;
    double *ret_gains; /* [particles of the part] */
};
/* Compares particles of a part with a map, for count maps. Returns for each particle the logarithm of how much more
 * probable its image is with the map, in any pose, than without. */
enum status starts_judge(struct starts *starts, const struct starts_judgement *maps, int count, int order, double limit,
                         struct err *err);

struct starts_state {
    int half;             /* enum initial_part */
    const float *map;     /* [classes][box³], the starts' own */
    const double *shares; /* [classes]: of the particles; those of late iterations count most */
    double pmax;          /* mean, of the last iteration */
};
struct starts_state starts_state(const struct starts *starts, int start);

#endif
