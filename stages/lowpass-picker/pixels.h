/* Micrographs in which there is nothing to find: a shutter that stayed closed, a transfer or a correction that failed. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_PIXELS_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_PIXELS_H

#include "common/formats/image.h"
#include "kernels/contamination/contamination.h"

/* STATUS_BAD_FORMAT when no pixel is a number, when all are the same, and when one is absurd, which would swamp all others
 * in a transform. Single ones that are no numbers are picked around. `data`: the part that is no fill, empty for none. */
enum status pixels_check(const char *path, const struct image *micrograph, struct contamination_area data,
                         struct err *err);

#endif
