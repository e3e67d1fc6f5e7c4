/* Texts in UTF-8. */
#ifndef ICESTREAM_COMMON_TEXT_H
#define ICESTREAM_COMMON_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* Removes a character at the end that is not whole: what a buffer that was too short leaves. A text with half a
 * character at its end cannot stand in JSON. */
void text_trim(char *text);
/* The most bytes, `most` at most, that `text` can be cut to without cutting a character. */
size_t text_fit(const char *text, size_t most);
/* FNV-1a of a text, mixed: the same on every machine and in every version, since names of files depend on it. */
uint64_t text_hash(const char *text);
uint64_t text_hash_bytes(const void *bytes, size_t length);
/* Not mixed: names that differ in their last characters have the same high bits. begin: TEXT_FNV_BEGIN, or that of what
 * came before. */
#define TEXT_FNV_BEGIN 0xcbf29ce484222325u
uint64_t text_fnv(uint64_t begin, const void *bytes, size_t length);

/* A number as printf has it with "%.6f", several times faster; text: 64 bytes, |value| below 1e9. Returns its length. */
size_t text_six_decimals(double value, char *text);

/* Copies a key as tables have it: hyphens become underscores. Cuts it to size. */
void text_key(const char *key, char *out, size_t size);
/* Returns the candidate that is nearest to a mistyped word, or NULL where none is near. Two swapped letters count as one
 * slip; a word of three letters or more that a candidate begins with is near, however much is missing. */
const char *text_nearest(const char *word, const char *const *candidates, size_t count);

#endif
