/* Makes a small grey picture of an image: for pages that show many. */
#ifndef ICESTREAM_COMMON_FORMATS_THUMBNAIL_H
#define ICESTREAM_COMMON_FORMATS_THUMBNAIL_H

#include <stdint.h>

#include "common/formats/image.h"
#include "common/status.h"

enum { THUMBNAIL_SIDE = 192 }; /* px, at most */

struct thumbnail {
    int nx, ny;                                      /* px; the sides keep their proportion */
    uint8_t pixels[THUMBNAIL_SIDE * THUMBNAIL_SIDE]; /* [ny][nx]; row 0 of the image is at the top */
};

/* Averages the image (its first, of a stack) into boxes. Greys reach from 3 standard deviations below the mean to as many
 * above it, without the outliers. NaN and infinite pixels are left out. An image that is smaller keeps its size. */
void thumbnail_make(const struct image *image, struct thumbnail *ret_thumbnail);
/* Writes the thumbnail as JPEG: under another name first, then synced and renamed. */
enum status thumbnail_write(const struct thumbnail *thumbnail, const char *path, struct err *err);

#endif
