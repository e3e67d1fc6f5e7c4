/* Reads images of particles ahead of their use, with threads of its own and in the order in which they are needed. One
 * thread, the owner, makes all calls. Images lie in slots, which are used again; their memory is limited. */
#ifndef ICESTREAM_STAGES_CLASSIFIER_AHEAD_H
#define ICESTREAM_STAGES_CLASSIFIER_AHEAD_H

#include <stdbool.h>
#include <stddef.h>

#include "common/formats/stack_reader.h"
#include "common/image_pool.h"
#include "common/status.h"
#include "kernels/prepare/image_check.h"

/* Images that are looked at ahead, at most. */
enum { AHEAD_MOST = 16384 };

/* Names the image of a particle in its stack. */
struct ahead_image {
    const char *stack;       /* path; must stay valid as long as the particle */
    int box, slice;          /* px; from 0 */
    bool in_memory;          /* it need not be read */
    struct image_pool *pool; /* Where the made image goes. NULL: the image is kept as its stack has it */
    size_t scratch;          /* values that ahead_make needs */
    bool measure;            /* ahead_make measures it */
    int *slot;               /* kept by the particle for this module, 0 at first; valid until the owner's next call */
};
typedef struct ahead_image ahead_look(void *context, size_t particle);

/* Facts about an image, noted by ahead_make. */
struct ahead_made {
    bool made;     /* false: the image is as its stack has it, and nothing else is known */
    bool finite;   /* all values are numbers of usual size */
    bool usable;   /* false: the image was set to 0 */
    bool measured; /* `measures` hold; only finite images are measured */
    struct image_measures measures;
};
/* Writes the image that is kept to `to`, which has the size of the pool's images. May change image[box²] and scratch, which
 * are aligned as by mem_aligned. Runs on the threads that read: all that it looks at must stay as it is until
 * ahead_forget. */
typedef void ahead_make(const void *context, float *image, float *scratch, bool measure, float *to,
                        struct ahead_made *ret_made);

struct ahead_owner {
    ahead_look *look;
    ahead_make *make; /* NULL: no image has a pool */
    void *context;    /* of both */
};

struct ahead;
/* Starts the threads, which wait. bytes: most memory for images. cache: see stack_reader.h; NULL: there is none. */
enum status ahead_create(int threads, size_t bytes, struct shards *cache, const struct ahead_owner *owner,
                         struct ahead **ret_ahead, struct err *err);
/* Waits for reads that are running; accepts NULL. */
void ahead_destroy(struct ahead **ahead);

/* Begins to read the images of which[count], and then those of next[next_count], as far as there is room. More follow
 * as images are taken. Replaces what was expected before, and keeps images that are read already and come soon. Does
 * nothing where memory is short: all images can also be read without this module. */
void ahead_expect(struct ahead *ahead, const size_t *which, size_t count, const size_t *next, size_t next_count);
/* Returns the values of the particle's image, valid until the next call: those that were made of it, or box² as its stack
 * has them; waits while they are being read. NULL: the image was not read ahead, or could not be read. The owner then
 * reads it, and sees the error. */
const float *ahead_take(struct ahead *ahead, size_t particle, struct ahead_made *ret_made);
/* Hands over the memory of the image that ahead_take returned last, which was made: it comes from the pool. */
float *ahead_hand_over(struct ahead *ahead);
/* Gives up all images, and waits for those that are being read. */
void ahead_forget(struct ahead *ahead);
/* Returns what all threads have read so far. */
struct stack_reads ahead_reads(struct ahead *ahead);

#endif
