#include "pipelines/launcher/api/api_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool make_room(struct api_text *text, size_t more) {
    if (text->failed) return false;
    if (text->capacity - text->length > more) return true;
    size_t capacity = 2 * text->capacity + more + 256;
    char *bytes = realloc(text->bytes, capacity);
    text->failed = bytes == NULL;
    if (bytes == NULL) return false;
    text->bytes = bytes;
    text->capacity = capacity;
    return true;
}

static void add_bytes(struct api_text *text, const char *bytes, size_t length) {
    if (!make_room(text, length)) return;
    memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
    text->bytes[text->length] = '\0';
}

void api_text_add(struct api_text *text, const char *words) {
    add_bytes(text, words, strlen(words));
}

void api_text_comma(struct api_text *text) {
    char last = text->length > 0 ? text->bytes[text->length - 1] : '[';
    if (last != '[' && last != '{') add_bytes(text, ",", 1);
}

void api_text_integer(struct api_text *text, int64_t value) {
    char digits[24];
    add_bytes(text, digits, (size_t)snprintf(digits, sizeof digits, "%lld", (long long)value));
}

void api_text_number(struct api_text *text, double value, int digits) {
    char number[40];
    if (!isfinite(value))
        api_text_add(text, "null");
    else if (value == floor(value) && fabs(value) < 1e6)
        api_text_integer(text, (int64_t)value);
    else
        add_bytes(text, number, (size_t)snprintf(number, sizeof number, "%.*g", digits, value));
}

/* Returns the length of the character that begins a text: 0 if it is not UTF-8. Follows table 3-7 of Unicode. */
static size_t character(const unsigned char *at, size_t left) {
    if (at[0] < 0x80) return 1;
    size_t length = at[0] >= 0xc2 && at[0] <= 0xdf   ? 2
                    : at[0] >= 0xe0 && at[0] <= 0xef ? 3
                    : at[0] >= 0xf0 && at[0] <= 0xf4 ? 4
                                                     : 0;
    if (length == 0 || length > left) return 0;
    unsigned char least = at[0] == 0xe0 ? 0xa0 : at[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char most = at[0] == 0xed ? 0x9f : at[0] == 0xf4 ? 0x8f : 0xbf;
    if (at[1] < least || at[1] > most) return 0;
    for (size_t i = 2; i < length; i++)
        if ((at[i] & 0xc0) != 0x80) return 0;
    return length;
}

void api_text_string(struct api_text *text, const char *value) {
    const unsigned char *at = (const unsigned char *)value;
    size_t left = strlen(value);
    api_text_add(text, "\"");
    while (left > 0) {
        size_t length = character(at, left);
        char escape[8];
        if (length == 0) {
            api_text_add(text, "\xef\xbf\xbd");
            length = 1;
        } else if (*at == '"' || *at == '\\') {
            add_bytes(text, escape, (size_t)snprintf(escape, sizeof escape, "\\%c", *at));
        } else if (*at < 0x20 || *at == 0x7f) {
            add_bytes(text, escape, (size_t)snprintf(escape, sizeof escape, "\\u%04x", *at));
        } else {
            add_bytes(text, (const char *)at, length);
        }
        at += length;
        left -= length;
    }
    api_text_add(text, "\"");
}

char *api_text_clean(const char *bytes, size_t length) {
    struct api_text text = {0};
    const unsigned char *at = (const unsigned char *)bytes;
    make_room(&text, length);
    while (length > 0) {
        size_t whole = character(at, length);
        if (whole == 0)
            api_text_add(&text, "\xef\xbf\xbd");
        else if (*at < 0x20)
            api_text_add(&text, " ");
        else
            add_bytes(&text, (const char *)at, whole);
        whole = whole > 0 ? whole : 1;
        at += whole;
        length -= whole;
    }
    if (text.bytes != NULL) text.bytes[text.length] = '\0';
    if (text.failed) free(text.bytes);
    return text.failed ? NULL : text.bytes;
}
