#include <math.h>

#include "kernels/contamination/contamination.h"

/* A line repeats its neighbour if the two differ by less than this part of the usual difference between lines; so
 * rounding and JPEG compression do not matter. */
static const double REPEATED = 0.1;
/* Lines that may lie outside repeated ones: a filter changes the very edge. */
enum { OUTER = 32, SAMPLES = 512, TYPICAL_LINES = 15 };

/* Lines of a micrograph along one direction, counted from one edge. */
struct lines {
    const float *first;
    long step, along; /* from line to line, from pixel to pixel */
    int count, length;
};

/* Returns the mean difference between lines i and i + 1, over some of their pixels; 0 if neither holds finite
 * values. */
static double difference(const struct lines *l, int i) {
    const float *a = l->first + i * l->step;
    int stride = l->length > SAMPLES ? l->length / SAMPLES : 1, count = 0;
    double sum = 0;
    for (int j = 0; j < l->length; j += stride) {
        double d = fabs((double)a[j * l->along + l->step] - a[j * l->along]);
        if (!isfinite(d)) continue;
        sum += d;
        count++;
    }
    return count ? sum / count : 0;
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

struct contamination_area contamination_data_area(const float *in, int nx, int ny) {
    struct lines top = {in, nx, 1, ny, nx}, left = {in, 1, nx, nx, ny};
    struct lines bottom = {in + (long)(ny - 1) * nx, -nx, 1, ny, nx}, right = {in + nx - 1, -1, nx, nx, ny};
    struct contamination_area all = {0, 0, nx, ny};
    if (nx < 4 || ny < 4) return all;
    double rows = typical(&top), columns = typical(&left);
    /* Lines that are alike everywhere, as in a stripe pattern, are not filled; a constant image is. */
    if (!(rows > 0) && !(columns > 0)) return (struct contamination_area){0};
    double usual = fmax(rows, columns);
    struct contamination_area a = {filled(&left, usual), filled(&top, usual), nx - filled(&right, usual),
                                   ny - filled(&bottom, usual)};
    return a.x1 > a.x0 && a.y1 > a.y0 ? a : all;
}
