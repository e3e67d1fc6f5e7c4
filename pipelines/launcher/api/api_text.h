/* A text that grows: long JSON of many numbers, at a tenth of the memory that an object of each number would take. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_API_API_TEXT_H
#define ICESTREAM_PIPELINES_LAUNCHER_API_API_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Starts as {0}; free() frees the bytes. Once memory has run out, nothing is added any more. */
struct api_text {
    char *bytes;
    size_t length, capacity;
    bool failed;
};

/* Adds a text as it is. */
void api_text_add(struct api_text *text, const char *words);
/* Adds a comma, unless the text ends in a bracket that opens. */
void api_text_comma(struct api_text *text);
/* Adds a whole number. */
void api_text_integer(struct api_text *text, int64_t value);
/* Adds a number with `digits` significant digits; null for NaN and infinity. */
void api_text_number(struct api_text *text, double value, int digits);
/* Adds a string in quotes. Bytes that are no UTF-8 become U+FFFD. */
void api_text_string(struct api_text *text, const char *value);
/* Copies a text; bytes that are no UTF-8 become U+FFFD, and control characters blanks. free() frees the copy; NULL: no
 * memory. */
char *api_text_clean(const char *bytes, size_t length);

#endif
