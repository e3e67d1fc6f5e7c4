/* Draws how the specimen of a simulated movie moves: as a whole, fast at first and then slowly, on a bent path with a
 * little jitter; and as a film that domes, so that its parts drift apart. */
#ifndef ICESTREAM_EXAMPLES_SIMULATE_DRIFT_H
#define ICESTREAM_EXAMPLES_SIMULATE_DRIFT_H

#include "examples/simulate/random.h"
#include "kernels/exposure/exposure.h"

struct drift_scene {
    int frames;
    double way;    /* px, from the first frame to the last */
    double doming; /* px, the largest difference between two corners in the last frame */
    double jitter; /* px, standard deviation along each axis */
};

/* Fills shifts[frames], which correct the frames: 0 for the first, minus the way of the specimen for the others. The
 * local part has no mean over the frame, so (x, y) is the motion of the whole. */
void drift_draw(const struct drift_scene *scene, struct random *random, struct exposure_shift *shifts);

#endif
