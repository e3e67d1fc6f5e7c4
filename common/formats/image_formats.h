/* Finds out which format an image file has, by its content or by the ending of its name, and reads it.
 *
 * All formats stand in one table in image_formats.c. A new format is one row there and one name in enum
 * image_format. */
#ifndef ICESTREAM_COMMON_FORMATS_IMAGE_FORMATS_H
#define ICESTREAM_COMMON_FORMATS_IMAGE_FORMATS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/formats/image.h"
#include "common/status.h"

/* Kinds of input that a file may be, judged by its ending. One ending may stand for several kinds. */
enum image_use {
    IMAGE_AS_MICROGRAPH = 1 << 0, /* one image in densities */
    IMAGE_AS_MOVIE = 1 << 1,      /* the frames of one exposure */
    IMAGE_AS_TILT = 1 << 2,       /* one tilt of a series */
    IMAGE_AS_TILT_STACK = 1 << 3, /* all tilts of a series, or the frames that an .mdoc is named after */
    IMAGE_AS_VOLUME = 1 << 4,     /* a map or a tomogram */
    IMAGE_AS_PHOTOGRAPH = 1 << 5, /* a picture for people: of a drop, or a thumbnail of a micrograph */
    IMAGE_AS_ANYTHING = (1 << 6) - 1,
};

/* Returns whether the ending of a path has one of these uses (IMAGE_AS_… joined by |). Case does not matter. */
bool image_path_fits(const char *path, unsigned uses);
/* Returns the length of a path without its ending, if the ending has one of these uses; else the whole length. */
size_t image_path_stem(const char *path, unsigned uses);
/* Returns the ending (such as ".mrc") at `index`, from 0, among all that have one of these uses, in the order of the
 * table; NULL after the last. */
const char *image_ending(size_t index, unsigned uses);

/* Returns whether a format holds pictures for people: grey values without a pixel size or a scale. */
bool image_is_photograph(enum image_format format);

/* Finds the format (by content, not by name), shape and pixel size, and whether the file is whole: an MRC is as long as
 * its header says, the directories and strips of a TIFF lie inside the file, a PNG or JPEG has its end marker.
 * STATUS_TRUNCATED when the file may still be growing, STATUS_BAD_FORMAT when it cannot become an image. Reads no
 * pixels. */
enum status image_probe(const char *path, struct image_info *ret_info, struct err *err);

/* Reads all pixels as float32 into `image` and reuses its memory. Colour pictures become luminance. */
enum status image_read(const char *path, struct image *image, struct err *err);

/* As image_read, but turns TIFF over. TIFF begins with the top line and MRC with the bottom line; IMOD, SerialEM and
 * RELION read and write them so. Coordinates count from row 0; without the turn a reconstruction from TIFF would be the
 * mirror image. No such rule exists for PNG and JPEG: their rows stay. */
enum status image_read_micrograph(const char *path, struct image *image, struct err *err);

/* Reads one slice: name is "path" or "NNNNNN@path" (slice of a stack, from 1). */
enum status image_read_slice(const char *name, struct image *image, struct err *err);

#endif
