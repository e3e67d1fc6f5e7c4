#include <string.h>

#include "common/memory.h"
#include "kernels/differences/differences_private.h"
#include "kernels/differences/shells.h"

/* Loops take so many voxels at a time through all maps. */
enum { BLOCK = 1 << 14 };

struct cpu_differences {
    struct differences base;
    struct shells *shells;
    float *mean, *square, *rest; /* [voxels]; square: mean square, then weights; NULL: weights are 1 */
};

static struct cpu_differences *own(struct differences *d) {
    return (struct cpu_differences *)d;
}

static size_t block_end(const struct differences *d, size_t first) {
    return d->voxels - first < BLOCK ? d->voxels : first + BLOCK;
}

static enum status open_cpu(struct differences *d, struct err *err) {
    struct cpu_differences *c = own(d);
    const struct differences_maps *of = &d->of;
    TRY(shells_create(of->box, of->threads, &c->shells, err));
    TRY(mem_new(d->voxels, sizeof *c->mean, "a map", &c->mean, err));
#pragma omp parallel for num_threads(of->threads) schedule(static)
    for (size_t first = 0; first < d->voxels; first += BLOCK)
        for (int k = 0; k < of->count; k++)
            for (size_t i = first; i < block_end(d, first); i++)
                c->mean[i] += of->shares[k] * of->maps[k][i];
    return STATUS_OK;
}

static void close_cpu(struct differences *d) {
    struct cpu_differences *c = own(d);
    shells_destroy(&c->shells);
    mem_free(&c->mean);
    mem_free(&c->square);
    mem_free(&c->rest);
}

static enum status filter(struct differences *d, const float *gains, const float *about, float *ret_square,
                          struct err *err) {
    struct cpu_differences *c = own(d);
    const struct differences_maps *of = &d->of;
    TRY(mem_new(d->voxels, sizeof *c->square, "a map", &c->square, err));
    for (int k = 0; k < of->count; k++) {
        float *map = of->maps[k];
#pragma omp parallel for num_threads(of->threads) schedule(static)
        for (size_t i = 0; i < d->voxels; i++)
            map[i] -= c->mean[i];
        shells_filter(c->shells, gains, map);
    }
#pragma omp parallel for num_threads(of->threads) schedule(static)
    for (size_t first = 0; first < d->voxels; first += BLOCK)
        for (int k = 0; k < of->count; k++)
            for (size_t i = first; i < block_end(d, first); i++)
                c->square[i] += of->shares[k] * of->maps[k][i] * of->maps[k][i];
    shells_filter(c->shells, about, c->square);
    memcpy(ret_square, c->square, d->voxels * sizeof *ret_square);
    return STATUS_OK;
}

static enum status weigh(struct differences *d, double noise, struct err *err) {
    float *square = own(d)->square;
    (void)err;
#pragma omp parallel for num_threads(d->of.threads) schedule(static)
    for (size_t i = 0; i < d->voxels; i++)
        square[i] = (double)square[i] > noise ? (float)(1 - noise / (double)square[i]) : 0;
    return STATUS_OK;
}

/* Returns what counts of a difference. */
static inline float rest_at(const struct cpu_differences *c, const float *map, size_t i) {
    return c->square != NULL ? c->square[i] * map[i] : map[i] - c->mean[i];
}

static enum status power(struct differences *d, int k, double *ret_power, struct err *err) {
    struct cpu_differences *c = own(d);
    if (c->rest == NULL) TRY(mem_new_unset(d->voxels, sizeof *c->rest, "a map", &c->rest, err));
#pragma omp parallel for num_threads(d->of.threads) schedule(static)
    for (size_t i = 0; i < d->voxels; i++)
        c->rest[i] = rest_at(c, d->of.maps[k], i);
    shells_power(c->shells, c->rest, ret_power);
    return STATUS_OK;
}

static enum status move(struct differences *d, double part, struct err *err) {
    const struct cpu_differences *c = own(d);
    (void)err;
    for (int k = 0; k < d->of.count; k++) {
        float *map = d->of.maps[k];
#pragma omp parallel for num_threads(d->of.threads) schedule(static)
        for (size_t i = 0; i < d->voxels; i++)
            map[i] = c->mean[i] + (float)part * rest_at(c, map, i);
    }
    return STATUS_OK;
}

const struct differences_work differences_cpu_work = {.size = sizeof(struct cpu_differences),
                                                      .open = open_cpu,
                                                      .close = close_cpu,
                                                      .filter = filter,
                                                      .weigh = weigh,
                                                      .power = power,
                                                      .move = move};
