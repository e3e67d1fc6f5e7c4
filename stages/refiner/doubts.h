/* Looks for what is wrong with the particles of a refinement, and would not show in its map. refiner_doubts tells. */
#ifndef ICESTREAM_STAGES_REFINER_DOUBTS_H
#define ICESTREAM_STAGES_REFINER_DOUBTS_H

#include "stages/refiner/refiner_private.h"

/* Finds from a sample of each side how strong images are and whether they are normalised (image_check.h): one image that
 * is nothing like the others, as from a broken detector, would drown them, and a background far from 0 hides the
 * particles. Looks at a sample of the particles that have come since, until images are normalised. Fails if the
 * first ones are not normalised, and cannot be; of later ones refiner_doubts tells. Call it between iterations, when members are chosen. */
enum status doubts_judge_images(struct refiner *refiner, struct err *err);
/* Finds how much of a reference, before it is filtered and masked, lies outside the diameter. map: box³. */
enum status doubts_look_at_reference(struct refiner *refiner, const float *map, struct err *err);

#endif
