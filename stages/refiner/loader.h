/* Loads the images of particles. Images that memory has room for stay there once read, unless they only pass through it
 * (loader_pass); others are read each time, ahead of their use. */
#ifndef ICESTREAM_STAGES_REFINER_LOADER_H
#define ICESTREAM_STAGES_REFINER_LOADER_H

#include "common/formats/stack_reader.h"
#include "kernels/alignment/alignment.h"
#include "stages/refiner/particles.h"

struct loader;

/* threads: how many read at the same time, 32 at most. cache: see stack_reader.h; NULL: none. Set and cache must outlive
 * the loader. */
enum status loader_create(struct particle_set *set, int threads, struct shards *cache, struct loader **ret_loader,
                          struct err *err);
/* Returns what was read so far. Call it while nothing is being read. */
struct stack_reads loader_reads(const struct loader *loader);
/* Waits for reads that are running; accepts NULL. */
void loader_destroy(struct loader **loader);

/* Returns the images of particles[indices[0..count-1]], box² floats each; valid until the next loader_take or merge.
 * An image that is constant, holds NaN or infinite values, or that the set's check cannot use, is all zeros: it
 * contributes to no map. The digests of the others are noted in the set, for twins.h. Images that this alignment's device
 * keeps (by number: index + 1) are not read, and NULL unless they are in memory; NULL in place of the alignment: all are
 * read. */
enum status loader_take(struct loader *loader, const struct alignment *kept_by, const int *indices, int count,
                        const float *const **ret_images, struct err *err);
/* Starts to read the images that are taken next, and returns. loader_take reports any error. */
void loader_begin(struct loader *loader, const struct alignment *kept_by, const int *indices, int count);
/* Makes images that are read from now on pass through memory, or stay there again as at first. */
void loader_pass(struct loader *loader, bool through);
/* Decides from a sample of images how images are checked and normalised (image_check.h), and has the set do so from then
 * on (set->check). If the set has a check that does not normalise, it keeps that one unless the new one normalises. Judges
 * again the images that are in memory already. The caller keeps both checks. */
enum status loader_judge(struct loader *loader, struct image_check *check, const int *indices, int count,
                         struct err *err);
/* Waits for reads that are running. Call it before the set changes. Accepts NULL. */
void loader_stop(struct loader *loader);

#endif
