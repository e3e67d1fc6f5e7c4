/* The dataset itself, for those that hold its particles (dataset.c) and copy them (dataset_copy.c). */
#ifndef ICESTREAM_STAGES_CLASSIFIER_DATASET_PRIVATE_H
#define ICESTREAM_STAGES_CLASSIFIER_DATASET_PRIVATE_H

#include <pthread.h>

#include "stages/classifier/ahead.h"
#include "stages/classifier/cut.h"
#include "stages/classifier/dataset.h"

/* All by which threads that read ahead make images (dataset_make). It stays as it is until ahead_forget. */
struct making {
    size_t whole, pixels;             /* of a whole image, and of one that is cut */
    const struct regrid *cut;         /* NULL: threads leave images as their stacks have them */
    const struct image_check *check;  /* of images; NULL: they are taken as they are */
    const struct image_check *sample; /* measures them; NULL: as with `cut` */
};

struct dataset {
    pthread_mutex_t lock; /* for the members up to submitted_pixel_size */
    struct dataset_batch **pending;
    size_t pending_count, pending_capacity, pending_particles;
    int submitted_box; /* of all batches, pending ones included */
    double submitted_pixel_size;

    /* Two grids of the merged batches, which the computing thread reads without the lock. Images are brought to the whole
     * one, that of the particles, and checked there; then they are cut to the other one, and compared. */
    int whole_box, box;
    double whole_pixel_size, pixel_size;
    double finest;           /* Å: detail that is compared; 0: all */
    struct regrid *cut;      /* NULL: not made yet, or images stay whole */
    struct image_pool *pool; /* of images that are cut; made with `cut` */
    float *whole;            /* an image of the whole grid, and what `cut` needs; NULL: not made yet */
    struct dataset_batch **batches;
    size_t batch_count, batch_capacity;
    struct dataset_particle *particles;
    size_t count, capacity;
    size_t memory_limit, memory_used;
    size_t in_memory;          /* images */
    struct image_check *check; /* of images as they are read; NULL: not decided yet */
    struct making making;
    bool samples;      /* later images are looked at too */
    bool goes_on;      /* a run before took particles */
    bool normalised;   /* some images were found not to be normalised: all are, also after a restart */
    char refused[512]; /* why particles that came later cannot be normalised; "": nothing is known of such */
    struct ways ways;
    size_t way_capacity; /* of a copy */
    float *given;        /* an image as its file has it, and what kernels/regrid needs */
    size_t given_floats;
    struct stack_reader *reader; /* of the computing thread; NULL in a copy */
    struct ahead *ahead;         /* NULL: images are read when they are needed */
    dataset_keeps *keeps;        /* NULL: no device keeps images */
    const void *keeper;
};

/* dataset_read_ahead gives these two to ahead.h, whose threads call them. */
ahead_look dataset_look;
ahead_make dataset_make;
/* Makes what dataset_make needs for images of which[count], and marks those of next[next_count] that are to be sampled. */
void dataset_foresee(struct dataset *dataset, const size_t *which, size_t count, const size_t *next, size_t next_count);

#endif
