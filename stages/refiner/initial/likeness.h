/* Finds how alike two small maps are, wherever each lies and in whichever hand. Their rotational averages do not count:
 * a ball that both share is like any ball. Works on the CPU. */
#ifndef ICESTREAM_STAGES_REFINER_INITIAL_LIKENESS_H
#define ICESTREAM_STAGES_REFINER_INITIAL_LIKENESS_H

#include <stdbool.h>

#include "common/status.h"
#include "kernels/symmetry/symmetry.h"

struct likeness_options {
    int box;
    double pixel_size;               /* Å */
    double diameter;                 /* Å, of the particle */
    double wanted;                   /* Å: detail that counts */
    const struct symmetry *symmetry; /* of all maps; the caller's */
    int threads;
};

struct likeness;
enum status likeness_create(const struct likeness_options *options, struct likeness **ret_likeness, struct err *err);
void likeness_destroy(struct likeness **likeness);

struct likeness_found {
    double mean, least; /* FSC from the diameter to `wanted` (initial_summarise) */
    double agreement;   /* Å: to which the FSC is 0.5 or more */
    double correlation;
    bool inverted; /* the two are alike in opposite hands */
};
/* Brings `moved` onto `fixed`, box³ each, and compares them. */
enum status likeness_find(struct likeness *likeness, const float *fixed, const float *moved,
                          struct likeness_found *ret_found, struct err *err);

/* Returns whether two maps are the same. */
bool likeness_is_same(const struct likeness_found *found);

#endif
