/* Compares particles with the references: the E-step of an iteration. */
#ifndef ICESTREAM_STAGES_REFINER_ESTEP_H
#define ICESTREAM_STAGES_REFINER_ESTEP_H

#include "stages/refiner/refiner_private.h"

/* Makes the grids and pixel lists of an iteration. */
enum status estep_open(struct refiner *refiner, struct err *err);
/* Decides where the references and sums of an iteration lie. */
enum status estep_place(struct refiner *refiner, struct err *err);
enum status estep_begin(struct refiner *refiner, struct side *side, struct err *err);
/* Makes projections of the references first .. first+count−1 possible, and clears their sums. */
enum status estep_set_references(struct refiner *refiner, struct side *side, int first, int count, struct err *err);
/* Adds up what went before; from here on particles are compared with the references first .. first+count−1. */
enum status estep_compare_with(struct refiner *refiner, struct side *side, int first, int count, struct err *err);
/* Loads members from `first` on into the batch, as many as fit; ret_count: how many. */
enum status estep_load(struct refiner *refiner, const struct side *side, int first, int *ret_count, struct err *err);
/* Compares a batch of members from `first` on; ret_count: how many. */
enum status estep_batch(struct refiner *refiner, struct side *side, int first, int *ret_count, struct err *err);

#endif
