/* Warns in the log, and so in `run` and `status`, of what the numbers of a refinement do not hold. */
#ifndef ICESTREAM_STAGES_REFINER_TELL_H
#define ICESTREAM_STAGES_REFINER_TELL_H

#include "common/harness/stage.h"
#include "stages/refiner/refiner.h"

/* Warns that the images are noise, once, and says once when later images show that they are not. told: set while the
 * warning stands. */
void tell_noise(struct stage *stage, const struct refiner_state *state, bool *told);
/* Warns that the views may be from one side, so that a coarser resolution is told; and says once when they are believed.
 * told: as above. */
void tell_views(struct stage *stage, const struct refiner_state *state, bool *told);
/* Says that the hand of the maps has changed. before: whether they were inverted. mask: the user's, or NULL. */
void tell_hand(struct stage *stage, const struct refiner_state *state, bool before, const char *mask);
/* Says after the last iteration of a classification whether its particles differ by more than noise. */
void tell_classes(struct stage *stage, const struct refiner_state *state);

/* Returns whether another start of the refinement has shown that the map depends on its reference (other_start.h). */
bool tell_starts_differ(const struct refiner_state *state);
/* Tells what another start of the refinement has shown, once it was compared. */
void tell_starts(struct stage *stage, const struct refiner_state *state);
/* Warns that the halves agree no further than they share, or are believed in no shell. */
void tell_shared(struct stage *stage, const struct refiner_state *state);

#endif
