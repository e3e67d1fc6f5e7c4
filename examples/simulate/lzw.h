/* Compresses bytes with the LZW of TIFF 6.0, section 13. libtiff compresses the strips of a file one after the other;
 * here threads compress one each. */
#ifndef ICESTREAM_EXAMPLES_SIMULATE_LZW_H
#define ICESTREAM_EXAMPLES_SIMULATE_LZW_H

#include <stddef.h>
#include <stdint.h>

/* Returns the bytes that `length` bytes may need. */
size_t lzw_bound(size_t length);
/* Compresses length >= 1 bytes into `out`. Returns the number of bytes there. */
size_t lzw_encode(const uint8_t *bytes, size_t length, uint8_t *out);

#endif
