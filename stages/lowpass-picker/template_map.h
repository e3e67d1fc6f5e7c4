/* Makes templates from a three-dimensional map: its projections along all directions of its asymmetric unit. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_TEMPLATE_MAP_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_TEMPLATE_MAP_H

#include <stdbool.h>

#include "common/formats/image.h"

/* Returns whether a file holds a map: its images are as many as they are wide, and its name is not that of a stack
 * (.mrcs, .st). */
bool template_map_is_one(const char *path, const struct image *image);

/* Projects a map of n × n × n voxels into ret_templates, n × n × (directions): sums of the map along the view, in px,
 * on the scale of the particles it was reconstructed from. Directions are HEALPix pixels of order 1, about 30° apart,
 * which is as far as a template matches at 20 Å. symmetry: "C1", "D2", … */
enum status template_map_project(const struct image *map, const char *symmetry, int threads,
                                 struct image *ret_templates, struct err *err);

#endif
