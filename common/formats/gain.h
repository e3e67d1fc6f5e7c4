/* Reads gain references: images that make the pixels of a detector equally sensitive.
 *
 * The counts of a frame are multiplied by the gain that gain_read returns. A file may hold this factor, or the response
 * of the detector to even light, by which counts are divided: the factor is then mean / response. Pixels that are zero,
 * negative or not finite have the factor 0: they are defects. TIFF files are turned over, as the frames of TIFF movies
 * are. */
#ifndef ICESTREAM_COMMON_FORMATS_GAIN_H
#define ICESTREAM_COMMON_FORMATS_GAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/status.h"
#include "common/turn.h"

struct gain_options {
    struct turn turn; /* from the file to the frames */
    bool divide;      /* the file holds the response */
    bool eer;         /* of EER movies: all files but *.gain hold the response, and a pixel of the file may stand for
                         2 × 2 or 4 × 4 of the frames */
};

/* Returns whether a file holds the response, by its name and the options. */
bool gain_divides(const char *path, const struct gain_options *options);

/* Reads MRC, TIFF or EER's *.gain (TIFF) into *ret_gain[ny][nx], which the caller frees. nx × ny: pixels of the movie's
 * frames. STATUS_BAD_FORMAT: the size does not fit (the message names both sizes and the turns that would fit), or no
 * pixel is above 0. */
enum status gain_read(const char *path, const struct gain_options *options, int nx, int ny, float **ret_gain,
                      struct err *err);

/* Reads a list of bad pixels into *ret_map[ny][nx], which the caller frees: 1 is a bad pixel. The file is an image of
 * this size (MRC, TIFF) whose pixels other than 0 are bad, or text with a rectangle a line: x y width height, from 0 on,
 * in pixels of the frames as movie.h gives them. '#' begins a comment. Rectangles may reach beyond the frame; one that
 * lies outside it is an error, because the list is then that of another camera or binning. */
enum status gain_read_defects(const char *path, int nx, int ny, uint8_t **ret_map, struct err *err);

#endif
