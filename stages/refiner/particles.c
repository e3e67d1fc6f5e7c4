#include "stages/refiner/particles_private.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/text.h"
#include "stages/refiner/detectors.h"
#include "stages/refiner/stack_headers.h"

void particle_set_init(struct particle_set *set, unsigned seed, size_t cache_limit, double fallback_pixel_size) {
    *set = (struct particle_set){.seed = seed, .cache_limit = cache_limit, .fallback_pixel_size = fallback_pixel_size};
}

void particle_set_free(struct particle_set **set) {
    if (*set == NULL) return;
    particle_set_destroy(*set);
    mem_free(set);
}

void particle_set_destroy(struct particle_set *set) {
    for (size_t i = 0; i < set->count; i++)
        free(set->particles[i].name);
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
    }
    particle_changes_free(&set->changes);
    image_pool_destroy(&set->pool);
    free(set->order);
    free(set->particles);
    free(set->optics);
    free(set->sources);
    free(set->stacks);
    names_destroy(&set->particle_names);
    names_destroy(&set->stack_paths);
    stack_headers_destroy(&set->headers);
    free(set->root);
    *set = (struct particle_set){0};
}

static size_t image_bytes(const struct particle_set *set) {
    return (size_t)set->box * (size_t)set->box * sizeof(float);
}

float *particle_image_room(struct particle_set *set) {
    const size_t bytes = image_bytes(set);
    if (set->cached_bytes + bytes > set->cache_limit) return NULL;
    if (set->pool == NULL && image_pool_create(bytes / sizeof(float), &set->pool, NULL) != STATUS_OK) return NULL;
    float *image = image_pool_take(set->pool);
    if (image != NULL) set->cached_bytes += bytes;
    return image;
}

void particle_image_give(struct particle_set *set, float *image) {
    if (image == NULL) return;
    image_pool_give(set->pool, image);
    set->cached_bytes -= image_bytes(set);
}

void particle_image_free(struct particle_set *set, struct particle *p) {
    particle_image_give(set, p->image);
    p->image = NULL;
}

uint64_t particle_hash(const char *name, unsigned seed) {
    uint64_t h = text_fnv(TEXT_FNV_BEGIN ^ ((uint64_t)seed * 0x9e3779b97f4a7c15u), name, strlen(name));
    /* Names differ in their last characters, which so far affect the low bits only. */
    h ^= h >> 31;
    h *= 0xbf58476d1ce4e5b9u;
    return h ^ h >> 29;
}

struct particle *particle_find_hashed(const struct particle_set *set, const char *name, uint32_t hash) {
    size_t step = 0;
    int index;
    while ((index = names_next(&set->particle_names, hash, &step)) >= 0)
        if (!set->particles[index].gone && strcmp(set->particles[index].name, name) == 0) return &set->particles[index];
    return NULL;
}

struct particle *particle_find(const struct particle_set *set, const char *name) {
    return particle_find_hashed(set, name, names_hash(name));
}

enum status particle_set_reserve(struct particle_set *set, size_t count, struct err *err) {
    if (count <= set->capacity) return STATUS_OK;
    if (count < 2 * set->capacity) count = 2 * set->capacity;
    FAIL_IF(count > INT_MAX / 4, err, STATUS_UNSUPPORTED, "%zu particles are more than %d", count, INT_MAX / 4);
    struct particle *particles = realloc(set->particles, count * sizeof *particles);
    FAIL_IF(particles == NULL, err, STATUS_NO_MEMORY, "no memory for %zu particles", count);
    set->particles = particles;
    set->capacity = count;
    return STATUS_OK;
}

enum status particle_set_append(struct particle_set *set, struct particle *from, struct err *err) {
    TRY(particle_set_reserve(set, set->count + 1, err));
    set->particles[set->count++] = *from;
    from->name = NULL;
    return STATUS_OK;
}

enum status particle_set_take(struct particle_set *set, struct particle *from, uint32_t hash, struct err *err) {
    TRY(names_put(&set->particle_names, hash, (int)set->count, err));
    return particle_set_append(set, from, err);
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
    for (int s = 0; s < set->source_count; s++)
        set->sources[s].needed = false;
    for (size_t i = 0; i < set->count; i++)
        if (set->particles[i].source >= 0) set->sources[set->particles[i].source].needed = true;
    for (int i = 0; i < set->optics_count; i++)
        if (set->optics[i].source >= 0) set->sources[set->optics[i].source].needed = true;
    for (int s = 0; s < set->source_count; s++)
        if (!set->sources[s].needed) star_destroy(&set->sources[s].file);
}

void particle_set_hold(struct particle_set *set) {
    set->held++;
}

void particle_set_let_go(struct particle_set *set) {
    set->held--;
    if (set->held == 0 && set->outdated) particle_set_release_sources(set);
}
