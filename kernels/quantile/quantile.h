/* Order statistics of floats without sorting them. */
#ifndef ICESTREAM_KERNELS_QUANTILE_QUANTILE_H
#define ICESTREAM_KERNELS_QUANTILE_QUANTILE_H

#include <stddef.h>

/* The value of rank `rank` (0: the least) among count > rank finite values, exactly; three passes over them. */
float quantile_rank(const float *values, size_t count, size_t rank);

/* Median (rank count/2) and standard deviation from the median of the absolute deviations from it (× 1.4826). values are
 * overwritten. Zeros when there are none. */
void quantile_robust(float *values, size_t count, float *ret_median, float *ret_deviation);

#endif
