#include "examples/simulate/lzw.h"

#include <string.h>

enum { CLEAR = 256, END = 257, FIRST = 258, LAST = 4094, SLOTS = 1 << 14 };

/* The strings in the table: a known string and one byte more, under their code. */
struct table {
    uint32_t key[SLOTS]; /* 0: empty; else 1 + prefix · 256 + byte */
    uint16_t code[SLOTS];
    int next, width;
};

/* Bits that are not yet whole bytes, the first in the highest place. */
struct bits {
    uint8_t *out;
    uint32_t held;
    int count;
};

static void put(struct bits *bits, int code, int width) {
    bits->held = bits->held << width | (uint32_t)code;
    bits->count += width;
    while (bits->count >= 8) {
        bits->count -= 8;
        *bits->out++ = (uint8_t)(bits->held >> bits->count);
    }
}

static void clear(struct table *table) {
    memset(table->key, 0, sizeof table->key);
    table->next = FIRST;
    table->width = 9;
}

/* Counts a new string; the decoder is one behind, so codes widen when the next one would not fit. */
static void grow(struct table *table, struct bits *bits) {
    table->next++;
    if (table->next == LAST) {
        put(bits, CLEAR, table->width);
        clear(table);
    } else if (table->next >= 1 << table->width) {
        table->width++;
    }
}

size_t lzw_bound(size_t length) {
    return length + length / 2 + length / 512 + 64; /* 12 bits a byte at most, and the clearing codes */
}

size_t lzw_encode(const uint8_t *bytes, size_t length, uint8_t *out) {
    struct table table;
    struct bits bits = {.out = out};
    clear(&table);
    put(&bits, CLEAR, table.width);
    uint32_t prefix = bytes[0];
    for (size_t i = 1; i < length; i++) {
        uint32_t key = 1 + (prefix << 8 | bytes[i]), slot = key * 2654435761u >> 18;
        while (table.key[slot] != 0 && table.key[slot] != key)
            slot = (slot + 1) & (SLOTS - 1);
        if (table.key[slot] == key) {
            prefix = table.code[slot];
            continue;
        }
        put(&bits, (int)prefix, table.width);
        table.key[slot] = key;
        table.code[slot] = (uint16_t)table.next;
        grow(&table, &bits);
        prefix = bytes[i];
    }
    put(&bits, (int)prefix, table.width);
    grow(&table, &bits);
    put(&bits, END, table.width);
    if (bits.count > 0) put(&bits, 0, 8 - bits.count);
    return (size_t)(bits.out - out);
}
