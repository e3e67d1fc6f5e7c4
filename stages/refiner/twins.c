#include "stages/refiner/twins.h"

#include <stdlib.h>
#include <string.h>

#include "common/memory.h"

/* A present particle, by the order of rows. */
struct in_turn {
    size_t source; /* rank of its table's path */
    size_t row;
    int index;
};

struct ranked {
    const char *path;
    size_t index;
};

static int by_path(const void *a, const void *b) {
    const struct ranked *x = a, *y = b;
    int order = strcmp(x->path, y->path);
    return order != 0 ? order : (x->index > y->index) - (x->index < y->index);
}

static int by_row(const void *a, const void *b) {
    const struct in_turn *x = a, *y = b;
    if (x->source != y->source) return x->source < y->source ? -1 : 1;
    if (x->row != y->row) return x->row < y->row ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static enum status rank_sources(const struct particle_set *set, size_t **ret_ranks, struct err *err) {
    size_t count = (size_t)set->source_count;
    _cleanup_(mem_free) struct ranked *ranked = NULL;
    TRY(mem_new(count, sizeof *ranked, "tables of particles", &ranked, err));
    TRY(mem_new(count, sizeof **ret_ranks, "tables of particles", ret_ranks, err));
    for (size_t i = 0; i < count; i++)
        ranked[i] = (struct ranked){.path = set->sources[i].path != NULL ? set->sources[i].path : "", .index = i};
    qsort(ranked, count, sizeof *ranked, by_path);
    for (size_t i = 0; i < count; i++)
        (*ret_ranks)[ranked[i].index] = i;
    return STATUS_OK;
}

static enum status order_rows(const struct particle_set *set, struct in_turn **ret_turns, struct err *err) {
    _cleanup_(mem_free) size_t *ranks = NULL;
    size_t count = 0;
    bool sorted = true;
    TRY(rank_sources(set, &ranks, err));
    TRY(mem_new_unset(set->present, sizeof **ret_turns, "particles", ret_turns, err));
    struct in_turn *turns = *ret_turns;
    if (set->order != NULL) { /* rows that did not change may be those of an earlier table */
        for (size_t i = 0; i < set->present; i++)
            turns[i].index = set->order[i];
        return STATUS_OK;
    }
    for (size_t i = 0; i < set->count; i++) {
        const struct particle *p = &set->particles[i];
        if (p->source < 0) continue;
        turns[count] = (struct in_turn){.source = ranks[p->source], .row = p->row, .index = (int)i};
        sorted = sorted && (count == 0 || by_row(&turns[count - 1], &turns[count]) < 0);
        count++;
    }
    if (!sorted) qsort(turns, count, sizeof *turns, by_row);
    return STATUS_OK;
}

/* Forgets what was found about a particle that is left out: if it counts again, it is a new one. */
static void forget(struct particle *p) {
    p->aligned = p->mapped = false;
    p->norm = p->reliability = 1;
    p->residual = -1;
    p->half = p->own_half;
}

/* Takes over what was found about an image with equal pixels. */
static void take_over(struct particle *p, const struct particle *from) {
    memcpy(p->pose, from->pose, sizeof p->pose);
    memcpy(p->origin, from->origin, sizeof p->origin);
    p->aligned = from->aligned;
    p->class_index = from->class_index;
    p->norm = from->norm;
    p->log_likelihood = from->log_likelihood;
    p->max_probability = from->max_probability;
    p->significant = from->significant;
    p->reliability = from->reliability;
    p->residual = from->residual;
    p->residual_shell = from->residual_shell;
}

static void leave_out(struct particle_set *set, struct particle *twin, struct particle *first) {
    if (!first->mapped && twin->mapped) {
        first->half = twin->half;
        first->mapped = true;
    } else if (!first->mapped && first->own_half != twin->own_half)
        first->half = (int)(particle_hash(first->name, set->seed) & 1);
    if (!first->aligned && twin->aligned && particle_twins_by_pixels(first, twin)) take_over(first, twin);
    forget(twin);
    twin->twin = 1 + (int)(first - set->particles);
    set->left_out++;
}

static enum status settle_places(struct particle_set *set, const struct in_turn *turns, struct err *err) {
    size_t count = set->present;
    _cleanup_(mem_free) struct particle_place *places = NULL;
    _cleanup_(mem_free) int *twins = NULL;
    TRY(mem_new_unset(count, sizeof *places, "the places of particles", &places, err));
    TRY(mem_new_unset(count, sizeof *twins, "the places of particles", &twins, err));
    for (size_t i = 0; i < count; i++)
        places[i] = set->particles[turns[i].index].place;
    TRY(particle_places_twins(places, count, set->twin_distance, twins, err));
    for (size_t i = 0; i < count; i++)
        if (twins[i] >= 0) leave_out(set, &set->particles[turns[i].index], &set->particles[turns[twins[i]].index]);
    return STATUS_OK;
}

enum status twins_begin(struct twins_met *met, size_t members, struct err *err) {
    size_t size = 4;
    while (size < 2 * members)
        size *= 2;
    met->size = 0;
    if (size > met->room) {
        mem_free(&met->slots);
        met->room = 0;
        TRY(mem_new_unset(size, sizeof *met->slots, "digests of images", &met->slots, err));
        met->room = size;
    }
    met->size = size;
    memset(met->slots, 0, size * sizeof *met->slots);
    return STATUS_OK;
}

void twins_release(struct twins_met *met) {
    mem_free(&met->slots);
    *met = (struct twins_met){0};
}

/* Returns the index of the particle with this digest that was met before; the same index: this is the first. */
static int meet(struct twins_met *met, const struct particle_set *set, int index) {
    const struct digest_value *digest = &set->particles[index].digest;
    size_t slot = (size_t)digest->low & (met->size - 1);
    for (; met->slots[slot] != 0; slot = (slot + 1) & (met->size - 1)) {
        const struct digest_value *other = &set->particles[met->slots[slot] - 1].digest;
        if (other->low == digest->low && other->high == digest->high) return met->slots[slot] - 1;
    }
    met->slots[slot] = index + 1;
    return index;
}

static enum status settle_pixels(struct particle_set *set, const struct in_turn *turns, struct err *err) {
    struct twins_met met = {0};
    size_t doubled = 0;
    for (size_t i = 0; i < set->present; i++)
        doubled += set->particles[turns[i].index].doubled;
    if (doubled == 0) return STATUS_OK;
    TRY(twins_begin(&met, doubled, err));
    for (size_t i = 0; i < set->present; i++) {
        struct particle *p = &set->particles[turns[i].index];
        if (!p->doubled || p->twin != 0 || !particle_has_digest(p)) continue;
        int first = meet(&met, set, turns[i].index);
        if (first != turns[i].index) leave_out(set, p, &set->particles[first]);
    }
    twins_release(&met);
    return STATUS_OK;
}

enum status twins_settle(struct particle_set *set, struct err *err) {
    _cleanup_(mem_free) struct in_turn *turns = NULL;
    if (set->keep_twins) set->settled = true;
    if (set->settled) return STATUS_OK;
    TRY(order_rows(set, &turns, err));
    set->left_out = 0;
    for (size_t i = 0; i < set->count; i++) {
        struct particle *p = &set->particles[i];
        p->twin = 0;
        if (!p->mapped) p->half = p->own_half;
    }
    TRY(settle_places(set, turns, err));
    TRY(settle_pixels(set, turns, err));
    for (size_t i = 0; i < set->count; i++)
        if (set->particles[i].twin != 0) particle_image_free(set, &set->particles[i]);
    set->settled = true;
    return STATUS_OK;
}

bool twins_meet(struct twins_met *met, struct particle_set *set, int index, bool *crossed) {
    struct particle *p = &set->particles[index], *first = p;
    if (set->keep_twins || !particle_has_digest(p)) return false;
    first = &set->particles[meet(met, set, index)];
    if (first == p) return false;
    p->doubled = first->doubled = true;
    struct particle *left_out = p, *stays = first;
    if (p->mapped && !first->mapped && p->half != first->half) {
        left_out = first, stays = p;
        *crossed = true;
    }
    forget(left_out);
    set->left_out += left_out->twin == 0;
    left_out->twin = 1 + (int)(stays - set->particles);
    set->settled = false;
    return true;
}

void twins_restore(struct particle_set *set, struct particle *p, struct particle *twin, const char *digest) {
    struct digest_value value;
    if (set->keep_twins || p == twin || !digest_scan(digest, &value)) return;
    p->digest = twin->digest = value;
    p->doubled = twin->doubled = true;
    set->settled = false;
}
