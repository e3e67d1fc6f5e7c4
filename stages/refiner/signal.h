/* Tests whether the images show anything of the reference, or are noise to it.
 *
 * Poses are chosen so that images look like the reference. Averages of pure noise come to look like it too, in both
 * halves alike, and agree to the resolution of the reference and beyond: no FSC tells them from a map of particles.
 *
 * An image X of noise is as probable as −X, whatever its spectrum. Its likelihood with the reference R, summed over all
 * poses, over that with −R,
 *     d = ln Σ p(X | pose, R) − ln Σ p(X | pose, −R),
 * is then as often negative as positive, and Σd/√Σd² over independent images is about normal: for any distribution of d
 * that is symmetric, it exceeds z with a probability of at most exp(−z²/2) (Efron 1969). R is the reference as it was
 * given, which owes nothing to the images; references of later iterations do. Images of particles favour R even if it is
 * blurred, or another molecule: a particle is brighter than what is around it.
 *
 * Poses that the table gives may have been found with this very reference, so that noise would fit it there better than
 * its negative. Of such a pose only the origin counts, as the centre of the search: all orientations, and all shifts
 * about that origin, are summed over for both. */
#ifndef ICESTREAM_STAGES_REFINER_SIGNAL_H
#define ICESTREAM_STAGES_REFINER_SIGNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

struct refiner;

/* Says how a sample of images compares with the reference (signal.h). */
struct signal {
    size_t particles;  /* that were present when the sample was taken; 0: not known */
    size_t images;     /* of the sample */
    double deviations; /* by which they favour the reference over its negative; noise: 0 ± 1 */
};

/* Sets r->signal where it is not known, or doubtful and of half as many particles. Call it when members are chosen, and
 * neither references nor sums are in use. */
enum status signal_test(struct refiner *refiner, struct err *err);
/* Returns whether the images are noise to the reference, as far as they tell. False: they are not, or it is not known. */
bool signal_is_noise(const struct signal *signal);

#endif
