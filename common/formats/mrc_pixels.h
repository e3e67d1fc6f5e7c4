/* Converts pixels of MRC files to and from float32. */
#ifndef ICESTREAM_COMMON_FORMATS_MRC_PIXELS_H
#define ICESTREAM_COMMON_FORMATS_MRC_PIXELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/formats/mrc.h"

enum { MRC_CHUNK = 16384 }; /* pixels to convert at a time: they stay in the cache */

/* Returns the bytes of a pixel; 0 for a mode whose pixels are not whole bytes, or that icestream does not read. */
size_t mrc_pixel_bytes(int mode);
/* Returns the bytes of a row of nx pixels; 0 for a mode that icestream does not read. */
size_t mrc_row_bytes(int mode, int nx);
/* Reverses the bytes of `count` values of `size` 1, 2 or 4. */
void mrc_swap(void *values, size_t count, size_t size);
/* Converts count values in the machine's byte order to float32. Arrays are 64-byte aligned and do not overlap. */
void mrc_to_float(enum mrc_mode mode, const void *stored, size_t count, float *out);
/* As mrc_to_float, for IMOD's unsigned bytes, whose mode is that of signed bytes. */
void mrc_unsigned_to_float(const uint8_t *stored, size_t count, float *out);
/* Converts count pixels of mode 101, two a byte, to float32. */
void mrc_nibbles_to_float(const uint8_t *stored, size_t count, float *out);
/* Unpacks count pixels of mode 101 into bytes. */
void mrc_nibbles_to_bytes(const uint8_t *stored, size_t count, uint8_t *out);
/* Returns whether one of count whole numbers of `size` 1 or 2 has its sign bit set. */
bool mrc_has_negative(const void *values, size_t count, size_t size);
/* Converts float32 to a mode: rounds and clamps as mrc_write does. `as_stored` gets the values that a reader will
 * see. */
void mrc_from_float(enum mrc_mode mode, const float *values, size_t count, void *stored, float *as_stored);

/* Converts float16 to float32, without loss. */
float mrc_half_to_float(uint16_t half);
/* Rounds to nearest, ties to even; clamps beyond ±65504; keeps NaN. */
uint16_t mrc_float_to_half(float value);

#endif
