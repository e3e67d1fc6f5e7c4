/* Order of the particles of a batch in local searches. Particles that look along nearby directions read, and add to,
 * the same planes of the grids: side by side on the device they find these in its cache. Sums are integers and each
 * particle's results are its own, so that the order changes no bit. */
#include <math.h>
#include <stdlib.h>

#include "common/memory.h"
#include "kernels/alignment/cuda/alignment_private.h"

enum { CELLS = 256 }; /* along a side of the map of directions */

struct alignment_cuda_place {
    uint32_t key;
    int index;
};

static int by_key(const void *a, const void *b) {
    const struct alignment_cuda_place *x = a, *y = b;
    return x->key != y->key ? (x->key > y->key) - (x->key < y->key) : (x->index > y->index) - (x->index < y->index);
}

/* Puts a zero between the bits of a number below 2^16. */
static uint32_t spread_bits(uint32_t bits) {
    bits = (bits | bits << 8) & 0x00ff00ff;
    bits = (bits | bits << 4) & 0x0f0f0f0f;
    bits = (bits | bits << 2) & 0x33333333;
    return (bits | bits << 1) & 0x55555555;
}

/* Returns the Z-order of a direction on an equal-area map of the half sphere: opposite directions share a plane. */
static uint32_t key_of(const double pose[9]) {
    double x = pose[6], y = pose[7], z = pose[8], turn = z < 0 ? -1 : 1, scale = turn / sqrt(1 + fabs(z));
    double across = (x * scale + 1) / 2 * CELLS, up = (y * scale + 1) / 2 * CELLS;
    uint32_t column = (uint32_t)fmin(fmax(across, 0), CELLS - 1), row = (uint32_t)fmin(fmax(up, 0), CELLS - 1);
    return spread_bits(column) | spread_bits(row) << 1;
}

static enum status reserve(struct alignment_cuda_order *o, int count, struct err *err) {
    if (count <= o->room) return STATUS_OK;
    alignment_cuda_order_destroy(o);
    TRY(mem_new_unset((size_t)count, sizeof *o->particles, "particles in order", &o->particles, err));
    TRY(mem_new_unset((size_t)count, sizeof *o->places, "particles in order", &o->places, err));
    TRY(mem_new_unset((size_t)count, sizeof *o->indices, "particles in order", &o->indices, err));
    o->room = count;
    return STATUS_OK;
}

enum status alignment_cuda_order(struct alignment_cuda_order *o, const struct alignment_particle *particles, int count,
                                 struct err *err) {
    TRY(reserve(o, count, err));
    for (int i = 0; i < count; i++)
        o->places[i] = (struct alignment_cuda_place){key_of(particles[i].pose), i};
    qsort(o->places, (size_t)count, sizeof *o->places, by_key);
    for (int i = 0; i < count; i++) {
        o->indices[i] = o->places[i].index;
        o->particles[i] = particles[o->places[i].index];
    }
    return STATUS_OK;
}

void alignment_cuda_order_destroy(struct alignment_cuda_order *o) {
    o->room = 0;
    mem_free(&o->particles);
    mem_free(&o->places);
    mem_free(&o->indices);
}
