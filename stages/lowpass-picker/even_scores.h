/* Makes the scores of round templates comparable all over a micrograph. The search knows each place's own background
 * only roughly: it sums over windows that reach across the edges of the micrograph and over gold, and it measures noise
 * of all resolutions, of which templates see the lowest. Here the background is measured again in the low-passed
 * micrograph: what lies far from the usual, as gold and ice do, does not count, and a tilt of the illumination is
 * subtracted. Where the background is rougher than usual, as carbon is, scores are divided by as much. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_EVEN_SCORES_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_EVEN_SCORES_H

#include "common/status.h"
#include "stages/lowpass-picker/geometry.h"

struct even_scores;

/* Bytes for each pixel of the maps. */
enum { EVEN_SCORES_BYTES = 29 };

/* templates: count × box × box, at the micrograph's pixel size, as the search has them. */
enum status even_scores_create(const struct pick_geometry *geometry, const float *templates, int box, int count,
                               struct even_scores **ret_even, struct err *err);
void even_scores_destroy(struct even_scores **even);

/* Changes the scores of each template, and the best ones. The maps are those of the geometry's search, not whitened.
 * Allocates nothing. */
void even_scores_run(struct even_scores *even, struct pick_maps *maps);

#endif
