/* The soft circular mask of particle images, for the CPU and for the host part of CUDA. */
#ifndef ICESTREAM_KERNELS_PREPARE_MASK_H
#define ICESTREAM_KERNELS_PREPARE_MASK_H

#include "kernels/fsc/soft_edge.h"

enum { PREPARE_MASK_EDGE = 5 }; /* px */

/* Fills, for each pixel of an image, how much of it lies outside a circle of this radius (px). ret_outside: box².
 * Returns the sum of all values. */
static inline double prepare_mask_outside(int box, double radius, float *ret_outside) {
    double sum = 0;
    for (int y = 0; y < box; y++)
        for (int x = 0; x < box; x++) {
            double dx = x - box / 2, dy = y - box / 2;
            double w = soft_edge_outside(sqrt(dx * dx + dy * dy), radius, PREPARE_MASK_EDGE);
            ret_outside[y * box + x] = (float)w;
            sum += w;
        }
    return sum;
}

#endif
