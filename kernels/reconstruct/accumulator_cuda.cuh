/* Where a voxel of the sums is. For the files of this folder. */
#ifndef ICESTREAM_KERNELS_ACCUMULATOR_CUDA_CUH
#define ICESTREAM_KERNELS_ACCUMULATOR_CUDA_CUH

#include "kernels/fourier/cufft.cuh"
#include "kernels/reconstruct/reconstruct_cuda.h"

/* re im, weight 0 of voxel (0, y, z), y and z relative to the origin; x is 2·x further on. */
static __host__ __device__ inline double2 *accumulator_at(const accumulator_cuda &a, int z, int y) {
    size_t plane = a.dimensions == 3 ? (size_t)(z + a.reach) : 0;
    return (double2 *)a.voxels + 2 * ((plane * (size_t)a.ny + (size_t)(y + a.reach)) * (size_t)a.nx);
}

/* The largest integer whose square is at most v, 0 ≤ v < 2²⁴: such a root is never rounded up to an integer. */
static __device__ inline int root_below(int v) {
    return (int)sqrtf((float)v);
}

/* The smallest integer ≥ 0 whose square is at least v < 2²⁴. */
static __device__ inline int root_above(int v) {
    return v > 0 ? root_below(v - 1) + 1 : 0;
}

#endif
