/* Decodes and encodes the frames of EER movies (electron event representation): lists of single electrons.
 *
 * A frame walks over the pixels of the detector row by row. Each code gives the number of pixels to skip (skip_bits
 * wide) and, when it is not the largest number, that the next pixel was hit, and where inside the pixel: the column's
 * part (column_bits wide), then the row's part (row_bits). The largest number means: skip that many pixels, no hit.
 * Codes lie one after the other from the lowest bit of each byte on. A frame ends with the skip that leads just past
 * the last pixel. The highest bit of each part is stored inverted, so that 0 is the middle of the pixel.
 * The widths follow from the TIFF compression of the file (eer_format_of). Programs disagree about compression 65000:
 * for RELION 3.1 the largest number is followed by the two parts as well, for imagecodecs it is not. Only the right
 * reading of a frame ends at its last pixel, so eer_file_open tries both.
 * Source: Guo et al., IUCrJ 7:860 (2020), and the output of imagecodecs. */
#ifndef ICESTREAM_COMMON_FORMATS_EER_H
#define ICESTREAM_COMMON_FORMATS_EER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

struct eer_format {
    int skip_bits;             /* 4 to 16 */
    int column_bits, row_bits; /* 0 to 4 */
    bool jumps_have_parts;     /* the largest number is followed by parts, without a meaning */
};

enum { EER_COMPRESSION_8 = 65000, EER_COMPRESSION_7 = 65001, EER_COMPRESSION_TAGS = 65002, EER_LEVEL_MAX = 2 };

/* Returns the widths for compression 65000 (8, 2, 2) or 65001 (7, 2, 2). Compression 65002 gives them in TIFF tags
 * 65007 to 65009. */
struct eer_format eer_format_of(int compression);

/* Adds the electrons of a frame of nx × ny detector pixels to counts[ny << level][nx << level]. level 0: one count a
 * pixel; 1, 2: two or four along each side. Counts stop at 65535. STATUS_BAD_FORMAT: the codes end before the last
 * pixel or lead past it; `counts` then holds the electrons up to there. Any bytes are safe. ret_electrons may be
 * NULL. */
enum status eer_decode(const struct eer_format *format, const uint8_t *bytes, size_t length, int nx, int ny, int level,
                       uint16_t *counts, uint64_t *ret_electrons, struct err *err);

/* The place of one electron on a grid of four columns and rows a detector pixel. */
struct eer_electron {
    uint32_t x, y; /* 0 to 4 nx − 1, 0 to 4 ny − 1 */
};
/* Returns the bytes that eer_encode may need for so many electrons. */
size_t eer_encoded_bound(const struct eer_format *format, size_t electrons, int nx, int ny);
/* Encodes electrons of one frame, which are sorted by detector pixel (y / 4, then x / 4), one a pixel at most. Returns
 * the number of bytes, in `bytes`, which eer_encoded_bound measures. */
size_t eer_encode(const struct eer_format *format, const struct eer_electron *electrons, size_t count, int nx, int ny,
                  uint8_t *bytes);

#endif
