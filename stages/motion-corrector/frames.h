/* The frames of one movie in memory, as the camera counted them. */
#ifndef ICESTREAM_STAGES_MOTION_CORRECTOR_FRAMES_H
#define ICESTREAM_STAGES_MOTION_CORRECTOR_FRAMES_H

#include <stddef.h>

#include "common/device.h"
#include "common/formats/movie.h"
#include "common/status.h"
#include "kernels/motion/motion.h"

/* Frames to read, and the way to read them. */
struct frames_task {
    struct movie_options movie;
    int first, last; /* from 1; last INT_MIN: the last of the movie */
    int threads;
    struct device device; /* that will take the frames */
};

/* The frames of a lane, whose memory is kept from movie to movie. Begins as {0}. */
struct frames {
    struct motion_frames data; /* without gain */
    struct movie_info info;    /* of the whole movie */
    void *memory;
    size_t capacity; /* bytes */
    void **places;   /* [place_room] */
    size_t place_room;
    struct device device;
};

/* Returns how many frames of a movie will be read. STATUS_BAD_ARGUMENT: the movie does not have them, or is none. */
enum status frames_count(const char *path, const struct movie_info *info, const struct frames_task *task,
                         int *ret_count, struct err *err);
/* Reads a movie, several frames at a time. STATUS_BAD_FORMAT: a frame holds no counts, or pixels that are not
 * finite. */
enum status frames_read(const char *path, const struct frames_task *task, struct frames *frames, struct err *err);
void frames_clear(struct frames *frames);

#endif
