/* Finds micrographs without an image: the shutter stayed closed, or a transfer or a correction failed. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_PIXELS_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_PIXELS_H

#include "common/formats/image.h"
#include "kernels/contamination/contamination.h"

/* Checks a micrograph. STATUS_BAD_FORMAT: all pixels are NaN, all pixels are equal, or a pixel is so large that it
 * would dominate a transform. The picker works around single NaN pixels. data: the part of the micrograph without
 * filled borders; may be empty. path: for the message. */
enum status pixels_check(const char *path, const struct image *micrograph, struct contamination_area data,
                         struct err *err);

#endif
