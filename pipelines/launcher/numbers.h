/* Order statistics of a list of numbers. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_NUMBERS_H
#define ICESTREAM_PIPELINES_LAUNCHER_NUMBERS_H

#include <stddef.h>

/* Sorts the numbers, the least first. None may be NaN. values may be NULL for none. */
void numbers_sort(double *values, size_t count);
/* Returns the value below which this share (0 to 1) of the sorted numbers lies, interpolated; NaN: there are none. */
double numbers_quantile(const double *sorted, size_t count, double share);

#endif
