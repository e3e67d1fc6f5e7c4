/* Allocates memory for pixels and plans: 64-byte aligned (one AVX-512 vector, one cache line), with sizes checked for
 * overflow. */
#ifndef ICESTREAM_COMMON_MEMORY_H
#define ICESTREAM_COMMON_MEMORY_H

#include <stddef.h>
#include <stdlib.h>

#include "common/status.h"

/* Frees a variable when its scope ends: `_cleanup_(mem_free) float *buffer = NULL;` */
#define _cleanup_(function) __attribute__((cleanup(function)))

/* Allocates count × size bytes, zeroed, aligned to 64; free() frees them. Returns NULL on overflow or without
 * memory. */
void *mem_aligned(size_t count, size_t size);

/* As mem_aligned, with an error message; what names the memory for it ("template spectra"). */
enum status mem_new(size_t count, size_t size, const char *what, void *ret_pointer, struct err *err);
/* As mem_new, not zeroed: for memory that is written before it is read, such as an image from a file. */
enum status mem_new_unset(size_t count, size_t size, const char *what, void *ret_pointer, struct err *err);

/* Takes the address of a pointer, frees the pointer and nulls it. */
static inline void mem_free(void *address_of_pointer) {
    void **p = (void **)address_of_pointer;
    free(*p);
    *p = NULL;
}

#endif
