/* Decides on the host how much a CUDA device computes at a time, and where results go. */
#include "kernels/superpose/superpose_cuda.h"

#include <string.h>

#include "common/memory.h"
#include "kernels/superpose/superpose_private.h"

/* Floats of a slot, if memory allows; entries that are picked at a time. */
static const size_t SLOT_FLOATS = (size_t)64 << 20, ENTRIES = (size_t)4 << 20;

struct superpose_cuda {
    struct superpose_options options;
    struct superpose_ensemble_options of_ensemble;
    struct superpose_ensemble *ensemble;
    int count, reserved;
    int32_t *counts; /* of a slot's rows */
    int counts_capacity;
    /* Page-locked memory for picked entries. */
    int32_t *index;
    float *rmsd;
    size_t entries;
};

static enum status build(struct superpose_cuda *s, enum superpose_product product, const float *roots,
                         struct err *err) {
    bool doubles = product == SUPERPOSE_DOUBLE;
    if (product == SUPERPOSE_BEST) TRY(superpose_cuda_doubles(s->options.device.index, &doubles, err));
    s->of_ensemble.single = !doubles;
    return superpose_ensemble_create(&s->of_ensemble, roots, &s->ensemble, err);
}

static void destroy(void *state) {
    struct superpose_cuda *s = state;
    superpose_ensemble_destroy(&s->ensemble);
    mem_free(&s->counts);
    if (s->index) device_host_free(&s->options.device, &s->index);
    if (s->rmsd) device_host_free(&s->options.device, &s->rmsd);
    mem_free(&s);
}

static enum status create(const struct superpose_options *options, enum superpose_product product, const float *roots,
                          double total, void **ret_state, struct err *err) {
    struct superpose_cuda *s = NULL;
    TRY(mem_new(1, sizeof *s, "an ensemble", &s, err));
    s->options = *options;
    s->of_ensemble = (struct superpose_ensemble_options){
        .index = options->device.index, .atoms = options->atoms, .method = options->method, .total = total};
    enum status status = build(s, product, roots, err);
    if (status != STATUS_OK) {
        destroy(s);
        return status;
    }
    *ret_state = s;
    return STATUS_OK;
}

struct superpose_ensemble *superpose_cuda_ensemble(void *state) {
    struct superpose_cuda *s = state;
    return s->ensemble;
}

/* Returns the bytes that the ensemble may take: the user's limit, or what is free on the device. */
static enum status allowance(const struct superpose_cuda *s, size_t *ret_bytes, struct err *err) {
    size_t unused = 0;
    TRY(superpose_cuda_unused(s->options.device.index, &unused, err));
    *ret_bytes = s->options.memory > 0 && s->options.memory < unused ? s->options.memory : unused;
    return STATUS_OK;
}

static enum status reserve(struct superpose_cuda *s, int structures, struct err *err) {
    if (structures <= s->reserved) return STATUS_OK;
    size_t allowed = 0;
    TRY(allowance(s, &allowed, err));
    int64_t doubled = 2 * (int64_t)s->reserved;
    int room = doubled > structures && doubled < INT32_MAX / 2 ? (int)doubled : structures;
    if (superpose_ensemble_bytes(&s->of_ensemble, room) > allowed) room = structures;
    size_t bytes = superpose_ensemble_bytes(&s->of_ensemble, room);
    FAIL_IF(
        bytes > allowed, err, STATUS_NO_MEMORY,
        "%d structures of %d atoms take %zu bytes of the CUDA device's memory, of which they may have %zu: give more "
        "memory, select fewer atoms, or use the CPU",
        structures, s->options.atoms, bytes, allowed);
    TRY(superpose_ensemble_reserve(s->ensemble, room, err));
    s->reserved = room;
    return STATUS_OK;
}

static enum status add(void *state, const float *xyz, int count, struct err *err) {
    struct superpose_cuda *s = state;
    int64_t bad = -1;
    TRY(reserve(s, s->count + count, err));
    TRY(superpose_ensemble_put(s->ensemble, xyz, s->count, count, &bad, err));
    if (bad >= 0)
        return superpose_bad_coordinate(xyz + bad * 3, s->count + bad / s->options.atoms, (int)(bad % s->options.atoms),
                                        err);
    s->count += count;
    return STATUS_OK;
}

