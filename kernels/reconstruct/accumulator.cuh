/* Finds voxels of the sums in device memory, for the files of this folder. */
#ifndef ICESTREAM_KERNELS_RECONSTRUCT_ACCUMULATOR_CUH
#define ICESTREAM_KERNELS_RECONSTRUCT_ACCUMULATOR_CUH

#include "kernels/fourier/cufft.cuh"
#include "kernels/reconstruct/reconstruct_cuda.h"

/* Returns the address of voxel x = 0 in row (z, y), where z and y count from the origin. Voxel x stands at [2·x] (re,
 * im) and [2·x + 1] (weight, 0). */
static __host__ __device__ inline double2 *accumulator_at(const accumulator_cuda &a, int z, int y) {
    size_t plane = a.dimensions == 3 ? (size_t)(z + a.reach) : 0;
    return (double2 *)a.voxels + 2 * ((plane * (size_t)a.ny + (size_t)(y + a.reach)) * (size_t)a.nx);
}

/* Returns the sums of reference `index` out of all.count references. */
static __host__ __device__ inline accumulator_cuda accumulator_of(accumulator_cuda all, int index) {
    all.voxels += (size_t)index * all.nz * all.ny * all.nx * 4;
    all.count = 1;
    return all;
}

#endif
