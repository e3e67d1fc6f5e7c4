/* Tells a three-dimensional map, whose projections serve as templates (kernels/views), from a stack of templates. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_TEMPLATE_MAP_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_TEMPLATE_MAP_H

#include <stdbool.h>

#include "common/formats/image.h"

/* Returns whether a file holds a map: its images are as many as they are wide, and its name is not that of a stack
 * (.mrcs, .st). */
bool template_map_is_one(const char *path, const struct image *image);

#endif
