/* Reads the frames of a movie, the exposure as a camera delivers it: MRC (all modes that mrc.h reads), multi-page TIFF,
 * EER. Frames come as counts without any correction: as float32, or in the type that the camera counts in. Rows are in the order of image_read_micrograph: those of
 * TIFF are turned over; those of MRC and EER stay. */
#ifndef ICESTREAM_COMMON_FORMATS_MOVIE_H
#define ICESTREAM_COMMON_FORMATS_MOVIE_H

#include <stddef.h>

#include "common/status.h"

enum movie_format { MOVIE_MRC, MOVIE_TIFF, MOVIE_EER };

struct movie_options {
    int eer_group; /* frames of the detector in one frame of the movie; 0: MOVIE_EER_GROUP. What remains is left out */
    int eer_level; /* 0: a count a detector pixel; 1: two, 2: four along each side */
};
enum { MOVIE_EER_GROUP = 32 };

/* Types of a pixel in memory: uint8_t, uint16_t, float. */
enum movie_pixels { MOVIE_U8, MOVIE_U16, MOVIE_F32 };

struct movie_info {
    enum movie_format format;
    enum movie_pixels pixels; /* the smallest that holds every value of the file's type. Types with a sign count as
                                 those without one if the first frame has no negative value */
    int nx, ny, frames;
    int raw_frames;   /* as the detector read them out; `frames` where the file does not group them */
    float pixel_size; /* Å, of a pixel of the frames; 0: the file does not say */
};

/* A file that is open for reading. Several threads may share it: each reads through a reader of its own. */
struct movie;
/* Opens a movie and finds its frames; reads no pixels but, of MRC in a mode with a sign, the first frame. STATUS_TRUNCATED: the file may still be growing. */
enum status movie_open(const char *path, const struct movie_options *options, struct movie **ret_movie,
                       struct err *err);
const struct movie_info *movie_info(const struct movie *movie);
void movie_close(struct movie **movie);

/* Returns the bytes of a pixel. */
size_t movie_pixel_bytes(enum movie_pixels pixels);

/* Holds the buffers of one thread. The movie must outlive it. */
struct movie_reader;
enum status movie_reader_create(const struct movie *movie, struct movie_reader **ret_reader, struct err *err);
/* Reads frame `frame`, from 0 on, into out[ny * nx]. */
enum status movie_reader_read(struct movie_reader *reader, int frame, float *out, struct err *err);
/* Reads frame `frame` into out[ny * nx] of the given type; fastest with movie_info.pixels. STATUS_UNSUPPORTED: a value
 * does not fit the type. */
enum status movie_reader_read_pixels(struct movie_reader *reader, int frame, enum movie_pixels pixels, void *out,
                                     struct err *err);
void movie_reader_destroy(struct movie_reader **reader);

#endif
