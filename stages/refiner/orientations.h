/* Measures how the views of the particles are spread, with those that symmetry makes of them, and what follows. */
#ifndef ICESTREAM_STAGES_REFINER_ORIENTATIONS_H
#define ICESTREAM_STAGES_REFINER_ORIENTATIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

struct refiner;

/* Values are those of common/directions.h. */
struct orientations {
    double efficiency; /* 0 to 1; NaN: no particle has a pose */
    bool advised;      /* a tilt was looked for, or none is needed; false: nobody knows */
    /* Degrees: the tilt to take further exposures at, and the efficiency of these alone; NaN: none is advised. */
    double tilt, tilted_efficiency;
};

/* Measures the efficiency of all poses. Call it between iterations, or on a copy (snapshot.h). */
enum status orientations_measure(const struct refiner *refiner, struct orientations *ret_orientations, struct err *err);
/* Looks for the tilt too, unless the efficiency is good. Takes up to half a second. */
enum status orientations_advise(const struct refiner *refiner, struct orientations *ret_orientations, struct err *err);
/* Says what the efficiency means and what to do: "0.43 of 1: …". */
void orientations_describe(const struct orientations *orientations, char *text, size_t size);
/* Says it in a few words: "directions 0.43: tilt by 35° (0.81)"; without advice, "directions 0.43". */
void orientations_note(const struct orientations *orientations, char *text, size_t size);

#endif
