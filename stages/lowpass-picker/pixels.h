/* Finds micrographs without an image: the shutter stayed closed, or a transfer or a correction failed. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_PIXELS_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_PIXELS_H

#include "kernels/intake/intake.h"

/* Larger than anything that a camera counts. */
#define PIXELS_ABSURD 1e15f

/* Checks a micrograph that was taken in with the limit PIXELS_ABSURD. STATUS_BAD_FORMAT: all pixels are NaN, all pixels
 * are equal, or a pixel is so large that it would dominate a transform. The picker works around single NaN pixels. path:
 * for the message. */
enum status pixels_check(const char *path, const struct intake_result *found, struct err *err);

#endif
