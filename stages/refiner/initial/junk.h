/* Marks particles that do not show the first map. Three classes: the map, and two traps that take what fits them better, the
 * rotational average of the map, and nothing. Ice, other molecules and neighbours have something that is round; noise
 * has nothing. The shares of the classes are found by expectation maximisation, and a particle is junk if it belongs to
 * the map with a probability below one half. */
#ifndef ICESTREAM_STAGES_REFINER_INITIAL_JUNK_H
#define ICESTREAM_STAGES_REFINER_INITIAL_JUNK_H

#include "stages/refiner/initial/initial.h"

enum { JUNK_MAP, JUNK_ROUND, JUNK_COMPARED, JUNK_NOTHING = JUNK_COMPARED, JUNK_CLASSES };

/* Decides which particles are junk. evidence[JUNK_COMPARED][count]: by how much more probable each image is with the class
 * than with nothing, natural logarithm. ret_junk[count]; ret_shares: of the classes, of all particles. Returns how many are
 * junk. */
int junk_decide(const double *const evidence[JUNK_COMPARED], int count, bool *ret_junk,
                double ret_shares[JUNK_CLASSES]);

/* Work on the particles of an attempt. All 0 at first. */
struct junk {
    int step;
    double *evidence[JUNK_COMPARED]; /* [particles], by part */
    float *round;                    /* box³: the rotational average */
};
void junk_destroy(struct junk *junk);
/* Does a part of the comparison; call it until *ret_complete. The attempt is complete, and accepted. */
enum status junk_work(struct junk *junk, struct initial *attempt, bool *ret_complete, struct err *err);
/* Marks the particles of the refinement that the attempt is for, all that it has looked at. Call it between iterations, when
 * the work is complete. Returns how many are junk. */
enum status junk_mark(const struct junk *junk, struct initial *attempt, struct refiner *refiner, int *ret_marked,
                      struct err *err);

#endif
