/* Pictures for people: 8-bit PNG out; PNG and JPEG in. Row 0 is the top row. */
#ifndef ICESTREAM_COMMON_FORMATS_PICTURE_H
#define ICESTREAM_COMMON_FORMATS_PICTURE_H

#include <stdint.h>

#include "common/formats/image.h"
#include "common/status.h"

/* pixels[y * nx + x], 0 black. Written beside, synced, renamed. */
enum status picture_write_grey(const char *path, int nx, int ny, const uint8_t *pixels, struct err *err);
/* pixels[(y * nx + x) * 3 + {0 red, 1 green, 2 blue}]. */
enum status picture_write_rgb(const char *path, int nx, int ny, const uint8_t *pixels, struct err *err);
/* A noisy picture of few colours, at a quarter of the cost of writing them in full: pixels[y * nx + x] is a row of the
 * palette, {red, green, blue}. */
enum { PICTURE_COLOURS = 256 };
enum status picture_write_palette(const char *path, int nx, int ny, const uint8_t *pixels,
                                  const uint8_t palette[PICTURE_COLOURS][3], struct err *err);

/* Shape of a PNG or JPEG and whether its end marker is there; as image_probe. */
enum status picture_probe(const char *path, struct image_info *ret_info, struct err *err);
/* Reads a PNG (8 or 16 bit) or JPEG as one float32 image: grey values as stored, colours as their luminance
 * (0.2126 R + 0.7152 G + 0.0722 B of the stored values), an alpha channel left out. */
enum status picture_read(const char *path, struct image *image, struct err *err);

#endif
