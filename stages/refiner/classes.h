/* Does what only a classification does. */
#ifndef ICESTREAM_STAGES_REFINER_CLASSES_H
#define ICESTREAM_STAGES_REFINER_CLASSES_H

#include "stages/refiner/refiner_private.h"

/* Finds the paths of the references: one map, or the maps that a STAR file lists (rlnReferenceImage). */
enum status classes_find_maps(struct refiner *refiner, struct err *err);
/* Orders the members by class, each in one by chance: for the first iteration, if one map stands for several
 * classes. */
enum status classes_seed(struct refiner *refiner, struct err *err);
enum status classes_mstep(struct refiner *refiner, struct err *err);

#endif
