#include "pipelines/launcher/numbers.h"

#include <math.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b) {
    double one = *(const double *)a, other = *(const double *)b;
    return (one > other) - (one < other);
}

void numbers_sort(double *values, size_t count) {
    if (count > 0) qsort(values, count, sizeof *values, by_value);
}

double numbers_quantile(const double *sorted, size_t count, double share) {
    if (count == 0) return NAN;
    double at = share * (double)(count - 1);
    size_t below = (size_t)at;
    if (below + 1 >= count) return sorted[count - 1];
    return sorted[below] + (at - (double)below) * (sorted[below + 1] - sorted[below]);
}
