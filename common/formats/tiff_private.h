/* Shared by tiff.c, tiff_walk.c and tiff_pixels.c. */
#ifndef ICESTREAM_COMMON_FORMATS_TIFF_PRIVATE_H
#define ICESTREAM_COMMON_FORMATS_TIFF_PRIVATE_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

/* Checks that each directory of the file, and each value that a directory points to, lies inside the file. So a growing
 * file (STATUS_TRUNCATED) differs from a broken one, which libtiff cannot tell. */
enum status tiff_walk(const char *path, int descriptor, int64_t size, struct err *err);

enum tiff_sample { SAMPLE_UNSIGNED, SAMPLE_SIGNED, SAMPLE_FLOAT };

/* Converts count samples of `bits` bits to float32. libtiff packs whole bytes in machine order, other samples from the
 * highest bit of each byte. */
void tiff_to_float(enum tiff_sample sample, int bits, const void *packed, size_t count, float *out);

#endif
