/* Says in words what post-processing found: whether the mask is to be believed, and how the map was sharpened. The end
 * of a refinement and icestream-postprocess tell it alike. */
#ifndef ICESTREAM_STAGES_REFINER_POSTPROCESS_TOLD_MAP_H
#define ICESTREAM_STAGES_REFINER_POSTPROCESS_TOLD_MAP_H

#include <stddef.h>

#include "kernels/postprocess/postprocess.h"

enum { TOLD_MAP_SIZE = 768 };

/* Fills text with the doubts about the mask, what is told instead, and what to do. mask: its path; NULL: it was made from
 * the map. Returns false, and leaves text empty, if there are none. */
bool told_map_doubts(const struct postprocess_result *result, const char *mask, char *text, size_t size);
/* Fills text with the resolution and where it holds: "8.42 Å inside a mask", "18.6 Å without a mask". */
void told_map_resolution(const struct postprocess_result *result, char *text, size_t size);
/* Fills text with what was done to the amplitudes: "B-factor -85 Å², fitted from 10 to 4.2 Å"; or why nothing was. */
void told_map_sharpening(const struct postprocess_result *result, const struct postprocess_options *options, char *text,
                         size_t size);

#endif
