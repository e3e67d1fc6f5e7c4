#include <math.h>

#include "kernels/contamination/lines.h"

/* A line repeats its neighbour if the two differ by less than this part of the usual difference between lines; so
 * rounding and JPEG compression do not matter. */
static const double REPEATED = 0.1;
/* Lines that may lie outside repeated ones: a filter changes the very edge. */
enum { OUTER = 32, TYPICAL_LINES = 15 };

/* Lines of a micrograph along one direction, counted from one edge. */
struct lines {
    const float *first;
    const double *known; /* the difference of the first two lines; NULL: computed when it is needed */
    long step, along;    /* from line to line, from pixel to pixel */
    long next;           /* from difference to difference */
    int count, length;
};

/* Returns the mean difference between lines i and i + 1. */
static double difference(const struct lines *l, int i) {
    if (l->known) return l->known[i * l->next];
    return contamination_difference(l->first + i * l->step, l->step, l->along, l->length);
}

/* Returns the median difference of neighbouring lines all over the micrograph. */
static double typical(const struct lines *l) {
    double d[TYPICAL_LINES];
    for (int k = 0; k < TYPICAL_LINES; k++) {
        double value = difference(l, (int)((long)(l->count - 2) * (k + 1) / (TYPICAL_LINES + 1)));
        int at = k;
        for (; at > 0 && d[at - 1] > value; at--)
            d[at] = d[at - 1];
        d[at] = value;
    }
    return d[TYPICAL_LINES / 2];
}

/* Counts the lines before the first one that holds data. */
static int filled(const struct lines *l, double usual) {
    int fill = 0;
    for (int i = 0; i < l->count - 1 && i <= fill + OUTER; i++)
        if (!(difference(l, i) > REPEATED * usual)) fill = i + 1;
    return fill >= l->count - 1 ? l->count : fill;
}

/* lines: from the left, the right, the top and the bottom edge; first is row 0, or column 0. */
static struct contamination_area area_of(const struct lines lines[4], int nx, int ny) {
    struct contamination_area all = {0, 0, nx, ny};
    if (nx < 4 || ny < 4) return all;
    double columns = typical(&lines[0]), rows = typical(&lines[2]);
    /* Lines that are alike everywhere, as in a stripe pattern, are not filled; a constant image is. */
    if (!(rows > 0) && !(columns > 0)) return (struct contamination_area){0};
    double usual = fmax(rows, columns);
    struct contamination_area a = {filled(&lines[0], usual), filled(&lines[2], usual), nx - filled(&lines[1], usual),
                                   ny - filled(&lines[3], usual)};
    return a.x1 > a.x0 && a.y1 > a.y0 ? a : all;
}

struct contamination_area contamination_data_area(const float *in, int nx, int ny) {
    const struct lines lines[] = {
        {.first = in, .step = 1, .along = nx, .count = nx, .length = ny},
        {.first = in + nx - 1, .step = -1, .along = nx, .count = nx, .length = ny},
        {.first = in, .step = nx, .along = 1, .count = ny, .length = nx},
        {.first = in + (long)(ny - 1) * nx, .step = -nx, .along = 1, .count = ny, .length = nx},
    };
    return area_of(lines, nx, ny);
}

struct contamination_area contamination_area_of_lines(const double *rows, const double *columns, int nx, int ny) {
    if (nx < 4 || ny < 4) return (struct contamination_area){0, 0, nx, ny};
    const struct lines lines[] = {
        {.known = columns, .next = 1, .count = nx},
        {.known = columns + nx - 2, .next = -1, .count = nx},
        {.known = rows, .next = 1, .count = ny},
        {.known = rows + ny - 2, .next = -1, .count = ny},
    };
    return area_of(lines, nx, ny);
}
