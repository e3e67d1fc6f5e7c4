/* Makes data for slices in advance: copies of references that are faster to interpolate, and slices of a whole grid of
 * poses. */
#include "common/device_cuda.h"
#include "kernels/alignment/cuda/alignment.cuh"

namespace {

enum { THREADS = 256 };

__global__ void __launch_bounds__(THREADS) make_slices(const __grid_constant__ references_cuda references,
                                                       sampling_cuda sampling, uint32_t first, int row, float *slices) {
    const uint32_t rotations = (uint32_t)sampling_rotations(sampling);
    int at = (int)(blockIdx.y * THREADS + threadIdx.x);
    if (at >= row) return;
    slice_place place = child_place(sampling, first + blockIdx.x / rotations, (int)(blockIdx.x % rotations));
    float m[6];
    child_plane(sampling, place, GRID_PAD, m);
    float2 p = make_float2(0, 0);
    if (at < references.fine_pixels)
        p = grid_sample(references.grids[place.reference], m, references.pixels.kx[at], references.pixels.ky[at]);
    ((float2 *)slices)[(size_t)blockIdx.x * row + at] = p;
}

/* No cell begins at the last row and plane: the changes there are 0. */
__global__ void __launch_bounds__(THREADS) make_quads(grid_cuda grid, size_t count, float4 *quads) {
    size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x, plane = (size_t)grid.nx * grid.ny;
    if (at >= count) return;
    const float2 *values = (const float2 *)grid.values + at;
    size_t y = at % plane + grid.nx < plane ? grid.nx : 0, z = at + plane < count ? plane : 0;
    grid_quad_of(values[0], values[y], values[z], values[z + y], &quads[2 * at], &quads[2 * at + 1]);
}

} // namespace

extern "C" enum status grid_quads_cuda(const struct grid_cuda *grid, float *ret_quads, void *stream, struct err *err) {
    FAIL_IF(grid->dimensions != 3, err, STATUS_UNSUPPORTED, "only 3D references have quads, not one of %d dimensions",
            grid->dimensions);
    size_t count = grid_quads_floats(grid) / 8;
    make_quads<<<(unsigned)((count + THREADS - 1) / THREADS), THREADS, 0, (cudaStream_t)stream>>>(*grid, count,
                                                                                                  (float4 *)ret_quads);
    CUDA_TRY(cudaGetLastError(), err, "copying a reference");
    return STATUS_OK;
}

extern "C" enum status alignment_cuda_fine_slices(const struct references_cuda *references,
                                                  const struct sampling_cuda *sampling, int first, int count,
                                                  float *ret_slices, void *stream, struct err *err) {
    if (count == 0) return STATUS_OK;
    unsigned rotations = (unsigned)sampling_rotations(*sampling);
    dim3 blocks((unsigned)count * rotations,
                (unsigned)((alignment_cuda_fine_slice_row(references) + THREADS - 1) / THREADS));
    make_slices<<<blocks, THREADS, 0, (cudaStream_t)stream>>>(
        *references, *sampling, (uint32_t)first, (int)alignment_cuda_fine_slice_row(references), ret_slices);
    CUDA_TRY(cudaGetLastError(), err, "making slices");
    return STATUS_OK;
}
