/* Finds things by their names in constant time. The names stay with their owner, as do the things, which have indices:
 * this table keeps the hash of each name and the index, by open addressing. Begin with a struct of zeros. */
#ifndef ICESTREAM_COMMON_NAMES_H
#define ICESTREAM_COMMON_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

struct names_slot {
    uint32_t hash, entry; /* entry: index + 1; 0: the slot is free */
};

struct names {
    struct names_slot *slots;
    size_t room, count; /* room: a power of two, or 0; at most half of it is used */
};

void names_destroy(struct names *names);
/* Returns the hash of a name. It may differ between versions: no file may depend on it. */
uint32_t names_hash(const char *name);
/* Makes room for `count` names in all. */
enum status names_reserve(struct names *names, size_t count, struct err *err);
/* Adds an index under the hash of its name. The table may then hold the name twice. */
enum status names_put(struct names *names, uint32_t hash, int index, struct err *err);
/* Returns the next index under the hash, whose name the caller must compare; −1: there is none. step: 0 before the first
 * call. The order of indices under one hash is not defined. */
int names_next(const struct names *names, uint32_t hash, size_t *step);
/* Returns whether the index is in the table under the hash. */
bool names_has(const struct names *names, uint32_t hash, int index);

#endif