/* Returns the floats that a slot may hold: a sixth of the memory left. */
static enum status slot_room(const struct superpose_cuda *s, size_t least, size_t most, size_t *ret_floats,
                             struct err *err) {
    size_t allowed = 0, taken = s->options.memory > 0 ? superpose_ensemble_bytes(&s->of_ensemble, s->reserved) : 0;
    TRY(allowance(s, &allowed, err));
    size_t floats = allowed > taken ? (allowed - taken) / 6 / sizeof(float) : 0;
    if (floats > most) floats = most;
    if (floats > SLOT_FLOATS) floats = SLOT_FLOATS;
    /* At least a row of tiles must fit. */
    if (floats < least) floats = least;
    *ret_floats = floats;
    return STATUS_OK;
}

static int whole_tiles(size_t rows, int left) {
    return rows >= (size_t)left ? left : (int)rows / SUPERPOSE_TILE * SUPERPOSE_TILE;
}

/* Returns the next rows from `begin` on that fit into `floats`, packed. */
static struct superpose_range next_packed(int n, int begin, size_t floats) {
    size_t used = 0, rows = 0;
    while (begin + (int)rows < n && used + (size_t)(n - 1 - begin) - rows <= floats)
        used += (size_t)(n - 1 - begin) - rows++;
    return (struct superpose_range){n, begin, begin + whole_tiles(rows, n - begin)};
}

static size_t first_of(int n, int row) {
    return row < n - 1 ? superpose_at(n, row, row + 1) : superpose_pairs(n);
}

/* Touches every page of new memory with all threads, while the device computes. Otherwise each page would be made at
 * its first write, one after the other, as results come. */
static void touch(float *memory, size_t count, int threads) {
    const size_t page = 4096 / sizeof *memory;
    int64_t pages = (int64_t)((count + page - 1) / page);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t k = 0; k < pages; k++)
        memory[(size_t)k * page] = 0;
}

static enum status matrix(void *state, float *ret_rmsd, struct err *err) {
    struct superpose_cuda *s = state;
    size_t floats = 0;
    int n = s->count;
    TRY(slot_room(s, (size_t)SUPERPOSE_TILE * (size_t)n, superpose_pairs(n), &floats, err));
    TRY(superpose_ensemble_slots(s->ensemble, floats, 0, 0, err));
    struct superpose_range now = next_packed(n, 0, floats);
    TRY(superpose_ensemble_run(s->ensemble, 0, &now, true, err));
    touch(ret_rmsd, superpose_pairs(n), s->options.threads);
    for (int slot = 0; now.begin < n; slot = !slot) {
        struct superpose_range next = {n, n, n};
        if (now.end < n) {
            next = next_packed(n, now.end, floats);
            TRY(superpose_ensemble_run(s->ensemble, !slot, &next, true, err));
        }
        size_t first = first_of(n, now.begin), count = first_of(n, now.end) - first;
        if (count > 0) TRY(superpose_ensemble_fetch(s->ensemble, slot, count, ret_rmsd + first, err));
        now = next;
    }
    return STATUS_OK;
}

static enum status row(void *state, int index, float *ret_rmsd, struct err *err) {
    struct superpose_cuda *s = state;
    return superpose_ensemble_row(s->ensemble, index, index, ret_rmsd, err);
}

static enum status to_reference(void *state, const float *reference, float *ret_rmsd, struct err *err) {
    struct superpose_cuda *s = state;
    int64_t bad = -1;
    TRY(superpose_ensemble_put(s->ensemble, reference, SUPERPOSE_REFERENCE, 1, &bad, err));
    if (bad >= 0) return superpose_bad_coordinate(reference + bad * 3, 0, (int)bad, err);
    return superpose_ensemble_row(s->ensemble, SUPERPOSE_REFERENCE, s->count, ret_rmsd, err);
}

