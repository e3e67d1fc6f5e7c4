/* Templates from a three-dimensional map: its projections along all directions of its asymmetric unit. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_TEMPLATE_MAP_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_TEMPLATE_MAP_H

#include <stdbool.h>

#include "common/formats/image.h"

/* Whether a file's images are the slices of a map: as many as they are wide, in a file that is not called a stack
 * (.mrcs, .st). */
bool template_map_is_one(const char *path, const struct image *image);

/* map: n × n × n. ret_templates: n × n × (directions), sums of the map along the view, in px, as a particle that
 * the map was reconstructed from looks; directions are HEALPix pixels of order 1, about 30° apart, which at 20 Å is as far
 * as a template reaches. symmetry: "C1", "D2", … */
enum status template_map_project(const struct image *map, const char *symmetry, int threads,
                                 struct image *ret_templates, struct err *err);

#endif
