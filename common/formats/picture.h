/* Reads PNG and JPEG and writes 8-bit PNG: pictures for people. Row 0 is the top row. */
#ifndef ICESTREAM_COMMON_FORMATS_PICTURE_H
#define ICESTREAM_COMMON_FORMATS_PICTURE_H

#include <stdint.h>

#include "common/formats/image.h"
#include "common/status.h"

/* Writes pixels[y * nx + x], 0 is black: under another name first, then synced and renamed. */
enum status picture_write_grey(const char *path, int nx, int ny, const uint8_t *pixels, struct err *err);
/* Writes pixels[(y * nx + x) * 3 + {0 red, 1 green, 2 blue}]. */
enum status picture_write_rgb(const char *path, int nx, int ny, const uint8_t *pixels, struct err *err);
/* Writes a noisy picture of few colours at a quarter of the cost of full colours. pixels[y * nx + x] is a row of the
 * palette {red, green, blue}. */
enum { PICTURE_COLOURS = 256 };
enum status picture_write_palette(const char *path, int nx, int ny, const uint8_t *pixels,
                                  const uint8_t palette[PICTURE_COLOURS][3], struct err *err);

/* Reads the shape of a PNG or JPEG and looks for its end marker; as image_probe. */
enum status picture_probe(const char *path, struct image_info *ret_info, struct err *err);
/* Reads a PNG (8 or 16 bit) or JPEG as one float32 image. Grey values stay as stored, colours become their luminance
 * (0.2126 R + 0.7152 G + 0.0722 B of the stored values), an alpha channel is ignored. */
enum status picture_read(const char *path, struct image *image, struct err *err);

#endif
