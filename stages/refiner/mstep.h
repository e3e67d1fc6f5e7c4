/* Makes maps and parameters from the sums of an E-step: the M-step of an iteration. */
#ifndef ICESTREAM_STAGES_REFINER_MSTEP_H
#define ICESTREAM_STAGES_REFINER_MSTEP_H

#include "stages/refiner/refiner_private.h"

/* Does the M-step of an auto-refinement (a classification: classes_mstep). */
enum status mstep(struct refiner *refiner, struct err *err);
/* Updates noise, norm and offsets from the side's sums. */
void mstep_parameters(const struct refiner *refiner, struct side *side);
/* Sets what lies outside the mask to 0. mask: one more mask that was made, or NULL. */
void mstep_flatten(const struct refiner *refiner, const float *mask, float *map);
/* Raises a noise spectrum of `shells` shells to 3 % of its largest value at least. */
void mstep_floor_noise(float *sigma2, int shells);

#endif
