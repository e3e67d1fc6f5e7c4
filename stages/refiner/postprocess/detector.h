/* Gives the MTF of a detector at the shells of a map. */
#ifndef ICESTREAM_STAGES_REFINER_POSTPROCESS_DETECTOR_H
#define ICESTREAM_STAGES_REFINER_POSTPROCESS_DETECTOR_H

#include "common/status.h"

/* Reads the curve of a file (common/formats/mtf.h) at the shells of a map: ret_curve[box/2 + 1], the caller's; NULL if
 * path is NULL. detector: pixel size (Å) of the detector; NaN: that of the map. */
enum status detector_curve(const char *path, double detector, int box, double pixel_size, float **ret_curve,
                           struct err *err);

#endif
