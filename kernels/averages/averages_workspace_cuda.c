/* Keeps class averages in a workspace. */
#include <string.h>

#include "common/memory.h"
#include "kernels/averages/averages_cuda.h"
#include "kernels/averages/averages_private.h"
#include "kernels/fourier/workspace_cuda.h"

/* Class averages in the memory of a CUDA device. */
struct averages_store {
    struct averages_cuda *plans;
    int at_once;
    size_t scratch; /* bytes */
    double *sums;
    float *references;
    char *slots; /* page-locked */
    size_t slots_bytes;
};

/* Slots of a call as one block: first what goes to the device, then what comes back. */
struct parts {
    int *classes;
    struct average_slots slots;
    size_t before, with_maps, bytes; /* bytes of classes and tau2; of these and the maps; of everything */
};

static void *carve(char *base, size_t *bytes, size_t more) {
    void *part = base != NULL ? base + *bytes : NULL;
    *bytes += arena_need(more, 1);
    return part;
}

static struct parts parts_of(const struct averages *a, char *base) {
    struct parts p = {0};
    size_t n = (size_t)a->store->at_once, box = (size_t)a->options.box, shells = box / 2 + 1;
    size_t spectra = n * shells * sizeof(float);
    p.slots.classes = p.classes = carve(base, &p.bytes, n * sizeof *p.classes);
    p.slots.tau2 = carve(base, &p.bytes, spectra);
    p.before = p.bytes;
    p.slots.map = carve(base, &p.bytes, n * box * box * sizeof(float));
    p.with_maps = p.bytes;
    p.slots.data_vs_prior = carve(base, &p.bytes, spectra);
    p.slots.completeness = carve(base, &p.bytes, spectra);
    p.slots.fsc = carve(base, &p.bytes, spectra);
    return p;
}

static size_t sums_bytes(const struct averages_options *o) {
    const struct accumulator_cuda one = accumulator_cuda_shape(2, o->box, o->max_size);
    return accumulator_cuda_bytes(&one);
}

static size_t reference_bytes(const struct averages_options *o) {
    const struct grid_cuda grid = projector_cuda_grid(2, o->max_size);
    return projector_cuda_bytes(&grid);
}

/* Places the sums and references of all classes in the memory taken. */
static enum status place(struct averages *a, struct err *err) {
    const struct averages_options *o = &a->options;
    const struct averages_store *d = a->store;
    for (size_t k = 0; k < (size_t)o->capacity; k++) {
        struct class_sums *c = &a->classes[k];
        for (size_t h = 0; h < 2; h++) {
            double *values = d->sums + (2 * k + h) * sums_bytes(o) / sizeof *values;
            TRY(accumulator_create(2, o->box, 2, &c->half[h], err));
            TRY(accumulator_place(c->half[h], o->workspace, values, o->max_size, err));
        }
        TRY(projector_create(2, o->box, 1, &c->reference, err));
        TRY(projector_place(c->reference, o->workspace, d->references + k * reference_bytes(o) / sizeof(float),
                            o->max_size, err));
    }
    return STATUS_OK;
}

static enum status open_classes(struct averages *a, struct err *err) {
    const struct averages_options *o = &a->options;
    struct workspace *w = o->workspace;
    struct averages_store *d = NULL;
    TRY(mem_new(1, sizeof *d, "class averages", &a->store, err));
    d = a->store;
    TRY(workspace_cuda_adopt(w, err));
    TRY(averages_cuda_create(o, &d->plans, err));
    d->at_once = averages_cuda_at_once(o);
    d->scratch = averages_cuda_scratch(d->plans);
    d->slots_bytes = parts_of(a, NULL).bytes;
    size_t need = averages_bytes(o) + arena_need(d->scratch, 1) + d->slots_bytes;
    arena_close(w->arena, ARENA_ITERATION); /* ends an iteration that the caller abandoned */
    FAIL_IF(
        need > arena_left(w->arena) / 2, err, STATUS_NO_MEMORY,
        "%d class averages of %d px need %zu MiB of the device's memory, but may take only half of the %zu MiB left",
        o->capacity, o->box, need >> 20, arena_left(w->arena) >> 20);
    TRY(arena_take(w->arena, 2 * (size_t)o->capacity, sums_bytes(o), "the sums of a reference", &d->sums, err));
    TRY(arena_take(w->arena, (size_t)o->capacity, reference_bytes(o), "a reference", &d->references, err));
    TRY(device_host_new(&w->device, d->slots_bytes, 1, "class averages", &d->slots, err));
    TRY(workspace_cuda_zero(w, d->sums, 2 * (size_t)o->capacity * sums_bytes(o), err));
    TRY(workspace_cuda_zero(w, d->references, (size_t)o->capacity * reference_bytes(o), err));
    return place(a, err);
}

static void close_classes(struct averages *a) {
    struct averages_store *d = a->store;
    if (d == NULL) return;
    averages_cuda_destroy(&d->plans);
    if (d->slots != NULL) device_host_free(&a->options.workspace->device, &d->slots);
    mem_free(&a->store);
}

