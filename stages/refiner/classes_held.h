/* Holds classes that begin with one map together, until they have found what their particles differ in most. */
#ifndef ICESTREAM_STAGES_REFINER_CLASSES_HELD_H
#define ICESTREAM_STAGES_REFINER_CLASSES_HELD_H

#include "stages/refiner/refiner_private.h"

/* Returns how many first iterations hold classes together, of so many in all. */
int classes_held_iterations(int iterations);
/* Moves the maps of the classes towards their mean, in an iteration that holds them together. Call it in the M-step
 * before the noise changes, once maps and shares are known. */
enum status classes_hold(struct refiner *refiner, struct err *err);
/* Returns the prior of class k in the running iteration: its share, or that of all if its map was held. */
double classes_prior(const struct refiner *refiner, const struct reference *reference);

#endif
