/* Makes the first map of a refinement from its particles alone, or finds that there is none to be had.
 *
 * Several starts, each from particles in poses chosen by chance, are improved on small images: every second one by
 * particles of half A alone, the others by those of half B (images.h). Particles that are held out rank them. The best
 * of each half that are the same map go on, and so does the best different one. Nothing that A and B have in common
 * comes from anywhere but the particles, so a map is accepted only if
 *   agreement   the two best maps are the same, up to rotation, shift and hand: the FSC of their non-spherical parts is
 *               at least 0.7 on average up to `wanted`, and 0.143 in each shell (a ball that both share agrees by itself);
 *   likelihood  held-out particles are more probable with either map than with its opposite: the same rotational
 *               average, and the negative of the rest;
 *   rivals      no other start made a different map that explains the held-out particles as well. If one did, both go on
 *               with finer detail, in a sphere that fits the particle, and held-out particles decide (contest.h). The
 *               maps that win must pass the other tests again.
 * If the best maps do not agree, or are no better than their opposites, chance may have led the starts of a half astray: a
 * start finds the map soon, or late, or not at all. So another round follows. The CPU, which makes few starts, makes as many
 * again, at most as many as a GPU makes, and the best of all are improved further. If the last round fails there is no
 * model: more particles, or better ones, may give it later.
 *
 * With several classes wanted, maps of the classes are looked for after that, by tests of their own (several.h): a
 * mixture of molecules may have those where it has no one map.
 *
 * Projections tell no hand: the map is the right one or its mirror image.
 *
 * Works on the refiner's device, within its `memory`: there on many starts side by side (lane.h), on the CPU on fewer,
 * one after another. Maps are compared with each other on the CPU. Source: the agreement of independent starts, instead
 * of a person, decides; the iteration is the stepwise form of expectation maximisation (Cappé & Moulines 2009). */
#ifndef ICESTREAM_STAGES_REFINER_INITIAL_INITIAL_H
#define ICESTREAM_STAGES_REFINER_INITIAL_INITIAL_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"
#include "stages/refiner/initial/images.h"

struct initial;
struct several_decision;
struct starts_options;

enum initial_test {
    INITIAL_ACCEPTED,
    INITIAL_FEW, /* too few particles */
    INITIAL_AGREEMENT,
    INITIAL_LIKELIHOOD,
    INITIAL_RIVALS,
};
/* Returns the name of a test that failed, as initial_model.json has it; "" for INITIAL_ACCEPTED. */
const char *initial_test_name(enum initial_test test);

/* Two maps are the same: their FSC on average, and in each shell that tells (initial_summarise). */
#define INITIAL_AGREED 0.7
#define INITIAL_LEAST_FSC 0.143

/* Fewest particles of an attempt. */
enum { INITIAL_LEAST = 100, INITIAL_STARTS_MOST = 48 };
/* Most rounds of an attempt, if the best maps of the halves do not agree. */
enum { INITIAL_ROUNDS = 3 };
struct initial_start {
    int half;         /* 0: A, 1: B */
    double gain;      /* mean over held-out particles: ln of how much more probable they are than with the opposite */
    double deviation; /* standard error of the mean */
    double pmax;      /* mean probability of the best pose */
    double likeness;  /* correlation with the start of most gain, turned onto it */
    bool alike;       /* it is the same map */
};
struct initial_decision {
    enum initial_test failed;
    char text[256];            /* what was found, in a sentence */
    size_t present, particles; /* that the refinement has; that were looked at */
    int box;                   /* px, of the small images */
    double pixel_size;         /* Å */
    double diameter;           /* Å */
    int parts[3];              /* particles of A, B and held out */
    int start_count;
    struct initial_start starts[INITIAL_STARTS_MOST];
    int best[2];                         /* start of A, of B */
    double gains[2], gain_deviations[2]; /* of the best, at the end */
    double wanted;                       /* Å */
    double mean;                         /* FSC of A and B up to there */
    double least;                        /* the least value of that curve */
    double agreement;                    /* Å: to which they agree, FSC 0.5 */
    double rival; /* standard errors by which the best different map is worse than the best of its half; NaN: none */
    double
        contest; /* likewise at the end of a contest (contest.h); below 0 the different one won; NaN: none was held */
    double contest_limit, contest_diameter; /* Å: detail that was compared, and the sphere */
    double lowpass;                         /* Å: to which the refinement should filter the map at first */
    bool of_class; /* no one map was found, but those of classes: the map is that of the largest class */
    double seconds;
};

