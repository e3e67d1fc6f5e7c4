/* Works on texts in UTF-8. */
#ifndef ICESTREAM_COMMON_TEXT_H
#define ICESTREAM_COMMON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Removes an incomplete character from the end, as a buffer that was too short leaves it. JSON cannot hold a text with
 * half a character at its end. */
void text_trim(char *text);
/* Returns the length, `most` bytes at most, to which `text` can be cut without cutting a character. */
size_t text_fit(const char *text, size_t most);
/* Returns the bytes of the UTF-8 character with which a text of `left` bytes, at least one, begins; 0: it begins with
 * none. Overlong forms, surrogates and numbers beyond U+10FFFF are none (Unicode, table 3-7). */
size_t text_character(const char *text, size_t left);
/* Returns the columns that a text takes on a terminal: continuation bytes of UTF-8 (as in Å) take none. */
size_t text_width(const char *text);
/* Prints a text and a newline. Breaks the text at blanks, so that no line is wider than TEXT_COLUMNS unless one word is.
 * A newline in the text counts as a blank. column: width of what the first line already holds; indent: number of
 * blanks before each further line. */
enum { TEXT_COLUMNS = 100 };
void text_wrap(const char *text, size_t column, size_t indent, FILE *out);
/* Returns the FNV-1a hash of a text, mixed. It is the same on every machine and in every version, because names of
 * files depend on it. */
uint64_t text_hash(const char *text);
uint64_t text_hash_bytes(const void *bytes, size_t length);
/* Returns the hash without mixing: names that differ in their last characters share the high bits. begin:
 * TEXT_FNV_BEGIN, or the hash of the bytes before these. */
#define TEXT_FNV_BEGIN 0xcbf29ce484222325u
uint64_t text_fnv(uint64_t begin, const void *bytes, size_t length);

/* Prints a number as printf does with "%.6f", several times faster. text: 64 bytes; |value| below 1e9. Returns the
 * length. */
size_t text_six_decimals(double value, char *text);
/* Reads a text that is a sign or none, and digits with a point or none, such as "-12.500000", as strtod does, several
 * times faster. Returns false for any other text, and for more digits than a double holds. */
bool text_decimal(const char *text, double *ret_value);

/* Copies a key as tables write it: hyphens become underscores. Cuts it to size. */
void text_key(const char *key, char *out, size_t size);
/* Returns the candidate nearest to a mistyped word, or NULL when none is near. Two swapped letters count as one slip. A
 * word of three letters or more is near every candidate that begins with it, however much is missing. */
const char *text_nearest(const char *word, const char *const *candidates, size_t count);

#endif
