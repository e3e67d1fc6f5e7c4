/* Finds aberrations that tables of RELION state and that the extractor does not pass on: beam tilt (rlnBeamTiltX, rlnBeamTiltY,
 * mrad), anisotropic magnification (rlnMagMat00 to rlnMagMat11), odd and even aberrations (rlnOddZernike, rlnEvenZernike:
 * coefficients in brackets). A column that is 0, or the identity, needs no correction. An MTF (rlnMtfFileName) only
 * scales the spectrum, so it is none of these. */
#ifndef ICESTREAM_COMMON_FORMATS_OPTICS_UNAPPLIED_H
#define ICESTREAM_COMMON_FORMATS_OPTICS_UNAPPLIED_H

#include <stdbool.h>
#include <stddef.h>

#include "common/formats/star.h"

/* Finds the first of them in one row: "rlnBeamTiltX 0.31". */
bool optics_find_unapplied(const struct star_table *table, size_t row, char *text, size_t size);

#endif
