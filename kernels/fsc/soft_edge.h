/* The soft edge of a mask, shared by the CPU and CUDA devices. */
#ifndef ICESTREAM_KERNELS_FSC_SOFT_EDGE_H
#define ICESTREAM_KERNELS_FSC_SOFT_EDGE_H

#include <math.h>

#ifdef __CUDACC__
#define SOFT_EDGE_ANYWHERE __host__ __device__
#else
#define SOFT_EDGE_ANYWHERE
#endif

/* Returns how much of a point at distance r from the centre lies outside: 0 below radius, 1 from radius + edge on, a
 * raised cosine between. All in px; edge <= 0: a hard edge at radius. */
SOFT_EDGE_ANYWHERE static inline double soft_edge_outside(double r, double radius, double edge) {
    if (r < radius || edge <= 0) return r < radius ? 0 : 1;
    return r >= radius + edge ? 1 : 0.5 + 0.5 * cos(M_PI * (radius + edge - r) / edge);
}

#undef SOFT_EDGE_ANYWHERE
#endif