/* The E-step adds to the sums themselves: nothing to do. */
static enum status begin(struct averages *a, int count, int size, struct err *err) {
    (void)a, (void)count, (void)size, (void)err;
    return STATUS_OK;
}

static enum status end(struct averages *a, int count, int half, struct err *err) {
    (void)a, (void)count, (void)half, (void)err;
    return STATUS_OK;
}

/* Queues the change; all later work is queued behind it. */
static enum status fade(struct averages *a, int count, double factor, struct err *err) {
    const struct averages_options *o = &a->options;
    struct workspace *w = o->workspace;
    double *sums = a->store->sums;
    TRY(workspace_cuda_adopt(w, err));
    if (!(factor > 0)) return workspace_cuda_zero(w, sums, 2 * (size_t)count * sums_bytes(o), err);
    return averages_cuda_scale(o, sums, count, factor, w->stream, err);
}

static enum status split(struct averages *a, int from, int to, struct err *err) {
    struct workspace *w = a->options.workspace;
    TRY(workspace_cuda_adopt(w, err));
    return averages_cuda_split(&a->options, a->store->sums, from, to, w->stream, err);
}

static void put_in(const struct averages *a, const struct average *list, int count, bool maps, struct parts *to) {
    const size_t shells = (size_t)a->options.box / 2 + 1, pixels = (size_t)a->options.box * (size_t)a->options.box;
    for (int i = 0; i < a->store->at_once; i++)
        to->classes[i] = i < count ? list[i].index : -1;
    for (size_t i = 0; i < (size_t)count; i++) {
        memcpy(to->slots.tau2 + i * shells, list[i].tau2, shells * sizeof(float));
        if (maps) memcpy(to->slots.map + i * pixels, list[i].map, pixels * sizeof(float));
    }
}

static void take_out(const struct averages *a, const struct parts *from, bool power_only, const struct average *list,
                     int count) {
    const struct average_slots *slots = &from->slots;
    const size_t pixels = (size_t)a->options.box * (size_t)a->options.box, shells = (size_t)a->options.box / 2 + 1;
    const size_t bytes = shells * sizeof(float);
#pragma omp parallel for num_threads(a->options.threads) schedule(static)
    for (int i = 0; i < count; i++) {
        const size_t at = (size_t)i * shells;
        memcpy(list[i].tau2, slots->tau2 + at, bytes);
        if (power_only) continue;
        memcpy(list[i].map, slots->map + (size_t)i * pixels, pixels * sizeof(float));
        memcpy(list[i].data_vs_prior, slots->data_vs_prior + at, bytes);
        memcpy(list[i].completeness, slots->completeness + at, bytes);
        memcpy(list[i].fsc, slots->fsc + at, bytes);
    }
}

/* Takes a call's slots on the device and scratch memory. */
static enum status take(struct averages *a, struct parts *there, void **ret_scratch, struct err *err) {
    struct workspace *w = a->options.workspace;
    char *base = NULL;
    TRY(arena_take(w->arena, a->store->slots_bytes, 1, "class averages", &base, err));
    *there = parts_of(a, base);
    return arena_take(w->arena, a->store->scratch, 1, "class averages", ret_scratch, err);
}

/* Makes averages of classes, or references from given maps. */
static enum status make_some(struct averages *a, const struct average *list, int count, bool from_maps,
                             struct err *err) {
    const struct averages_store *d = a->store;
    struct workspace *w = a->options.workspace;
    struct parts here = parts_of(a, d->slots), there;
    void *scratch = NULL;
    put_in(a, list, count, from_maps, &here);
    _cleanup_(workspace_cuda_end) struct workspace *open = NULL;
    TRY(workspace_cuda_begin(w, &open, err));
    TRY(take(a, &there, &scratch, err));
    TRY(workspace_cuda_put(w, there.classes, here.classes, from_maps ? here.with_maps : here.before, err));
    if (from_maps)
        TRY(averages_cuda_set(d->plans, &there.slots, scratch, d->references, w->stream, err));
    else
        TRY(averages_cuda_make(d->plans, d->sums, &there.slots, scratch, d->references, w->stream, err));
    TRY(workspace_cuda_get(w, here.classes, there.classes, from_maps ? here.before : here.bytes, err));
    TRY(workspace_cuda_wait(w, err));
    take_out(a, &here, from_maps, list, count);
    return STATUS_OK;
}

static enum status in_turn(struct averages *a, const struct average *list, int count, bool from_maps, struct err *err) {
    const int most = a->store->at_once;
    for (int first = 0; first < count; first += most)
        TRY(make_some(a, list + first, count - first < most ? count - first : most, from_maps, err));
    return STATUS_OK;
}

static enum status make(struct averages *a, const struct average *list, int count, struct err *err) {
    return in_turn(a, list, count, false, err);
}

static enum status set(struct averages *a, const struct average *list, int count, struct err *err) {
    return in_turn(a, list, count, true, err);
}

const struct averages_work averages_cuda_work = {
    .open = open_classes,
    .close = close_classes,
    .begin = begin,
    .end = end,
    .fade = fade,
    .split = split,
    .make = make,
    .set = set,
};
