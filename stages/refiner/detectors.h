/* Finds the MTFs that optics groups name (rlnMtfFileName). Images of other detectors are brought to the MTF of the first
 * one, so that all are alike; post-processing divides the map by that one. */
#ifndef ICESTREAM_STAGES_REFINER_DETECTORS_H
#define ICESTREAM_STAGES_REFINER_DETECTORS_H

#include "common/formats/optics_detector.h"
#include "stages/refiner/particles.h"

/* Finds the file of a name: beside the table, below the root, or in the working directory. A file that is not there, or
 * is broken, is no error (optics_detector_create). */
enum status detectors_find(const char *root, const char *star_path, const char *name, double pixel_size,
                           struct optics_detector **ret_detector, struct err *err);

/* Returns the detector to whose MTF images are brought; NULL: no MTF is known. */
const struct optics_detector *detectors_first(const struct particle_set *set);
/* Returns the name of an MTF that could not be read; NULL: there is none. */
const char *detectors_missing(const struct particle_set *set);

#endif
