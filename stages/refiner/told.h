/* Finds the resolution that logs and files tell. */
#ifndef ICESTREAM_STAGES_REFINER_TOLD_H
#define ICESTREAM_STAGES_REFINER_TOLD_H

#include "stages/refiner/refiner_private.h"

/* Returns the last shell that is told; 0: none. fsc[shell]: of the halves, which agree up to shell `reached` (mstep.h).
 * held: kernels/fsc/coverage.h. shared: the last shell that the halves shared, kept apart from those beyond; 0: none. */
int told_shell(const float *fsc, const double *held, int shared, int reached);
/* Returns how far the views that were found are doubted, 0 to 1: see told.c. efficiency: of these views
 * (orientations.h); NaN: not doubted. shared, agree: frequencies (1/Å) that the halves share, and to which they agree. */
double told_views_doubt(double efficiency, size_t particles, double shared, double agree);
/* Begins to measure the views of the poses that the iteration has found, on a thread of its own beside the M-step, unless
 * the halves have agreed so far before that views are not doubted. */
enum status told_begin(struct refiner *refiner, struct err *err);
/* Waits for that thread, and forgets what it has found. */
void told_stop(struct refiner *refiner);
/* Returns why no resolution is told. shell: the one that would be; agree_beyond: the halves agree beyond what they share;
 * other, least: the last shell that another start holds too, and the least that shows anything; other <= 0: there was
 * none. */
enum refiner_unresolved told_unresolved(int shell, bool agree_beyond, int other, int least);
/* Returns why no resolution is told now: that the images are noise comes before what told_find has found. */
enum refiner_unresolved told_why(const struct refiner *refiner);
/* Sets r->views_doubt, r->held, r->agree_beyond, r->told and r->unresolved, from the poses that the iteration has
 * found, r->fsc and r->resolution. shared: as above, of the references of this iteration. */
enum status told_find(struct refiner *refiner, int shared, struct err *err);

#endif
