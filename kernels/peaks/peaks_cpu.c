#include "kernels/peaks/peaks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/multiversion.h"

void peak_list_destroy(struct peak_list *list) {
    free(list->items);
    free(list->cells);
    free(list->sorted);
    free(list->keys);
    free(list->marks);
    free(list->members);
    *list = (struct peak_list){0};
}

static enum status add(struct peak_list *list, const struct peak *peak, struct err *err) {
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 4096;
        struct peak *items = realloc(list->items, capacity * sizeof *items);
        FAIL_IF(items == NULL, err, STATUS_NO_MEMORY, "no memory for %zu peaks", capacity);
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = *peak;
    return STATUS_OK;
}

enum status peak_list_append(struct peak_list *list, const struct peak_list *more, struct err *err) {
    for (size_t i = 0; i < more->count; i++)
        TRY(add(list, &more->items[i], err));
    return STATUS_OK;
}

/* Returns the top of the parabola through three values, as an offset from the middle one. */
static float top(float before, float here, float after) {
    float curvature = before - 2 * here + after;
    if (!(curvature < 0)) return 0;
    float offset = 0.5f * (before - after) / curvature;
    return fmaxf(-0.5f, fminf(0.5f, offset));
}

static bool is_peak(const struct peak_search *s, const float *merit, int x, int y) {
    size_t at = (size_t)y * s->nx + x;
    float here = merit[at];
    if (!(here >= s->threshold) || (s->bad && s->bad[at])) return false;
    /* Left and up must be strictly smaller, which makes a plateau count once. */
    float around[4] = {x > 0 ? merit[at - 1] : -INFINITY, y > 0 ? merit[at - s->nx] : -INFINITY,
                       x + 1 < s->nx ? merit[at + 1] : -INFINITY, y + 1 < s->ny ? merit[at + s->nx] : -INFINITY};
    for (int i = 0; i < 4; i++) {
        if (around[i] > here || (i < 2 && around[i] == here)) return false;
        if (s->all_neighbours && !(around[i] >= s->threshold)) return false;
    }
    return true;
}

/* Marks possible peaks of a row that has neighbours on all sides: flags[x] for x0 ≤ x < x1. */
MULTIVERSION static void mark_tops(const float *row, int nx, int x0, int x1, float threshold, uint8_t *flags) {
    const float *up = row - nx, *down = row + nx;
    for (int x = x0; x < x1; x++)
        flags[x] = (row[x] >= threshold) & (row[x] > row[x - 1]) & (row[x] > up[x]) & !(row[x + 1] > row[x]) &
                   !(down[x] > row[x]);
}

static enum status take_peak(const struct peak_search *s, const float *merit, const uint16_t *rotation, int template,
                             int x, int y, struct peak_list *list, struct err *err) {
    size_t at = (size_t)y * s->nx + x;
    struct peak peak = {.x = (float)x,
                        .y = (float)y,
                        .merit = merit[at],
                        .template = s->template ? s->template[at] : template,
                        .rotation = rotation ? rotation[at] : 0};
    if (s->fractional && x > 0 && x + 1 < s->nx) peak.x += top(merit[at - 1], merit[at], merit[at + 1]);
    if (s->fractional && y > 0 && y + 1 < s->ny) peak.y += top(merit[at - s->nx], merit[at], merit[at + s->nx]);
    return add(list, &peak, err);
}

enum { RUN = 1024 };

enum status peaks_find(const struct peak_search *s, const float *merit, const uint16_t *rotation, int template,
                       struct peak_list *list, struct err *err) {
    int x0 = s->x0 > 0 ? s->x0 : 0, x1 = s->x1 < s->nx ? s->x1 : s->nx;
    int y0 = s->y0 > 0 ? s->y0 : 0, y1 = s->y1 < s->ny ? s->y1 : s->ny;
    uint8_t flags[RUN];
    for (int y = y0; y < y1; y++)
        for (int from = x0; from < x1; from += RUN) {
            int count = x1 - from < RUN ? x1 - from : RUN;
            memset(flags, 1, sizeof flags);
            int first = from > 0 ? 0 : 1, last = from + count < s->nx ? count : count - 1;
            if (y > 0 && y + 1 < s->ny)
                mark_tops(merit + (size_t)y * s->nx + from, s->nx, first, last, s->threshold, flags);
            for (int i = 0; i < count; i++)
                if (flags[i] && is_peak(s, merit, from + i, y))
                    TRY(take_peak(s, merit, rotation, template, from + i, y, list, err));
        }
    return STATUS_OK;
}

