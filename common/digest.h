/* Digests of files and of memory: XXH3 with 128 bits, as `xxhsum -H2` prints it. It finds decay and mistakes, not
 * forgery. */
#ifndef ICESTREAM_COMMON_DIGEST_H
#define ICESTREAM_COMMON_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

enum { DIGEST_SIZE = 33 }; /* 32 hexadecimal digits and a 0 */

/* Reads an open file from its beginning to its end; the descriptor's own position stays. path: for the message.
 * ret_size: bytes read; may be NULL. */
enum status digest_descriptor(int descriptor, const char *path, char ret_digest[DIGEST_SIZE], int64_t *ret_size,
                              struct err *err);
/* Does the same with a file that it opens. Errors are those of file_open_read. */
enum status digest_file(const char *path, char ret_digest[DIGEST_SIZE], int64_t *ret_size, struct err *err);

/* The digest as a number; all 0 may stand for none. */
struct digest_value {
    uint64_t high, low;
};
/* Digests bytes in memory, at about the speed at which a core reads them. */
struct digest_value digest_memory(const void *bytes, size_t size);
/* Prints the digest as digest_file does. */
void digest_print(struct digest_value value, char ret_digest[DIGEST_SIZE]);
/* Reads such a text back. Returns false for any other text. */
bool digest_scan(const char *text, struct digest_value *ret_value);

#endif
