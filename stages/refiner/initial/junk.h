/* Marks particles that do not show the first map. Three classes: the map, and two traps that take what fits them
 * better, the rotational average of the map, and nothing. Ice, other molecules and neighbours have something that is
 * round; noise has nothing. The shares of the classes are found by expectation maximisation, and a particle is junk if
 * it belongs to the map with a probability below one half. Where classes have first maps of their own, the map is any
 * of these. Particles are compared some hundreds at a time, on small images. */
#ifndef ICESTREAM_STAGES_REFINER_INITIAL_JUNK_H
#define ICESTREAM_STAGES_REFINER_INITIAL_JUNK_H

#include "stages/refiner/initial/images.h"

enum { JUNK_MAP, JUNK_ROUND, JUNK_COMPARED, JUNK_NOTHING = JUNK_COMPARED, JUNK_CLASSES };

/* Decides which particles are junk. evidence[JUNK_COMPARED][count]: by how much more probable each image is with the
 * class than with nothing, natural logarithm. ret_junk[count]; ret_shares: of the classes, of all particles. Returns
 * how many are junk. */
int junk_decide(const double *const evidence[JUNK_COMPARED], int count, bool *ret_junk,
                double ret_shares[JUNK_CLASSES]);

struct refiner;
struct starts;

/* Particles that are being compared. All 0: none are. */
struct junk {
    struct initial_images images;
    struct starts *starts;           /* NULL: none are */
    float *maps[JUNK_COMPARED];      /* box³ */
    double *evidence[JUNK_COMPARED]; /* [images] */
    double *one;                     /* [images]: with one of several maps */
    int next;                        /* comparison that is made next: map by map, each map and its average */
    double fine;                     /* Å: finest detail that is compared */
};
void junk_destroy(struct junk *junk);

/* Returns whether particles are present that were never compared with the first map; some: whether there are enough to
 * begin with while more arrive. */
bool junk_is_left(const struct refiner *refiner, bool some);
/* Does a part of the work on the particles that junk_is_left speaks of: reads the images of some, compares them with a
 * class, or marks them. The refiner's references are the first maps. Call it between iterations; particles may join in
 * between, and iterations may be made where the refinement does not work on a device. */
enum status junk_work(struct junk *junk, struct refiner *refiner, int threads, struct err *err);
/* Returns how many particles are marked, and how many of those present were compared. */
size_t junk_count(const struct refiner *refiner, size_t *ret_compared);

#endif
