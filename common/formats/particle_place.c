#include "common/formats/particle_place.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/memory.h"
#include "common/text.h"

static const double FARTHEST = 1e9; /* Å, from the corner of a micrograph */

void particle_places_open(const struct star_table *rows, const struct star_table *optics,
                          struct particle_places *ret_places) {
    static const char *const SIZES[2] = {"rlnMicrographPixelSize", "rlnMicrographOriginalPixelSize"};
    struct particle_places p = {.rows = rows, .optics = optics};
    bool volumes = star_column_find(rows, "rlnCoordinateZ") >= 0 || star_column_find(rows, "rlnTomoName") >= 0;
    p.micrograph = volumes ? -1 : star_column_find(rows, "rlnMicrographName");
    p.x = star_column_find(rows, "rlnCoordinateX");
    p.y = star_column_find(rows, "rlnCoordinateY");
    for (int i = 0; i < 2; i++) {
        p.pixel_sizes[i] = star_column_find(rows, SIZES[i]);
        p.group_pixel_sizes[i] = optics != NULL ? star_column_find(optics, SIZES[i]) : -1;
    }
    *ret_places = p;
}

static bool read_number(const struct star_table *table, size_t row, int column, double *ret_value) {
    return column >= 0 && star_get_number(table, row, column, ret_value, NULL) == STATUS_OK && isfinite(*ret_value);
}

static double micrograph_pixel_size(const struct particle_places *p, size_t row, int group, double image_pixel_size) {
    double size;
    for (int i = 0; i < 2; i++) {
        if (read_number(p->rows, row, p->pixel_sizes[i], &size) && size > 0) return size;
        if (group >= 0 && read_number(p->optics, (size_t)group, p->group_pixel_sizes[i], &size) && size > 0)
            return size;
    }
    return image_pixel_size;
}

/* Rows of one micrograph follow each other. */
static uint64_t hash_of(struct particle_places *p, const char *micrograph) {
    if (p->last == NULL || strcmp(p->last, micrograph) != 0) p->last_hash = text_hash(micrograph);
    p->last = micrograph;
    return p->last_hash;
}

struct particle_place particle_places_row(struct particle_places *p, size_t row, int group, double image_pixel_size) {
    static const struct particle_place UNKNOWN = {0};
    double x, y;
    if (p->micrograph < 0 || !read_number(p->rows, row, p->x, &x) || !read_number(p->rows, row, p->y, &y))
        return UNKNOWN;
    const char *name = star_get(p->rows, row, p->micrograph);
    while (strncmp(name, "./", 2) == 0)
        name += 2;
    double size = micrograph_pixel_size(p, row, group, image_pixel_size);
    struct particle_place place = {.micrograph = hash_of(p, name), .x = x * size, .y = y * size};
    if (place.micrograph == 0) place.micrograph = 1;
    bool known = *name != '\0' && strcasecmp(name, "none") != 0 && (x != 0 || y != 0);
    return known && fabs(place.x) < FARTHEST && fabs(place.y) < FARTHEST ? place : UNKNOWN;
}

/* A place among those of one micrograph. */
struct entry {
    uint64_t micrograph;
    size_t index;
};

/* The places of one micrograph that stay, by the square cells, `distance` wide, in which they lie. Open addressing:
 * index + 1, 0 empty. Places that stay are more than `distance` apart, so that a cell has few. */
struct grid {
    const struct particle_place *places;
    double distance;
    size_t *slots, mask;
};

static int by_micrograph(const void *a, const void *b) {
    const struct entry *x = a, *y = b;
    return x->micrograph != y->micrograph ? (x->micrograph > y->micrograph) - (x->micrograph < y->micrograph)
                                          : (x->index > y->index) - (x->index < y->index);
}

static int64_t cell(const struct grid *g, double coordinate) {
    return (int64_t)floor(coordinate / g->distance);
}

static size_t slot_of(const struct grid *g, int64_t cx, int64_t cy) {
    uint64_t h = (uint64_t)cx * 0x9e3779b97f4a7c15u ^ (uint64_t)cy * 0xc2b2ae3d27d4eb4fu;
    h ^= h >> 29;
    h *= 0xbf58476d1ce4e5b9u;
    return (size_t)(h ^ h >> 32) & g->mask;
}

/* Returns the first place of the cell that is near, or `first` if that is earlier. */
static size_t nearest_of_cell(const struct grid *g, const struct particle_place *p, int64_t cx, int64_t cy,
                              size_t first) {
    for (size_t slot = slot_of(g, cx, cy); g->slots[slot] != 0; slot = (slot + 1) & g->mask) {
        size_t other = g->slots[slot] - 1;
        const struct particle_place *q = &g->places[other];
        double dx = q->x - p->x, dy = q->y - p->y;
        if (other < first && dx * dx + dy * dy <= g->distance * g->distance) first = other;
    }
    return first;
}

static void add(struct grid *g, size_t index) {
    const struct particle_place *p = &g->places[index];
    size_t slot = slot_of(g, cell(g, p->x), cell(g, p->y));
    while (g->slots[slot] != 0)
        slot = (slot + 1) & g->mask;
    g->slots[slot] = index + 1;
}

static void find_in_micrograph(struct grid *g, const struct entry *entries, size_t count, int *twins) {
    size_t size = 4;
    while (size < 2 * count)
        size *= 2;
    g->mask = size - 1;
    memset(g->slots, 0, size * sizeof *g->slots);
    for (size_t i = 0; i < count; i++) {
        const struct particle_place *p = &g->places[entries[i].index];
        int64_t cx = cell(g, p->x), cy = cell(g, p->y);
        size_t first = SIZE_MAX;
        for (int64_t y = cy - 1; y <= cy + 1; y++)
            for (int64_t x = cx - 1; x <= cx + 1; x++)
                first = nearest_of_cell(g, p, x, y, first);
        if (first == SIZE_MAX)
            add(g, entries[i].index);
        else
            twins[entries[i].index] = (int)first;
    }
}

enum status particle_places_twins(const struct particle_place *places, size_t count, double distance, int *twins,
                                  struct err *err) {
    _cleanup_(mem_free) struct entry *entries = NULL;
    _cleanup_(mem_free) size_t *slots = NULL;
    size_t known = 0, most = 0;
    bool sorted = true;
    FAIL_IF(count > INT_MAX, err, STATUS_UNSUPPORTED, "%zu particles are too many to compare their places", count);
    for (size_t i = 0; i < count; i++)
        twins[i] = -1;
    if (!(distance > 0)) return STATUS_OK;
    TRY(mem_new_unset(count, sizeof *entries, "the places of particles", &entries, err));
    for (size_t i = 0; i < count; i++)
        if (places[i].micrograph != 0)
            entries[known++] = (struct entry){.micrograph = places[i].micrograph, .index = i};
    for (size_t i = 1; i < known && sorted; i++)
        sorted = entries[i - 1].micrograph <= entries[i].micrograph;
    if (!sorted) qsort(entries, known, sizeof *entries, by_micrograph);
    for (size_t first = 0, end; first < known; first = end) {
        for (end = first; end < known && entries[end].micrograph == entries[first].micrograph;)
            end++;
        if (end - first > most) most = end - first;
    }
    TRY(mem_new_unset(4 * most + 4, sizeof *slots, "the places of particles", &slots, err));
    struct grid grid = {.places = places, .distance = distance, .slots = slots};
    for (size_t first = 0, end; first < known; first = end) {
        for (end = first; end < known && entries[end].micrograph == entries[first].micrograph;)
            end++;
        find_in_micrograph(&grid, entries + first, end - first, twins);
    }
    return STATUS_OK;
}