static double distance2(const struct peak *a, const struct peak *b) {
    double dx = (double)a->x - b->x, dy = (double)a->y - b->y;
    return dx * dx + dy * dy;
}

/* Cells over the rectangle of the peaks, so small that each holds at most one kept peak. */
struct cells {
    double side;
    float x0, y0;
    int nx, ny;
};

static struct cells grid(const struct peak_list *list, double distance) {
    float x0 = INFINITY, y0 = INFINITY, x1 = -INFINITY, y1 = -INFINITY;
    for (size_t i = 0; i < list->count; i++) {
        const struct peak *p = &list->items[i];
        x0 = fminf(x0, p->x);
        x1 = fmaxf(x1, p->x);
        y0 = fminf(y0, p->y);
        y1 = fmaxf(y1, p->y);
    }
    double side = distance / M_SQRT2;
    return (struct cells){side, x0, y0, (int)((x1 - x0) / side) + 1, (int)((y1 - y0) / side) + 1};
}

/* The cells that may hold a peak nearer than the distance, nearest cells first: most peaks of noise have one beside
 * them. */
static const signed char AROUND[][2] = {{0, 0},  {1, 0},   {-1, 0},  {0, 1},  {0, -1}, {1, 1},  {1, -1},
                                        {-1, 1}, {-1, -1}, {2, 0},   {-2, 0}, {0, 2},  {0, -2}, {2, 1},
                                        {2, -1}, {-2, 1},  {-2, -1}, {1, 2},  {1, -2}, {-1, 2}, {-1, -2},
                                        {2, 2},  {2, -2},  {-2, 2},  {-2, -2}};

/* Returns whether a kept peak is nearer than the distance to `peak`, which lies in cell (cx, cy). */
static bool crowded(const struct peak_list *list, const struct cells *g, const struct peak *peak, int cx, int cy,
                    double distance) {
    for (size_t i = 0; i < sizeof AROUND / sizeof *AROUND; i++) {
        int x = cx + AROUND[i][0], y = cy + AROUND[i][1];
        if (x < 0 || y < 0 || x >= g->nx || y >= g->ny) continue;
        const struct peak *kept = list->cells[(size_t)y * g->nx + x];
        if (kept && distance2(peak, kept) < distance * distance) return true;
    }
    return false;
}

/* Rising keys for falling merits. */
static uint32_t key_of(float merit) {
    uint32_t bits;
    memcpy(&bits, &merit, sizeof bits);
    return bits & 0x80000000u ? bits : ~bits & 0x7fffffffu;
}

enum { DIGIT = 11, DIGITS = 3, BINS = 1 << DIGIT };

static enum status fit_sort(struct peak_list *list, struct err *err) {
    if (list->count <= list->sort_capacity) return STATUS_OK;
    mem_free(&list->sorted);
    mem_free(&list->keys);
    list->sort_capacity = 0;
    TRY(mem_new(2 * list->count, sizeof *list->sorted, "peaks", &list->sorted, err));
    TRY(mem_new(4 * list->count, sizeof *list->keys, "peaks", &list->keys, err));
    list->sort_capacity = 2 * list->count;
    return STATUS_OK;
}

/* Sorts by merit, best first: three passes of a stable distribution of indices. A comparison function would be called
 * for each of tens of thousands of noise peaks. */
static enum status sort_by_merit(struct peak_list *list, struct err *err) {
    TRY(fit_sort(list, err));
    uint32_t *from = list->keys, *to = list->keys + list->sort_capacity;
    size_t n = list->count;
    for (size_t i = 0; i < n; i++)
        from[i] = (uint32_t)i;
    for (int pass = 0; pass < DIGITS; pass++) {
        size_t start[BINS + 1] = {0};
        int shift = pass * DIGIT;
        for (size_t i = 0; i < n; i++)
            start[(key_of(list->items[i].merit) >> shift & (BINS - 1)) + 1]++;
        for (int bin = 0; bin < BINS; bin++)
            start[bin + 1] += start[bin];
        for (size_t i = 0; i < n; i++)
            to[start[key_of(list->items[from[i]].merit) >> shift & (BINS - 1)]++] = from[i];
        uint32_t *swap = from;
        from = to;
        to = swap;
    }
    for (size_t i = 0; i < n; i++)
        list->sorted[i] = list->items[from[i]];
    memcpy(list->items, list->sorted, n * sizeof *list->items);
    return STATUS_OK;
}

