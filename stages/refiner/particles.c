#include "stages/refiner/particles_private.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/text.h"
#include "stages/refiner/detectors.h"

void particle_set_init(struct particle_set *set, unsigned seed, size_t cache_limit, double fallback_pixel_size) {
    *set = (struct particle_set){.seed = seed, .cache_limit = cache_limit, .fallback_pixel_size = fallback_pixel_size};
}

void particle_set_destroy(struct particle_set *set) {
    for (size_t i = 0; i < set->count; i++) {
        free(set->particles[i].name);
        free(set->particles[i].image);
    }
    for (int i = 0; i < set->optics_count; i++) {
        free(set->optics[i].name);
        free(set->optics[i].even);
        optics_detector_destroy(&set->optics[i].detector);
    }
    for (int i = 0; i < set->source_count; i++) {
        star_destroy(&set->sources[i].file);
        free(set->sources[i].path);
    }
    for (int i = 0; i < set->stack_count; i++) {
        free(set->stacks[i].path);
        free(set->stacks[i].name);
        free(set->stacks[i].given);
    }
    free(set->particles);
    free(set->optics);
    free(set->sources);
    free(set->stacks);
    free(set->table);
    free(set->root);
    *set = (struct particle_set){0};
}

uint64_t particle_hash(const char *name, unsigned seed) {
    uint64_t h = text_fnv(TEXT_FNV_BEGIN ^ ((uint64_t)seed * 0x9e3779b97f4a7c15u), name, strlen(name));
    /* Names differ in their last characters, which so far affect the low bits only. */
    h ^= h >> 31;
    h *= 0xbf58476d1ce4e5b9u;
    return h ^ h >> 29;
}

static size_t table_slot(const struct particle_set *set, const char *name) {
    size_t slot = particle_hash(name, 0) % set->table_size;
    while (set->table[slot] != 0 && strcmp(set->particles[set->table[slot] - 1].name, name) != 0)
        slot = (slot + 1) % set->table_size;
    return slot;
}

struct particle *particle_find(const struct particle_set *set, const char *name) {
    if (set->table_size == 0) return NULL;
    int found = set->table[table_slot(set, name)];
    return found > 0 ? &set->particles[found - 1] : NULL;
}

static enum status grow(struct particle_set *set, struct err *err) {
    size_t capacity = set->capacity > 0 ? 2 * set->capacity : 1024;
    FAIL_IF(capacity > INT_MAX / 4, err, STATUS_UNSUPPORTED, "more than %zu particles", set->capacity);
    struct particle *particles = realloc(set->particles, capacity * sizeof *particles);
    FAIL_IF(particles == NULL, err, STATUS_NO_MEMORY, "no memory for %zu particles", capacity);
    set->particles = particles;
    int *table = calloc(2 * capacity + 1, sizeof *table);
    FAIL_IF(table == NULL, err, STATUS_NO_MEMORY, "no memory for %zu particles", capacity);
    free(set->table);
    set->table = table;
    set->table_size = 2 * capacity + 1;
    set->capacity = capacity;
    for (size_t i = 0; i < set->count; i++)
        table[table_slot(set, set->particles[i].name)] = (int)i + 1;
    return STATUS_OK;
}

enum status particle_set_add(struct particle_set *set, const char *name, const struct particle *values,
                             struct particle **ret_particle, struct err *err) {
    char *copy = NULL;
    if (set->count == set->capacity) TRY(grow(set, err));
    TRY(particle_text(name, &copy, err));
    struct particle *p = *ret_particle = &set->particles[set->count];
    *p = *values;
    p->name = copy;
    set->table[table_slot(set, name)] = (int)++set->count;
    return STATUS_OK;
}

enum status particle_list_append(void *array_pointer, int *count, size_t size, struct err *err) {
    void *array;
    memcpy(&array, array_pointer, sizeof array);
    void *larger = realloc(array, ((size_t)*count + 1) * size);
    FAIL_IF(larger == NULL, err, STATUS_NO_MEMORY, "no memory for the list of particles");
    memset((char *)larger + (size_t)*count * size, 0, size);
    memcpy(array_pointer, &larger, sizeof larger);
    ++*count;
    return STATUS_OK;
}

enum status particle_text(const char *text, char **ret_copy, struct err *err) {
    char *copy = strdup(text);
    FAIL_IF(copy == NULL, err, STATUS_NO_MEMORY, "no memory for a name");
    *ret_copy = copy;
    return STATUS_OK;
}

void particle_set_release_sources(struct particle_set *set) {
    set->outdated = set->held > 0;
    if (set->held > 0) return;
    for (int s = 0; s < set->source_count; s++) {
        bool needed = false;
        for (size_t i = 0; i < set->count && !needed; i++)
            needed = set->particles[i].source == s;
        for (int i = 0; i < set->optics_count && !needed; i++)
            needed = set->optics[i].source == s;
        if (!needed) star_destroy(&set->sources[s].file);
    }
}

void particle_set_hold(struct particle_set *set) {
    set->held++;
}

void particle_set_let_go(struct particle_set *set) {
    set->held--;
    if (set->held == 0 && set->outdated) particle_set_release_sources(set);
}
