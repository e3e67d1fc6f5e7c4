#include "common/names.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/digest.h"

enum { ROOM_LEAST = 16 };

void names_destroy(struct names *names) {
    free(names->slots);
    *names = (struct names){0};
}

uint32_t names_hash(const char *name) {
    return (uint32_t)digest_memory(name, strlen(name)).low;
}

static void put(struct names *names, struct names_slot slot) {
    size_t at = slot.hash & (names->room - 1);
    while (names->slots[at].entry != 0)
        at = (at + 1) & (names->room - 1);
    names->slots[at] = slot;
    names->count++;
}

enum status names_reserve(struct names *names, size_t count, struct err *err) {
    FAIL_IF(count > INT_MAX, err, STATUS_UNSUPPORTED, "%zu names are more than a table can hold", count);
    struct names larger = {.room = names->room > 0 ? names->room : ROOM_LEAST};
    if (2 * count <= names->room) return STATUS_OK;
    while (larger.room < 2 * count)
        larger.room *= 2;
    larger.slots = calloc(larger.room, sizeof *larger.slots);
    FAIL_IF(larger.slots == NULL, err, STATUS_NO_MEMORY, "no memory for %zu names", count);
    for (size_t i = 0; i < names->room; i++)
        if (names->slots[i].entry != 0) put(&larger, names->slots[i]);
    free(names->slots);
    *names = larger;
    return STATUS_OK;
}

enum status names_put(struct names *names, uint32_t hash, int index, struct err *err) {
    TRY(names_reserve(names, names->count + 1, err));
    put(names, (struct names_slot){hash, (uint32_t)index + 1});
    return STATUS_OK;
}

int names_next(const struct names *names, uint32_t hash, size_t *step) {
    if (names->room == 0) return -1;
    for (;;) {
        const struct names_slot *slot = &names->slots[(hash + (*step)++) & (names->room - 1)];
        if (slot->entry == 0) return -1;
        if (slot->hash == hash) return (int)(slot->entry - 1);
    }
}

bool names_has(const struct names *names, uint32_t hash, int index) {
    size_t step = 0;
    int other;
    while ((other = names_next(names, hash, &step)) >= 0)
        if (other == index) return true;
    return false;
}
