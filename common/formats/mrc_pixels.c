#include "common/formats/mrc_pixels.h"

#include <math.h>
#include <string.h>

#include "common/half.h"
#include "common/multiversion.h"

size_t mrc_pixel_bytes(int mode) {
    switch (mode) {
    case MRC_INT8:
        return 1;
    case MRC_INT16:
    case MRC_UINT16:
    case MRC_FLOAT16:
        return 2;
    case MRC_FLOAT32:
        return 4;
    default:
        return 0;
    }
}

size_t mrc_row_bytes(int mode, int nx) {
    return mode == MRC_UINT4 ? ((size_t)nx + 1) / 2 : mrc_pixel_bytes(mode) * (size_t)nx;
}

void mrc_swap(void *values, size_t count, size_t size) {
    if (size == 2) {
        uint16_t *v = values;
        for (size_t i = 0; i < count; i++)
            v[i] = __builtin_bswap16(v[i]);
    } else if (size == 4) {
        uint32_t *v = values;
        for (size_t i = 0; i < count; i++)
            v[i] = __builtin_bswap32(v[i]);
    }
}

static inline uint32_t to_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline uint16_t float_to_half(float value) {
    uint32_t sign = to_bits(value) >> 16 & 0x8000;
    float size = fabsf(value);
    size = size > 65504.0f ? 65504.0f : size;
    uint32_t bits = to_bits(size);
    /* Below 2^-14 the last place of a half is 2^-24. The last place of a float near 0.5 is the same, so adding 0.5
     * rounds to it. */
    uint32_t small = to_bits(size + 0.5f) - 0x3f000000u;
    uint32_t normal = (bits - (112u << 23) + 0xfff + (bits >> 13 & 1)) >> 13;
    uint32_t half = size < 0x1p-14f ? small : normal;
    return (uint16_t)(sign | (value == value ? half : 0x7e00u));
}

float mrc_half_to_float(uint16_t half) {
    return half_to_float(half);
}

uint16_t mrc_float_to_half(float value) {
    return float_to_half(value);
}

#define CONVERT(type)                                                                                                  \
    do {                                                                                                               \
        const type *in = stored;                                                                                       \
        for (size_t i = 0; i < count; i++)                                                                             \
            out[i] = (float)in[i];                                                                                     \
    } while (0)

MULTIVERSION void mrc_to_float(enum mrc_mode mode, const void *restrict stored, size_t count, float *restrict out) {
    if (mode == MRC_FLOAT32) {
        memcpy(out, stored, count * sizeof *out);
    } else if (mode == MRC_INT8) {
        CONVERT(int8_t);
    } else if (mode == MRC_INT16) {
        CONVERT(int16_t);
    } else if (mode == MRC_UINT16) {
        CONVERT(uint16_t);
    } else {
        const uint16_t *in = stored;
        for (size_t i = 0; i < count; i++)
            out[i] = half_to_float(in[i]);
    }
}

MULTIVERSION void mrc_unsigned_to_float(const uint8_t *restrict stored, size_t count, float *restrict out) {
    for (size_t i = 0; i < count; i++)
        out[i] = (float)stored[i];
}

MULTIVERSION void mrc_nibbles_to_float(const uint8_t *restrict stored, size_t count, float *restrict out) {
    for (size_t i = 0; i < count / 2; i++) {
        out[2 * i] = (float)(stored[i] & 15);
        out[2 * i + 1] = (float)(stored[i] >> 4);
    }
    if (count % 2 == 1) out[count - 1] = (float)(stored[count / 2] & 15);
}

MULTIVERSION void mrc_nibbles_to_bytes(const uint8_t *restrict stored, size_t count, uint8_t *restrict out) {
    for (size_t i = 0; i < count / 2; i++) {
        out[2 * i] = stored[i] & 15;
        out[2 * i + 1] = stored[i] >> 4;
    }
    if (count % 2 == 1) out[count - 1] = stored[count / 2] & 15;
}

MULTIVERSION bool mrc_has_negative(const void *values, size_t count, size_t size) {
    const uint8_t *bytes = values;
    const uint16_t *words = values;
    unsigned bits = 0;
    if (size == 1)
        for (size_t i = 0; i < count; i++)
            bits |= (unsigned)bytes[i] << 8;
    else
        for (size_t i = 0; i < count; i++)
            bits |= words[i];
    return (bits & 0x8000) != 0;
}

/* A NaN fails both comparisons of the first line and then becomes 0. */
static inline float clamped(float value, float least, float most) {
    float v = value < least ? least : value > most ? most : value;
    return v == v ? rintf(v) : 0.0f;
}

#define STORE(type, least, most)                                                                                       \
    do {                                                                                                               \
        type *to = stored;                                                                                             \
        for (size_t i = 0; i < count; i++) {                                                                           \
            as_stored[i] = clamped(values[i], least, most);                                                            \
            to[i] = (type)as_stored[i];                                                                                \
        }                                                                                                              \
    } while (0)

MULTIVERSION void mrc_from_float(enum mrc_mode mode, const float *restrict values, size_t count, void *restrict stored,
                                 float *restrict as_stored) {
    if (mode == MRC_FLOAT32) {
        memcpy(stored, values, count * sizeof *values);
        memcpy(as_stored, values, count * sizeof *values);
    } else if (mode == MRC_INT8) {
        STORE(int8_t, -128.0f, 127.0f);
    } else if (mode == MRC_INT16) {
        STORE(int16_t, -32768.0f, 32767.0f);
    } else if (mode == MRC_UINT16) {
        STORE(uint16_t, 0.0f, 65535.0f);
    } else {
        uint16_t *to = stored;
        for (size_t i = 0; i < count; i++) {
            to[i] = float_to_half(values[i]);
            as_stored[i] = half_to_float(to[i]);
        }
    }
}
