#include "common/formats/particle_image.h"

#include <stdlib.h>

#include "common/multiversion.h"

static const double STRONGEST = 1e4; /* times the median strength */

/* Sums lane by lane: the same in any vector code, and without waiting for each addition. */
MULTIVERSION double particle_image_strength(const float *values, size_t count) {
    enum { LANES = 16 };
    double sums[LANES] = {0}, sum = 0;
    size_t whole = count / LANES * LANES;
    for (size_t i = 0; i < whole; i += LANES)
        for (size_t j = 0; j < LANES; j++)
            sums[j] += (double)values[i + j] * (double)values[i + j];
    for (size_t i = whole; i < count; i++)
        sums[i - whole] += (double)values[i] * (double)values[i];
    for (size_t j = 0; j < LANES; j++)
        sum += sums[j];
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