enum status peaks_prune_greedy(struct peak_list *list, double distance, struct err *err) {
    if (list->count == 0) return STATUS_OK;
    TRY(sort_by_merit(list, err));
    /* Peaks lie at whole pixels or nearly so: none are nearer than this. */
    if (!(distance > 0.5)) return STATUS_OK;
    struct cells g = grid(list, distance);
    size_t cells = (size_t)g.nx * g.ny;
    if (cells > list->cell_capacity) {
        mem_free(&list->cells);
        list->cell_capacity = 0;
        TRY(mem_new(cells, sizeof *list->cells, "peaks", &list->cells, err));
        list->cell_capacity = cells;
    }
    memset(list->cells, 0, cells * sizeof *list->cells);
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++) {
        struct peak peak = list->items[i];
        int cx = (int)((peak.x - g.x0) / g.side), cy = (int)((peak.y - g.y0) / g.side);
        if (crowded(list, &g, &peak, cx, cy, distance)) continue;
        list->items[kept] = peak;
        list->cells[(size_t)cy * g.nx + cx] = &list->items[kept++];
    }
    list->count = kept;
    return STATUS_OK;
}

/* Collects all peaks connected with `seed` into members[]; returns their number. */
static size_t grow(const struct peak_list *list, size_t seed, double radius, bool *taken, size_t *members) {
    size_t count = 0;
    members[count++] = seed;
    taken[seed] = true;
    for (size_t next = 0; next < count; next++)
        for (size_t i = 0; i < list->count; i++)
            if (!taken[i] && distance2(&list->items[i], &list->items[members[next]]) < radius * radius) {
                taken[i] = true;
                members[count++] = i;
            }
    return count;
}

/* Emits the best of the members and removes those close to it, until none are left. */
static void thin(const struct peak_list *list, size_t *members, size_t count, double distance, bool *keep) {
    while (count > 0) {
        size_t best = members[0], left = 0;
        for (size_t m = 1; m < count; m++)
            if (list->items[members[m]].merit > list->items[best].merit) best = members[m];
        keep[best] = true;
        for (size_t m = 0; m < count; m++)
            if (members[m] != best && distance2(&list->items[members[m]], &list->items[best]) >= distance * distance)
                members[left++] = members[m];
        count = left;
    }
}

static void keep_only(struct peak_list *list, const bool *keep) {
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++)
        if (keep[i]) list->items[kept++] = list->items[i];
    list->count = kept;
}

/* Two marks for each peak, all false, and room for a list of peaks. */
static enum status reserve_marks(struct peak_list *list, struct err *err) {
    if (list->count > list->mark_capacity) {
        mem_free(&list->marks);
        mem_free(&list->members);
        list->mark_capacity = 0;
        TRY(mem_new(2 * list->capacity, sizeof *list->marks, "peaks", &list->marks, err));
        TRY(mem_new(list->capacity, sizeof *list->members, "peaks", &list->members, err));
        list->mark_capacity = list->capacity;
    }
    memset(list->marks, 0, 2 * list->count * sizeof *list->marks);
    return STATUS_OK;
}

enum status peaks_prune_clusters(struct peak_list *list, double radius, double distance, struct err *err) {
    if (list->count == 0) return STATUS_OK;
    TRY(reserve_marks(list, err));
    bool *taken = list->marks, *keep = list->marks + list->count;
    for (size_t seed = 0; seed < list->count; seed++)
        if (!taken[seed]) thin(list, list->members, grow(list, seed, radius, taken, list->members), distance, keep);
    keep_only(list, keep);
    return STATUS_OK;
}

enum status peaks_drop_close_pairs(struct peak_list *list, double distance, struct err *err) {
    if (list->count == 0) return STATUS_OK;
    TRY(reserve_marks(list, err));
    bool *keep = list->marks;
    for (size_t i = 0; i < list->count; i++) {
        keep[i] = true;
        for (size_t j = 0; j < list->count && keep[i]; j++)
            keep[i] = i == j || distance2(&list->items[i], &list->items[j]) > distance * distance;
    }
    keep_only(list, keep);
    return STATUS_OK;
}
