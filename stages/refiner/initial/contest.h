/* Decides between two maps that explain particles alike.
 *
 * Two families of maps, each with one map in half A, in half B or in both, go on with the particles of their halves: on a
 * finer grid, and in a sphere that holds the particle and little else. Then particles that are held out are compared with
 * each. Two things make maps rivals, and both end here. Neighbours that reach into a wide diameter can be explained in
 * several ways, and hide what the particle has to say. And with coarse detail alone a wrong map may look like the right one,
 * which gains fine detail where the wrong one gains none. */
#ifndef ICESTREAM_STAGES_REFINER_INITIAL_CONTEST_H
#define ICESTREAM_STAGES_REFINER_INITIAL_CONTEST_H

#include "stages/refiner/initial/starts.h"

enum { CONTEST_HALVES = 2, CONTEST_FAMILIES = 2 };

struct contest_options {
    struct refiner *refiner;
    const struct starts_options *starts; /* needed in contest_create alone */
    int most;                            /* particles that are looked at: as many as for the maps that are given */
    double finest;                       /* Å: detail that is compared, where the particles' pixels allow it */
    int order;                           /* of the grid on which held-out particles are compared */
    int box;                             /* px, of the maps that are given */
    double pixel_size;                   /* Å, likewise */
};

struct contest;

/* Begins a contest. maps[family][half]: box³, the caller's, needed in this call alone; NULL: that half has none. At least
 * one half must have both. Reads images: may take a while. Call it between iterations, and refiner_look before. The
 * refiner must not be destroyed until the contest is. */
enum status contest_create(const struct contest_options *options,
                           const float *const maps[CONTEST_FAMILIES][CONTEST_HALVES], struct contest **ret_contest,
                           struct err *err);
void contest_destroy(struct contest **contest);
/* Returns how many parts there are. */
int contest_steps(const struct contest *contest);
/* Does a part, about a second. */
enum status contest_work(struct contest *contest, bool *ret_complete, struct err *err);

struct contest_result {
    double limit;    /* Å: detail that is compared */
    double diameter; /* Å: of the sphere */
    double verdict;  /* standard errors by which held-out particles prefer the first family */
};
/* Returns what was found; the verdict once the contest is complete. */
struct contest_result contest_result(const struct contest *contest);
/* Brings the improved map of a family and half to the grid of those that were given: ret_map[box³]. */
enum status contest_map(const struct contest *contest, int family, int half, float *ret_map, struct err *err);

#endif
