/* Large pages for large tables in memory: a table of a million rows touches a hundred thousand pages of 4 KiB, and each
 * costs the kernel a fault. */
#ifndef ICESTREAM_COMMON_LARGE_PAGES_H
#define ICESTREAM_COMMON_LARGE_PAGES_H

#include <stddef.h>

/* Asks the system to back a block of malloc, calloc or realloc with large pages from now on, if it is large enough to
 * gain by it. The block stays as it is; a refusal is no error. Call it before the block is filled. */
void large_pages(void *block, size_t bytes);

#endif
