/* Reads how much memory the machine has for this process: what the kernel can still give, the limits of its control
 * groups (version 2, memory.max and memory.high; version 1), of it and all groups above it, and RLIMIT_AS. */
#ifndef ICESTREAM_COMMON_MACHINE_MEMORY_H
#define ICESTREAM_COMMON_MACHINE_MEMORY_H

#include <stddef.h>

/* All in bytes; SIZE_MAX: no limit, or not known. */
struct machine_memory {
    size_t total;         /* the least of the machine's memory and the groups' limits */
    size_t available;     /* what can still be taken; the file cache that the kernel would give up counts */
    size_t resident;      /* of this process; 0 when not known */
    size_t address_limit; /* RLIMIT_AS */
    size_t address_used;  /* of this process */
};

/* Reads it below `root`: "" for this machine; tests have folders with proc/ and sys/ of their own. Reads about ten
 * small files, which takes some tens of microseconds. Never fails: what cannot be read does not limit. */
struct machine_memory machine_memory_read(const char *root);

/* Returns how many bytes can be taken if `reserve` are to stay free for others. Address space needs no reserve but
 * MEM_HEADROOM (common/memory.h). */
size_t machine_memory_room(const struct machine_memory *memory, size_t reserve);

#endif
