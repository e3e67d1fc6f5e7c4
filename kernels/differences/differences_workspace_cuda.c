/* Keeps differences of host maps on a workspace's device. */
#include "kernels/differences/differences_cuda.h"
#include "kernels/differences/differences_private.h"
#include "kernels/differences/shells_cuda.h"
#include "kernels/fourier/workspace_cuda.h"

/* Device memory, in the iteration's scope. */
struct cuda_differences {
    struct differences base;
    struct workspace *open; /* the scope */
    struct volume_cuda *plans;
    size_t bytes; /* of a map */
    float *maps[DIFFERENCES_MOST], *mean, *spare;
    float *square; /* the mean square of differences; once they are weighed, their weights */
    bool weighed;
    float *spectrum, *gains;
    double *power;
    void *transform;
};

static struct cuda_differences *own(struct differences *d) {
    return (struct cuda_differences *)d;
}

static enum status take(struct cuda_differences *c, struct err *err) {
    struct arena *arena = c->base.workspace->arena;
    const int box = c->base.of.box;
    const size_t shells = (size_t)box / 2 + 1;
    float **const maps[] = {&c->mean, &c->spare, &c->square};
    for (int k = 0; k < c->base.of.count; k++)
        TRY(arena_take(arena, c->bytes, 1, "a map", &c->maps[k], err));
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        TRY(arena_take(arena, c->bytes, 1, "a map", maps[i], err));
    TRY(arena_take(arena, volume_cuda_bytes(box), 1, "the transform of a map", &c->spectrum, err));
    TRY(arena_take(arena, volume_cuda_scratch(c->plans), 1, "the transform of a map", &c->transform, err));
    TRY(arena_take(arena, shells, sizeof *c->gains, "gains of shells", &c->gains, err));
    return arena_take(arena, shells, sizeof *c->power, "the power of shells", &c->power, err);
}

static enum status open_cuda(struct differences *d, struct err *err) {
    struct cuda_differences *c = own(d);
    struct workspace *w = d->workspace;
    c->bytes = d->voxels * sizeof(float);
    TRY(workspace_cuda_volume(w, d->of.box, &c->plans, err));
    TRY(workspace_cuda_begin(w, &c->open, err));
    TRY(take(c, err));
    TRY(workspace_cuda_zero(w, c->mean, c->bytes, err));
    for (int k = 0; k < d->of.count; k++) {
        TRY(workspace_cuda_put(w, c->maps[k], d->of.maps[k], c->bytes, err));
        TRY(differences_cuda_add(d->voxels, d->of.shares[k], c->maps[k], c->mean, w->stream, err));
    }
    for (int k = 0; k < d->of.count; k++)
        TRY(differences_cuda_add(d->voxels, -1, c->mean, c->maps[k], w->stream, err));
    return workspace_cuda_wait(w, err);
}

static void close_cuda(struct differences *d) {
    workspace_cuda_end(&own(d)->open);
}

static enum status filter_one(struct cuda_differences *c, float *map, struct err *err) {
    void *stream = c->base.workspace->stream;
    TRY(volume_cuda_forward(c->plans, c->transform, map, c->spectrum, stream, err));
    TRY(shells_cuda_filter(c->base.of.box, c->gains, c->spectrum, stream, err));
    return volume_cuda_inverse(c->plans, c->transform, c->spectrum, map, stream, err);
}

static enum status filter(struct differences *d, const float *gains, const float *about, float *ret_square,
                          struct err *err) {
    struct cuda_differences *c = own(d);
    struct workspace *w = d->workspace;
    const size_t bytes = ((size_t)d->of.box / 2 + 1) * sizeof *gains;
    TRY(workspace_cuda_count(w, err));
    TRY(workspace_cuda_put(w, c->gains, gains, bytes, err));
    TRY(workspace_cuda_zero(w, c->square, c->bytes, err));
    for (int k = 0; k < d->of.count; k++) {
        TRY(filter_one(c, c->maps[k], err));
        TRY(differences_cuda_add_square(d->voxels, d->of.shares[k], c->maps[k], c->square, w->stream, err));
    }
    TRY(workspace_cuda_put(w, c->gains, about, bytes, err));
    TRY(filter_one(c, c->square, err));
    TRY(workspace_cuda_get(w, ret_square, c->square, c->bytes, err));
    return workspace_cuda_wait(w, err);
}

static enum status weigh(struct differences *d, double noise, struct err *err) {
    struct cuda_differences *c = own(d);
    c->weighed = true;
    TRY(workspace_cuda_count(d->workspace, err));
    return differences_cuda_weigh(d->voxels, noise, c->square, d->workspace->stream, err);
}

static enum status power(struct differences *d, int k, double *ret_power, struct err *err) {
    struct cuda_differences *c = own(d);
    struct workspace *w = d->workspace;
    const size_t shells = (size_t)d->of.box / 2 + 1;
    const float *map = c->weighed ? c->spare : c->maps[k];
    TRY(workspace_cuda_count(w, err));
    if (c->weighed) TRY(differences_cuda_multiply(d->voxels, c->square, c->maps[k], c->spare, w->stream, err));
    TRY(volume_cuda_forward(c->plans, c->transform, map, c->spectrum, w->stream, err));
    /* The sums of planes, which take less than a map, lie in the spare one from here on. */
    TRY(shells_cuda_power(d->of.box, c->spectrum, c->spare, c->power, w->stream, err));
    TRY(workspace_cuda_get(w, ret_power, c->power, shells * sizeof *ret_power, err));
    return workspace_cuda_wait(w, err);
}

static enum status move(struct differences *d, double part, struct err *err) {
    struct cuda_differences *c = own(d);
    struct workspace *w = d->workspace;
    TRY(workspace_cuda_count(w, err));
    for (int k = 0; k < d->of.count; k++) {
        TRY(differences_cuda_move(d->voxels, c->mean, (float)part, c->weighed ? c->square : NULL, c->maps[k],
                                  c->maps[k], w->stream, err));
        TRY(workspace_cuda_get(w, d->of.maps[k], c->maps[k], c->bytes, err));
    }
    return workspace_cuda_wait(w, err);
}

const struct differences_work differences_cuda_work = {.size = sizeof(struct cuda_differences),
                                                       .open = open_cuda,
                                                       .close = close_cuda,
                                                       .filter = filter,
                                                       .weigh = weigh,
                                                       .power = power,
                                                       .move = move};
