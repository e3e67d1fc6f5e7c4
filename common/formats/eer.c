#include "common/formats/eer.h"

#include <stdbool.h>
#include <string.h>

struct eer_format eer_format_of(int compression) {
    return (struct eer_format){.skip_bits = compression == EER_COMPRESSION_7 ? 7 : 8, .column_bits = 2, .row_bits = 2};
}

/* ---- decoder ---- */

struct bits {
    const uint8_t *next, *end;
    uint64_t window; /* the bits that come next, the first of them lowest */
    int held;        /* bits in the window */
};

/* Holds at least 32 bits, unless the bytes end before that. */
static inline void refill(struct bits *b) {
    if (b->held >= 32) return;
    if (b->end - b->next >= 4) {
        uint32_t word;
        memcpy(&word, b->next, sizeof word);
        if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) word = __builtin_bswap32(word);
        b->window |= (uint64_t)word << b->held;
        b->next += 4;
        b->held += 32;
        return;
    }
    while (b->held < 32 && b->next < b->end) {
        b->window |= (uint64_t)*b->next++ << b->held;
        b->held += 8;
    }
}

static inline uint32_t take(struct bits *b, int count) {
    uint32_t value = (uint32_t)b->window & ((1u << count) - 1);
    b->window >>= count;
    b->held -= count;
    return value;
}

/* Returns where a hit lies inside its pixel, on a grid of 1 << level parts. */
static inline uint32_t part_of(uint32_t code, int bits, int level) {
    if (bits == 0) return (1u << level) >> 1;
    code ^= 1u << (bits - 1);
    return bits >= level ? code >> (bits - level) : code << (level - bits);
}

enum status eer_decode(const struct eer_format *format, const uint8_t *bytes, size_t length, int nx, int ny, int level,
                       uint16_t *counts, uint64_t *ret_electrons, struct err *err) {
    FAIL_IF(
        format->skip_bits < 4 || format->skip_bits > 16 || format->column_bits < 0 || format->column_bits > 4 ||
            format->row_bits < 0 || format->row_bits > 4 || level < 0 || level > EER_LEVEL_MAX,
        err, STATUS_UNSUPPORTED,
        "EER codes of %d + %d + %d bits at level %d are not supported: 4 to 16, 0 to 4 and 0 to 4 at level 0 to %d are",
        format->skip_bits, format->column_bits, format->row_bits, level, EER_LEVEL_MAX);
    struct bits b = {.next = bytes, .end = bytes + length};
    const uint64_t pixels = (uint64_t)nx * (uint64_t)ny;
    const uint32_t longest = (1u << format->skip_bits) - 1;
    const int column_bits = format->column_bits, row_bits = format->row_bits;
    const size_t width = (size_t)nx << level;
    uint64_t position = 0, row_end = (uint64_t)nx, electrons = 0;
    uint16_t *row = counts; /* the first of the 1 << level rows of the detector row */
    for (;;) {
        refill(&b);
        if (b.held < format->skip_bits) break;
        uint32_t skip = take(&b, format->skip_bits);
        position += skip;
        if (position >= pixels) break;
        if (skip == longest && !format->jumps_have_parts) continue;
        if (b.held < column_bits + row_bits) break;
        uint32_t column = take(&b, column_bits), line = take(&b, row_bits);
        if (skip == longest) continue;
        for (; position >= row_end; row_end += (uint64_t)nx)
            row += width << level;
        size_t x = ((size_t)(position + (uint64_t)nx - row_end) << level) + part_of(column, column_bits, level);
        uint16_t *pixel = &row[part_of(line, row_bits, level) * width + x];
        *pixel = (uint16_t)(*pixel + (*pixel < UINT16_MAX));
        electrons++;
        position++;
    }
    FAIL_IF(position != pixels, err, STATUS_BAD_FORMAT,
            "the electrons of a frame lead to pixel %llu; its %d × %d pixels end at %llu", (unsigned long long)position,
            nx, ny, (unsigned long long)pixels);
    if (ret_electrons != NULL) *ret_electrons = electrons;
    return STATUS_OK;
}

/* ---- encoder ---- */

struct writer {
    uint8_t *next;
    uint64_t window;
    int held;
};

static void put(struct writer *w, uint32_t value, int count) {
    w->window |= (uint64_t)value << w->held;
    for (w->held += count; w->held >= 8; w->held -= 8, w->window >>= 8)
        *w->next++ = (uint8_t)w->window;
}

static void put_skip(struct writer *w, const struct eer_format *format, uint64_t pixels) {
    const uint32_t longest = (1u << format->skip_bits) - 1;
    for (; pixels >= longest; pixels -= longest) {
        put(w, longest, format->skip_bits);
        if (format->jumps_have_parts) put(w, 0, format->column_bits + format->row_bits);
    }
    put(w, (uint32_t)pixels, format->skip_bits);
}

/* Returns the code of a part that is given in quarters of a pixel. */
static uint32_t code_of(uint32_t quarter, int bits) {
    if (bits == 0) return 0;
    uint32_t part = bits >= 2 ? quarter << (bits - 2) : quarter >> (2 - bits);
    return part ^ 1u << (bits - 1);
}

size_t eer_encoded_bound(const struct eer_format *format, size_t electrons, int nx, int ny) {
    size_t pixels = (size_t)nx * (size_t)ny, jumps = pixels / ((1u << format->skip_bits) - 1) + 2;
    size_t widths = (size_t)(format->skip_bits + format->column_bits + format->row_bits);
    return ((electrons + jumps) * widths + 7) / 8 + 1;
}

size_t eer_encode(const struct eer_format *format, const struct eer_electron *electrons, size_t count, int nx, int ny,
                  uint8_t *bytes) {
    struct writer w = {.next = bytes};
    uint64_t position = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t pixel = (uint64_t)(electrons[i].y / 4) * (uint64_t)nx + electrons[i].x / 4;
        put_skip(&w, format, pixel - position);
        put(&w, code_of(electrons[i].x % 4, format->column_bits), format->column_bits);
        put(&w, code_of(electrons[i].y % 4, format->row_bits), format->row_bits);
        position = pixel + 1;
    }
    put_skip(&w, format, (uint64_t)nx * (uint64_t)ny - position);
    if (w.held > 0) *w.next++ = (uint8_t)w.window;
    return (size_t)(w.next - bytes);
}
