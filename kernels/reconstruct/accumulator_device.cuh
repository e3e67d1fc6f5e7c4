/* Addresses of voxels of the sums. For the files of this folder only. */
#ifndef ICESTREAM_KERNELS_RECONSTRUCT_ACCUMULATOR_DEVICE_CUH
#define ICESTREAM_KERNELS_RECONSTRUCT_ACCUMULATOR_DEVICE_CUH

#include "kernels/fourier/cufft.cuh"
#include "kernels/reconstruct/reconstruct_cuda.h"

/* Returns re im, weight 0 of voxel (0, y, z), y and z relative to the origin; voxel x is 2·x further on. */
static __host__ __device__ inline double2 *accumulator_at(const accumulator_cuda &a, int z, int y) {
    size_t plane = a.dimensions == 3 ? (size_t)(z + a.reach) : 0;
    return (double2 *)a.voxels + 2 * ((plane * (size_t)a.ny + (size_t)(y + a.reach)) * (size_t)a.nx);
}

/* Returns reference `index` of several. */
static __host__ __device__ inline accumulator_cuda accumulator_of(accumulator_cuda all, int index) {
    all.voxels += (size_t)index * all.nz * all.ny * all.nx * 4;
    all.count = 1;
    return all;
}

#endif
