/* Allocates memory for pixels and plans: 64-byte aligned (one AVX-512 vector, one cache line), with sizes checked for
 * overflow. */
#ifndef ICESTREAM_COMMON_MEMORY_H
#define ICESTREAM_COMMON_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Frees a variable when its scope ends: `_cleanup_(mem_free) float *buffer = NULL;` */
#define _cleanup_(function) __attribute__((cleanup(function)))

/* Bytes that no large allocation below may take away: libraries such as FFTW and OpenBLAS end the process when a small
 * one of theirs fails. */
enum { MEM_HEADROOM = 32 << 20, MEM_LARGE = 1 << 20 };

/* Allocates count × size bytes, zeroed, aligned to 64; free() frees them. Returns NULL on overflow or without
 * memory. */
void *mem_aligned(size_t count, size_t size);

/* As mem_aligned, with an error message; what names the memory for it ("template spectra"). */
enum status mem_new(size_t count, size_t size, const char *what, void *ret_pointer, struct err *err);
/* As mem_new, not zeroed: for memory that is written before it is read, such as an image from a file. */
enum status mem_new_unset(size_t count, size_t size, const char *what, void *ret_pointer, struct err *err);
/* As mem_new_unset, in large pages where the system has them: for blocks of many MiB that live long. */
enum status mem_new_pages(size_t bytes, const char *what, void *ret_pointer, struct err *err);
/* Makes room for `count` elements in an array that is written anew each time: NULL and room 0 at first. If it must grow,
 * its contents are lost. */
enum status mem_renew(size_t count, size_t size, const char *what, void *address_of_pointer, size_t *room,
                      struct err *err);

/* Makes room for one element after `count` ones in an array that grows: NULL and room 0 at first. Its contents stay.
 * The array is not aligned to 64. */
enum status mem_more(size_t count, size_t size, const char *what, void *address_of_pointer, size_t *room,
                     struct err *err);

/* Returns whether the process can still get `bytes` and the headroom. Takes both for a moment, without touching them,
 * so it notices RLIMIT_AS and strict overcommit, but neither a control group's limit nor the memory killer; and another
 * thread may take them right after. */
bool mem_would_fit(size_t bytes);

/* Return count × size and a + b; SIZE_MAX when the result is larger. For estimates of what will be needed. */
static inline size_t mem_bytes(size_t count, size_t size) {
    size_t bytes;
    return __builtin_mul_overflow(count, size, &bytes) ? SIZE_MAX : bytes;
}
static inline size_t mem_sum(size_t a, size_t b) {
    return a > SIZE_MAX - b ? SIZE_MAX : a + b;
}

/* Takes the address of a pointer, frees the pointer and nulls it. */
static inline void mem_free(void *address_of_pointer) {
    void **p = (void **)address_of_pointer;
    free(*p);
    *p = NULL;
}

#ifdef __cplusplus
}
#endif
#endif
