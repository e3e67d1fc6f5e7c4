#include "pipelines/launcher/api/api_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"

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

void api_text_string(struct api_text *text, const char *value) {
    const char *at = value;
    size_t left = strlen(value);
    api_text_add(text, "\"");
    while (left > 0) {
        size_t length = text_character(at, left);
        char escape[8];
        if (length == 0) {
            api_text_add(text, "\xef\xbf\xbd");
            length = 1;
        } else if (*at == '"' || *at == '\\') {
            add_bytes(text, escape, (size_t)snprintf(escape, sizeof escape, "\\%c", *at));
        } else if ((unsigned char)*at < 0x20 || *at == 0x7f) {
            add_bytes(text, escape, (size_t)snprintf(escape, sizeof escape, "\\u%04x", (unsigned char)*at));
        } else {
            add_bytes(text, at, length);
        }
        at += length;
        left -= length;
    }
    api_text_add(text, "\"");
}

char *api_text_clean(const char *bytes, size_t length) {
    struct api_text text = {0};
    const char *at = bytes;
    make_room(&text, length);
    while (length > 0) {
        size_t whole = text_character(at, length);
        if (whole == 0)
            api_text_add(&text, "\xef\xbf\xbd");
        else if ((unsigned char)*at < 0x20)
            api_text_add(&text, " ");
        else
            add_bytes(&text, at, whole);
        whole = whole > 0 ? whole : 1;
        at += whole;
        length -= whole;
    }
    if (text.bytes != NULL) text.bytes[text.length] = '\0';
    if (text.failed) free(text.bytes);
    return text.failed ? NULL : text.bytes;
}
