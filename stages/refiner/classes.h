/* Implements the steps in which a classification differs from an auto-refinement: several references, random first
 * classes, and an M-step without halves. */
#ifndef ICESTREAM_STAGES_REFINER_CLASSES_H
#define ICESTREAM_STAGES_REFINER_CLASSES_H

#include "stages/refiner/refiner_private.h"

/* Returns whether a reference is a STAR file that lists maps, by its name. */
bool classes_are_listed(const char *path);
/* Counts the maps of such a list. STATUS_BAD_FORMAT: there are none, or too many. */
enum status classes_count_maps(const char *path, int *ret_count, struct err *err);
/* Finds the paths of the references: one map, or the maps that a STAR file lists (rlnReferenceImage). Sets map_paths,
 * map_count and reference_count. STATUS_BAD_ARGUMENT: the option `classes` differs from the number of maps. */
enum status classes_find_maps(struct refiner *refiner, struct err *err);
/* Assigns each member to a class by a hash of its name and the seed, and orders the members by class. Call it before
 * the first iteration if all classes start from one map. */
enum status classes_seed(struct refiner *refiner, struct err *err);
/* Makes the map, share and resolution of each class from its sums, then the noise and other parameters. */
enum status classes_mstep(struct refiner *refiner, struct err *err);

#endif
