/* Holds the MTF that an optics group names (rlnMtfFileName). Images of several detectors are brought to the MTF of one of
 * them, so that all are alike. */
#ifndef ICESTREAM_COMMON_FORMATS_OPTICS_DETECTOR_H
#define ICESTREAM_COMMON_FORMATS_OPTICS_DETECTOR_H

#include <stdbool.h>

#include "common/formats/mtf.h"

struct optics_detector {
    char *name, *path; /* as the table has it; where the file is, NULL: not found, or broken */
    double pixel_size; /* Å, of the detector (rlnMicrographOriginalPixelSize) */
    struct mtf mtf;    /* count 0: not known */
};

/* Reads the curve. A file that is not there (path NULL: not found), or is broken, and a pixel size that is not known
 * (NaN) are no errors: the name is kept for a warning. */
enum status optics_detector_create(const char *name, const char *path_or_null, double pixel_size,
                                   struct optics_detector **ret_detector, struct err *err);
void optics_detector_destroy(struct optics_detector **detector);

/* Returns whether the curve of a detector (NULL: none) is known. */
bool optics_detector_is_known(const struct optics_detector *detector);
/* Returns whether a detector (NULL: none) is that of a name (NULL: none) and pixel size. */
bool optics_detector_is(const struct optics_detector *detector, const char *name, double pixel_size);
/* Returns by how much images of detectors[1] are multiplied at a frequency (1/Å) to be like those of detectors[0]: for
 * regrid_options.factor. */
double optics_detector_factor(const void *detectors, double frequency);

#endif