static enum status prepare_neighbours(struct superpose_cuda *s, size_t *ret_floats, struct err *err) {
    size_t columns = (size_t)s->count, floats = 0, entries = ENTRIES > columns ? ENTRIES : columns;
    TRY(slot_room(s, SUPERPOSE_TILE * columns, columns * columns, &floats, err));
    /* Later rows are shorter, so more of them fit. */
    int rows = s->count;
    TRY(superpose_ensemble_slots(s->ensemble, floats, rows, entries, err));
    if (s->counts_capacity < rows) {
        mem_free(&s->counts);
        s->counts_capacity = 0;
        TRY(mem_new((size_t)rows, sizeof *s->counts, "counts of neighbours", &s->counts, err));
        s->counts_capacity = rows;
    }
    if (s->entries < entries) {
        if (s->index) device_host_free(&s->options.device, &s->index);
        if (s->rmsd) device_host_free(&s->options.device, &s->rmsd);
        s->entries = 0;
        TRY(device_host_new(&s->options.device, entries, sizeof *s->index, "neighbours", &s->index, err));
        TRY(device_host_new(&s->options.device, entries, sizeof *s->rmsd, "neighbours", &s->rmsd, err));
        s->entries = entries;
    }
    *ret_floats = floats;
    return STATUS_OK;
}

/* Returns the next rows from `begin` on that fit into `floats`, each from column `begin` on. */
static struct superpose_range next_rows(int n, int begin, size_t floats) {
    return (struct superpose_range){n, begin, begin + whole_tiles(floats / (size_t)(n - begin), n - begin)};
}

static enum status start(struct superpose_cuda *s, int slot, const struct superpose_range *range, float cutoff,
                         struct err *err) {
    TRY(superpose_ensemble_run(s->ensemble, slot, range, false, err));
    return superpose_ensemble_count(s->ensemble, slot, range, cutoff, err);
}

/* Appends the entries of a range, as many rows at a time as fit into the page-locked memory. */
static enum status collect(struct superpose_cuda *s, int slot, const struct superpose_range *range, float cutoff,
                           size_t limit, struct superpose_neighbours *n, struct err *err) {
    int rows = range->end - range->begin;
    TRY(superpose_ensemble_counts(s->ensemble, slot, rows, s->counts, err));
    size_t *starts = n->starts + range->begin;
    for (int k = 0; k < rows; k++)
        starts[k + 1] = starts[k] + (size_t)s->counts[k];
    TRY(superpose_neighbours_room(n, starts[rows], cutoff, limit, err));
    for (int from = 0; from < rows;) {
        int to = from + 1;
        while (to < rows && starts[to + 1] - starts[from] <= s->entries)
            to++;
        struct superpose_part part = {from, to, starts[to] - starts[from]};
        if (part.entries > 0) {
            TRY(superpose_ensemble_pick(s->ensemble, slot, range, cutoff, &part, s->index, s->rmsd, err));
            memcpy(n->index + starts[from], s->index, part.entries * sizeof *n->index);
            memcpy(n->rmsd + starts[from], s->rmsd, part.entries * sizeof *n->rmsd);
        }
        from = to;
    }
    return STATUS_OK;
}

static enum status neighbours(void *state, float cutoff, size_t limit, struct superpose_neighbours *n,
                              struct err *err) {
    struct superpose_cuda *s = state;
    size_t floats = 0;
    int count = s->count;
    TRY(prepare_neighbours(s, &floats, err));
    struct superpose_range now = next_rows(count, 0, floats);
    TRY(start(s, 0, &now, cutoff, err));
    for (int slot = 0; now.begin < count; slot = !slot) {
        struct superpose_range next = {count, count, count};
        if (now.end < count) {
            next = next_rows(count, now.end, floats);
            TRY(start(s, !slot, &next, cutoff, err));
        }
        TRY(collect(s, slot, &now, cutoff, limit, n, err));
        now = next;
    }
    return STATUS_OK;
}

const struct superpose_work superpose_cuda_work = {
    .create = create,
    .destroy = destroy,
    .add = add,
    .matrix = matrix,
    .row = row,
    .to_reference = to_reference,
    .neighbours = neighbours,
};
