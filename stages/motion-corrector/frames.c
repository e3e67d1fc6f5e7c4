#include "stages/motion-corrector/frames.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"

void frames_clear(struct frames *frames) {
    device_host_free(&frames->device, &frames->memory);
    free(frames->places);
    *frames = (struct frames){0};
}

enum status frames_count(const char *path, const struct movie_info *info, const struct frames_task *task,
                         int *ret_count, struct err *err) {
    FAIL_IF(info->frames < 2 && info->format == MOVIE_EER && info->raw_frames > 1, err, STATUS_BAD_FORMAT,
            "%s: its %d EER frames make %d frame of %d: a movie has at least 2; lower eer_grouping", path,
            info->raw_frames, info->frames, task->movie.eer_group);
    FAIL_IF(info->frames < 2, err, STATUS_BAD_FORMAT,
            "%s: holds %d frame%s: a movie has at least 2 (is it a gain reference, or a sum that is already "
            "corrected?)",
            path, info->frames, info->frames == 1 ? "" : "s");
    int last = task->last != INT_MIN ? task->last : info->frames;
    FAIL_IF(last > info->frames, err, STATUS_BAD_FORMAT,
            "%s: holds %d frames, and last_frame is %d: was the movie cut short?", path, info->frames, last);
    FAIL_IF(last - task->first < 1, err, STATUS_BAD_FORMAT,
            "%s: frames %d to %d of %d leave no motion to find: at least 2 frames are needed", path, task->first, last,
            info->frames);
    *ret_count = last - task->first + 1;
    return STATUS_OK;
}

static enum status make_room(struct frames *frames, const struct movie_info *info, int count,
                             const struct device *device, struct err *err) {
    size_t frame = (size_t)info->nx * (size_t)info->ny * movie_pixel_bytes(info->pixels);
    size_t bytes = mem_bytes((size_t)count, frame);
    if ((size_t)count > frames->place_room) {
        mem_free(&frames->places);
        frames->place_room = 0;
        TRY(mem_new((size_t)count, sizeof *frames->places, "the frames of a movie", &frames->places, err));
        frames->place_room = (size_t)count;
    }
    if (bytes > frames->capacity) {
        device_host_free(&frames->device, &frames->memory);
        frames->capacity = 0;
        frames->device = *device;
        TRY(device_host_new(device, bytes, 1, "the frames of a movie", &frames->memory, err));
        frames->capacity = bytes;
    }
    for (int i = 0; i < count; i++)
        frames->places[i] = (char *)frames->memory + (size_t)i * frame;
    frames->data = (struct motion_frames){.nx = info->nx,
                                          .ny = info->ny,
                                          .count = count,
                                          .pixels = (enum motion_pixels)info->pixels,
                                          .frame = frames->places};
    frames->info = *info;
    return STATUS_OK;
}

_Static_assert((int)MOVIE_U8 == MOTION_U8 && (int)MOVIE_U16 == MOTION_U16 && (int)MOVIE_F32 == MOTION_F32,
               "frames are read in the types that the kernel takes");

/* Returns whether a byte of the frame is not 0. */
static bool has_counts(const unsigned char *bytes, size_t length) {
    return bytes[0] != 0 || memcmp(bytes, bytes + 1, length - 1) != 0;
}

/* Returns the first pixel that is not finite, or the number of pixels. */
static size_t first_broken(const float *pixels, size_t count) {
    size_t i = 0;
    while (i < count && isfinite(pixels[i]))
        i++;
    return i;
}

/* index: of the frame, from 0, in the movie. */
static enum status check_frame(const char *path, const struct movie_info *info, int index, const void *pixels,
                               struct err *err) {
    size_t count = (size_t)info->nx * (size_t)info->ny;
    FAIL_IF(!has_counts(pixels, count * movie_pixel_bytes(info->pixels)), err, STATUS_BAD_FORMAT,
            "%s: frame %d of %d is all zero: the camera lost it; leave it out with first_frame or last_frame", path,
            index + 1, info->frames);
    if (info->pixels != MOVIE_F32) return STATUS_OK;
    size_t broken = first_broken(pixels, count);
    FAIL_IF(broken < count, err, STATUS_BAD_FORMAT, "%s: pixel (%zu, %zu) of frame %d is NaN or infinite", path,
            broken % (size_t)info->nx, broken / (size_t)info->nx, index + 1);
    return STATUS_OK;
}

/* The first frame, by number, that cannot be read. */
struct failure {
    int index;
    enum status status;
    struct err err;
};

static void note_failure(struct failure *failure, int index, enum status status, const struct err *err) {
#pragma omp critical(icestream_frames)
    if (failure->status == STATUS_OK || index < failure->index)
        *failure = (struct failure){.index = index, .status = status, .err = *err};
}

static enum status read_one(const char *path, const struct movie *movie, const struct movie_info *info,
                            struct movie_reader **reader, int index, void *out, struct err *err) {
    if (*reader == NULL) TRY(movie_reader_create(movie, reader, err));
    TRY(movie_reader_read_pixels(*reader, index, info->pixels, out, err));
    return check_frame(path, info, index, out, err);
}

static void read_all(const char *path, const struct movie *movie, const struct frames_task *task, struct frames *frames,
                     struct failure *failure) {
    int count = frames->data.count;
#pragma omp parallel num_threads(task->threads < count ? task->threads : count)
    {
        struct movie_reader *reader = NULL;
#pragma omp for schedule(dynamic, 1)
        for (int i = 0; i < count; i++) {
            struct err own = {0};
            int index = task->first - 1 + i;
            enum status status = read_one(path, movie, &frames->info, &reader, index, frames->places[i], &own);
            if (status != STATUS_OK) note_failure(failure, index, status, &own);
        }
        movie_reader_destroy(&reader);
    }
}

enum status frames_read(const char *path, const struct frames_task *task, struct frames *frames, struct err *err) {
    _cleanup_(movie_close) struct movie *movie = NULL;
    struct failure failure = {.status = STATUS_OK};
    int count;
    TRY(movie_open(path, &task->movie, &movie, err));
    TRY(frames_count(path, movie_info(movie), task, &count, err));
    TRY(make_room(frames, movie_info(movie), count, &task->device, err));
    read_all(path, movie, task, frames, &failure);
    if (failure.status == STATUS_UNSUPPORTED && movie_info(movie)->pixels != MOVIE_F32) {
        /* A later frame holds values that are no counts, as a few below 0: all frames are read as floats. */
        struct movie_info as_floats = *movie_info(movie);
        as_floats.pixels = MOVIE_F32;
        failure = (struct failure){.status = STATUS_OK};
        TRY(make_room(frames, &as_floats, count, &task->device, err));
        read_all(path, movie, task, frames, &failure);
    }
    if (failure.status != STATUS_OK && err != NULL) *err = failure.err;
    return failure.status;
}
