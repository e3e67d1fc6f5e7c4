#include "common/memory.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGNMENT = 64, LARGE_PAGE = 2 << 20 };

static void *allocate_aligned(size_t alignment, size_t count, size_t size, size_t *ret_bytes) {
    if (size != 0 && count > (SIZE_MAX - alignment) / size) return NULL;
    *ret_bytes = (count * size + alignment - 1) / alignment * alignment;
    if (*ret_bytes == 0) *ret_bytes = alignment;
    void *memory = aligned_alloc(alignment, *ret_bytes);
    if (memory == NULL || *ret_bytes < MEM_LARGE || mem_would_fit(0)) return memory;
    free(memory);
    return NULL;
}

static void *allocate(size_t count, size_t size, size_t *ret_bytes) {
    return allocate_aligned(ALIGNMENT, count, size, ret_bytes);
}

bool mem_would_fit(size_t bytes) {
    if (bytes > PTRDIFF_MAX - MEM_HEADROOM) return false;
    void *probe = mmap(NULL, bytes + MEM_HEADROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (probe == MAP_FAILED) return false;
    munmap(probe, bytes + MEM_HEADROOM);
    return true;
}

void *mem_aligned(size_t count, size_t size) {
    size_t bytes = 0;
    void *memory = allocate(count, size, &bytes);
    if (memory != NULL) memset(memory, 0, bytes);
    return memory;
}

static enum status report(void *memory, size_t count, size_t size, const char *what, void *ret_pointer,
                          struct err *err) {
    FAIL_IF(memory == NULL, err, STATUS_NO_MEMORY, "no memory for %s: %zu × %zu bytes were asked for", what, count,
            size);
    memcpy(ret_pointer, &memory, sizeof memory);
    return STATUS_OK;
}

enum status mem_new(size_t count, size_t size, const char *what, void *ret_pointer, struct err *err) {
    return report(mem_aligned(count, size), count, size, what, ret_pointer, err);
}

enum status mem_new_unset(size_t count, size_t size, const char *what, void *ret_pointer, struct err *err) {
    size_t bytes = 0;
    return report(allocate(count, size, &bytes), count, size, what, ret_pointer, err);
}

enum status mem_new_pages(size_t bytes, const char *what, void *ret_pointer, struct err *err) {
    size_t all = 0;
    void *memory = allocate_aligned(LARGE_PAGE, bytes, 1, &all);
    if (memory != NULL) (void)madvise(memory, all, MADV_HUGEPAGE); /* a system without them has the usual pages */
    return report(memory, bytes, 1, what, ret_pointer, err);
}

enum status mem_renew(size_t count, size_t size, const char *what, void *address_of_pointer, size_t *room,
                      struct err *err) {
    if (count <= *room) return STATUS_OK;
    mem_free(address_of_pointer);
    *room = 0;
    TRY(mem_new_unset(count, size, what, address_of_pointer, err));
    *room = count;
    return STATUS_OK;
}

enum status mem_more(size_t count, size_t size, const char *what, void *address_of_pointer, size_t *room,
                     struct err *err) {
    enum { LEAST = 16 };
    if (count < *room) return STATUS_OK;
    const size_t larger = *room > 0 ? 2 * *room : LEAST;
    void *memory = NULL;
    memcpy(&memory, address_of_pointer, sizeof memory);
    memory = larger > SIZE_MAX / size ? NULL : realloc(memory, larger * size);
    TRY(report(memory, larger, size, what, address_of_pointer, err));
    *room = larger;
    return STATUS_OK;
}
