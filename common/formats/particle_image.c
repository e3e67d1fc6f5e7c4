#include "common/formats/particle_image.h"

#include <stdlib.h>

static const double STRONGEST = 1e4; /* times the median strength */

double particle_image_strength(const float *values, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)values[i] * (double)values[i];
    return sum / (double)count;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double particle_image_limit(double *strengths, size_t count) {
    qsort(strengths, count, sizeof *strengths, by_size);
    return count > 0 ? STRONGEST * strengths[count / 2] : 0;
}
