#include "common/memory.h"

#include <stdint.h>
#include <string.h>

enum { ALIGNMENT = 64 };

void *mem_aligned(size_t count, size_t size) {
    if (size != 0 && count > (SIZE_MAX - ALIGNMENT) / size)
        return NULL;
    size_t bytes = (count * size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (bytes == 0)
        bytes = ALIGNMENT;
    void *memory = aligned_alloc(ALIGNMENT, bytes);
    if (memory != NULL)
        memset(memory, 0, bytes);
    return memory;
}

enum status mem_new(size_t count, size_t size, const char *what, void *ret_pointer, struct err *err) {
    void *memory = mem_aligned(count, size);
    FAIL_IF(memory == NULL, err, STATUS_NO_MEMORY, "no memory for %s: %zu × %zu bytes were asked for", what, count,
            size);
    memcpy(ret_pointer, &memory, sizeof memory);
    return STATUS_OK;
}
