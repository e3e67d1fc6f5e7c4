#include <string.h>

#include "common/formats/mrc_pixels.h"
#include "common/formats/tiff_private.h"

#define CONVERT(type)                                                                                                  \
    do {                                                                                                               \
        const type *in = packed;                                                                                       \
        for (size_t i = 0; i < count; i++)                                                                             \
            out[i] = (float)in[i];                                                                                     \
    } while (0)

/* Unpacks samples of 1 to 31 bits that share bytes. */
static void unpack(enum tiff_sample sample, int bits, const unsigned char *packed, size_t count, float *out) {
    uint64_t window = 0;
    int held = 0;
    uint32_t mask = (1u << bits) - 1, sign = 1u << (bits - 1);
    for (size_t i = 0; i < count; i++) {
        while (held < bits) {
            window = window << 8 | *packed++;
            held += 8;
        }
        held -= bits;
        uint32_t value = (uint32_t)(window >> held) & mask;
        out[i] = sample == SAMPLE_SIGNED ? (float)((int64_t)(value ^ sign) - (int64_t)sign) : (float)value;
    }
}

static void convert_floats(int bits, const void *packed, size_t count, float *out) {
    if (bits == 16) {
        const uint16_t *in = packed;
        for (size_t i = 0; i < count; i++)
            out[i] = mrc_half_to_float(in[i]);
    } else if (bits == 32) {
        memcpy(out, packed, count * sizeof *out);
    } else {
        CONVERT(double);
    }
}

void tiff_to_float(enum tiff_sample sample, int bits, const void *packed, size_t count, float *out) {
    bool is_signed = sample == SAMPLE_SIGNED;
    if (sample == SAMPLE_FLOAT)
        convert_floats(bits, packed, count, out);
    else if (bits == 8 && is_signed)
        CONVERT(int8_t);
    else if (bits == 8)
        CONVERT(uint8_t);
    else if (bits == 16 && is_signed)
        CONVERT(int16_t);
    else if (bits == 16)
        CONVERT(uint16_t);
    else if (bits == 32 && is_signed)
        CONVERT(int32_t);
    else if (bits == 32)
        CONVERT(uint32_t);
    else if (bits == 64 && is_signed)
        CONVERT(int64_t);
    else if (bits == 64)
        CONVERT(uint64_t);
    else
        unpack(sample, bits, packed, count, out);
}
