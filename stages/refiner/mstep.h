/* Makes maps and parameters from the sums of an E-step: the M-step of an iteration. */
#ifndef ICESTREAM_STAGES_REFINER_MSTEP_H
#define ICESTREAM_STAGES_REFINER_MSTEP_H

#include "stages/refiner/refiner_private.h"

/* Does the M-step of an auto-refinement. classes_mstep does the M-step of a classification. */
enum status mstep(struct refiner *refiner, struct err *err);
/* Updates noise, norm and offsets from the side's sums. */
void mstep_parameters(const struct refiner *refiner, struct side *side);
/* Sets the solvent in a map (box³) to 0. Without a mask of the user, applies the sphere first. mask: box³, a mask that
 * was made from the map, is applied too; or NULL. */
void mstep_flatten(const struct refiner *refiner, const float *mask, float *map);
/* Raises sigma2[shells] to at least 3 % of its largest value. */
void mstep_floor_noise(float *sigma2, int shells);

/* Returns the last shell, up to `last`, before the FSC falls below 0.143; at least 1. fsc[last + 1]. */
int mstep_reached_shell(const float *fsc, int last);

struct believed {
    int shells;          /* number of shells of a map */
    int shared, reached; /* both halves share shells up to the first; their FSC is at least 0.143 up to the second */
};
/* Returns the last shell up to which halves agree by more than chance: `shared`, or at least three shells beyond it.
 * fsc[shells]. numbers[shells]: of independent numbers (fsc_independent) of the shells around those that are in
 * doubt; 0: not counted. */
int mstep_believed_shell(const float *fsc, const double *numbers, const struct believed *beyond);
/* Returns the last shell, 1 to `reached`, before the FSC, less its standard error, falls below 0.143: atanh(FSC)
 * scatters by 1/√(N − 3). fsc and numbers: as above. Shells up to the first FSC below 0.5 are not doubted, nor are
 * those around which no numbers are counted. */
int mstep_sure_shell(const float *fsc, const double *numbers, const struct believed *beyond);

#endif
