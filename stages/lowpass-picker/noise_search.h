/* Searches micrographs of white noise for the heights of their peaks. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_NOISE_SEARCH_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_NOISE_SEARCH_H

#include "common/status.h"
#include "kernels/search/search.h"
#include "stages/lowpass-picker/even_scores.h"
#include "stages/lowpass-picker/geometry.h"

/* Finds the heights. Without templates the search keeps the maps of each shape. even: NULL if scores stay as the search
 * gives them. ctf: of the templates; NULL: none. The same search finds the same heights. */
enum status noise_search(struct search *search, struct even_scores *even, const struct pick_geometry *geometry,
                         const struct ctf *ctf, struct noise_peaks *ret_peaks, struct err *err);

#endif
