/* Order statistics of floats without sorting them. */
#ifndef ICESTREAM_KERNELS_QUANTILE_QUANTILE_H
#define ICESTREAM_KERNELS_QUANTILE_QUANTILE_H

#include <stddef.h>

/* Returns the exact value of rank `rank` (0: the least) among count > rank finite values, in three passes. */
float quantile_rank(const float *values, size_t count, size_t rank);

/* Returns the median (rank count/2), and the standard deviation as 1.4826 × the median absolute deviation from it.
 * Overwrites values. Returns zeros if count is 0. */
void quantile_robust(float *values, size_t count, float *ret_median, float *ret_deviation);

#endif
