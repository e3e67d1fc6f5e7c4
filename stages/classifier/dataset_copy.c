#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "stages/classifier/dataset_private.h"

/* Copies count elements into an array of the copy, which grows by half as much again: the next copy is larger. */
static enum status copy_list(void *address_of_array, size_t *capacity, const void *from, size_t count, size_t size,
                             struct err *err) {
    void *array;
    if (count > *capacity)
        TRY(mem_renew(count + count / 2, size, "a copy of the particles", address_of_array, capacity, err));
    memcpy(&array, address_of_array, sizeof array);
    if (count > 0) memcpy(array, from, count * size);
    return STATUS_OK;
}

enum status dataset_copy(const struct dataset *d, struct dataset **copy, struct err *err) {
    if (*copy == NULL) TRY(mem_new(1, sizeof **copy, "a copy of the particles", copy, err));
    struct dataset *c = *copy;
    c->count = 0;
    TRY(copy_list(&c->particles, &c->capacity, d->particles, d->count, sizeof *d->particles, err));
    TRY(copy_list(&c->batches, &c->batch_capacity, d->batches, d->batch_count, sizeof(struct dataset_batch *), err));
    TRY(copy_list(&c->ways.list, &c->way_capacity, d->ways.list, (size_t)d->ways.count, sizeof(struct way *), err));
    c->count = d->count;
    c->batch_count = d->batch_count;
    c->ways.count = d->ways.count;
    c->box = d->box;
    c->pixel_size = d->pixel_size;
    c->whole_box = d->whole_box;
    c->whole_pixel_size = d->whole_pixel_size;
    c->normalised = d->normalised;
    return STATUS_OK;
}

void dataset_copy_destroy(struct dataset **copy) {
    struct dataset *c = *copy;
    if (c == NULL) return;
    free(c->particles);
    free(c->batches);
    free(c->ways.list);
    mem_free(copy);
}
