/* Measures how the views of the particles are spread, with those that symmetry makes of them, and what follows. */
#ifndef ICESTREAM_STAGES_REFINER_ORIENTATIONS_H
#define ICESTREAM_STAGES_REFINER_ORIENTATIONS_H

#include <stddef.h>

#include "stages/refiner/refiner.h"

/* Values are those of common/directions.h. */
struct orientations {
    double efficiency;              /* 0 to 1; NaN: no particle has a pose */
    double tilt, tilted_efficiency; /* degrees: the tilt that helps, and what it gives; NaN: not looked for */
};

/* Measures the efficiency of all poses. Call it between iterations, or on a copy (snapshot.h). */
enum status orientations_measure(const struct refiner *refiner, struct orientations *ret_orientations, struct err *err);
/* Looks for the tilt too, unless the efficiency is good. */
enum status orientations_advise(const struct refiner *refiner, struct orientations *ret_orientations, struct err *err);
/* Says what the efficiency means and what to do: "0.43 of 1: …". */
void orientations_describe(const struct orientations *orientations, char *text, size_t size);

#endif
