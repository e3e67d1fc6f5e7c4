#include "common/formats/particle_heirs.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "common/memory.h"

/* An earlier place, in the order of micrographs. */
struct entry {
    uint64_t micrograph;
    size_t index;
};

static int by_micrograph(const void *a, const void *b) {
    const struct entry *x = a, *y = b;
    return x->micrograph != y->micrograph ? (x->micrograph > y->micrograph) - (x->micrograph < y->micrograph)
                                          : (x->index > y->index) - (x->index < y->index);
}

/* Returns the first entry of a micrograph or of one behind it. */
static size_t first_of(const struct entry *entries, size_t count, uint64_t micrograph) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (entries[middle].micrograph < micrograph)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct search {
    const struct particle_place *earlier, *later;
    const struct entry *entries;
    size_t count;
    double reach;
    int *heir_of;  /* [of the later places] */
    int *owner_of; /* [of the earlier places]: the later one that has it; -1: none */
};

static double distance(const struct search *s, size_t later, size_t earlier) {
    return hypot(s->later[later].x - s->earlier[earlier].x, s->later[later].y - s->earlier[earlier].y);
}

/* Finds the nearest earlier place that is free, or whose owner is farther away. Returns that owner, or -1. */
static int settle(struct search *s, size_t later) {
    const uint64_t micrograph = s->later[later].micrograph;
    double nearest = s->reach;
    size_t found = SIZE_MAX;
    for (size_t i = first_of(s->entries, s->count, micrograph); i < s->count && s->entries[i].micrograph == micrograph;
         i++) {
        size_t earlier = s->entries[i].index;
        double own = distance(s, later, earlier);
        int owner = s->owner_of[earlier];
        if (own > nearest || (own == nearest && found != SIZE_MAX)) continue;
        if (owner >= 0 && distance(s, (size_t)owner, earlier) <= own) continue;
        nearest = own;
        found = earlier;
    }
    if (found == SIZE_MAX) return -1;
    int before = s->owner_of[found];
    if (before >= 0) s->heir_of[before] = -1;
    s->owner_of[found] = (int)later;
    s->heir_of[later] = (int)found;
    return before;
}

enum status particle_heirs_find(const struct particle_place *earlier, size_t earlier_count,
                                const struct particle_place *later, size_t later_count, double reach, int *heir_of,
                                struct err *err) {
    _cleanup_(mem_free) struct entry *entries = NULL;
    _cleanup_(mem_free) int *owner_of = NULL;
    size_t known = 0;
    FAIL_IF(earlier_count > INT_MAX || later_count > INT_MAX, err, STATUS_UNSUPPORTED,
            "%zu and %zu particles are too many to compare their places", earlier_count, later_count);
    for (size_t i = 0; i < later_count; i++)
        heir_of[i] = -1;
    if (!(reach > 0)) return STATUS_OK;
    TRY(mem_new_unset(earlier_count + 1, sizeof *entries, "the places of particles", &entries, err));
    TRY(mem_new_unset(earlier_count + 1, sizeof *owner_of, "the places of particles", &owner_of, err));
    for (size_t i = 0; i < earlier_count; i++) {
        owner_of[i] = -1;
        if (earlier[i].micrograph != 0)
            entries[known++] = (struct entry){.micrograph = earlier[i].micrograph, .index = i};
    }
    qsort(entries, known, sizeof *entries, by_micrograph);
    struct search s = {.earlier = earlier,
                       .later = later,
                       .entries = entries,
                       .count = known,
                       .reach = reach,
                       .heir_of = heir_of,
                       .owner_of = owner_of};
    for (size_t i = 0; i < later_count; i++)
        for (int at = later[i].micrograph != 0 ? (int)i : -1; at >= 0;)
            at = settle(&s, (size_t)at);
    return STATUS_OK;
}