/* Says how starts compare images for a refiner: on its device, in its memory. On a device they take half of it; beside
 * a refinement that has begun, whose memory it is, a little more of it is used. */
void initial_starts_options(const struct refiner *refiner, int threads, struct starts_options *ret_options);

/* Returns how many particles there are, twins and all. */
size_t initial_present(const struct refiner *refiner);

/* Begins an attempt with the particles that are present. Call it between iterations, and refiner_look before. The
 * refiner must not change until initial_work was called once, which gathers the images, nor be destroyed until the
 * attempt is. */
enum status initial_create(struct refiner *refiner, int threads, struct initial **ret_initial, struct err *err);
void initial_destroy(struct initial **initial);
/* Does a part of the attempt, about a second. Call it between iterations. */
enum status initial_work(struct initial *initial, bool *ret_complete, struct err *err);
/* Returns how far the attempt is, 0 to 1. Never falls. */
double initial_progress(const struct initial *initial);
/* Says in decision->text what was found: so many standard errors were wanted. In describe.c. */
void initial_describe(struct initial_decision *decision, double sure);
/* Returns what was found, once the attempt is complete. */
const struct initial_decision *initial_decision(const struct initial *initial);
/* Returns the accepted map, box³ of the small images. */
const float *initial_map(const struct initial *initial);
/* Returns what was found of the maps of classes, once the attempt is complete (several.h); NULL: one class alone is
 * wanted, or the attempt is made again, or there was too little for it. */
const struct several_decision *initial_classes(const struct initial *initial);
/* Returns the accepted map of a class, box³ of the small images. */
const float *initial_class_map(const struct initial *initial, int class);
/* Finds for each particle of a part how much more probable its image is with a map (box³ of the small images) than
 * without: ret_evidence[decision.parts[part]], natural logarithms. Call it once the attempt is complete and has made
 * maps. */
enum status initial_evidence(struct initial *initial, const float *map, enum initial_part part, double *ret_evidence,
                             struct err *err);
/* The rules are in rules.c. */
/* Returns how many starts the refiner's device makes in the first round. */
int initial_count_starts(const struct refiner *refiner);
/* Returns how many starts the refiner's device makes in all rounds: on the CPU at most those that a GPU makes at once. */
int initial_most_starts(const struct refiner *refiner);
/* Returns how many of `count` starts are made, of which each takes so many bytes of host memory: at most half of it. */
int initial_limit_starts(const struct refiner *refiner, int count, int least, size_t bytes);
/* Returns whether nothing can be made of the images, and says in decision->text why. */
bool initial_is_too_little(struct initial_decision *decision);
/* Returns the finest detail (Å) that small images of particles of a diameter (Å) are made for. */
double initial_finest(double diameter);
/* Returns whether a curve of two maps, of such a mean and least value, says that they are the same map. */
bool initial_is_same(double mean, double least);
/* Returns the refiner that the attempt is for. */
const struct refiner *initial_refiner(const struct initial *initial);

/* Finds the mean and the least value of the FSC of two maps of an attempt, box/2 + 1 shells of the small images, from
 * the diameter to `wanted`. Shells before the first one that says something (initial_first_shell) do not make the
 * least. */
void initial_summarise(const struct initial_decision *decision, int operators, const float *fsc, double *ret_mean,
                       double *ret_least);
/* Returns the first shell of a map of a point group with so many operators that has four values of its own or more. In
 * the shells before it, noise alone makes halves agree or not. */
int initial_first_shell(int operators);

/* Returns whether an attempt with so many particles is due, the last one having had `tried` (0: none): at 1,000, 2,000,
 * 4,000 and so on; with a point group of g operators from 1,000/g on, and at least 300. */
bool initial_is_due(size_t particles, size_t tried, int operators);

#endif
