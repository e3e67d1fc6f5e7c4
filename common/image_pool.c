#include "common/image_pool.h"

#include <stdlib.h>
#include <string.h>

#include "common/memory.h"

/* A block holds whole large pages, and one image at least. */
enum { BLOCK_BYTES = 32 << 20, ALIGNMENT = 64 };

struct image_pool {
    size_t floats, bytes; /* of an image, as it was asked for; as it lies in a block */
    size_t each;          /* images of a block */
    char **blocks;
    size_t count, capacity;
    size_t used;  /* images of the last block that were given out */
    float *spare; /* images that came back: each begins with the address of the next */
};

enum status image_pool_create(size_t floats, struct image_pool **ret_pool, struct err *err) {
    struct image_pool *p = NULL;
    TRY(mem_new(1, sizeof *p, "particle images", &p, err));
    p->floats = floats;
    p->bytes = (floats * sizeof(float) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    p->each = p->bytes < BLOCK_BYTES ? BLOCK_BYTES / p->bytes : 1;
    *ret_pool = p;
    return STATUS_OK;
}

void image_pool_destroy(struct image_pool **pool) {
    struct image_pool *p = *pool;
    if (p == NULL) return;
    for (size_t i = 0; i < p->count; i++)
        free(p->blocks[i]);
    free(p->blocks);
    mem_free(pool);
}

size_t image_pool_floats(const struct image_pool *p) {
    return p->floats;
}

static bool add_block(struct image_pool *p) {
    if (p->count == p->capacity) {
        size_t capacity = p->capacity == 0 ? 64 : 2 * p->capacity;
        char **blocks = realloc(p->blocks, capacity * sizeof *blocks);
        if (blocks == NULL) return false;
        p->blocks = blocks;
        p->capacity = capacity;
    }
    if (mem_new_pages(p->each * p->bytes, "particle images", &p->blocks[p->count], NULL) != STATUS_OK) return false;
    p->count++;
    p->used = 0;
    return true;
}

float *image_pool_take(struct image_pool *p) {
    float *image = p->spare;
    if (image != NULL) {
        memcpy(&p->spare, image, sizeof p->spare);
        return image;
    }
    if ((p->count == 0 || p->used == p->each) && !add_block(p)) return NULL;
    return (float *)(void *)(p->blocks[p->count - 1] + p->used++ * p->bytes);
}

void image_pool_give(struct image_pool *p, float *image) {
    if (image == NULL) return;
    memcpy(image, &p->spare, sizeof p->spare);
    p->spare = image;
}
