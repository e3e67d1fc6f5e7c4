/* The camera as movies of one shape show it: gain reference and bad pixels. Lanes share it. */
#ifndef ICESTREAM_STAGES_MOTION_CORRECTOR_REFERENCE_H
#define ICESTREAM_STAGES_MOTION_CORRECTOR_REFERENCE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"
#include "kernels/defects/defects.h"
#include "kernels/motion/motion.h"

struct motion_corrector_options;

struct reference {
    int nx, ny;
    bool eer;
    float *gain;    /* [ny][nx] multiplies; 0: a defect; NULL: none */
    float *applied; /* [ny][nx] as gain, repaired at bad pixels; NULL: none */
    struct defects *defects;
    bool gain_written;    /* as a file beside the micrographs */
    int movies_to_match;  /* that will still be compared with the gain; 0 once one has shown that it lies right */
    pthread_mutex_t busy; /* defects serves one movie at a time */
    struct reference *next;
};

/* The references of all shapes that came; begins with references_init. */
struct references {
    pthread_mutex_t lock;
    struct reference *first;
    bool begun;
};

enum status references_init(struct references *references, struct err *err);
void references_clear(struct references *references);
/* Finds the reference for movies of a shape, or reads it. It lives until references_clear. STATUS_BAD_FORMAT: the gain
 * reference or the list of defects does not fit. */
enum status references_need(struct references *references, const struct motion_corrector_options *options, int nx,
                            int ny, bool eer, struct reference **ret_reference, struct err *err);
/* Returns the bytes of one. */
size_t reference_bytes(const struct motion_corrector_options *options, int nx, int ny);

/* Bad pixels of one movie beside those of the camera. The arrays of a lane. */
struct hot_pixels {
    size_t count, room;
    int *x, *y;
};
void hot_pixels_clear(struct hot_pixels *hot);
/* Finds hot and dead pixels in the frames, repairs them and those of the camera, and sets frames->gain. The seed
 * chooses the neighbours whose counts replace theirs. Compares the gain reference with the frames of the first movies. STATUS_BAD_ARGUMENT: it lies in
 * another way than they do, or counts must be divided by it; the message names the parameters that fit. */
enum status reference_apply(struct reference *reference, const struct motion_corrector_options *options, int threads,
                            uint64_t seed, struct motion_frames *frames, struct hot_pixels *hot, struct err *err);

#endif
