/* Pixels of MRC files to and from float32. */
#ifndef ICESTREAM_COMMON_FORMATS_MRC_PIXELS_H
#define ICESTREAM_COMMON_FORMATS_MRC_PIXELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/formats/mrc.h"

enum { MRC_CHUNK = 16384 }; /* pixels that are converted at a time: they stay in the cache */

/* Bytes of a pixel; 0 for a mode that is not read. */
size_t mrc_pixel_bytes(int mode);
/* Reverses the bytes of `count` values of `size` 1, 2 or 4. */
void mrc_swap(void *values, size_t count, size_t size);
/* count values of the machine's byte order to float32; 64-byte aligned, not overlapping. */
void mrc_to_float(enum mrc_mode mode, const void *stored, size_t count, float *out);
/* The same of IMOD's unsigned bytes, which have the mode of signed ones. */
void mrc_unsigned_to_float(const uint8_t *stored, size_t count, float *out);
/* Rounds and clamps as the mode does; `as_stored` gets the values that a reader will see. */
void mrc_from_float(enum mrc_mode mode, const float *values, size_t count, void *stored, float *as_stored);

float mrc_half_to_float(uint16_t half);
/* To nearest, ties to even; beyond ±65504 clamped, NaN kept. */
uint16_t mrc_float_to_half(float value);

#endif
