#include "common/large_pages.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>

/* Smaller blocks may lie among others of the heap. */
static const size_t LARGE_PAGE = (size_t)2 << 20, LEAST = (size_t)16 << 20;

void large_pages(void *block, size_t bytes) {
    if (block == NULL || bytes < LEAST) return;
    const int before = errno;
    uintptr_t first = ((uintptr_t)block + LARGE_PAGE - 1) & ~(uintptr_t)(LARGE_PAGE - 1);
    uintptr_t end = ((uintptr_t)block + bytes) & ~(uintptr_t)(LARGE_PAGE - 1);
    (void)madvise((void *)first, end - first, MADV_HUGEPAGE); /* only a hint */
    errno = before;
}
