/* What the parts of the TIFF module share. */
#ifndef ICESTREAM_COMMON_FORMATS_TIFF_PRIVATE_H
#define ICESTREAM_COMMON_FORMATS_TIFF_PRIVATE_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

/* Whether every directory of the file, and every value that a directory points to, lies inside the file. libtiff does
 * not tell a file that still grows from one that is broken; this does. */
enum status tiff_walk(const char *path, int descriptor, int64_t size, struct err *err);

enum tiff_sample { SAMPLE_UNSIGNED, SAMPLE_SIGNED, SAMPLE_FLOAT };

/* count samples of `bits` bits, packed as libtiff leaves them (whole bytes in machine order, others from the highest
 * bit of each byte on), to float32. */
void tiff_to_float(enum tiff_sample sample, int bits, const void *packed, size_t count, float *out);

#endif
