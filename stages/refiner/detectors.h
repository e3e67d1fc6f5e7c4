/* Holds the MTFs that optics groups name (rlnMtfFileName). Images of other detectors are brought to the MTF of the first
 * one, so that all are alike; post-processing divides the map by that one. */
#ifndef ICESTREAM_STAGES_REFINER_DETECTORS_H
#define ICESTREAM_STAGES_REFINER_DETECTORS_H

#include <stdbool.h>

#include "common/formats/mtf.h"
#include "stages/refiner/particles.h"

struct particle_detector {
    char *name, *path; /* as the table has it; where the file is, NULL: not found, or broken */
    double pixel_size; /* Å, of the detector (rlnMicrographOriginalPixelSize) */
    struct mtf mtf;    /* count 0: not known */
};

/* Finds the file of a name: beside the table, below the root, or in the working directory. A file that is not there, or
 * is broken, is no error: the name is kept for a warning. */
enum status detectors_find(const char *root, const char *star_path, const char *name, double pixel_size,
                           struct particle_detector **ret_detector, struct err *err);
void detectors_free(struct particle_detector **detector);
/* Returns whether a detector (NULL: none) is that of a name (NULL: none) and pixel size. */
bool detectors_same(const struct particle_detector *detector, const char *name, double pixel_size);

/* Returns the detector to whose MTF images are brought; NULL: no MTF is known. */
const struct particle_detector *detectors_first(const struct particle_set *set);
/* Returns the name of an MTF that could not be read; NULL: there is none. */
const char *detectors_missing(const struct particle_set *set);
/* Returns by how much images of `detectors[1]` are multiplied at a frequency (1/Å) to be like those of detectors[0]. */
double detectors_factor(const void *detectors, double frequency);

#endif
