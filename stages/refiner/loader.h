/* Images of particles: those that memory has room for are kept once they were read, the others are read anew each time,
 * ahead of their use. */
#ifndef ICESTREAM_STAGES_REFINER_LOADER_H
#define ICESTREAM_STAGES_REFINER_LOADER_H

#include "stages/refiner/particles.h"

struct loader;

/* threads: that read at a time. The set outlives the loader. */
enum status loader_create(struct particle_set *set, int threads, struct loader **ret_loader, struct err *err);
/* Waits for what is being read; accepts NULL. */
void loader_destroy(struct loader **loader);

/* Images of particles[indices[0..count-1]], box² floats each; valid until the next loader_take or merge. One that holds
 * values that are no numbers, or are stronger than the set's `strongest`, is all zeros: it says nothing of any map. */
enum status loader_take(struct loader *loader, const int *indices, int count, const float *const **ret_images,
                        struct err *err);
/* These will be taken next: begins to read them and returns. What goes wrong is told when they are taken. */
void loader_begin(struct loader *loader, const int *indices, int count);
/* From some images, half of which at least are as they should be, the set's `strongest`: a hundred times as strong as the
 * median. Images that are in memory already are looked at again. */
enum status loader_judge(struct loader *loader, const int *indices, int count, struct err *err);
/* Before the set changes: waits for what is being read. Accepts NULL. */
void loader_stop(struct loader *loader);

#endif
