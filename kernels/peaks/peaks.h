/* Local maxima of a map of merits, and which of close ones stay. */
#ifndef ICESTREAM_KERNELS_PEAKS_PEAKS_H
#define ICESTREAM_KERNELS_PEAKS_PEAKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

struct peak {
    float x, y; /* map px */
    float merit;
    int template; /* from 0 */
    int rotation; /* index of psi */
};

/* Keeps its memory from use to use; starts as {0}. */
struct peak_list {
    struct peak *items;
    size_t count, capacity;
    struct peak **cells; /* scratch of the pruning */
    size_t cell_capacity;
    struct peak *sorted; /* [capacity], and */
    uint32_t *keys;      /* [2][capacity]: scratch of the sorting */
    size_t sort_capacity;
    bool *marks;     /* [2][capacity], and */
    size_t *members; /* [capacity]: scratch of the clusters */
    size_t mark_capacity;
};

void peak_list_destroy(struct peak_list *list);
enum status peak_list_append(struct peak_list *list, const struct peak_list *more, struct err *err);

/* A map of nx × ny and where in it to look. */
struct peak_search {
    int nx, ny;
    int x0, y0, x1, y1;       /* x0 ≤ x < x1 and y0 ≤ y < y1 */
    float threshold;          /* merit ≥ it */
    const uint8_t *bad;       /* not here, where not 0; or NULL */
    bool all_neighbours;      /* the four neighbours must reach the threshold too */
    bool fractional;          /* top of the parabolas through the neighbours instead of whole pixels */
    const uint16_t *template; /* map of the template of each pixel; or NULL: the one that the call names */
};

/* Adds the pixels that no 4-neighbour exceeds; a plateau counts once, at its first pixel in raster order. rotation may
 * be NULL (0). Values that are no numbers are never peaks. */
enum status peaks_find(const struct peak_search *search, const float *merit, const uint16_t *rotation, int template,
                       struct peak_list *list, struct err *err);

/* Best first; each stays that has no better one nearer than `distance` (px). The list is left in order of merit; of equal
 * merits the earlier comes first. */
enum status peaks_prune_greedy(struct peak_list *list, double distance, struct err *err);

/* The rule of RELION's picker within one list: clusters grow over gaps < radius; in each, the best stays and what is
 * nearer to it than `distance` goes, until none is left. */
enum status peaks_prune_clusters(struct peak_list *list, double radius, double distance, struct err *err);
/* …and at last every peak goes whose nearest other is at `distance` or less: both of a close pair. */
enum status peaks_drop_close_pairs(struct peak_list *list, double distance, struct err *err);

#endif
