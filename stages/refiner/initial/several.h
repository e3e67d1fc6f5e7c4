/* Makes the first maps of several classes from particles alone, or finds that they are not to be had.
 *
 * As the one map (initial.h), but each start has K maps, a class each, which share the particles: an iteration finds
 * poses and classes together. Every second start improves with particles of half A alone, the others with those of half
 * B. All starts settle with many more particles before they are ranked: one that has not parted two molecules yet may
 * explain particles worse than one that never will. Held-out particles rank the settled starts: each is as probable as
 * with the maps together, by their shares. K maps are accepted only if
 *   empty       no class of the best start has lost its particles to the others (nor, before they settle, of the best
 *               of both halves);
 *   likelihood  held-out particles are more probable with the K maps than with the one map of the same half, and than with
 *               each of the K maps replaced by its opposite: each class shows something that is in the particles;
 *   agreement   a start of the other half has made the same K maps, each up to rotation, shift and hand;
 *   alike       no two of the K maps are the same map: particles that are all alike give copies of one map, or its mirror
 *               image beside it;
 *   rivals      each start of different maps explains the held-out particles less well than the same K maps of its own
 *               half do.
 * The standard of each is that of the one map. Otherwise classes begin from the one map.
 *
 * Projections tell the hand of no map, and of no class beside another. Each map gets the hand in which it is more like
 * the one map: right for classes that have most in common, and chance for molecules that have nothing in common. */
#ifndef ICESTREAM_STAGES_REFINER_INITIAL_SEVERAL_H
#define ICESTREAM_STAGES_REFINER_INITIAL_SEVERAL_H

#include <stdbool.h>

#include "common/status.h"
#include "stages/refiner/initial/starts.h"

enum { SEVERAL_MOST = 8 }; /* classes */

enum several_test {
    SEVERAL_ACCEPTED,
    SEVERAL_EMPTY,
    SEVERAL_AGREEMENT,
    SEVERAL_ALIKE,
    SEVERAL_LIKELIHOOD,
    SEVERAL_RIVALS,
};
/* Returns the name of a test that failed, as initial_model.json has it; "" for SEVERAL_ACCEPTED. */
const char *several_test_name(enum several_test test);

struct several_class {
    double share;       /* of the particles */
    double mean, least; /* FSC with the same class of the other half, as for the one map */
    double agreement;   /* Å, likewise */
    /* Mean over held-out particles: ln of how much more probable they are than with its opposite. */
    double gain, deviation;
};
struct several_decision {
    int classes;
    enum several_test failed;
    char text[256];      /* what was found, in a sentence */
    int starts, best[2]; /* starts; the best of A and of B */
    /* Mean over held-out particles, with the maps of A and of B: ln of how much more probable they are than with the
     * one map. */
    double gains[2], deviations[2];
    double alike; /* mean FSC of the two classes that are most alike; as for the one map */
    /* Standard errors by which the best different start is worse than the maps of its half, below 0 if it is better; NaN:
     * all that come near have the same maps. */
    double rival;
    struct several_class maps[SEVERAL_MOST];
    double seconds;
};

struct several_options {
    const struct initial_images *images; /* in parts; the caller's until the end */
    struct starts_options starts;        /* classes: of 2 to SEVERAL_MOST */
    int start_count;                     /* starts, an even number */
    int order;                           /* of the grid on which settled maps are judged */
    double coarse, fine;                 /* Å: limits of the first and of the last iteration */
    double wanted;                       /* Å: detail in which maps must agree */
    const float *one[2];                 /* box³, the one map of half A and of half B; the caller's until the end */
};

struct refiner;
/* Returns how many starts of so many classes are made, each map of which takes so many bytes of host memory for its
 * sums. */
int several_count_starts(const struct refiner *refiner, int classes, size_t bytes);

struct several;
enum status several_create(const struct several_options *options, struct several **ret_several, struct err *err);
void several_destroy(struct several **several);
/* Returns how long one part takes, and about how long all do, in parts of the one map: classes share the more particles
 * the more there are, and all compare each. */
static inline int several_step(int classes) {
    return classes * classes;
}
int several_steps(int starts, int classes);
/* Does a part, about a second. */
enum status several_work(struct several *several, bool *ret_complete, struct err *err);
/* Returns what was found, once it is complete. */
const struct several_decision *several_decision(const struct several *several);
/* Returns the map of a class, box³ of the small images, in the hand of the one map. Call it once the maps are
 * accepted. */
const float *several_map(const struct several *several, int class);

#endif
