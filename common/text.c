#include "common/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

size_t text_fit(const char *text, size_t most) {
    size_t length = strnlen(text, most + 1);
    if (length <= most) return length;
    while (most > 0 && ((unsigned char)text[most] & 0xc0) == 0x80)
        most--;
    return most;
}

static size_t character_bytes(unsigned char first) {
    return first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

void text_trim(char *text) {
    size_t length = strlen(text), begin = length;
    while (begin > 0 && length - begin < 3 && ((unsigned char)text[begin - 1] & 0xc0) == 0x80)
        begin--;
    if (begin == 0 || (unsigned char)text[begin - 1] < 0xc0) return;
    if (length - begin + 1 < character_bytes((unsigned char)text[begin - 1])) text[begin - 1] = '\0';
}

uint64_t text_fnv(uint64_t begin, const void *bytes, size_t length) {
    const unsigned char *byte = bytes;
    uint64_t hash = begin;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ byte[i]) * 0x100000001b3u;
    return hash;
}

uint64_t text_hash_bytes(const void *bytes, size_t length) {
    uint64_t hash = text_fnv(TEXT_FNV_BEGIN, bytes, length);
    return hash ^ (hash >> 29);
}

uint64_t text_hash(const char *text) {
    return text_hash_bytes(text, strlen(text));
}

/* 10⁶ · value is rounded once; fma says by how much, so that what is nearly half way between two numbers is left to
 * printf, which is exact. */
size_t text_six_decimals(double value, char *text) {
    static const double SCALE = 1e6;
    double size = fabs(value), product = size * SCALE, whole = rint(product);
    double off = fabs(product - whole + fma(size, SCALE, -product));
    if (!(size < 1e9) || off > 0.499999) return (size_t)snprintf(text, 64, "%.6f", value);
    char digits[24];
    int count = 0;
    for (uint64_t rest = (uint64_t)whole; rest > 0 || count < 7; rest /= 10)
        digits[count++] = (char)('0' + rest % 10);
    char *at = text;
    if (signbit(value)) *at++ = '-';
    while (count > 6)
        *at++ = digits[--count];
    *at++ = '.';
    while (count > 0)
        *at++ = digits[--count];
    *at = '\0';
    return (size_t)(at - text);
}
