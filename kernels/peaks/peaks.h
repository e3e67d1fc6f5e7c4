/* Finds local maxima of a map of merits, and prunes close ones. */
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
    float threshold;          /* least merit of a peak */
    const uint8_t *bad;       /* [ny][nx] no peaks where not 0; or NULL */
    bool all_neighbours;      /* the four neighbours must reach the threshold too */
    bool fractional;          /* top of the parabolas through the neighbours instead of whole pixels */
    const uint16_t *template; /* [ny][nx] the template of each pixel; NULL: the `template` of peaks_find */
};

/* Adds the pixels that no 4-neighbour exceeds; a plateau counts once, at its first pixel in raster order. rotation may
 * be NULL (0). NaN is never a peak. */
enum status peaks_find(const struct peak_search *search, const float *merit, const uint16_t *rotation, int template,
                       struct peak_list *list, struct err *err);

/* Goes through the peaks from the best on, and keeps each peak that has no kept one nearer than `distance` (px). Leaves
 * the list in order of merit; of equal merits the earlier comes first. */
enum status peaks_prune_greedy(struct peak_list *list, double distance, struct err *err);

/* Applies the rule of RELION's picker within one list: peaks with gaps < radius form a cluster; in each cluster the
 * best peak stays and those nearer to it than `distance` are removed, again and again until all are handled. */
enum status peaks_prune_clusters(struct peak_list *list, double radius, double distance, struct err *err);
/* Removes every peak that has another at `distance` or less: both of a close pair. The last step of RELION's rule. */
enum status peaks_drop_close_pairs(struct peak_list *list, double distance, struct err *err);

#endif
