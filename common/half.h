/* Converts float16 to float32, on the host and on CUDA devices. */
#ifndef ICESTREAM_COMMON_HALF_H
#define ICESTREAM_COMMON_HALF_H

#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define HALF_SHARED static __host__ __device__ inline
#else
#define HALF_SHARED static inline
#endif

HALF_SHARED float half_from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Loses nothing: infinity, NaN, the sign of 0 and subnormal values stay. Exponents differ by 127 − 15 = 112; the product
 * also makes subnormal halves normal floats. */
HALF_SHARED float half_to_float(uint16_t half) {
    uint32_t magnitude = (uint32_t)(half & 0x7fff) << 13, bits;
    float scaled = half_from_bits(magnitude) * 0x1p112f;
    memcpy(&bits, &scaled, sizeof bits);
    bits = (half & 0x7c00) == 0x7c00 ? magnitude | 0x7f800000u : bits;
    return half_from_bits(bits | (uint32_t)(half & 0x8000) << 16);
}

#endif
