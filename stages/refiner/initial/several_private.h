/* Declares what the files of the maps of classes share. */
#ifndef ICESTREAM_STAGES_REFINER_INITIAL_SEVERAL_PRIVATE_H
#define ICESTREAM_STAGES_REFINER_INITIAL_SEVERAL_PRIVATE_H

#include "stages/refiner/initial/initial.h"
#include "stages/refiner/initial/likeness.h"
#include "stages/refiner/initial/several.h"

enum { SEVERAL_SIDES = 2, SEVERAL_PAIRS_MOST = SEVERAL_MOST * SEVERAL_MOST };
#define SEVERAL_SURE 3.0 /* standard errors */

enum phase { EXPLORE, RANK, SETTLE, RANK_SETTLED, MATCH, JUDGE, AGREE, TELL_APART, TAKE, COMPLETE };

/* A start of K maps. */
struct family {
    int half;
    double *evidence[SEVERAL_MOST]; /* [held out]: with each class, over an empty image */
    double *together;               /* [held out]: with all of them */
    double mean;                    /* of that */
    bool compared;                  /* with the best family */
    bool same;                      /* it has the same maps, or is so much worse that its maps do not matter */
    int match[SEVERAL_MOST]; /* its class that is most like class k of the family that it was compared with last */
    double gain[SEVERAL_MOST], deviation[SEVERAL_MOST]; /* of each class, over its opposite */
};

struct several {
    struct several_options options;
    int classes, held;
    size_t voxels;
    struct starts *starts;
    struct likeness *likeness;
    struct family families[INITIAL_STARTS_MOST];
    enum phase phase;
    int start, iteration, step;
    int first, other;        /* the best family, and the one that is compared with it */
    int partner;             /* of the other half: the best that has the same maps as `first`; −1: not found yet */
    int order[SEVERAL_MOST]; /* classes of the best family, by their shares */
    struct likeness_found found[SEVERAL_PAIRS_MOST]; /* of each pair of their classes */
    double *opposite, *one, *scratch;                /* [held out] */
    float *map;                                      /* box³ */
    float *maps;                                     /* [classes][box³]: those that are accepted */
    struct several_decision decision;
};

const float *several_class_map(const struct several *several, int start, int class);
/* Returns whether a class of a start has lost its particles. */
bool several_has_empty(const struct several *several, int start);
/* Notes the first test that has failed. */
void several_refuse(struct several *several, enum several_test test);
/* Finds the mean of the differences of two, and its standard error. */
void several_mean_of(const double *more, const double *less, int count, double *ret_mean, double *ret_deviation);
/* Finds the evidence of the classes of a start. */
enum status several_judge(struct several *several, int start, int order, struct err *err);
/* Compares a pair of classes of a family and of s->other. *ret_last: it was the last pair. */
enum status several_compare_pair(struct several *several, int fixed, bool *ret_last, struct err *err);

/* The phases of the decision; each call does a part. */
/* Judges the best maps of a half: each against its opposite, and together against the one map. */
enum status several_judge_half(struct several *several, struct err *err);
/* Tests whether each half has found the same maps, and the likelihoods. */
enum status several_agree(struct several *several, struct err *err);
/* Tests whether a class is another map than each of those before it. */
enum status several_tell_apart(struct several *several, struct err *err);
/* Takes the map of a class, in the hand of the one map. */
enum status several_take(struct several *several, struct err *err);
/* Says in words what was found. */
void several_describe(struct several *several);

#endif
