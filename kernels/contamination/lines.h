/* Compares neighbouring lines of a micrograph, on the CPU and on CUDA devices. */
#ifndef ICESTREAM_KERNELS_CONTAMINATION_LINES_H
#define ICESTREAM_KERNELS_CONTAMINATION_LINES_H

#include <math.h>

#include "kernels/contamination/contamination.h"

#ifdef __CUDACC__
#define CONTAMINATION_SHARED static __host__ __device__ inline
#else
#define CONTAMINATION_SHARED static inline
#endif

enum { CONTAMINATION_SAMPLES = 512 };

/* Returns the mean difference between a line and the next one, over some of their pixels; 0 if neither holds finite
 * values. step: from line to line; along: from pixel to pixel. The sum has one order, so that all devices return the
 * same bits. */
CONTAMINATION_SHARED double contamination_difference(const float *line, long step, long along, int length) {
    int stride = length > CONTAMINATION_SAMPLES ? length / CONTAMINATION_SAMPLES : 1, count = 0;
    double sum = 0;
    for (int j = 0; j < length; j += stride) {
        double d = fabs((double)line[j * along + step] - (double)line[j * along]);
        if (!isfinite(d)) continue;
        sum += d;
        count++;
    }
    return count ? sum / count : 0;
}

#ifdef __cplusplus
extern "C" {
#endif

/* As contamination_data_area, where the differences are known: rows[y] between rows y and y + 1, columns[x] between
 * columns x and x + 1. */
struct contamination_area contamination_area_of_lines(const double *rows, const double *columns, int nx, int ny);

#ifdef __cplusplus
}
#endif
#endif
