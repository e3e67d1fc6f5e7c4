/* Bad pixels of a detector: finds them, and replaces what they counted.
 *
 * A bad pixel is one whose gain is 0, one of the user's list, or one that stands out of its surroundings in the sum of
 * the frames before alignment: hot or dead. A frame's bad pixel gets the count of a good neighbour drawn at random, so
 * that it keeps the noise of the others and does not show when the frames are shifted. Host memory only. Results do not
 * depend on the number of threads. */
#ifndef ICESTREAM_KERNELS_DEFECTS_DEFECTS_H
#define ICESTREAM_KERNELS_DEFECTS_DEFECTS_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "kernels/motion/motion.h"

/* Reasons for which a pixel is bad: bits of the mask. The last two hold for the movie that was searched last. */
enum defect { DEFECT_GAIN = 1, DEFECT_LISTED = 2, DEFECT_HOT = 4, DEFECT_DEAD = 8 };

/* The bad pixels of a detector, and the buffers to find more of them in a movie. One thread at a time uses it. */
struct defects;
enum status defects_create(int nx, int ny, struct defects **ret_defects, struct err *err);
void defects_destroy(struct defects **defects);
/* Returns the bytes that it holds. */
size_t defects_bytes(int nx, int ny);

/* Adds pixels of gain[ny][nx] that are 0 or less, not finite, or more than five times above or below the mean. */
void defects_add_gain(struct defects *defects, const float *gain);
/* Adds pixels of map[ny][nx] that are not 0 (gain_read_defects). */
void defects_add_map(struct defects *defects, const uint8_t *map);
/* Gives the bad pixels of gain[ny][nx] the mean of their good neighbours, so that a neighbour's count can stand there.
 * Call it after all pixels were added. */
void defects_repair_gain(const struct defects *defects, float *gain);

struct defects_found {
    size_t hot, dead;
};
/* Finds hot and dead pixels in the sum of the frames, and forgets those of the movie before. A pixel is hot when its
 * sum, with gain, is above that of the pixels around it by more than `sigma` deviations of the noise; dead, when it is
 * below by as much. The noise is that of counts: its variance is proportional to the mean. Source: Anscombe, Biometrika
 * 35:246 (1948), for thresholds at few counts. threads >= 1. ret_found may be NULL. */
enum status defects_find_hot(struct defects *defects, const struct motion_frames *frames, int threads, double sigma,
                             struct defects_found *ret_found, struct err *err);
/* Returns the mask[ny][nx], bits of enum defect; 0 is a good pixel. */
const uint8_t *defects_mask(const struct defects *defects);
/* Returns the sum[ny][nx] of the frames of the movie that was searched last, without gain. */
const float *defects_sum(const struct defects *defects);

/* Fills sum[ny][nx] with the sum of the frames, without gain. threads >= 1. */
void defects_sum_frames(const struct motion_frames *frames, int threads, float *sum);

/* Replaces the bad pixels of all frames, in place. Different seeds draw different neighbours. */
void defects_repair(const struct defects *defects, const struct motion_frames *frames, int threads, uint64_t seed);

#endif
