/* Finds the places at which the frames of a group are read for a tile of the spectrum. */
#ifndef ICESTREAM_KERNELS_MOTION_MOTION_PLACES_H
#define ICESTREAM_KERNELS_MOTION_MOTION_PLACES_H

#include "kernels/motion/motion.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the number of groups of about `group` frames, and the first frame of one; group `groups` begins after the
 * last frame. */
int motion_places_groups(int frames, int group);
int motion_places_group_start(int frames, int groups, int group);

/* Fills ret_places[first … end − 1] with the first pixel (x, y) of each frame's square, at the nearest whole pixel along
 * the motion at the tile's middle. start: first pixel of the tile. All begin so far from `start` that the tile lies
 * inside each of them, if the shifts within the group leave room for that. */
void motion_places_fill(const struct motion_model *model, int first, int end, const int start[2], int box,
                        int (*ret_places)[2]);

#ifdef __cplusplus
}
#endif
#endif
