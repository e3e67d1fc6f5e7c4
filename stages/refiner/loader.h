/* Loads the images of particles. Images that memory has room for stay there once read; others are read each time,
 * ahead of their use. */
#ifndef ICESTREAM_STAGES_REFINER_LOADER_H
#define ICESTREAM_STAGES_REFINER_LOADER_H

#include "kernels/alignment/alignment.h"
#include "stages/refiner/particles.h"

struct loader;

/* threads: how many read at the same time. The set must outlive the loader. */
enum status loader_create(struct particle_set *set, int threads, struct loader **ret_loader, struct err *err);
/* Waits for reads that are running; accepts NULL. */
void loader_destroy(struct loader **loader);

/* Returns the images of particles[indices[0..count-1]], box² floats each; valid until the next loader_take or merge.
 * An image that is constant, holds NaN or infinite values, or is stronger than the set's `strongest`, is all zeros: it
 * contributes to no map. The digests of the others are noted in the set, for twins.h. Images that this alignment's device
 * keeps (by number: index + 1) are not read, and NULL unless they are in memory; NULL in place of the alignment: all are
 * read. */
enum status loader_take(struct loader *loader, const struct alignment *kept_by, const int *indices, int count,
                        const float *const **ret_images, struct err *err);
/* Starts to read the images that are taken next, and returns. loader_take reports any error. */
void loader_begin(struct loader *loader, const struct alignment *kept_by, const int *indices, int count);
/* Sets the set's `strongest` from a sample of images, at least half of which must be good: a hundred times as strong
 * as the median image (1e4 in mean square). Judges again the images that are in memory already. */
enum status loader_judge(struct loader *loader, const int *indices, int count, struct err *err);
/* Waits for reads that are running. Call it before the set changes. Accepts NULL. */
void loader_stop(struct loader *loader);

#endif
