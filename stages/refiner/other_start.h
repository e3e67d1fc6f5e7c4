/* Finds whether the map depends on the reference that the refinement began with. Where poses are uncertain, both
 * halves may agree on a wrong map that the reference has chosen. So particles are refined a second time, from the
 * same reference blurred to a dot of the particle's size, and what both maps hold is compared. See other_start.c. */
#ifndef ICESTREAM_STAGES_REFINER_OTHER_START_H
#define ICESTREAM_STAGES_REFINER_OTHER_START_H

#include "stages/refiner/refiner_private.h"

/* Returns whether poses are so uncertain that they are no proof of the map. pmax: mean over the particles; shared,
 * agree: frequencies (1/Å) that the halves share, and to which they agree. */
bool other_start_doubts(double pmax, double shared, double agree);
/* Returns the last shell, 1 or more, up to which two maps hold the same particle well enough for one of them to
 * agree with the truth to 0.5. crossed: FSC of a half of one with the other half of the other. fsc: of the halves of
 * one. */
int other_start_shell(const float *crossed, const float *fsc, int shells);

/* Returns the least shell that shows anything if both starts hold it. Both began with the same blurred reference, whose
 * edge carries a little into the next shells. */
int other_start_least(const struct refiner *refiner);

/* Compares the halves of the final iteration with those of the other start, and sets r->other.shell. Needs
 * r->other.halves. */
enum status other_start_compare(struct refiner *refiner, struct err *err);
/* Returns whether both starts hold less, by two shells or more, than that to which the halves agree. */
bool other_start_differs(const struct refiner *refiner);
void other_start_release(struct refiner *refiner);

#endif
