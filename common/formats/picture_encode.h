/* Encodes grey pictures in memory, for thumbnails and for answers of a server. Row 0 is the top row; 0 is black. */
#ifndef ICESTREAM_COMMON_FORMATS_PICTURE_ENCODE_H
#define ICESTREAM_COMMON_FORMATS_PICTURE_ENCODE_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

/* Encode pixels[y * nx + x]; free() frees *ret_bytes. BAD_ARGUMENT: a side is not 1 to 65,000 px. quality: 1 to 100; 75
 * shows no traces on a micrograph. */
enum status picture_encode_jpeg(int nx, int ny, const uint8_t *pixels, int quality, unsigned char **ret_bytes,
                                size_t *ret_length, struct err *err);
enum status picture_encode_png(int nx, int ny, const uint8_t *pixels, unsigned char **ret_bytes, size_t *ret_length,
                               struct err *err);

#endif
