#include "stages/refiner/heirs.h"

#include <math.h>
#include <string.h>

#include "common/formats/particle_heirs.h"
#include "common/memory.h"
#include "stages/refiner/twins.h"

static double reach_of(const struct particle_set *set) {
    return PARTICLE_HEIR_REACH / TWIN_DISTANCE * set->twin_distance;
}

/* Particles to compare: their places, and their indices. */
struct list {
    struct particle_place *places;
    int *indices;
    size_t count;
};

static void clear(struct list *list) {
    mem_free(&list->places);
    mem_free(&list->indices);
}

static enum status create(size_t room, struct list *list, struct err *err) {
    TRY(mem_new_unset(room + 1, sizeof *list->places, "the places of particles", &list->places, err));
    return mem_new_unset(room + 1, sizeof *list->indices, "the places of particles", &list->indices, err);
}

static void add(struct list *list, struct particle_place place, size_t index) {
    list->places[list->count] = place;
    list->indices[list->count++] = (int)index;
}

void heirs_settle(const struct particle_set *set, const struct particle_place *row, struct particle *p) {
    p->origin[0] += (p->place.x - row->x) / set->pixel_size;
    p->origin[1] += (p->place.y - row->y) / set->pixel_size;
    p->own_half = p->half;
}

static void take_over(const struct particle_set *set, struct particle *p, const struct particle *from) {
    memcpy(p->pose, from->pose, sizeof p->pose);
    memcpy(p->origin, from->origin, sizeof p->origin);
    p->class_index = from->class_index;
    p->norm = from->norm;
    p->aligned = from->aligned;
    p->mapped = from->mapped;
    p->half = from->half;
    heirs_settle(set, &from->place, p);
}

static enum status join(struct particle_set *set, size_t first, struct list *earlier, struct list *later,
                        struct err *err) {
    _cleanup_(mem_free) int *heir_of = NULL;
    for (size_t i = first; i < set->count; i++)
        add(later, set->particles[i].place, i);
    /* The newest particle in a place comes first in the list, and particle_heirs_find takes the first. */
    for (size_t i = first; i > 0; i--) {
        const struct particle *p = &set->particles[i - 1];
        if (p->source < 0 && p->aligned) add(earlier, p->place, i - 1);
    }
    if (earlier->count == 0) return STATUS_OK;
    TRY(mem_new_unset(later->count + 1, sizeof *heir_of, "the places of particles", &heir_of, err));
    TRY(particle_heirs_find(earlier->places, earlier->count, later->places, later->count, reach_of(set), heir_of, err));
    for (size_t i = 0; i < later->count; i++)
        if (heir_of[i] >= 0)
            take_over(set, &set->particles[later->indices[i]], &set->particles[earlier->indices[heir_of[i]]]);
    return STATUS_OK;
}

enum status heirs_join(struct particle_set *set, size_t first, struct err *err) {
    struct list earlier = {0}, later = {0};
    if (first >= set->count || !(set->twin_distance > 0)) return STATUS_OK;
    enum status status = create(first, &earlier, err);
    if (status == STATUS_OK) status = create(set->count - first, &later, err);
    if (status == STATUS_OK) status = join(set, first, &earlier, &later, err);
    clear(&earlier);
    clear(&later);
    return status;
}

struct particle_place heirs_place(const struct particle_set *set, struct particle_places *places, size_t row) {
    int column = star_column_find(places->rows, "rlnOpticsGroup");
    long group = 0;
    bool known = column >= 0 && places->optics != NULL &&
                 star_get_integer(places->rows, row, column, &group, NULL) == STATUS_OK && group >= 1 &&
                 (size_t)group <= star_row_count(places->optics);
    return particle_places_row(places, row, known ? (int)group - 1 : -1, set->pixel_size);
}

bool heirs_moved(const struct particle_set *set, struct particle_places *places, size_t row, const struct particle *p) {
    static const double SAME = 0.1; /* Å */
    const struct particle_place place = heirs_place(set, places, row);
    return place.micrograph != 0 && p->place.micrograph != 0 &&
           (place.micrograph != p->place.micrograph || hypot(place.x - p->place.x, place.y - p->place.y) > SAME);
}

static enum status find_rows(const struct particle_set *set, struct particle_places *places, struct list *earlier,
                             struct list *later, int *heir_of, struct err *err) {
    int name = star_column_find(places->rows, "rlnImageName");
    _cleanup_(mem_free) int *found = NULL;
    for (size_t row = 0; name >= 0 && row < star_row_count(places->rows); row++) {
        const struct particle *p = particle_find(set, star_get(places->rows, row, name));
        if (p == NULL || p->source < 0 || heirs_moved(set, places, row, p))
            add(earlier, heirs_place(set, places, row), row);
    }
    for (size_t i = 0; i < set->count; i++)
        if (set->particles[i].source >= 0 && !set->particles[i].aligned) add(later, set->particles[i].place, i);
    if (earlier->count == 0 || later->count == 0) return STATUS_OK;
    TRY(mem_new_unset(later->count, sizeof *found, "the places of particles", &found, err));
    TRY(particle_heirs_find(earlier->places, earlier->count, later->places, later->count, reach_of(set), found, err));
    for (size_t i = 0; i < later->count; i++)
        if (found[i] >= 0) heir_of[earlier->indices[found[i]]] = later->indices[i];
    return STATUS_OK;
}

enum status heirs_of_rows(const struct particle_set *set, const struct star_table *rows,
                          const struct star_table *optics, int *heir_of, struct err *err) {
    struct list earlier = {0}, later = {0};
    struct particle_places places;
    for (size_t row = 0; row < star_row_count(rows); row++)
        heir_of[row] = -1;
    if (!(set->twin_distance > 0)) return STATUS_OK;
    particle_places_open(rows, optics, &places);
    enum status status = create(star_row_count(rows), &earlier, err);
    if (status == STATUS_OK) status = create(set->count, &later, err);
    if (status == STATUS_OK) status = find_rows(set, &places, &earlier, &later, heir_of, err);
    clear(&earlier);
    clear(&later);
    return status;
}
