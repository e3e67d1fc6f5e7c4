/* Reads images of particles ahead of their use, with threads of its own and in the order in which they are needed. One
 * thread, the owner, makes all calls. Images lie in slots, which are used again; their memory is limited. */
#ifndef ICESTREAM_STAGES_CLASSIFIER_AHEAD_H
#define ICESTREAM_STAGES_CLASSIFIER_AHEAD_H

#include <stdbool.h>
#include <stddef.h>

#include "common/formats/stack_reader.h"
#include "common/status.h"

/* Names the image of a particle in its stack. */
struct ahead_image {
    const char *stack; /* path; must stay valid as long as the particle */
    int box, slice;    /* px; from 0 */
    bool in_memory;    /* it need not be read */
    int *slot;         /* kept by the particle for this module, 0 at first; valid until the owner's next call */
};
typedef struct ahead_image ahead_look(void *context, size_t particle);

struct ahead;
/* Starts the threads, which wait. bytes: most memory for images. cache: see stack_reader.h; NULL: there is none. */
enum status ahead_create(int threads, size_t bytes, struct shards *cache, ahead_look *look, void *context,
                         struct ahead **ret_ahead, struct err *err);
/* Waits for reads that are running; accepts NULL. */
void ahead_destroy(struct ahead **ahead);

/* Begins to read the images of which[count], and then those of next[next_count], as far as there is room. More follow
 * as images are taken. Replaces what was expected before, and keeps images that are read already and come soon. Does
 * nothing where memory is short: all images can also be read without this module. */
void ahead_expect(struct ahead *ahead, const size_t *which, size_t count, const size_t *next, size_t next_count);
/* Returns box² values of the particle's image as its stack has them, valid until the next call; waits while they are
 * being read. NULL: the image was not read ahead, or could not be read. The owner then reads it, and sees the error. */
const float *ahead_take(struct ahead *ahead, size_t particle);
/* As ahead_take, but images stay valid, and may be changed, until ahead_release. Call no other function between. */
float *ahead_hold(struct ahead *ahead, size_t particle);
/* Gives back all images that are held. */
void ahead_release(struct ahead *ahead);
/* Returns what all threads have read so far. */
struct stack_reads ahead_reads(struct ahead *ahead);

#endif
