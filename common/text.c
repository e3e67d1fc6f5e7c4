#include "common/text.h"

#include <math.h>
#include <stdbool.h>
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

size_t text_character(const char *text, size_t left) {
    const unsigned char *at = (const unsigned char *)text;
    if (at[0] < 0x80) return 1;
    size_t length = character_bytes(at[0]);
    if (at[0] < 0xc2 || at[0] > 0xf4 || length > left) return 0;
    unsigned char least = at[0] == 0xe0 ? 0xa0 : at[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char most = at[0] == 0xed ? 0x9f : at[0] == 0xf4 ? 0x8f : 0xbf;
    if (at[1] < least || at[1] > most) return 0;
    for (size_t i = 2; i < length; i++)
        if ((at[i] & 0xc0) != 0x80) return 0;
    return length;
}

/* Returns the columns of the first bytes of a text. */
static size_t width_of(const char *text, size_t bytes) {
    size_t width = 0;
    for (size_t i = 0; i < bytes; i++)
        width += ((unsigned char)text[i] & 0xc0) != 0x80;
    return width;
}

size_t text_width(const char *text) {
    return width_of(text, strlen(text));
}

void text_wrap(const char *text, size_t column, size_t indent, FILE *out) {
    bool begun = false; /* the line holds a word of the text */
    for (text += strspn(text, " \n"); *text != '\0'; text += strspn(text, " \n")) {
        size_t bytes = strcspn(text, " \n"), width = width_of(text, bytes);
        if (begun && column + 1 + width > TEXT_COLUMNS) {
            fprintf(out, "\n%*s", (int)indent, "");
            column = indent;
            begun = false;
        }
        fprintf(out, "%s%.*s", begun ? " " : "", (int)bytes, text);
        column += width + begun;
        begun = true;
        text += bytes;
    }
    fputc('\n', out);
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

/* The code rounds 10⁶ · value once, and fma gives the rounding error. Values almost half way between two numbers are
 * left to printf, which is exact. */
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

/* Goes on with a whole number, which may overflow. Returns the first character that is no digit. */
static const char *read_digits(const char *at, uint64_t *whole) {
    uint64_t number = *whole;
    for (unsigned digit; (digit = (unsigned)*at - '0') < 10; at++)
        number = 10 * number + digit;
    *whole = number;
    return at;
}

/* Digits as one whole number, and the power of ten by which it is divided, are exact; so the quotient is rounded once. */
bool text_decimal(const char *text, double *ret_value) {
    static const double POWERS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,
                                    1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19};
    enum { DIGITS_MOST = 19 }; /* of these, whole holds any */
    static const uint64_t LARGEST = (uint64_t)1 << 53;
    const char *at = text + (*text == '-' || *text == '+');
    const char *first = at, *after_point = NULL;
    uint64_t whole = 0;
    at = read_digits(at, &whole);
    if (*at == '.') at = read_digits(after_point = at + 1, &whole);
    ptrdiff_t decimals = after_point != NULL ? at - after_point : 0;
    ptrdiff_t digits = at - first - (after_point != NULL);
    if (*at != '\0' || digits < 1 || digits > DIGITS_MOST || whole > LARGEST) return false;
    double value = (double)whole / POWERS[decimals];
    *ret_value = *text == '-' ? -value : value;
    return true;
}

void text_key(const char *key, char *out, size_t size) {
    snprintf(out, size, "%s", key);
    for (char *p = out; *p; p++)
        if (*p == '-') *p = '_';
}

static int smaller(int a, int b) {
    return a < b ? a : b;
}

/* Returns the edit distance, where two swapped neighbours count as one slip, as in typing. */
static int edit_distance(const char *a, const char *b) {
    enum { LENGTH_MAX = 63 };
    int rows[3][LENGTH_MAX + 1];
    int m = (int)strlen(a), n = (int)strlen(b);
    if (m > LENGTH_MAX || n > LENGTH_MAX) return LENGTH_MAX;
    int *before = rows[0], *last = rows[1], *now = rows[2];
    for (int j = 0; j <= n; j++)
        last[j] = before[j] = j;
    for (int i = 1; i <= m; i++) {
        now[0] = i;
        for (int j = 1; j <= n; j++) {
            now[j] = smaller(smaller(last[j], now[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = smaller(now[j], before[j - 2] + 1);
        }
        int *oldest = before;
        before = last;
        last = now;
        now = oldest;
    }
    return last[n];
}

const char *text_nearest(const char *word, const char *const *candidates, size_t count) {
    char key[64];
    text_key(word, key, sizeof key);
    const char *best = NULL;
    int best_distance = 0;
    for (size_t i = 0; i < count; i++) {
        char candidate[64];
        text_key(candidates[i], candidate, sizeof candidate);
        int distance = edit_distance(key, candidate);
        /* The beginning of a candidate is near, however much is missing. */
        size_t length = strlen(key);
        if (length >= 3 && strncmp(key, candidate, length) == 0) distance = smaller(distance, 1);
        if (best == NULL || distance < best_distance) {
            best = candidates[i];
            best_distance = distance;
        }
    }
    int allowed = 1 + (int)strlen(key) / 4;
    return best != NULL && best_distance <= allowed ? best : NULL;
}
