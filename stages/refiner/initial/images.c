#include "stages/refiner/initial/images.h"

#include <stdlib.h>

#include "common/memory.h"

void initial_images_destroy(struct initial_images *images) {
    mem_free(&images->which);
    mem_free(&images->values);
    mem_free(&images->ctfs);
    mem_free(&images->with_ctf);
    mem_free(&images->members);
    *images = (struct initial_images){0};
}

struct member {
    uint64_t particle, group; /* hashes: of the particle; of the micrograph, whose particles stay together */
    int index, part;
};

static uint64_t mix(uint64_t value, unsigned seed) {
    value ^= (uint64_t)seed * 0x9e3779b97f4a7c15u;
    value = (value ^ (value >> 33)) * 0xff51afd7ed558ccdu;
    value = (value ^ (value >> 33)) * 0xc4ceb9fe1a85ec53u;
    return value ^ (value >> 33);
}

static int by_group(const void *a, const void *b) {
    const struct member *x = a, *y = b;
    return (x->group > y->group) - (x->group < y->group);
}

/* Particles of a part follow each other by chance, not by micrograph. */
static int by_part(const void *a, const void *b) {
    const struct member *x = a, *y = b;
    return x->part != y->part ? x->part - y->part : (x->particle > y->particle) - (x->particle < y->particle);
}

/* Gives each micrograph in turn to the part that lacks most of its share. */
static void deal(struct member *members, int count) {
    static const double SHARES[INITIAL_PARTS] = {0.4, 0.4, 0.2};
    double have[INITIAL_PARTS] = {0};
    for (int i = 0, end; i < count; i = end) {
        int part = 0;
        for (int p = 1; p < INITIAL_PARTS; p++)
            if (have[p] / SHARES[p] < have[part] / SHARES[part]) part = p;
        for (end = i; end < count && members[end].group == members[i].group; end++)
            members[end].part = part;
        have[part] += end - i;
    }
}

enum status initial_images_divide(struct initial_images *images, const struct initial_key *keys, unsigned seed,
                                  struct err *err) {
    const int count = images->count;
    _cleanup_(mem_free) struct member *members = NULL;
    mem_free(&images->members);
    TRY(mem_new((size_t)count + 1, sizeof *members, "particles", &members, err));
    TRY(mem_new((size_t)count + 1, sizeof *images->members, "particles", &images->members, err));
    for (int i = 0; i < count; i++) {
        const uint64_t group = keys[i].micrograph != 0 ? keys[i].micrograph : keys[i].particle;
        members[i] = (struct member){.particle = mix(keys[i].particle, seed), .group = mix(group, seed), .index = i};
    }
    qsort(members, (size_t)count, sizeof *members, by_group);
    deal(members, count);
    qsort(members, (size_t)count, sizeof *members, by_part);
    for (int part = 0, at = 0; part <= INITIAL_PARTS; part++) {
        while (at < count && members[at].part < part)
            at++;
        images->begin[part] = at;
    }
    for (int i = 0; i < count; i++)
        images->members[i] = members[i].index;
    return STATUS_OK;
}
